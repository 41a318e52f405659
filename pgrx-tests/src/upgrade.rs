//! pg_upgrade and pg_dump, from an older server's cluster to one of the server under test.

use std::process::Command;

use crate::cluster::{Builder, Cluster};
use crate::files::new_directory;
use crate::server::{OLDER, SERVER, run};

impl Builder {
    /// A cluster of the older server, with hilo preloaded; none if there is no such server.
    #[track_caller]
    pub fn start_older(self) -> Option<Cluster> {
        let server = OLDER.as_ref()?;
        let (number, directory) = new_directory();
        let mut cluster = Cluster::at(number, directory, self.preload(true).into_settings());
        cluster.server = server;
        let mut initdb = server.command("initdb");
        initdb
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"])
            .args(["--no-sync", "--pgdata"])
            .arg(cluster.data_directory());
        // Both servers must agree about checksums.
        if SERVER.has_checksums() {
            initdb.arg("--data-checksums");
        }
        run(&mut initdb);
        cluster.start();
        Some(cluster)
    }
}

impl Cluster {
    /// Upgrades `old` into this cluster, which is empty. Both are stopped.
    #[track_caller]
    pub fn upgrade_from(&self, old: &Cluster, mode: &str) {
        let mut upgrade = self.server.command("pg_upgrade");
        upgrade
            .current_dir(self.socket_directory())
            .args([mode, "--username=postgres", "--jobs=2"])
            .arg("--old-bindir")
            .arg(old.server.bindir())
            .arg("--new-bindir")
            .arg(self.server.bindir())
            .arg("--old-datadir")
            .arg(old.data_directory())
            .arg("--new-datadir")
            .arg(self.data_directory())
            .arg("--socketdir")
            .arg(self.socket_directory());
        let done = upgrade.output().expect("pg_upgrade runs");
        assert!(
            done.status.success(),
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            self.errors_of_upgrade()
        );
    }

    /// The errors in the logs that a failed pg_upgrade leaves.
    fn errors_of_upgrade(&self) -> String {
        let logs = self.data_directory().join("pg_upgrade_output.d");
        let found =
            Command::new("grep").args(["-rhE", "-A3", "ERROR|FATAL|error:"]).arg(logs).output();
        String::from_utf8_lossy(&found.expect("grep runs").stdout).into_owned()
    }

    /// A dump of `database` of another server, made by this server's pg_dump.
    #[track_caller]
    pub fn pg_dump_of(&self, other: &Cluster, database: &str) -> String {
        run(self.tool("pg_dump", database).env("PGHOST", other.socket_directory()))
    }
}
