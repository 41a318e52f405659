//! The language that cases are written in. A line is sent to the server as it is, in a connection of the
//! script's own, and must succeed. A mark before it may say otherwise:
//!
//! * `> ` its rows, or the SQLSTATE of its error, are part of the outcome
//! * `? ` only whether it succeeds is: `ok`, or the SQLSTATE
//! * `B: ` (before those) it goes through a second connection; `S: ` through one to a standby
//! * `!quit B` that connection ends; `!restart` the server stops cleanly and starts; `!crash` a process of
//!   the server is killed, and it recovers
//!
//! Rows are joined by `,`, columns by `|`, outcomes by a space.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use postgres::SimpleQueryMessage;

use hilo_tests::{Client, ClientExt, Cluster};

/// A server with a role and a schema for the scripts.
pub struct Stage {
    standby: OnceCell<Cluster>,
    cluster: Cluster,
}

const NEW_SCENE: &str = "
    SET client_min_messages = error;
    DROP SCHEMA IF EXISTS parity CASCADE;
    DROP SCHEMA IF EXISTS other CASCADE;
    CREATE SCHEMA parity;
    CREATE SCHEMA other;
    GRANT USAGE ON SCHEMA parity TO PUBLIC;
    SELECT hilo_drop(name, cascade => true) FROM hilo_sequences";

impl Stage {
    pub fn set() -> Stage {
        let cluster = Cluster::builder()
            .config("max_prepared_transactions", "4")
            // The number that a crash loses is then the same each time.
            .config("wal_writer_delay", "10s")
            .config("autovacuum", "off")
            .start_with_hilo();
        cluster
            .connect("postgres")
            .run("CREATE ROLE parity_role; CREATE ROLE parity_member IN ROLE parity_role");
        Stage { cluster, standby: OnceCell::new() }
    }

    /// Plays a script on a new scene.
    #[track_caller]
    pub fn play(&self, script: &str) -> String {
        self.cluster.connect("postgres").run(NEW_SCENE);
        let cast = Cast { stage: self, clients: RefCell::default() };
        let mut outcome = Vec::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            outcome.extend(cast.perform(line));
        }
        outcome.join(" ")
    }

    fn standby(&self) -> &Cluster {
        self.standby.get_or_init(|| self.cluster.clone_by_base_backup())
    }

    pub fn finish(self) {
        if let Some(standby) = self.standby.into_inner() {
            standby.finish();
        }
        self.cluster.finish();
    }
}

/// The connections of one script.
struct Cast<'a> {
    stage: &'a Stage,
    clients: RefCell<HashMap<char, Client>>,
}

impl Cast<'_> {
    fn perform(&self, line: &str) -> Option<String> {
        if let Some(command) = line.strip_prefix('!') {
            self.direct(command);
            return None;
        }
        let (who, line) = match (line.strip_prefix("B: "), line.strip_prefix("S: ")) {
            (Some(rest), _) => ('B', rest),
            (_, Some(rest)) => ('S', rest),
            _ => ('A', line),
        };
        let (sql, wanted) = match (line.strip_prefix("> "), line.strip_prefix("? ")) {
            (Some(sql), _) => (sql, Some('>')),
            (_, Some(sql)) => (sql, Some('?')),
            _ => (line, None),
        };
        let mut clients = self.clients.borrow_mut();
        let client = clients.entry(who).or_insert_with(|| self.connect(who));
        let result = client.simple_query(sql);
        match (wanted, result) {
            (None, Ok(_)) => None,
            (None, Err(error)) => panic!("{sql}: {error:?}"),
            (Some('?'), Ok(_)) => Some("ok".to_owned()),
            (_, Ok(messages)) => Some(rows(&messages)),
            (_, Err(error)) => {
                let code = error.code().unwrap_or_else(|| panic!("{sql}: {error:?}"));
                Some(code.code().to_owned())
            }
        }
    }

    fn connect(&self, who: char) -> Client {
        let mut client = if who == 'S' {
            let standby = self.stage.standby();
            self.stage.cluster.wait_for_replay(standby);
            standby.connect("postgres")
        } else {
            self.stage.cluster.connect("postgres")
        };
        client.run("SET search_path = parity, public; SET statement_timeout = '30s'");
        client
    }

    fn direct(&self, command: &str) {
        let cluster = &self.stage.cluster;
        match command {
            "quit B" => {
                let client = self.clients.borrow_mut().remove(&'B').expect("there is a B");
                cluster.close(client);
            }
            "restart" => {
                self.clients.borrow_mut().clear();
                cluster.restart();
            }
            "crash" => {
                let mut victim = cluster.connect("postgres");
                let pid = victim.backend_pid();
                cluster.crash(pid);
                self.clients.borrow_mut().clear();
            }
            _ => panic!("no such command: {command}"),
        }
    }
}

fn rows(messages: &[SimpleQueryMessage]) -> String {
    let text = |row: &postgres::SimpleQueryRow| -> String {
        let columns: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("null")).collect();
        columns.join("|")
    };
    let rows: Vec<String> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(text(row)),
            _ => None,
        })
        .collect();
    if rows.is_empty() { "none".to_owned() } else { rows.join(",") }
}
