//! A model of the server: sequences with a pool, and a worker that reserves blocks.

use hilo_core::numbers::Monotonic;

/// µs that a statement takes, and each call in it, of a processor.
const STATEMENT: i64 = 300;
const CALL: i64 = 25;
/// µs until a commit is on disk, and its answer has arrived.
const COMMIT: i64 = 2_000;
const PROCESSORS: usize = 8;

#[derive(Clone, Copy, Default)]
struct Sequence {
    /// The next value that nobody has reserved.
    next: i64,
    /// Values in the pool, from `next` down.
    ready: i64,
    /// When they are there.
    ready_at: i64,
    /// What the last lease took: so much is kept ready.
    ahead: i64,
}

/// What became of a call for a lease.
pub struct Granted {
    pub last: i64,
    pub count: i64,
}

pub struct Server {
    sequences: Vec<Sequence>,
    processors: [i64; PROCESSORS],
    /// The next run of the worker, or the last one: from when to when.
    run: (i64, i64),
    pub up: bool,
    /// Commits of statements and of the worker, by second.
    pub statements: Vec<u32>,
    pub worker: Vec<u32>,
}

impl Server {
    pub fn new(sequences: usize) -> Server {
        let fresh = Sequence { next: 1, ..Sequence::default() };
        Server {
            sequences: vec![fresh; sequences],
            processors: [0; PROCESSORS],
            run: (i64::MIN, i64::MIN),
            up: true,
            statements: Vec::new(),
            worker: Vec::new(),
        }
    }

    /// Carries out a statement with these leases and so many other calls. Returns when its answer is there.
    pub fn carry_out(
        &mut self,
        now: Monotonic,
        asks: impl Iterator<Item = (u32, i64)>,
        others: usize,
    ) -> (Monotonic, Vec<Granted>) {
        let processor = self.processors.iter_mut().min().expect("there are some");
        let began = now.0.max(*processor);
        let mut at = began + STATEMENT + CALL * others as i64;
        let place = self.processors.iter().position(|until| *until <= began).unwrap_or(0);
        let mut granted = Vec::new();
        for (sequence, count) in asks {
            at += CALL;
            at = at.max(self.take(sequence, count, at));
            granted.push(Granted { last: self.sequences[sequence as usize].next - 1, count });
        }
        self.processors[place] = at;
        let end = at + COMMIT;
        count(&mut self.statements, end);
        (Monotonic(end), granted)
    }

    /// Takes values from the pool. Returns when they are there.
    fn take(&mut self, number: u32, count: i64, at: i64) -> i64 {
        let sequence = &mut self.sequences[number as usize];
        let missing = count - sequence.ready;
        let mut there = sequence.ready_at.min(at);
        sequence.ahead = count;
        if missing > 0 || sequence.ready_at > at {
            there = sequence.ready_at;
        }
        if missing > 0 {
            there = self.reserve(number, missing, at);
        }
        let sequence = &mut self.sequences[number as usize];
        sequence.next += count;
        sequence.ready -= count;
        if sequence.ready < sequence.ahead {
            let more = sequence.ahead - sequence.ready;
            self.reserve(number, more, at);
        }
        there
    }

    /// Has the worker reserve values: in its next run, which begins at once unless one is under way.
    fn reserve(&mut self, number: u32, values: i64, at: i64) -> i64 {
        if at > self.run.0 {
            let start = at.max(self.run.1);
            self.run = (start, start + COMMIT);
            count(&mut self.worker, start + COMMIT);
        }
        let sequence = &mut self.sequences[number as usize];
        sequence.ready += values;
        sequence.ready_at = self.run.1;
        self.run.1
    }
}

fn count(by_second: &mut Vec<u32>, at: i64) {
    let second = (at / 1_000_000) as usize;
    if by_second.len() <= second {
        by_second.resize(second + 1, 0);
    }
    by_second[second] += 1;
}
