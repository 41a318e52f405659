//! The two sessions on a real server.

use std::io::Write;

use postgres::Error;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, SimpleQueryMessage, wait_until};

use crate::model::statement::{Answer, Given, Many, Name, Statement, TAKEN};

/// The server, with two sessions.
pub struct Stage<'a> {
    cluster: &'a Cluster,
    clients: [Client; 2],
}

pub fn cluster() -> Cluster {
    let cluster = Cluster::builder().config("max_prepared_transactions", "2").start_with_hilo();
    let columns =
        |what: &dyn Fn(usize) -> String| (0..TAKEN.len()).map(what).collect::<Vec<_>>().join(", ");
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "CREATE TABLE taken ({}); INSERT INTO taken VALUES ({})",
        columns(&|at| format!("v{at} bigint")),
        columns(&|at| TAKEN[at].to_string())
    ));
    for who in 0..2 {
        client.run(&format!(
            "CREATE TABLE home{who} (id bigint);
             CREATE TABLE drawn{who} (n integer, id bigint
                 DEFAULT hilo_nextval(current_setting('model.name')::hilo_sequence));
             CREATE TABLE drawn_keys{who} (n integer, id text
                 DEFAULT hilo_nextkey(current_setting('model.name')::hilo_sequence))"
        ));
    }
    cluster
}

impl<'a> Stage<'a> {
    /// Removes what was there, and connects.
    pub fn new(cluster: &'a Cluster) -> Stage<'a> {
        let mut client = cluster.connect("postgres");
        for name in client.all::<String>("SELECT gid FROM pg_prepared_xacts") {
            client.run(&format!("ROLLBACK PREPARED '{name}'"));
        }
        client.run("SELECT hilo_drop(name, cascade => true) FROM hilo_sequences");
        let own = "SELECT relname::text FROM pg_class WHERE relname ~ '^own[0-9]+$'";
        for table in client.all::<String>(own) {
            client.run(&format!("DROP TABLE {table} CASCADE"));
        }
        let clients = [connect(cluster), connect(cluster)];
        Stage { cluster, clients }
    }

    /// Runs a statement. `open`: an error must not end the transaction, so a savepoint is below.
    pub fn ask(&mut self, who: usize, statement: &Statement, given: &Given, open: bool) -> Answer {
        match statement {
            Statement::Reconnect => {
                let pid = self.clients[who].backend_pid();
                self.clients[who] = connect(self.cluster);
                self.cluster.wait_until_gone(pid);
            }
            Statement::Crash { kill } => {
                match kill {
                    true => self.cluster.kill9_postmaster(),
                    false => self.cluster.stop(Mode::Immediate),
                }
                self.start();
            }
            Statement::Stop => {
                self.cluster.stop(Mode::Fast);
                self.start();
            }
            Statement::Expire => {
                let client = &mut self.clients[who];
                wait_until("brief leases have expired", LONG, || {
                    client.one("SELECT count(expires_at) = 0 FROM hilo_leases")
                });
            }
            _ => return ask(&mut self.clients[who], who, statement, given, open),
        }
        Answer::Done
    }

    fn start(&mut self) {
        self.cluster.start();
        self.clients = [connect(self.cluster), connect(self.cluster)];
    }

    /// How long a session waits for another one.
    pub fn set_patience(&mut self, who: usize, patience: &str) {
        self.clients[who].run(&format!(
            "SET hilo.reserve_timeout = '{patience}'; SET lock_timeout = '{patience}'"
        ));
    }
}

fn connect(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run("SET client_min_messages = error");
    client
}

fn ask(
    client: &mut Client,
    who: usize,
    statement: &Statement,
    given: &Given,
    open: bool,
) -> Answer {
    let sql = statement.sql(who, given);
    let guarded = open && !statement.is_control();
    if guarded {
        client.batch_execute("SAVEPOINT guard").expect("a savepoint");
    }
    let answer = run(client, statement, &sql).unwrap_or_else(|error: Error| {
        let code = error.code().unwrap_or_else(|| panic!("{sql}: {error:?}"));
        Answer::Refused(code.code().to_owned())
    });
    if guarded {
        let end = match answer {
            Answer::Refused(_) => "ROLLBACK TO guard; RELEASE guard",
            _ => "RELEASE guard",
        };
        client.batch_execute(end).expect("the savepoint's end");
    }
    answer
}

fn run(client: &mut Client, statement: &Statement, sql: &str) -> Result<Answer, Error> {
    if let Statement::Nextvals { name, count, many: Many::Copy | Many::CopyKeys } = statement {
        return copy(client, sql, *name, *count).map(Answer::Values);
    }
    let messages = client.simple_query(sql)?;
    if !statement.has_values() {
        return Ok(Answer::Done);
    }
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let number = |text: &str| text.parse().expect("a number");
    if let Statement::Lease { .. } = statement {
        let rows: Vec<_> = rows.collect();
        let values = rows.iter().filter_map(|row| row.get(1).map(number)).collect();
        return Ok(Answer::Leased(rows[0].get(0).unwrap_or_default().to_owned(), values));
    }
    Ok(Answer::Values(rows.filter_map(|row| row.get(0).map(number)).collect()))
}

/// Has a table's default draw, and removes the rows again.
fn copy(client: &mut Client, sql: &str, name: Name, count: i64) -> Result<Vec<i64>, Error> {
    client.run(&format!("SELECT set_config('model.name', 's{name}', false)"));
    let mut rows = client.copy_in(sql)?;
    for row in 0..count {
        let line = format!("{row}\n");
        // The server may have refused it already; the end says why.
        let _ = rows.write_all(line.as_bytes());
    }
    rows.finish()?;
    let table = sql.split(' ').nth(1).expect("COPY has a table");
    let value = match table.contains("keys") {
        true => format!("hilo_key_value('s{name}', id)"),
        false => "id".to_owned(),
    };
    let gone = format!(
        "WITH gone AS (DELETE FROM {table} RETURNING n, id) SELECT {value} FROM gone ORDER BY n"
    );
    Ok(client.all(&gone))
}
