//! The methods of a connection to a server that tests use.

use std::sync::{Arc, Mutex};

use postgres::Client;
use postgres::error::DbError;
use postgres::types::FromSqlOwned;

/// The warnings and notices that a connection has received.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<DbError>>>);

impl Heard {
    pub(crate) fn add(&self, report: DbError) {
        self.0.lock().unwrap().push(report);
    }

    /// The messages since the last call, in order. All that a statement causes arrives before its
    /// end.
    pub fn take(&self) -> Vec<DbError> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The texts of the messages since the last call.
    pub fn messages(&self) -> Vec<String> {
        self.take().iter().map(|report| report.message().to_owned()).collect()
    }
}

/// The methods of a connection that tests use; an error of the server fails the test.
pub trait ClientExt {
    /// Runs statements, and ignores what they return.
    fn run(&mut self, sql: &str);

    /// Runs statements that write to hilo's tables, which SQL may only do in a restore.
    fn meddle(&mut self, sql: &str);

    /// The single value that a query returns.
    fn one<T: FromSqlOwned>(&mut self, sql: &str) -> T;

    /// A query's first column.
    fn all<T: FromSqlOwned>(&mut self, sql: &str) -> Vec<T>;

    /// The next `count` values of a sequence, in one statement.
    fn draw(&mut self, name: &str, count: usize) -> Vec<i64>;

    /// Whether backend `pid` is in the middle of a statement and waits for something.
    fn sees_waiting(&mut self, pid: i32) -> bool;

    /// The error with which the server refuses statements; fails the test if it does not.
    fn refusal(&mut self, sql: &str) -> Refusal;

    /// The process that serves this connection.
    fn backend_pid(&mut self) -> i32;
}

impl ClientExt for Client {
    #[track_caller]
    fn run(&mut self, sql: &str) {
        if let Err(error) = self.batch_execute(sql) {
            panic!("{sql}: {error:?}");
        }
    }

    #[track_caller]
    fn meddle(&mut self, sql: &str) {
        self.run(&format!("SET check_function_bodies = off; {sql}; RESET check_function_bodies"));
    }

    #[track_caller]
    fn one<T: FromSqlOwned>(&mut self, sql: &str) -> T {
        match self.query_one(sql, &[]) {
            Ok(row) => row.get(0),
            Err(error) => panic!("{sql}: {error:?}"),
        }
    }

    #[track_caller]
    fn all<T: FromSqlOwned>(&mut self, sql: &str) -> Vec<T> {
        match self.query(sql, &[]) {
            Ok(rows) => rows.into_iter().map(|row| row.get(0)).collect(),
            Err(error) => panic!("{sql}: {error:?}"),
        }
    }

    #[track_caller]
    fn draw(&mut self, name: &str, count: usize) -> Vec<i64> {
        self.all(&format!("SELECT hilo_nextval('{name}') FROM generate_series(1, {count})"))
    }

    #[track_caller]
    fn sees_waiting(&mut self, pid: i32) -> bool {
        let waiting = format!(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'
                               AND wait_event_type IN ('Extension', 'IPC', 'Lock'))"
        );
        self.one(&waiting)
    }

    #[track_caller]
    fn refusal(&mut self, sql: &str) -> Refusal {
        match self.batch_execute(sql) {
            Ok(()) => panic!("not refused: {sql}"),
            Err(error) => match error.as_db_error() {
                Some(report) => Refusal { sql: sql.to_owned(), report: report.clone() },
                None => panic!("{sql}: {error:?}"),
            },
        }
    }

    #[track_caller]
    fn backend_pid(&mut self) -> i32 {
        self.one("SELECT pg_backend_pid()")
    }
}

/// An error report, to be compared with what it should say.
pub struct Refusal {
    sql: String,
    report: DbError,
}

impl Refusal {
    /// Checks the SQLSTATE.
    #[track_caller]
    pub fn is(self, sqlstate: &str) -> Refusal {
        let code = self.report.code().code();
        assert_eq!(code, sqlstate, "{}: {:?}", self.sql, self.report);
        self
    }

    /// Checks that the message contains `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Refusal {
        assert!(self.report.message().contains(text), "{}: {:?}", self.sql, self.report);
        self
    }

    /// Checks that the DETAIL contains `text`.
    #[track_caller]
    pub fn details(self, text: &str) -> Refusal {
        let detail = self.report.detail().unwrap_or_default();
        assert!(!detail.is_empty() && detail.contains(text), "{}: {:?}", self.sql, self.report);
        self
    }

    /// Checks that the HINT contains `text`.
    #[track_caller]
    pub fn hints(self, text: &str) -> Refusal {
        let hint = self.report.hint().unwrap_or_default();
        assert!(!hint.is_empty() && hint.contains(text), "{}: {:?}", self.sql, self.report);
        self
    }

    /// Checks that the report has a DETAIL or a HINT.
    #[track_caller]
    pub fn helps(self) -> Refusal {
        let helps = self.report.detail().is_some() || self.report.hint().is_some();
        assert!(helps, "neither DETAIL nor HINT: {}: {:?}", self.sql, self.report);
        self
    }

    pub fn report(&self) -> &DbError {
        &self.report
    }
}
