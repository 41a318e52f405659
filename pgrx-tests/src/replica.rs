//! Copies of a cluster: standbys, and their promotion.

use postgres::Client;

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::files::{self, new_directory};
use crate::server::{SERVER, run};
use crate::wait::{LONG, wait_until};

impl Cluster {
    /// A streaming standby, made by base backup, that this server does not wait for.
    #[track_caller]
    pub fn clone_by_base_backup(&self) -> Cluster {
        let (number, directory) = new_directory();
        let mut standby = Cluster::at(number, directory, self.settings());
        standby.server = self.server;
        let mut backup = self.tool("pg_basebackup", "postgres");
        backup
            .env("PGAPPNAME", &standby.name)
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--pgdata"])
            .arg(standby.data_directory());
        run(&mut backup);
        // Otherwise the copy would wait for its own standby after its promotion.
        standby.configure("synchronous_standby_names", "");
        standby.start();
        self.wait_for_replication(&standby, "state", "streaming");
        standby
    }

    /// A streaming standby that every commit on this server waits for.
    #[track_caller]
    pub fn clone_synchronously(&self) -> Cluster {
        let standby = self.clone_by_base_backup();
        self.configure("synchronous_standby_names", &standby.name);
        self.reload();
        self.wait_for_replication(&standby, "sync_state", "sync");
        standby
    }

    /// Waits until `column` of pg_stat_replication is `value` for `standby` on this server.
    #[track_caller]
    fn wait_for_replication(&self, standby: &Cluster, column: &str, value: &str) {
        let seen = format!(
            "SELECT count(*) FROM pg_stat_replication \
             WHERE application_name = '{}' AND {column} = '{value}'",
            standby.name
        );
        let mut client = self.connect("postgres");
        wait_until(&format!("the standby's {column} is {value}"), LONG, || {
            client.one::<i64>(&seen) == 1
        });
    }

    /// Waits until `standby` has replayed everything that this server has written so far.
    #[track_caller]
    pub fn wait_for_replay(&self, standby: &Cluster) {
        let written: String = self.connect("postgres").one("SELECT pg_current_wal_lsn()::text");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
        let mut client: Client = standby.connect("postgres");
        wait_until("the standby has replayed", LONG, || client.one::<bool>(&replayed));
    }

    /// A separate server on a copy of this server's data directory, file by file. This one must be
    /// stopped.
    #[track_caller]
    pub fn clone_by_copy(&self) -> Cluster {
        assert!(!self.is_running(), "a running server is not to be copied");
        let (number, directory) = new_directory();
        let copy = Cluster::at(number, directory, self.settings());
        files::copy(&self.data_directory(), &copy.data_directory());
        copy
    }

    /// Makes `standby`, which is stopped, a server that subscribes to this one.
    #[track_caller]
    pub fn convert_to_subscriber(&self, standby: &Cluster) {
        run(SERVER
            .command("pg_createsubscriber")
            .arg("--pgdata")
            .arg(standby.data_directory())
            .arg("--socketdir")
            .arg(standby.socket_directory())
            .args(["--database=postgres", "--subscriber-username=postgres", "--publisher-server"])
            .arg(self.address()));
    }

    /// Makes this standby a primary.
    #[track_caller]
    pub fn promote(&self) {
        let mut client = self.connect("postgres");
        // Without its own wait: what it replays could cancel a long query.
        client.run("SELECT pg_promote(false)");
        wait_until(&format!("{} is promoted", self.name), LONG, || {
            let is_standby = client.query_one("SELECT pg_is_in_recovery()", &[]);
            is_standby.is_ok_and(|row| !row.get::<_, bool>(0))
        });
    }
}
