//! The Prometheus exporter of Debian, run for a cluster, and the other programs of Debian's packages that tests run.

use std::env::var_os;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::cluster::Cluster;
use crate::wait::{LONG, wait_until};

/// A running exporter, ended with the test.
pub struct Exporter {
    process: Child,
    port: u16,
}

impl Exporter {
    /// The exporter's program, if it can be had.
    #[track_caller]
    pub fn program() -> Option<PathBuf> {
        debian_program("prometheus-postgres-exporter", "prometheus-postgres-exporter")
    }

    /// Starts the exporter for `cluster`, as the role `watcher`, with a file of queries.
    pub fn start(program: &Path, cluster: &Cluster, queries: &Path) -> Exporter {
        // Free a moment ago.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap().port();
        let source = format!(
            "postgresql:///postgres?host={}&user=watcher&sslmode=disable",
            cluster.socket_directory().display()
        );
        let process = Command::new(program)
            .env("DATA_SOURCE_NAME", source)
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--extend.query-path")
            .arg(queries)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start the exporter");
        Exporter { process, port }
    }

    /// The exporter's answer, or nothing while there is none.
    pub fn metrics(&self) -> String {
        let mut page = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let asked = stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n");
            if asked.is_err() || stream.read_to_string(&mut page).is_err() {
                page.clear();
            }
        }
        page
    }

    /// The exporter's answer, as soon as it contains all of `awaited`.
    #[track_caller]
    pub fn page(&self, awaited: &[&str]) -> String {
        let mut page = String::new();
        wait_until("the exporter shows hilo's series", LONG, || {
            page = self.metrics();
            awaited.iter().all(|text| page.contains(text))
        });
        page
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program of one of Debian's packages, as scripts/debian-program finds it. There is none where it can not be had, which is
/// printed, and fails the test where the environment says `CI`.
#[track_caller]
pub fn debian_program(program: &str, package: &str) -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/debian-program");
    let answer = Command::new(script).args([program, package]).output();
    let answer = answer.expect("cannot run scripts/debian-program");
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(var_os("CI").is_none(), "{said}");
        println!("skipped: {said}");
        return None;
    }
    let said = String::from_utf8(answer.stdout).expect("it says a path");
    Some(PathBuf::from(said.trim_end()))
}
