//! A model of the server: sequences with a pool, and a worker that reserves blocks.

use hilo_core::numbers::{Micros, Monotonic, Timestamp};
use hilo_core::policy::{self, Remaining, Settings};
use hilo_core::rate::Rate;

/// µs that a statement takes, and each call in it, of a processor.
const STATEMENT: i64 = 300;
pub const CALL: i64 = 25;
/// µs until a commit is on disk, and its answer has arrived.
const COMMIT: i64 = 2_000;
const PROCESSORS: usize = 8;
/// Leases that can be in open transactions.
const PLACES: usize = 16_384;

const WINDOW: Micros = Micros(60_000_000);
const ROOM: Remaining = Remaining { whole: i64::MAX, left: i64::MAX };

#[derive(Clone, Copy, Default)]
struct Sequence {
    /// How many values were leased out.
    taken: i64,
    /// Values in the pool.
    ready: i64,
    /// When they are there.
    ready_at: i64,
    block: i64,
    rate: Rate,
}

/// The outcome of a call for a lease.
pub struct Granted {
    pub last: i64,
    pub count: i64,
}

/// The outcome of a statement.
pub enum Answer {
    Done(Vec<Granted>),
    /// There were no places left. So many values were lost.
    Full(i64),
    /// It took too long, and was canceled. So many values were lost.
    Late(i64),
}

pub struct Server {
    sequences: Vec<Sequence>,
    processors: [i64; PROCESSORS],
    /// The next run of the worker, or the last one: from when to when.
    run: (i64, i64),
    pub up: bool,
    /// µs that a call takes now.
    pub call: i64,
    /// The most leases in open transactions, and how many are until when.
    pub places: usize,
    open: Vec<(i64, usize)>,
    /// Commits of statements and of the worker, by second.
    pub statements: Vec<u32>,
    pub worker: Vec<u32>,
}

impl Server {
    pub fn new(sequences: usize) -> Server {
        Server {
            sequences: vec![Sequence::default(); sequences],
            processors: [0; PROCESSORS],
            run: (i64::MIN, i64::MIN),
            up: true,
            call: CALL,
            places: PLACES,
            open: Vec::new(),
            statements: Vec::new(),
            worker: Vec::new(),
        }
    }

    /// Carries out a statement with these leases and so many other calls, which is canceled at
    /// `deadline`. Returns when its answer is there.
    pub fn carry_out(
        &mut self,
        now: Monotonic,
        deadline: Monotonic,
        asks: impl Iterator<Item = (u32, i64)>,
        others: usize,
    ) -> (Monotonic, Answer) {
        let until = self.processors.iter().min().expect("there are some");
        let began = now.0.max(*until);
        if began >= deadline.0 {
            return (deadline, Answer::Late(0));
        }
        let place = self.processors.iter().position(|until| *until <= began).unwrap_or(0);
        self.open.retain(|(until, _)| *until > began);
        let room = self.places - self.open.iter().map(|(_, leases)| leases).sum::<usize>();
        let mut at = began + STATEMENT + self.call * others as i64;
        let mut granted: Vec<Granted> = Vec::new();
        let mut busy = at;
        let mut full = false;
        for (sequence, count) in asks {
            full = granted.len() == room;
            if full || at > deadline.0 {
                break;
            }
            // Who waits for the worker leaves the processor to others.
            busy += self.call;
            at = self.take(sequence, count, at + self.call);
            granted.push(Granted { last: self.sequences[sequence as usize].taken, count });
        }
        let end = if full { at } else { at + COMMIT };
        let lost = granted.iter().map(|lease| lease.count).sum();
        self.processors[place] = busy.min(deadline.0);
        self.open.push((end.min(deadline.0), granted.len()));
        match () {
            () if end > deadline.0 => (deadline, Answer::Late(lost)),
            () if full => (Monotonic(end), Answer::Full(lost)),
            () => {
                count(&mut self.statements, end);
                (Monotonic(end), Answer::Done(granted))
            }
        }
    }

    /// Takes values from the pool. Returns when they are there.
    fn take(&mut self, number: u32, count: i64, at: i64) -> i64 {
        let missing = count - self.sequences[number as usize].ready;
        if missing > 0 {
            self.reserve(number, count, at);
        }
        let sequence = &mut self.sequences[number as usize];
        sequence.taken += count;
        sequence.ready -= count;
        let there = sequence.ready_at.max(at);
        let ahead = policy::lease_ahead(count, i64::MAX, &Settings::default());
        self.reserve(number, ahead, at);
        if missing > 0 { there.max(at) } else { at }
    }

    /// Has the worker reserve in its next run, so that the pool has `need` values. That run begins
    /// at once unless one is under way.
    fn reserve(&mut self, number: u32, need: i64, at: i64) {
        let settings = Settings::default();
        let sequence = &mut self.sequences[number as usize];
        let demand = sequence.rate.refill(Timestamp(at), sequence.taken, WINDOW);
        let block = policy::next_block(sequence.block, &demand, ROOM, &settings);
        let size = policy::reservation_size(sequence.ready, need, block, &demand, ROOM, &settings);
        if size == 0 {
            return;
        }
        sequence.block = block;
        sequence.ready += size;
        if at > self.run.0 {
            let start = at.max(self.run.1);
            self.run = (start, start + COMMIT);
            count(&mut self.worker, start + COMMIT);
        }
        sequence.ready_at = self.run.1;
    }
}

fn count(by_second: &mut Vec<u32>, at: i64) {
    let second = (at / 1_000_000) as usize;
    if by_second.len() <= second {
        by_second.resize(second + 1, 0);
    }
    by_second[second] += 1;
}
