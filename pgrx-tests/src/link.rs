//! A connection between two servers that a test slows down, freezes, cuts, or leads elsewhere.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::cluster::Cluster;

struct State {
    socket: Mutex<PathBuf>,
    /// In microseconds, for one way.
    delay: AtomicU64,
    frozen: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// A port of this machine that leads to a server. It lasts as long as the process.
pub struct Link {
    state: Arc<State>,
    port: u16,
}

impl Link {
    pub fn to(cluster: &Cluster) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = Arc::new(State {
            socket: Mutex::new(socket(cluster)),
            delay: AtomicU64::new(0),
            frozen: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                shared.connect(client);
            }
        });
        Link { state, port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on it leads to another server; what is connected to the old one is cut.
    pub fn lead_to(&self, cluster: &Cluster) {
        *self.state.socket.lock().unwrap() = socket(cluster);
        self.cut();
    }

    /// How long a question and its answer are on their way.
    pub fn set_round_trip(&self, time: Duration) {
        self.state.delay.store(time.as_micros() as u64 / 2, SeqCst);
    }

    /// Nothing passes, and nobody is told.
    pub fn freeze(&self, yes: bool) {
        self.state.frozen.store(yes, SeqCst);
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn socket(cluster: &Cluster) -> PathBuf {
    cluster.file(".s.PGSQL.5432")
}

impl State {
    fn connect(self: &Arc<State>, mut client: TcpStream) {
        let target = self.socket.lock().unwrap().clone();
        let Ok(mut server) = UnixStream::connect(target) else { return };
        let _ = client.set_nodelay(true);
        let clones = (client.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(kept), Ok(mut from_client), Ok(mut from_server)) = clones else { return };
        self.streams.lock().unwrap().push(kept);
        let (there, back) = (self.clone(), self.clone());
        thread::spawn(move || {
            there.pass(&mut from_client, &mut server);
            let _ = server.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            back.pass(&mut from_server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        });
    }

    fn pass(&self, from: &mut impl Read, to: &mut impl Write) {
        let mut bytes = [0; 65_536];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
        {
            thread::sleep(Duration::from_micros(self.delay.load(SeqCst)));
            while self.frozen.load(SeqCst) {
                thread::sleep(Duration::from_millis(2));
            }
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    }
}
