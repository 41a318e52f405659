//! Many sessions that draw from a few sequences at once.

use std::thread;
use std::time::Instant;

use fastrand::Rng;
use postgres::{Client, Error, Statement};

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::oracle::{Order, Seen, Session, Way};

/// A sequence under load, and the values that were seen of it.
pub struct Source {
    name: String,
    pub seen: Seen,
    order: Option<Order>,
}

impl Source {
    pub fn new(name: &str, way: Way) -> Source {
        Source { name: name.to_owned(), seen: Seen::new(way), order: None }
    }

    /// A rising sequence that is created with `ordered => true`.
    pub fn new_ordered(name: &str) -> Source {
        Source { order: Some(Order::default()), ..Source::new(name, Way::Rising) }
    }

    /// Creates three sequences of different kinds in the database `postgres`. One leaves all sizes
    /// to hilo, one is ordered, and one falls in steps of three and small fixed blocks.
    #[track_caller]
    pub fn three_kinds(cluster: &Cluster) -> [Source; 3] {
        cluster.connect("postgres").run(
            "SELECT hilo_create('adaptive'), hilo_create('ordered', ordered => true),
                    hilo_create('falling', increment => -3, block_size => 20)",
        );
        [
            Source::new("adaptive", Way::Rising),
            Source::new_ordered("ordered"),
            Source::new("falling", Way::Falling),
        ]
    }

    /// How many values of all of them together were seen so far.
    pub fn count_seen(sources: &[Source]) -> usize {
        sources.iter().map(|source| source.seen.count()).sum()
    }

    /// Fails the test if a value was seen twice, or out of order where order was promised.
    #[track_caller]
    pub fn assert_kept(&self) {
        self.seen.assert_unique();
        if let Some(order) = &self.order {
            order.assert_kept();
        }
    }
}

/// How much to draw.
pub struct Load {
    pub sessions: usize,
    /// How many values each session draws from all its sources together.
    pub values: usize,
    /// The most that one statement draws.
    pub batch: usize,
    /// Whether a session that loses its connection connects again and continues.
    pub reconnect: bool,
    /// Makes the choices of a run repeatable.
    pub seed: u64,
}

impl Load {
    /// Sixteen sessions with 100,000 values each.
    pub fn sixteen_sessions(seed: u64) -> Load {
        Load { sessions: 16, values: 100_000, batch: 500, reconnect: false, seed }
    }

    /// How many values all the sessions draw together.
    pub fn total(&self) -> usize {
        self.sessions * self.values
    }

    /// Runs [`Load::run`] and `meanwhile` at the same time.
    pub fn run_during(&self, cluster: &Cluster, sources: &[Source], meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            scope.spawn(|| self.run(cluster, sources));
            meanwhile();
        });
    }

    /// Draws in the database `postgres`, in transactions of all isolation levels, and rolls about
    /// half of them back. Returns when every session has drawn its share. A statement that fails
    /// fails the test.
    pub fn run(&self, cluster: &Cluster, sources: &[Source]) {
        thread::scope(|scope| {
            for number in 0..self.sessions {
                let rng = Rng::with_seed(self.seed.wrapping_add(number as u64));
                scope.spawn(move || self.draw(cluster, sources, rng));
            }
        });
    }

    fn draw(&self, cluster: &Cluster, sources: &[Source], mut rng: Rng) {
        let mut left = self.values;
        while left > 0 {
            let mut client = cluster.connect_when_up("postgres");
            if let Err(error) = self.draw_from(&mut client, sources, &mut rng, &mut left) {
                assert!(self.reconnect && is_connection_lost(&error), "{error:?}");
            }
        }
    }

    /// Draws until nothing is `left`, or the connection is lost.
    fn draw_from(
        &self,
        client: &mut Client,
        sources: &[Source],
        rng: &mut Rng,
        left: &mut usize,
    ) -> Result<(), Error> {
        let mut lanes = Vec::new();
        for source in sources {
            let statement = client.prepare(&format!(
                "SELECT hilo_nextval('{}') FROM generate_series(1, $1::integer)",
                source.name
            ))?;
            lanes.push(Lane { source, statement, session: source.seen.session() });
        }
        while *left > 0 {
            let lane = rng.usize(..lanes.len());
            let count = rng.usize(1..=self.batch).min(*left);
            let explicit = rng.bool();
            if explicit {
                client.batch_execute(rng.choice(BEGIN).expect("there are some"))?;
            }
            lanes[lane].draw(client, count)?;
            *left -= count;
            if explicit {
                client.batch_execute(if rng.bool() { "COMMIT" } else { "ROLLBACK" })?;
            }
        }
        Ok(())
    }
}

const BEGIN: [&str; 4] = [
    "BEGIN",
    "BEGIN READ ONLY",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

/// The means by which one connection draws from one sequence.
struct Lane<'a> {
    source: &'a Source,
    statement: Statement,
    session: Session<'a>,
}

impl Lane<'_> {
    fn draw(&mut self, client: &mut Client, count: usize) -> Result<(), Error> {
        let began = Instant::now();
        let rows = client.query(&self.statement, &[&(count as i32)])?;
        let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(values.len(), count);
        if let Some(order) = &self.source.order {
            order.note_return(began, &values);
        }
        self.session.saw(&values);
        Ok(())
    }
}

/// Whether `error` means that the connection has ended rather than that a statement has failed.
fn is_connection_lost(error: &Error) -> bool {
    error.as_db_error().is_none_or(|report| report.code().code().starts_with("57P"))
}
