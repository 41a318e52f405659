//! What a session may be told to do, and what it answers.

use proptest::prelude::*;

use hilo_tests::Client;

/// One of a few sequences, by name.
pub type Name = u8;

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Create {
        name: Name,
        start: i64,
        increment: i64,
        count: Option<i64>,
        ordered: bool,
        block: bool,
    },
    Alter {
        name: Name,
        increment: i64,
    },
    /// Another largest value, or another smallest one.
    Bound {
        name: Name,
        largest: bool,
        value: i64,
    },
    Cycle {
        name: Name,
        yes: bool,
    },
    /// An alteration that is none of these.
    Tune {
        name: Name,
        block: i64,
    },
    Restart {
        name: Name,
        with: i64,
    },
    Setval {
        name: Name,
        value: i64,
        called: bool,
    },
    Rename {
        name: Name,
        to: Name,
    },
    Drop {
        name: Name,
    },
    Nextval {
        name: Name,
    },
    Nextvals {
        name: Name,
        count: i32,
    },
    Nextrange {
        name: Name,
        count: i64,
    },
    Currval {
        name: Name,
    },
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo,
    Release,
    Discard,
    Reconnect,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub session: u8,
    pub statement: Statement,
}

/// What came of a statement.
#[derive(Debug)]
pub enum Answer {
    Done,
    Values(Vec<i64>),
    Refused(String),
}

pub fn step() -> impl Strategy<Value = Step> {
    (0..2u8, statement()).prop_map(|(session, statement)| Step { session, statement })
}

fn statement() -> impl Strategy<Value = Statement> {
    use Statement::*;
    let name = || prop_oneof![6 => Just(0u8), 2 => Just(1), 1 => Just(2)];
    let increment = || prop_oneof![4 => Just(1i64), 1 => Just(-1), 4 => 2..10i64, 1 => -9..-1i64];
    let bounds = prop_oneof![2 => 20..300i64, 1 => 300..5_000i64, 2 => Just(1_000_000), 1 => Just(2_000_000)];
    let counts = prop_oneof![4 => Just(None), 1 => (2..60i64).prop_map(Some)];
    prop_oneof![
        5 => (name(), -20..20i64, increment(), counts, any::<bool>(), any::<bool>()).prop_map(
            |(name, start, increment, count, ordered, block)| Create { name, start, increment, count, ordered, block }
        ),
        5 => (name(), increment()).prop_map(|(name, increment)| Alter { name, increment }),
        4 => (name(), any::<bool>(), bounds).prop_map(|(name, largest, value)| Bound {
            name, largest, value: if largest { value } else { -value }
        }),
        1 => (name(), any::<bool>()).prop_map(|(name, yes)| Cycle { name, yes }),
        1 => (name(), 1..40i64).prop_map(|(name, block)| Tune { name, block }),
        1 => (name(), -30..60i64).prop_map(|(name, with)| Restart { name, with }),
        2 => (name(), -30..60i64, any::<bool>()).prop_map(|(name, value, called)| Setval { name, value, called }),
        1 => (name(), name()).prop_map(|(name, to)| Rename { name, to }),
        1 => name().prop_map(|name| Drop { name }),
        12 => name().prop_map(|name| Nextval { name }),
        6 => (name(), 0..40i32).prop_map(|(name, count)| Nextvals { name, count }),
        4 => (name(), 1..40i64).prop_map(|(name, count)| Nextrange { name, count }),
        2 => name().prop_map(|name| Currval { name }),
        3 => Just(Begin),
        3 => Just(Commit),
        3 => Just(Rollback),
        3 => Just(Savepoint),
        2 => Just(RollbackTo),
        1 => Just(Release),
        1 => Just(Discard),
        1 => Just(Reconnect),
    ]
}

impl Statement {
    /// The names that it speaks of.
    pub fn names(&self) -> Vec<Name> {
        use Statement::*;
        match self {
            Create { name, .. }
            | Alter { name, .. }
            | Bound { name, .. }
            | Cycle { name, .. }
            | Tune { name, .. }
            | Restart { name, .. }
            | Setval { name, .. }
            | Drop { name }
            | Nextval { name }
            | Nextvals { name, .. }
            | Nextrange { name, .. }
            | Currval { name } => vec![*name],
            Rename { name, to } => vec![*name, *to],
            _ => Vec::new(),
        }
    }

    pub fn sql(&self) -> String {
        use Statement::*;
        match self {
            Create { name, start, increment, count, ordered, block } => {
                let bound = count.map_or(String::new(), |count| {
                    let last = start + increment * (count - 1);
                    let (low, high) = (last.min(*start), last.max(*start));
                    format!(", min_value => {low}, max_value => {high}")
                });
                let wide = if count.is_none() {
                    ", min_value => -1000000, max_value => 1000000"
                } else {
                    ""
                };
                let block = if *block { ", block_size => 2" } else { "" };
                format!(
                    "SELECT hilo_create('s{name}', start_value => {start}, increment => {increment}, ordered => {ordered}{bound}{wide}{block})"
                )
            }
            Alter { name, increment } => {
                format!("SELECT hilo_alter('s{name}', increment => {increment})")
            }
            Bound { name, largest, value } => {
                let which = if *largest { "max_value" } else { "min_value" };
                format!("SELECT hilo_alter('s{name}', {which} => {value})")
            }
            Cycle { name, yes } => format!("SELECT hilo_alter('s{name}', cycle => {yes})"),
            Tune { name, block } => format!("SELECT hilo_alter('s{name}', block_size => {block})"),
            Restart { name, with } => {
                format!("SELECT hilo_alter('s{name}', restart_with => {with})")
            }
            Setval { name, value, called } => {
                format!("SELECT hilo_setval('s{name}', {value}, {called}) IS NULL")
            }
            Rename { name, to } => format!("SELECT hilo_rename('s{name}', 's{to}')"),
            Drop { name } => format!("SELECT hilo_drop('s{name}')"),
            Nextval { name } => format!("SELECT hilo_nextval('s{name}')"),
            Nextvals { name, count } => format!("SELECT hilo_nextvals('s{name}', {count})"),
            Nextrange { name, count } => format!(
                "SELECT generate_series(first, last, increment) FROM hilo_nextrange('s{name}', {count})"
            ),
            Currval { name } => format!("SELECT hilo_currval('s{name}')"),
            Begin => "BEGIN".into(),
            Commit => "COMMIT".into(),
            Rollback => "ROLLBACK".into(),
            Savepoint => "SAVEPOINT kept".into(),
            RollbackTo => "ROLLBACK TO kept".into(),
            Release => "RELEASE kept".into(),
            Discard => "DISCARD SEQUENCES".into(),
            Reconnect => "reconnect".into(),
        }
    }
}

/// Runs a statement; in an open transaction an error must not end that, so there is a savepoint below.
pub fn ask(client: &mut Client, sql: &str, in_transaction: bool) -> Answer {
    let control = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"]
        .iter()
        .any(|word| sql.starts_with(word));
    let guarded = in_transaction && !control;
    if guarded {
        client.batch_execute("SAVEPOINT guard").expect("a savepoint");
    }
    let answer = if sql.contains("next") || sql.contains("currval") {
        client
            .query(sql, &[])
            .map(|rows| Answer::Values(rows.iter().map(|row| row.get::<_, i64>(0)).collect()))
    } else {
        client.batch_execute(sql).map(|()| Answer::Done)
    };
    let answer = answer.unwrap_or_else(|error| {
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
