//! The command line tools of the installation, pointed at a cluster.

use std::fs;
use std::process::Command;

use crate::cluster::Cluster;
use crate::server::run;

impl Cluster {
    /// One of the client tools, connecting to `database` of this cluster as superuser.
    pub fn tool(&self, program: &str, database: &str) -> Command {
        let mut command = self.server.command(program);
        command
            .env("PGHOST", self.socket_directory())
            .env("PGPORT", "5432")
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database);
        command
    }

    /// The output of psql, unaligned and without headings; its first error fails the test.
    #[track_caller]
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let mut psql = self.tool("psql", database);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        run(&mut psql).trim_end().to_owned()
    }

    /// Runs `script` through pgbench with `arguments`, such as `["-c", "8", "-T", "2"]`, and
    /// returns its report.
    #[track_caller]
    pub fn pgbench(&self, database: &str, script: &str, arguments: &[&str]) -> String {
        let file = self.file("pgbench.sql");
        fs::write(&file, script).expect("cannot write pgbench's script");
        let mut pgbench = self.tool("pgbench", database);
        run(pgbench.arg("--no-vacuum").arg("--file").arg(&file).args(arguments))
    }

    /// A dump of `database`, as SQL.
    #[track_caller]
    pub fn pg_dump(&self, database: &str, arguments: &[&str]) -> String {
        run(self.tool("pg_dump", database).args(arguments))
    }

    /// Runs a dump, or any other script, in `database`.
    #[track_caller]
    pub fn restore(&self, database: &str, sql: &str) {
        let file = self.file("restore.sql");
        fs::write(&file, sql).expect("cannot write the script");
        let mut psql = self.tool("psql", database);
        run(psql
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "--output=/dev/null", "--file"])
            .arg(file));
    }
}
