//! Clean stops: all pools are flushed, and the catalog is compared with what clients have seen.
//!
//! Each number below a position was seen, or is free, in a gap, or in the memory of a server that crashed.
//! The count of all others must not exceed what statements with a lost result can have drawn since the last
//! audit. From then on these numbers are closed, as is everything in a gap: none of them may be served.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use postgres::Client;

use super::Torture;
use super::bits::Bits;
use super::catalog::{CatalogState, Gap, read};
use super::condensed::Condensed;
use super::figures::add;
use super::gapless;
use super::ledger::{Last, Ledger, Life, Sequence, SequenceKind};
use hilo_tests::ClientExt;
use hilo_tests::Mode;

/// No sequence here can have this many numbers in memory.
const MAX_IN_MEMORY: i64 = 1 << 30;

/// The numbers that a setval or restart has jumped over may be very many. So many of them are looked at beyond all
/// that is known of the life otherwise.
const JUMP: i64 = 1 << 20;

/// Stops the server, starts it, and runs `meanwhile`. Then waits until all sessions have disconnected, stops
/// the server once more, and audits all sequences.
pub fn stop_cleanly(torture: &Torture, mode: Mode, meanwhile: impl FnOnce()) {
    let first = memory_lives(torture);
    torture.cluster.stop(mode);
    torture.disconnect_all();
    torture.cluster.start();
    meanwhile();
    torture.wait_until_disconnected();
    audit_all(torture, first);
    torture.allow_sessions();
}

/// The lives of memory in the databases, which a reservation writes into a position. With fewer
/// worker processes than databases, this is known of one.
fn memory_lives(torture: &Torture) -> Vec<i64> {
    let databases = if torture.scarce { &["postgres"] } else { &*torture.databases };
    let of_one = |database: &&str| {
        let mut client = torture.cluster.connect_when_up(database);
        client.one::<i64>("SELECT hilo_nextval('probe')");
        client.one(
            "SELECT incarnation FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence WHERE s.name = 'probe'",
        )
    };
    databases.iter().map(of_one).collect()
}

/// Audits all sequences. `ended`: the lives of memory that ended cleanly since the last audit.
fn audit_all(torture: &Torture, mut ended: Vec<i64>) {
    ended.extend(memory_lives(torture));
    torture.cluster.stop(Mode::Fast);
    torture.cluster.start();
    add(&torture.ledger.figures.audits, 1);
    for database in &torture.databases {
        let mut client = torture.cluster.connect(database);
        gapless::audit(torture, &mut client, database);
        for sequence in torture.sequences_of(database) {
            audit_sequence(torture, sequence, &ended, &mut client);
        }
    }
}

/// The audit at the end of a run.
pub fn final_audit(torture: &Torture) {
    torture.disconnect_all();
    // The loss of the last crash is recorded by the next reservation.
    draw_from_all(torture, 1);
    audit_all(torture, Vec::new());
    // Free values are served again; values that were seen are not.
    draw_from_all(torture, 5_000);
}

pub fn draw_from_all(torture: &Torture, count: usize) {
    for database in &torture.databases {
        let mut client = torture.cluster.connect_when_up(database);
        for sequence in torture.sequences_of(database) {
            let count = if matches!(sequence.kind, SequenceKind::Small(_)) { 1 } else { count };
            let ticket = torture.ledger.ticket(sequence);
            let sql =
                format!("SELECT hilo_nextval('{}') FROM generate_series(1, {count})", ticket.name);
            match client.query(&sql, &[]) {
                Ok(rows) => {
                    let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    torture.ledger.saw(sequence, &ticket, &mut Last::default(), &values, true);
                }
                Err(error) => {
                    let state = error.as_db_error().map(|report| report.code().code());
                    // If the creation after a drop failed, there is none at the moment.
                    let expected = match state {
                        Some("2200H") => true,
                        Some("42704") => !sequence.exists(),
                        _ => false,
                    };
                    if !expected {
                        torture.ledger.figures.wrong(format!("{sql}: {error:?}"));
                    }
                }
            }
        }
    }
}

/// The catalog's figures, counted from where the life begins: an advance gives it another base.
fn since_begin(sequence: &Sequence, mut catalog: CatalogState) -> CatalogState {
    let life = sequence.life(sequence.key(catalog.base)).filter(|_| !sequence.uneven);
    catalog.begins_at = life.and_then(|life| life.place(catalog.base)).unwrap_or(0);
    catalog
}

fn audit_sequence(torture: &Torture, sequence: &Sequence, ended: &[i64], client: &mut Client) {
    let ledger = &*torture.ledger;
    let wrong = |what: String| ledger.figures.wrong(format!("{}: {what}", sequence.database));
    let mut audited = Vec::new();
    match sequence.kind {
        SequenceKind::Cycle(_) => return,
        SequenceKind::Wide => {
            let name = sequence.name().0;
            // If the creation of the next one failed, there is none at the moment.
            match read(client, &name) {
                Some(catalog) => {
                    audited.push((name, since_begin(sequence, catalog), sequence.lives()))
                }
                None if sequence.exists() => wrong(format!("{name} does not exist")),
                None => {}
            }
        }
        SequenceKind::Small(_) => {
            let (name, generation) = sequence.name();
            let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
            for number in 1..=generation {
                let name = format!("{stem}-{number}");
                if let (Some(catalog), Some(life)) = (read(client, &name), sequence.life(number)) {
                    audited.push((name, catalog, vec![life]));
                }
            }
        }
    }
    let (mut open, mut missing) = (0, Vec::new());
    for (name, catalog, lives) in &audited {
        if let Some(life) = catalog.lives().find(|life| ended.contains(life)) {
            // No worker wrote it to the catalog: the next life of the server records it.
            add(&ledger.figures.left, 1);
            if !torture.scarce {
                wrong(format!(
                    "{name}: a clean stop has left something to the memory of life {life}: {catalog}"
                ));
            }
        }
        if let Some(fault) = catalog.fault() {
            wrong(format!("{name}: {fault}"));
        }
        let (promoted, missing_here) = (torture.promoted, RefCell::default());
        let here = Audit { ledger, sequence, name, catalog, promoted, missing: missing_here };
        open += here.lives(lives);
        missing.extend(here.missing.into_inner());
    }
    // The open numbers are closed now: the next audit has its own lost statements.
    let lost = sequence.lost.swap(0, SeqCst);
    add(&ledger.figures.in_lost_statements, open.min(lost));
    if open > lost {
        add(&ledger.figures.unexplained, open - lost);
        wrong(format!(
            "{}: {open} numbers were neither seen nor recorded, and lost statements had at most {lost}: \
             {missing:?}: {:?}",
            sequence.name().0,
            sequence.recent_history()
        ));
    }
}

struct Audit<'a> {
    ledger: &'a Ledger,
    sequence: &'a Sequence,
    name: &'a str,
    catalog: &'a CatalogState,
    promoted: bool,
    /// The numbers that were neither seen nor recorded, in words.
    missing: RefCell<Vec<String>>,
}

impl Audit<'_> {
    fn wrong(&self, what: String) {
        self.ledger.figures.wrong(format!("{}: {what}", self.name));
    }

    /// How many numbers of these lives were neither seen nor recorded.
    fn lives(&self, lives: &[Arc<Life>]) -> u64 {
        let small = matches!(self.sequence.kind, SequenceKind::Small(_));
        let key = |value: i64| if small { lives[0].key } else { self.sequence.key(value) };
        let by_key: HashMap<i64, &Life> = lives.iter().map(|life| (life.key, &**life)).collect();
        let current = key(self.catalog.base);
        if !by_key.contains_key(&current) {
            self.wrong(format!("{} is of no life", self.catalog.base));
            return 0;
        }
        let (gaps, mut condensed) = self.gaps_by_life(&by_key, key);
        let mixed = self.catalog.gaps.iter().any(|gap| gap.epoch.is_none());
        let mut lives: Vec<_> = lives.iter().collect();
        lives.sort_by_key(|life| life.key * self.sequence.increment.signum());
        let mut open = 0;
        for &life in &lives {
            let gaps = gaps.get(&life.key).map_or(&[][..], Vec::as_slice);
            let is_current = life.key == current;
            let settled = *life.settled.lock().unwrap();
            if let Some(settled) = settled {
                let total: i64 = gaps.iter().map(|gap| gap.count).sum();
                if life.committed.load(SeqCst) && !mixed && total != settled {
                    self.wrong(format!(
                        "the gaps of a life that is over had {settled} numbers, and now {total}"
                    ));
                }
                continue;
            }
            let leases: Vec<(i64, i64)> = self
                .catalog
                .leases
                .iter()
                .filter(|lease| key(lease.0) == life.key)
                .copied()
                .collect();
            open += self.life(life, gaps, &mut condensed, &leases, is_current);
        }
        open
    }

    /// The gaps of each life, and those that do not say which numbers are lost. A gap begins in the life that had
    /// its numbers, and may end beyond it: at the beginning of the next one.
    fn gaps_by_life(
        &self,
        lives: &HashMap<i64, &Life>,
        key: impl Fn(i64) -> i64,
    ) -> (HashMap<i64, Vec<&Gap>>, Condensed) {
        let mut gaps: HashMap<i64, Vec<&Gap>> = HashMap::new();
        let mut condensed = Condensed::default();
        for gap in &self.catalog.gaps {
            let Some(life) = lives.get(&key(gap.first)) else {
                self.wrong(format!("a gap of no life: {gap:?}"));
                continue;
            };
            if !gap.is_whole() {
                let of = gap.epoch.map(|_| life.key);
                condensed.add(of, (gap.first, gap.last), gap.count, self.sequence.increment);
            } else if gap.count > MAX_IN_MEMORY && gap.reason != "altered" {
                self.wrong(format!("a gap of too many: {gap:?}"));
            }
            if gap.epoch.is_some() {
                gaps.entry(life.key).or_default().push(gap);
            }
        }
        (gaps, condensed)
    }

    fn life(
        &self,
        life: &Life,
        gaps: &[&Gap],
        condensed: &mut Condensed,
        leases: &[(i64, i64)],
        is_current: bool,
    ) -> u64 {
        let figures = &self.ledger.figures;
        let seen = life.seen.lock().unwrap();
        let (mut free, mut memory, mut reserved) =
            (Bits::default(), Bits::default(), Bits::default());
        if is_current && !self.sequence.uneven {
            if self.catalog.base != life.value(self.catalog.begins_at)
                || self.catalog.increment != life.increment
            {
                self.wrong(format!(
                    "a life that starts at {} has base {}",
                    life.first, self.catalog.base
                ));
                return 0;
            }
            let twice;
            (free, twice) = self.catalog.free();
            (memory, reserved) = (self.catalog.in_memory(), self.catalog.reserved_bits());
            add(&figures.free_values, free.count());
            self.none(life, twice, "is in two free ranges");
            self.none(life, seen.common(&free), "was seen, but is free to be served again");
            if !self.sequence.multi_node
                && let Some(furthest) = seen.highest()
                && reserved.highest().is_none_or(|reserved| furthest > reserved)
            {
                self.none(life, Some(furthest), "was seen, but is not yet reserved");
            }
        }
        let leased = if self.sequence.uneven { Bits::default() } else { self.leases(life, leases) };
        let begun = gaps.iter().filter_map(|gap| life.place(gap.first)).max();
        let reached = [seen.highest(), reserved.highest(), leased.highest(), begun];
        let reached = reached.into_iter().flatten().max().unwrap_or(0);
        let recorded = self.gaps(life, gaps, &seen, reached.saturating_add(JUMP));
        self.none(life, recorded.common(&free), "is in a gap, and free as well");
        self.none(life, recorded.common(&memory), "is in a gap, and lent to memory as well");
        self.none(life, leased.common(&free), "is leased, and free as well");
        self.none(life, leased.common(&recorded), "is leased, and in a gap as well");
        let unused = life.leased.lock().unwrap();
        self.none(life, unused.common(&free), "is in a holder's hands, and free as well");
        drop(unused);
        if self.sequence.uneven {
            // Which numbers it has passed is not known.
            life.closed.lock().unwrap().add(&recorded);
        }
        if !life.committed.load(SeqCst) || self.sequence.uneven {
            return 0;
        }
        let mut open = Bits::default();
        if is_current {
            open = reserved;
        } else {
            let reach = seen
                .highest()
                .max(recorded.highest())
                .max(leased.highest())
                .map_or(0, |last| last + 1);
            open.insert_range(0, reach);
            // The end of a lease adds a gap.
            if life.is_over() && leases.is_empty() {
                let total = gaps.iter().map(|gap| gap.count).sum();
                *life.settled.lock().unwrap() = Some(total);
            }
        }
        let mut closed = life.closed.lock().unwrap();
        open.remove(&closed);
        add(&figures.checked, open.count());
        for known in [&*seen, &free, &memory, &recorded, &leased] {
            open.remove(known);
        }
        condensed.explain(life, &mut open);
        closed.add(&recorded);
        closed.add(&open);
        if let Some(place) = open.lowest() {
            self.note_missing(life, &open, place);
        }
        open.count()
    }

    fn note_missing(&self, life: &Life, open: &Bits, lowest: i64) {
        let what = format!(
            "{} of life {} from {} to {:?} (place {lowest}); {}; beside them {}",
            open.count(),
            life.key,
            life.value(lowest),
            open.highest().map(|place| life.value(place)),
            self.catalog,
            self.catalog.beside(life, lowest)
        );
        if std::env::var_os("EXPLAIN").is_some() {
            eprintln!("{}: missing {what}: {:?}", self.name, self.sequence.recent_history());
        }
        self.missing.borrow_mut().push(what);
    }

    /// The numbers in the leases of a life.
    fn leases(&self, life: &Life, leases: &[(i64, i64)]) -> Bits {
        let mut leased = Bits::default();
        for (first, count) in leases {
            let Some(place) = life.place(*first) else {
                self.wrong(format!("a lease at {first} is between the steps"));
                continue;
            };
            let twice = leased.insert_range(place, place + count);
            self.none(life, twice, "is in two leases");
        }
        leased
    }

    /// The numbers in the gaps of a life, as far as `limit`.
    fn gaps(&self, life: &Life, gaps: &[&Gap], seen: &Bits, limit: i64) -> Bits {
        let mut recorded = Bits::default();
        let closed = life.closed.lock().unwrap();
        for gap in gaps.iter().filter(|gap| gap.is_whole()) {
            let Gap { first, count, increment, ref reason, .. } = **gap;
            let step = increment / life.step;
            let is_even = step * life.step == increment && (step == 1 || self.sequence.uneven);
            let Some(place) = life.place(first).filter(|_| is_even && step > 0) else {
                self.wrong(format!("between the steps of its life: {gap:?}"));
                continue;
            };
            let end = place.saturating_add(count.saturating_mul(step)).min(limit);
            let mut here = Bits::default();
            here.insert_steps(place, end, step);
            let twice = recorded.insert_steps(place, end, step);
            // Only a crash, an alteration or a promotion writes off what may have been served.
            if reason == "discarded" {
                self.none(life, here.common(seen), "was seen, but is recorded as discarded");
            }
            if reason == "restored" && !self.promoted {
                self.none(
                    life,
                    here.lowest(),
                    "is recorded as restored, but no server was promoted",
                );
            }
            if let Some(at) = twice {
                let value = life.value(at);
                let has = |gap: &&&Gap| {
                    (gap.first.min(gap.last)..=gap.first.max(gap.last)).contains(&value)
                };
                let both: Vec<_> = gaps.iter().filter(has).collect();
                self.none(life, twice, &format!("is in two gaps: {both:?}"));
            }
            here.remove(&closed);
            add(&self.ledger.figures.gaps, u64::from(here.lowest().is_some()));
            here.remove(seen);
            add(&self.ledger.figures.gap_values, here.count());
        }
        recorded
    }

    fn none(&self, life: &Life, place: Option<i64>, what: &str) {
        if let Some(place) = place {
            self.wrong(format!(
                "{} {what}: {:?}",
                life.value(place),
                self.sequence.recent_history()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::figures::Figures;
    use super::*;

    fn gap(life: &Life, from: i64, to: i64, reason: &str) -> Gap {
        let (first, last) = (life.value(from), life.value(to - 1));
        let (epoch, increment) = (Some(life.key), life.increment);
        Gap { epoch, first, last, count: to - from, increment, reason: reason.into() }
    }

    /// How many numbers are missing, and what is wrong, of lives of which the last one begins at a place.
    fn missing(sequence: &Sequence, ledger: &Ledger, lives: &[Arc<Life>], gaps: Vec<Gap>) -> u64 {
        let new = lives.last().unwrap();
        let mut catalog = CatalogState::default();
        (catalog.base, catalog.increment, catalog.next_index) = (new.value(7), new.increment, 3);
        (catalog.begins_at, catalog.gaps) = (7, gaps);
        let (name, catalog, promoted, missing) = ("s", &catalog, false, RefCell::default());
        Audit { ledger, sequence, name, catalog, promoted, missing }.lives(lives)
    }

    /// A setval goes ahead, and its first numbers are skipped before any was served. A life over which it passes
    /// had lost a number before.
    #[test]
    fn a_gap_has_numbers_of_the_life_that_it_begins_in() {
        for increment in [1, -2] {
            let sequence = Sequence::new(0, "postgres", "s", SequenceKind::Wide, increment);
            let ledger = Ledger::new(Vec::new(), Arc::new(Figures::default()));
            // Each life begins beyond all others: rising sequences go back with the third, falling ones with the
            // second.
            let count = if increment > 0 { 4 } else { 3 };
            let lives: Vec<_> = (0..count).map(|_| ledger.begin_life(&sequence)).collect();
            lives.iter().for_each(|life| life.committed.store(true, SeqCst));
            let [.., passed, old, new] = lives.as_slice() else { unreachable!() };
            passed.seen.lock().unwrap().insert_range(0, 100);
            passed.seen.lock().unwrap().remove_range(50, 51);
            old.seen.lock().unwrap().insert_range(0, 100);
            new.seen.lock().unwrap().insert_range(7, 10);
            let way = (new.first - old.value(100)) / increment;
            for missing in [0, 2] {
                let gaps =
                    vec![gap(old, 100, 100 + way, "altered"), gap(new, 0, 7 - missing, "altered")];
                assert_eq!(self::missing(&sequence, &ledger, &lives, gaps), 1 + missing as u64);
                lives.iter().for_each(|life| *life.closed.lock().unwrap() = Bits::default());
            }
            assert_eq!(ledger.figures.findings(), [""; 0]);
        }
    }

    /// A crash lost more numbers than a jump is looked at, behind all that was seen. Then the life ended.
    #[test]
    fn a_long_gap_behind_all_that_was_seen_is_recorded() {
        let sequence = Sequence::new(0, "postgres", "s", SequenceKind::Wide, 1);
        let ledger = Ledger::new(Vec::new(), Arc::new(Figures::default()));
        let lives: Vec<_> = (0..3).map(|_| ledger.begin_life(&sequence)).collect();
        let [.., old, new] = lives.as_slice() else { unreachable!() };
        old.committed.store(true, SeqCst);
        old.seen.lock().unwrap().insert_range(0, 100);
        new.seen.lock().unwrap().insert_range(0, 10);
        let end = 100 + JUMP + 40_000;
        let gaps = vec![gap(old, 100, end, "crash"), gap(old, end, end + (1 << 40), "altered")];
        assert_eq!(missing(&sequence, &ledger, &lives, gaps), 0);
        assert_eq!(ledger.figures.findings(), [""; 0]);
    }
}
