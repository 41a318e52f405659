//! A changed configuration file reaches every session, whatever the session does at that moment.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

use hilo_tests::{ClientExt, Cluster};

/// A session that sends single messages of the protocol.
struct Session {
    stream: UnixStream,
    read: BytesMut,
}

impl Session {
    fn begin(cluster: &Cluster) -> Session {
        let stream = UnixStream::connect(cluster.file(".s.PGSQL.5432")).expect("cannot connect");
        let mut session = Session { stream, read: BytesMut::new() };
        session.send(|out| {
            frontend::startup_message([("user", "postgres"), ("database", "postgres")], out)
                .unwrap();
        });
        session
    }

    fn send(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        write(&mut out);
        self.stream.write_all(&out).expect("cannot send");
    }

    /// Reads messages until `find` returns something.
    fn until<T>(&mut self, mut find: impl FnMut(&Message) -> Option<T>) -> T {
        loop {
            while let Some(message) = Message::parse(&mut self.read).expect("not the protocol") {
                if let Message::ErrorResponse(_) = message {
                    panic!("the server sent an error");
                }
                if let Some(found) = find(&message) {
                    return found;
                }
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).expect("cannot read");
            assert!(count > 0, "the server closed the connection");
            self.read.extend_from_slice(&bytes[..count]);
        }
    }
}

/// A session may read the file between two messages of one statement, within its transaction. It
/// has the same prefix afterwards as all others, also one that SET would refuse.
#[test]
fn a_prefix_reaches_a_session_in_the_middle_of_a_statement() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('plain')");
    client.refusal("SET hilo.server_prefix = 'A1'").is("22023").details("plain");
    client.refusal("ALTER SYSTEM SET hilo.server_prefix = 'A1'").is("22023").details("plain");

    let mut session = Session::begin(&cluster);
    let pid = session.until(|message| match message {
        Message::BackendKeyData(key) => Some(key.process_id()),
        _ => None,
    });
    session.until(|message| matches!(message, Message::ReadyForQuery(_)).then_some(()));
    session.send(|out| {
        frontend::parse("", "SELECT current_setting('hilo.server_prefix')", [], out).unwrap();
        frontend::flush(out);
    });
    session.until(|message| matches!(message, Message::ParseComplete).then_some(()));
    cluster.configure("hilo.server_prefix", "A1");
    cluster.reload_session(pid);
    session.send(|out| {
        frontend::bind("", "", [], [] as [(); 0], |(), _| Ok(IsNull::Yes), [0], out)
            .unwrap_or_else(|_| panic!("cannot bind"));
        frontend::execute("", 0, out).unwrap();
        frontend::sync(out);
    });
    let row = session.until(|message| match message {
        Message::DataRow(row) => Some(row.buffer().to_vec()),
        _ => None,
    });
    // A length of four bytes, then the text.
    assert_eq!(&row[4..], b"A1");
    cluster.finish();
}
