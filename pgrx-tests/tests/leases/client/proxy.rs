//! A connection that a test can hold up, or cut, at a message of the protocol.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use hilo_tests::Cluster;
use tokio_postgres::Config;

/// The fate that comes to the next statement that takes or ends leases. Others pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The server gets its end, and so commits, only when the test lets it. Its rows are sent before.
    HoldSync,
    /// The same, and the server is at work on it.
    Flushed,
    /// The same, and the client has all rows.
    Held,
    /// The server gets nothing of it before the test lets it.
    HoldStart,
    /// The connection is cut between the rows and the word that they are committed, which they are.
    CutBeforeReady,
    /// The connection is cut before the server gets the end of the statement, so that it rolls back.
    CutBeforeSync,
    /// The server does not answer a statement whose arguments have more bytes than this, as if it were too slow for so many.
    Slow(usize),
}

struct State {
    fault: Mutex<Fault>,
    /// Whether the statement that is under way takes or ends leases.
    leases: AtomicBool,
    changed: Condvar,
    socket: PathBuf,
}

/// Forwards connections to a cluster.
pub struct Proxy {
    state: Arc<State>,
    port: u16,
}

impl Proxy {
    pub fn to(cluster: &Cluster) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let socket = cluster.socket_directory().join(".s.PGSQL.5432");
        let state = Arc::new(State {
            fault: Mutex::new(Fault::None),
            leases: AtomicBool::new(false),
            changed: Condvar::new(),
            socket,
        });
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                forward(stream, &shared);
            }
        });
        Proxy { state, port }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres").dbname("postgres");
        config
    }

    /// Says what happens to the next statement.
    pub fn set(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
        self.state.changed.notify_all();
    }

    /// The faults still to come.
    pub fn fault(&self) -> Fault {
        self.state.fault()
    }
}

impl State {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }
}

fn forward(client: TcpStream, state: &Arc<State>) {
    // While the server is down, the client sees a connection that ends.
    let Ok(server) = UnixStream::connect(&state.socket) else { return };
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    let up = state.clone();
    thread::spawn(move || {
        let _ = requests(&mut from_client, &mut to_server, &up);
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = from_client.shutdown(Shutdown::Both);
    });
    let down = state.clone();
    thread::spawn(move || {
        let _ = responses(&mut from_server, &mut to_client, &down);
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
}

/// One message, with its type byte if it has one.
fn message(from: &mut impl Read, typed: bool) -> io::Result<Vec<u8>> {
    let mut head = vec![0; if typed { 5 } else { 4 }];
    from.read_exact(&mut head)?;
    let at = head.len() - 4;
    let length = u32::from_be_bytes(head[at..].try_into().expect("four bytes")) as usize;
    let mut rest = vec![0; length - 4];
    from.read_exact(&mut rest)?;
    head.extend(rest);
    Ok(head)
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

fn requests(from: &mut TcpStream, to: &mut UnixStream, state: &State) -> io::Result<()> {
    to.write_all(&message(from, false)?)?;
    loop {
        let message = message(from, true)?;
        if message[0] == b'P' {
            let leases = message.windows(12).any(|part| part == b"hilo_refill(");
            state.leases.store(leases, SeqCst);
            let mut fault = state.fault.lock().unwrap();
            while leases && *fault == Fault::HoldStart {
                fault = state.changed.wait(fault).unwrap();
            }
        }
        if message[0] == b'B'
            && state.leases.load(SeqCst)
            && let Fault::Slow(most) = state.fault()
            && message.len() > most
        {
            // Until the client gives up.
            io::copy(from, &mut io::sink())?;
            return Err(cut());
        }
        if message[0] == b'S' && state.leases.load(SeqCst) {
            let mut fault = state.fault.lock().unwrap();
            match *fault {
                Fault::CutBeforeSync => {
                    *fault = Fault::None;
                    return Err(cut());
                }
                Fault::HoldSync => {
                    // Flush: the rows go to the client.
                    to.write_all(&[b'H', 0, 0, 0, 4])?;
                    *fault = Fault::Flushed;
                    while matches!(*fault, Fault::Flushed | Fault::Held) {
                        fault = state.changed.wait(fault).unwrap();
                    }
                }
                _ => {}
            }
        }
        to.write_all(&message)?;
    }
}

fn responses(from: &mut UnixStream, to: &mut TcpStream, state: &State) -> io::Result<()> {
    loop {
        let message = message(from, true)?;
        if message[0] == b'Z' && state.leases.load(SeqCst) {
            let mut fault = state.fault.lock().unwrap();
            if *fault == Fault::CutBeforeReady {
                *fault = Fault::None;
                return Err(cut());
            }
        }
        to.write_all(&message)?;
        let mut fault = state.fault.lock().unwrap();
        if message[0] == b'C' && *fault == Fault::Flushed {
            *fault = Fault::Held;
        }
    }
}
