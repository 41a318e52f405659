//! The statements that a session may run, and how SQL says it.

/// One of a few sequences, by name.
pub type Name = u8;

/// How a single value is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Nextval,
    Always,
    Key,
}

/// How many values are asked for at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Many {
    Nextvals,
    Copy,
    CopyKeys,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Create(Create),
    /// Another increment; `by_document`: with hilo_apply.
    Alter {
        name: Name,
        increment: i64,
        by_document: bool,
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
    Ordered {
        name: Name,
        yes: bool,
    },
    Gapless {
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
    /// A table's column is to own it.
    Own {
        name: Name,
        table: u8,
    },
    /// TRUNCATE … RESTART IDENTITY.
    Truncate {
        table: u8,
    },
    Adopt {
        name: Name,
        start: i64,
        increment: i64,
    },
    Unadopt {
        name: Name,
    },
    CreateMissing {
        name: Name,
        largest: i64,
    },
    Advance {
        name: Name,
        at_least: i64,
    },
    Sync {
        name: Name,
        column: usize,
    },
    Nextval {
        name: Name,
        way: Way,
    },
    Nextvals {
        name: Name,
        count: i64,
        many: Many,
    },
    Nextrange {
        name: Name,
        count: i64,
    },
    NextHi {
        name: Name,
    },
    Currval {
        name: Name,
    },
    /// `brief`: it expires at once.
    Lease {
        name: Name,
        count: i64,
        brief: bool,
    },
    /// One of the leases so far, whatever became of it; so in the next two.
    Return {
        lease: usize,
        used: usize,
    },
    Renew {
        lease: usize,
        brief: bool,
    },
    Revoke {
        lease: usize,
    },
    /// All leases that this session has taken under its name.
    RevokeAll {
        holder: usize,
    },
    /// Waits until all brief leases have expired.
    Expire,
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo,
    Release,
    Prepare,
    CommitPrepared,
    RollbackPrepared,
    Discard,
    Reconnect,
    /// The server ends without a chance to clean up, and starts again.
    Crash {
        kill: bool,
    },
    /// The same with a clean stop.
    Stop,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    pub name: Name,
    pub start: i64,
    pub increment: i64,
    /// How many values there are; `None`: many, on both sides of the start.
    pub count: Option<i64>,
    pub ordered: bool,
    pub gapless: bool,
    pub block: bool,
    pub by_document: bool,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub session: u8,
    pub statement: Statement,
}

/// The outcome of a statement.
#[derive(Debug)]
pub enum Answer {
    Done,
    Values(Vec<i64>),
    /// A lease with its name, and the values of it.
    Leased(String, Vec<i64>),
    Refused(String),
}

/// The facts that a statement needs about those before it.
#[derive(Debug, Default)]
pub struct Given {
    /// The name of the lease, and the first value that was not used.
    pub lease: String,
    pub next: i64,
    /// A table of its own.
    pub table: u32,
}

/// Bounds that are far from all that is drawn.
pub const WIDE: i64 = 1_000_000;

/// The values that the columns of the table `taken` hold, one value each.
pub const TAKEN: [i64; 12] = [-2_000, -300, -60, -20, -3, 0, 7, 20, 45, 60, 300, 2_000];

impl Create {
    pub fn bounds(&self) -> (i64, i64) {
        self.count.map_or((-WIDE, WIDE), |count| {
            let last = self.start + self.increment * (count - 1);
            (last.min(self.start), last.max(self.start))
        })
    }

    fn sql(&self) -> String {
        let Create { name, start, increment, ordered, gapless, block, .. } = self;
        let (min, max) = self.bounds();
        if self.by_document {
            let block = if *block { r#", "block_size": 2"# } else { "" };
            return format!(
                r#"SELECT count(*) FROM hilo_apply('{{"hilo": 1, "sequences": [{{"name": "s{name}",
                    "start_value": {start}, "increment": {increment}, "ordered": {ordered},
                    "gapless": {gapless}, "min_value": {min}, "max_value": {max}{block}}}]}}')"#
            );
        }
        let block = if *block { ", block_size => 2" } else { "" };
        format!(
            "SELECT hilo_create('s{name}', start_value => {start}, increment => {increment},
                ordered => {ordered}, gapless => {gapless},
                min_value => {min}, max_value => {max}{block})"
        )
    }
}

impl Statement {
    /// The names that it speaks of.
    pub fn names(&self) -> Vec<Name> {
        use Statement::*;
        match self {
            Create(create) => vec![create.name],
            Alter { name, .. }
            | Bound { name, .. }
            | Cycle { name, .. }
            | Ordered { name, .. }
            | Gapless { name, .. }
            | Tune { name, .. }
            | Restart { name, .. }
            | Setval { name, .. }
            | Drop { name }
            | Own { name, .. }
            | Adopt { name, .. }
            | Unadopt { name }
            | CreateMissing { name, .. }
            | Advance { name, .. }
            | Sync { name, .. }
            | Nextval { name, .. }
            | Nextvals { name, .. }
            | Nextrange { name, .. }
            | NextHi { name }
            | Lease { name, .. }
            | Currval { name } => vec![*name],
            Rename { name, to } => vec![*name, *to],
            _ => Vec::new(),
        }
    }

    /// Whether it begins or ends a transaction, or a part of one.
    pub fn is_control(&self) -> bool {
        use Statement::*;
        let ends = matches!(self, Begin | Commit | Rollback | Savepoint | RollbackTo | Release);
        ends || matches!(self, Prepare | CommitPrepared | RollbackPrepared)
    }

    /// Whether it takes values from a sequence.
    pub fn draws(&self) -> bool {
        use Statement::*;
        matches!(
            self,
            Nextval { .. } | Nextvals { .. } | Nextrange { .. } | NextHi { .. } | Lease { .. }
        )
    }

    /// Whether it is about a lease that was taken before.
    pub fn ends_lease(&self) -> bool {
        use Statement::*;
        matches!(self, Return { .. } | Renew { .. } | Revoke { .. } | RevokeAll { .. })
    }

    /// Whether what it returns are values or a count.
    pub fn has_values(&self) -> bool {
        use Statement::*;
        self.draws()
            || matches!(
                self,
                Currval { .. }
                    | Advance { .. }
                    | Sync { .. }
                    | Unadopt { .. }
                    | CreateMissing { .. }
                    | Return { .. }
                    | Revoke { .. }
                    | RevokeAll { .. }
            )
    }

    pub fn sql(&self, who: usize, given: &Given) -> String {
        use Statement::*;
        match self {
            Return { .. } | Renew { .. } | Revoke { .. } | RevokeAll { .. } | Lease { .. } => {
                self.lease_sql(who, given)
            }
            Nextval { .. }
            | Nextvals { .. }
            | Nextrange { .. }
            | NextHi { .. }
            | Currval { .. }
            | Advance { .. }
            | Sync { .. } => self.draw_sql(who),
            Own { .. } | Truncate { .. } | Adopt { .. } | Unadopt { .. } | CreateMissing { .. } => {
                self.column_sql(given.table)
            }
            Begin => "BEGIN".into(),
            Commit => "COMMIT".into(),
            Rollback => "ROLLBACK".into(),
            Savepoint => "SAVEPOINT kept".into(),
            RollbackTo => "ROLLBACK TO kept".into(),
            Release => "RELEASE kept".into(),
            Prepare => "PREPARE TRANSACTION 'model'".into(),
            CommitPrepared => "COMMIT PREPARED 'model'".into(),
            RollbackPrepared => "ROLLBACK PREPARED 'model'".into(),
            Discard => "DISCARD SEQUENCES".into(),
            Expire | Reconnect | Crash { .. } | Stop => format!("-- {self:?}"),
            _ => self.definition_sql(),
        }
    }

    fn definition_sql(&self) -> String {
        use Statement::*;
        let alter = |name: &Name, what: String| format!("SELECT hilo_alter('s{name}', {what})");
        match self {
            Create(create) => create.sql(),
            Alter { name, increment, by_document: true } => format!(
                "SELECT count(*) FROM hilo_apply(jsonb_set(hilo_export('s{name}'),
                    '{{sequences,0,increment}}', '{increment}'))"
            ),
            Alter { name, increment, .. } => alter(name, format!("increment => {increment}")),
            Bound { name, largest, value } => {
                let which = if *largest { "max_value" } else { "min_value" };
                alter(name, format!("{which} => {value}"))
            }
            Cycle { name, yes } => alter(name, format!("cycle => {yes}")),
            Ordered { name, yes } => alter(name, format!("ordered => {yes}")),
            Gapless { name, yes } => alter(name, format!("gapless => {yes}")),
            Tune { name, block } => alter(name, format!("block_size => {block}")),
            Restart { name, with } => alter(name, format!("restart_with => {with}")),
            Setval { name, value, called } => {
                format!("SELECT hilo_setval('s{name}', {value}, {called}) IS NULL")
            }
            Rename { name, to } => format!("SELECT hilo_rename('s{name}', 's{to}')"),
            Drop { name } => format!("SELECT hilo_drop('s{name}', cascade => true)"),
            _ => unreachable!("{self:?} defines nothing"),
        }
    }

    /// Statements about columns; `own` is the number of a table of its own.
    fn column_sql(&self, own: u32) -> String {
        use Statement::*;
        match self {
            Own { name, table } => {
                format!("SELECT hilo_alter('s{name}', owned_by => 'home{table}.id')")
            }
            Truncate { table } => format!("TRUNCATE home{table} RESTART IDENTITY"),
            Adopt { name, start, increment } => format!(
                "CREATE SEQUENCE core{own} START {start} INCREMENT {increment}
                     MINVALUE {} MAXVALUE {WIDE};
                 CREATE TABLE own{own} (id bigint DEFAULT nextval('core{own}'));
                 ALTER SEQUENCE core{own} OWNED BY own{own}.id;
                 SELECT hilo_adopt('own{own}', 'id', 's{name}', ordered => false)",
                -WIDE
            ),
            Unadopt { .. } => format!("SELECT nextval(hilo_release('own{own}', 'id', NULL))"),
            CreateMissing { name, largest } => format!(
                "CREATE TABLE own{own} (id bigint DEFAULT hilo_nextval('s{name}'));
                 INSERT INTO own{own} VALUES ({largest});
                 SELECT next_value FROM hilo_create_missing()"
            ),
            _ => unreachable!("{self:?} is about no column"),
        }
    }

    fn draw_sql(&self, who: usize) -> String {
        use Statement::*;
        match self {
            Advance { name, at_least } => format!("SELECT hilo_advance('s{name}', {at_least})"),
            Sync { name, column } => format!("SELECT hilo_sync('s{name}', 'taken', 'v{column}')"),
            Nextval { name, way: Way::Nextval } => format!("SELECT hilo_nextval('s{name}')"),
            Nextval { name, way: Way::Always } => format!("SELECT hilo_nextval_always('s{name}')"),
            Nextval { name, way: Way::Key } => {
                format!("SELECT hilo_key_value('s{name}', hilo_nextkey('s{name}'))")
            }
            Nextvals { name, count, many: Many::Nextvals } => {
                format!("SELECT hilo_nextvals('s{name}', {count})")
            }
            Nextvals { many: Many::Copy, .. } => format!("COPY drawn{who} (n) FROM STDIN"),
            Nextvals { many: Many::CopyKeys, .. } => format!("COPY drawn_keys{who} (n) FROM STDIN"),
            Nextrange { name, count } => format!(
                "SELECT generate_series(first, last, increment)
                   FROM hilo_nextrange('s{name}', {count})"
            ),
            NextHi { name } => format!(
                "SELECT start_value + (hi * block_size + lo) * increment
                   FROM hilo_next_hi('s{name}') hi, hilo_sequences,
                        generate_series(0, block_size - 1) lo
                  WHERE name = 's{name}'"
            ),
            Currval { name } => format!("SELECT hilo_currval('s{name}')"),
            _ => unreachable!("{self:?} draws nothing"),
        }
    }

    fn lease_sql(&self, who: usize, Given { lease, next, .. }: &Given) -> String {
        use Statement::*;
        let ttl = |brief: &bool| if *brief { "'1 ms'" } else { "NULL" };
        match self {
            Lease { name, count, brief } => format!(
                "SELECT lease::text, generate_series(first, last, increment)
                   FROM hilo_lease('s{name}', {count}, 'holder {who}', {})",
                ttl(brief)
            ),
            Return { .. } => format!("SELECT hilo_lease_return('{lease}', {next})"),
            Renew { brief, .. } => {
                format!("SELECT hilo_lease_renew('{lease}', {}) IS NULL", ttl(brief))
            }
            Revoke { .. } => format!("SELECT hilo_lease_revoke('{lease}')"),
            RevokeAll { holder } => {
                format!("SELECT hilo_lease_revoke(holder => 'holder {holder}')")
            }
            _ => unreachable!("{self:?} is about no lease"),
        }
    }
}
