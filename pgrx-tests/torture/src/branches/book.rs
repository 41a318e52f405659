//! The values that the clients of all servers have seen, by sequence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::bits::Bits;
use crate::figures::{Figures, add};

/// hilo.max_slice_size.
const SLICE: u64 = 256;

/// A sequence that all servers draw from, or one that takes its values from a counter.
pub struct Line {
    pub name: &'static str,
    pub start: i64,
    pub increment: i64,
    options: &'static str,
    pub seen: Mutex<Bits>,
    /// The numbers that a copy of a branch without recovery held when it was started, as its
    /// original does. Nothing distinguishes the two, so both may serve them.
    pub shared: Mutex<Bits>,
    /// How many more values both may get, by a request that was written down before the copy was
    /// made.
    pub shared_request: AtomicU64,
}

/// The values of a sequence that the clients of one server had.
#[derive(Default)]
pub struct Share {
    pub seen: Mutex<Bits>,
    /// The most values that statements with a lost result can have drawn.
    pub lost: AtomicU64,
}

pub struct Book {
    pub lines: Vec<Line>,
    pub figures: Arc<Figures>,
    /// Whether all writers are to end.
    pub over: AtomicBool,
}

/// How many of the lines the centre has; the others are `CORE` and `TABLE`.
const SHARED: usize = 3;
/// The line of a sequence of Postgres.
pub const CORE: usize = 3;
/// The line of a mapper's table.
pub const TABLE: usize = 4;
/// The line of a counter that refuses now and then.
pub const MOODY: usize = 5;

impl Line {
    /// Which number of the sequence this value is.
    pub fn place(&self, value: i64) -> Option<i64> {
        let distance = value - self.start;
        (distance % self.increment == 0).then(|| distance / self.increment)
    }

    /// Whether a copy of a branch and its original may both serve this number.
    fn may_be_shared(&self, place: i64) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.shared.lock().unwrap().contains(place)
            || self.shared_request.fetch_update(SeqCst, SeqCst, one_less).is_ok()
    }

    pub fn create(&self) -> String {
        format!(
            "SELECT hilo_create('{}', start_value => {}, increment => {}{})",
            self.name, self.start, self.increment, self.options
        )
    }
}

impl Book {
    pub fn new(figures: Arc<Figures>) -> Book {
        let line = |name, start, increment, options| Line {
            name,
            start,
            increment,
            options,
            seen: Mutex::default(),
            shared: Mutex::default(),
            shared_request: AtomicU64::default(),
        };
        let lines = vec![
            line("orders", 100, 1, ""),
            line("bills", -5, -3, ""),
            line("items", 1, 2, ", block_size => 50"),
            line("notes", 1, 1, ""),
            line("Order", 1, 1, ""),
            line("moody", 1, 1, ""),
        ];
        Book { lines, figures, over: AtomicBool::new(false) }
    }

    pub fn shared_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines[..SHARED].iter()
    }

    /// Records what a client has seen: no other may have seen it, on any server but a copy that
    /// holds the same.
    pub fn saw(&self, number: usize, share: &Share, values: impl Iterator<Item = i64>) {
        let line = &self.lines[number];
        let (mut all, mut here) = (line.seen.lock().unwrap(), share.seen.lock().unwrap());
        for value in values {
            add(&self.figures.values, 1);
            let Some(place) = line.place(value) else {
                self.figures.wrong(format!("{}: {value} is no value of it", line.name));
                continue;
            };
            let (is_new_here, is_new) = (here.insert(place), all.insert(place));
            if is_new_here && !is_new && line.may_be_shared(place) {
                add(&self.figures.by_copies, 1);
            } else if !is_new {
                add(&self.figures.duplicates, 1);
                self.figures.wrong(format!("{}: {value} twice", line.name));
            }
        }
    }

    /// A statement that may have drawn `count` values, and a slice beyond them, did not say which.
    pub fn note_lost(&self, share: &Share, count: u64) {
        add(&self.figures.lost_statements, 1);
        share.lost.fetch_add(count + SLICE, SeqCst);
    }
}
