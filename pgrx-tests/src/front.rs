//! A layer between a client and a cluster: a pooler, or a TCP port.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use postgres::{Config, NoTls};

use crate::cluster::Cluster;
use crate::example::{DATABASE, OWNER};
use crate::server::SERVER;
use crate::wait::{LONG, came_true};

/// A running pooler; it stops when this goes out of scope, or when the process of the tests ends.
pub struct Pooler {
    keeper: Child,
}

impl Pooler {
    /// Starts `program` with `arguments` in the directory of `cluster`, and waits until a client can connect through
    /// the socket that it makes there for `port`.
    #[track_caller]
    pub fn start(cluster: &Cluster, program: &Path, arguments: &[&str], port: u16) -> Pooler {
        const KEEP: &str = r#"
            trap '' HUP INT TERM
            "$@" > pooler.log 2>&1 & pid=$!
            cat > /dev/null
            kill -TERM "$pid"
            wait "$pid"
        "#;
        let keeper = SERVER
            .command_at(Path::new("sh"))
            .args(["-c", KEEP, "sh"])
            .arg(program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", libraries(program))
            .current_dir(cluster.socket_directory())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("cannot start sh");
        let pooler = Pooler { keeper };
        let mut config = Config::new();
        config.host_path(cluster.socket_directory()).port(port).user(OWNER).dbname(DATABASE);
        let ready = came_true(LONG, || config.connect(NoTls).is_ok());
        let said = fs::read_to_string(cluster.file("pooler.log")).unwrap_or_default();
        assert!(ready, "cannot connect through {}\n{said}", program.display());
        pooler
    }
}

/// The libraries that came with a program, if it was unpacked and not installed.
fn libraries(program: &Path) -> OsString {
    let usr = program.ancestors().nth(2).filter(|usr| *usr != Path::new("/usr"));
    let folders = usr.and_then(|usr| fs::read_dir(usr.join("lib")).ok()).into_iter().flatten();
    let folders = folders.map(|entry| entry.expect("cannot read an entry").path());
    std::env::join_paths(folders).expect("no path has a colon")
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A port of this machine that leads to the server's socket, for clients that know no sockets; it lasts as long as the
/// process.
pub fn tcp_port(cluster: &Cluster) -> u16 {
    let socket = cluster.file(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").expect("cannot listen");
    let port = listener.local_addr().expect("it has an address").port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if let Ok(server) = UnixStream::connect(&socket) {
                connect(client, server);
            }
        }
    });
    port
}

fn connect(client: TcpStream, server: UnixStream) {
    let (Ok(mut from_client), Ok(mut from_server)) = (client.try_clone(), server.try_clone())
    else {
        return;
    };
    let (mut client, mut server) = (client, server);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut server);
        let _ = server.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut client);
        let _ = client.shutdown(Shutdown::Write);
    });
}
