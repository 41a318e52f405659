//! The sequences of a scene.

use super::ledger::{Sequence, SequenceKind};

#[derive(Default)]
pub struct Sequences(Vec<Sequence>);

impl Sequences {
    pub fn add(
        &mut self,
        database: &'static str,
        name: &str,
        kind: SequenceKind,
        increment: i64,
        change: impl FnOnce(&mut Sequence),
    ) {
        let mut sequence = Sequence::new(self.0.len(), database, name, kind, increment);
        change(&mut sequence);
        self.0.push(sequence);
    }

    fn few(&mut self, database: &'static str) {
        self.add(database, "adaptive a", SequenceKind::Wide, 1, |_| {});
        self.add(database, "ordered a", SequenceKind::Wide, 1, |sequence| sequence.ordered = true);
        self.add(database, "falling", SequenceKind::Wide, -3, |_| {});
        self.add(database, "blocks", SequenceKind::Wide, 1, |sequence| {
            sequence.options = ", block_size => 100";
        });
    }
}

/// One sequence of each kind, and more of the kinds that are used most.
pub fn mix() -> Vec<Sequence> {
    let mut all = Sequences::default();
    for name in ["adaptive a", "adaptive b", "adaptive c"] {
        all.add("postgres", name, SequenceKind::Wide, 1, |_| {});
    }
    for name in ["ordered a", "ordered b"] {
        all.add("postgres", name, SequenceKind::Wide, 1, |sequence| sequence.ordered = true);
    }
    all.add("postgres", "ordered falling", SequenceKind::Wide, -2, |sequence| {
        sequence.ordered = true
    });
    all.add("postgres", "falling", SequenceKind::Wide, -3, |sequence| {
        sequence.options = ", block_size => 20";
    });
    all.add("postgres", "blocks and hi", SequenceKind::Wide, 1, |sequence| {
        sequence.hi_block = Some(64);
        sequence.options = ", block_size => 64";
    });
    all.add("postgres", "slices of one", SequenceKind::Wide, 7, |sequence| {
        sequence.options = ", slice_size => 1";
    });
    all.add("postgres", "slices of four", SequenceKind::Wide, 1, |sequence| {
        sequence.options = ", slice_size => 4";
    });
    all.add("postgres", "altered", SequenceKind::Wide, 2, |sequence| sequence.uneven = true);
    all.add("postgres", "inserted", SequenceKind::Wide, 1, |sequence| {
        sequence.mutable = false;
        sequence.inserted = true;
    });
    all.add("postgres", "small-1", SequenceKind::Small(2_000), 1, |_| {});
    all.add("postgres", "small falling-1", SequenceKind::Small(1_500), -1, |_| {});
    all.add("postgres", "cycle", SequenceKind::Cycle(100_000), 1, |_| {});
    all.few("shop");
    all.few("stall");
    all.0
}

/// `count` sequences of a few kinds in one database.
pub fn many(database: &'static str, count: usize) -> Vec<Sequence> {
    let mut all = Sequences::default();
    for number in 0..count {
        let name = format!("one of many, {number}");
        let kind = number % 7;
        let increment = if kind == 1 { -2 } else { 1 };
        all.add(database, &name, SequenceKind::Wide, increment, |sequence| match kind {
            0 => sequence.ordered = true,
            2 => sequence.options = ", slice_size => 4",
            3 => sequence.options = ", block_size => 30",
            _ => {}
        });
    }
    all.0
}

/// A few sequences in each of these databases.
pub fn in_each(databases: &[&'static str]) -> Vec<Sequence> {
    let mut all = Sequences::default();
    databases.iter().for_each(|database| all.few(database));
    all.0
}

/// How many servers serve a sequence at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    One,
    Several,
}

/// Sequences that are never renumbered.
pub fn lasting(database: &'static str, servers: Servers) -> Vec<Sequence> {
    let mut all = Sequences::default();
    for (name, increment, options) in [
        ("adaptive a", 1, ""),
        ("adaptive b", 1, ""),
        ("ordered", 1, ""),
        ("falling", -3, ""),
        ("blocks", 1, ", block_size => 20"),
        ("slices of four", 1, ", slice_size => 4"),
    ] {
        all.add(database, name, SequenceKind::Wide, increment, |sequence| {
            sequence.ordered = name == "ordered";
            sequence.options = options;
            sequence.mutable = false;
            sequence.multi_node = servers == Servers::Several;
        });
    }
    all.0
}
