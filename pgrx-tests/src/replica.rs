//! Copies of a cluster: standbys, and their promotion.

use postgres::Client;

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::files::new_directory;
use crate::server::run;
use crate::wait::{LONG, wait_until};

impl Cluster {
    /// A streaming standby, made by base backup, that this server does not wait for.
    #[track_caller]
    pub fn clone_by_base_backup(&self) -> Cluster {
        let (number, directory) = new_directory();
        let standby = Cluster::at(number, directory, self.settings());
        let mut backup = self.tool("pg_basebackup", "postgres");
        backup
            .env("PGAPPNAME", &standby.name)
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--pgdata"])
            .arg(standby.data_directory());
        run(&mut backup);
        // The copy would otherwise wait for a standby of its own after its promotion.
        standby.configure("synchronous_standby_names", "");
        standby.start();
        let streaming = format!(
            "SELECT count(*) FROM pg_stat_replication \
             WHERE application_name = '{}' AND state = 'streaming'",
            standby.name
        );
        let mut client = self.connect("postgres");
        wait_until("the standby streams", LONG, || client.one::<i64>(&streaming) == 1);
        standby
    }

    /// A streaming standby that every commit on this server waits for.
    #[track_caller]
    pub fn clone_synchronously(&self) -> Cluster {
        let standby = self.clone_by_base_backup();
        self.configure("synchronous_standby_names", &standby.name);
        self.reload();
        let synchronous = format!(
            "SELECT count(*) FROM pg_stat_replication \
             WHERE application_name = '{}' AND sync_state = 'sync'",
            standby.name
        );
        let mut client = self.connect("postgres");
        wait_until("the standby is synchronous", LONG, || client.one::<i64>(&synchronous) == 1);
        standby
    }

    /// Waits until `standby` has replayed all that this server has written so far.
    #[track_caller]
    pub fn wait_for_replay(&self, standby: &Cluster) {
        let written: String = self.connect("postgres").one("SELECT pg_current_wal_lsn()::text");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
        let mut client: Client = standby.connect("postgres");
        wait_until("the standby has replayed", LONG, || client.one::<bool>(&replayed));
    }

    /// Makes this standby a primary.
    #[track_caller]
    pub fn promote(&self) {
        let mut client = self.connect("postgres");
        let done: bool = client.one("SELECT pg_promote(true, 60)");
        assert!(done, "{} was not promoted\n{}", self.name, self.log_tail());
    }
}
