//! Clean stops: everything is put back, and the catalog's books are held against what was seen.
//!
//! Each number below a position is seen, free, in a gap or in the memory of a server that crashed. What
//! is none of that must not exceed what statements with a lost result can have drawn since the last such
//! check; from then on it is closed, and so is what is in a gap: it must never come.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use postgres::Client;

use super::Torture;
use super::bits::Bits;
use super::book::{Book, Kind, Last, Life, Sequence};
use super::catalog::{Books, read};
use super::figures::add;
use crate::client::ClientExt;
use crate::cluster::Mode;

/// No sequence here can have so many numbers in memory.
const MOST: i64 = 1 << 30;

/// So many rows of ranges are litter.
const LITTER: usize = 5_000;

/// Stops the server while `meanwhile` goes on, starts it, and checks the books once everybody has left
/// and it has been stopped again.
pub fn stop_cleanly(torture: &Torture, mode: Mode, meanwhile: impl FnOnce()) {
    let first = life(torture);
    torture.cluster.stop(mode);
    torture.send_away();
    torture.cluster.start();
    meanwhile();
    torture.wait_until_empty();
    check(torture, vec![first]);
    torture.let_in();
}

/// Of this server, by what it reserves.
fn life(torture: &Torture) -> i64 {
    let mut client = torture.cluster.connect_when_up("postgres");
    client.one::<i64>("SELECT hilo_nextval('probe')");
    client.one(
        "SELECT incarnation FROM hilo.position p JOIN hilo.sequence s ON s.id = p.sequence WHERE s.name = 'probe'",
    )
}

/// Checks all books. `ended`: the lives of this server that came to a clean end since the last time.
fn check(torture: &Torture, mut ended: Vec<i64>) {
    ended.push(life(torture));
    torture.cluster.stop(Mode::Fast);
    torture.cluster.start();
    add(&torture.book.figures.reckonings, 1);
    for database in &torture.databases {
        let mut client = torture.cluster.connect(database);
        for sequence in torture.sequences_of(database) {
            audit(torture, sequence, &ended, &mut client);
        }
    }
}

/// The end.
pub fn settle_accounts(torture: &Torture) {
    torture.send_away();
    // What the last crash lost is recorded by the next reservation.
    draw_from_all(torture, 1);
    check(torture, Vec::new());
    // What is free comes again, and nothing that was seen does.
    draw_from_all(torture, 5_000);
}

pub fn draw_from_all(torture: &Torture, count: usize) {
    for database in &torture.databases {
        let mut client = torture.cluster.connect_when_up(database);
        for sequence in torture.sequences_of(database) {
            let count = if matches!(sequence.kind, Kind::Small(_)) { 1 } else { count };
            let ticket = torture.book.ticket(sequence);
            let sql =
                format!("SELECT hilo_nextval('{}') FROM generate_series(1, {count})", ticket.name);
            match client.query(&sql, &[]) {
                Ok(rows) => {
                    let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    torture.book.saw(sequence, &ticket, &mut Last::default(), &values, true);
                }
                Err(error) => {
                    let used_up =
                        error.as_db_error().is_some_and(|report| report.code().code() == "2200H");
                    if !used_up {
                        torture.book.figures.wrong(format!("{sql}: {error:?}"));
                    }
                }
            }
        }
    }
}

fn audit(torture: &Torture, sequence: &Sequence, ended: &[i64], client: &mut Client) {
    let book = &*torture.book;
    let wrong = |what: String| book.figures.wrong(format!("{}: {what}", sequence.database));
    let mut audited = Vec::new();
    match sequence.kind {
        Kind::Cycle(_) => return,
        Kind::Wide => {
            let name = sequence.name().0;
            // Where the creation of the next one failed there is none for now.
            match read(client, &name) {
                Some(books) => audited.push((name, books, sequence.lives())),
                None if sequence.is_there() => wrong(format!("{name} is not there")),
                None => {}
            }
        }
        Kind::Small(_) => {
            let (name, generation) = sequence.name();
            let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
            for number in 1..=generation {
                let name = format!("{stem}-{number}");
                if let (Some(books), Some(life)) = (read(client, &name), sequence.life(number)) {
                    audited.push((name, books, vec![life]));
                }
            }
        }
    }
    let mut open = 0;
    for (name, books, lives) in &audited {
        if let Some(life) = books.lives().find(|life| ended.contains(life)) {
            // Nobody was there to write it down: the next life of the server records it.
            add(&book.figures.left, 1);
            if !torture.scarce {
                wrong(format!(
                    "{name}: a clean stop has left something to the memory of life {life}: {books}"
                ));
            }
        }
        if books.rows() > LITTER {
            wrong(format!("{name}: {} rows in hilo.free_range", books.rows()));
        }
        let here = Audit { book, sequence, name, books, promoted: torture.promoted };
        open += here.lives(lives);
    }
    // What is open now is closed: the next time has its own lost statements.
    let lost = sequence.lost.swap(0, SeqCst);
    add(&book.figures.in_lost_statements, open.min(lost));
    if open > lost {
        add(&book.figures.unexplained, open - lost);
        wrong(format!(
            "{}: {open} numbers were neither seen nor recorded, and lost statements had at most {lost}: {:?}",
            sequence.name().0,
            sequence.lately()
        ));
    }
}

struct Audit<'a> {
    book: &'a Book,
    sequence: &'a Sequence,
    name: &'a str,
    books: &'a Books,
    promoted: bool,
}

impl Audit<'_> {
    fn wrong(&self, what: String) {
        self.book.figures.wrong(format!("{}: {what}", self.name));
    }

    /// How many numbers of these lives were neither seen nor recorded.
    fn lives(&self, lives: &[Arc<Life>]) -> u64 {
        let small = matches!(self.sequence.kind, Kind::Small(_));
        let key = |value: i64| if small { lives[0].key } else { self.sequence.key(value) };
        let by_key: HashMap<i64, &Life> = lives.iter().map(|life| (life.key, &**life)).collect();
        let current = key(self.books.base);
        if !by_key.contains_key(&current) {
            self.wrong(format!("{} is of no life", self.books.base));
            return 0;
        }
        let mut gaps: HashMap<i64, Vec<&(i64, i64, String)>> = HashMap::new();
        for gap in &self.books.gaps {
            let key = key(gap.0);
            if by_key.contains_key(&key) && gap.1 <= MOST {
                gaps.entry(key).or_default().push(gap);
            } else {
                self.wrong(format!("gap of {} at {} ({})", gap.1, gap.0, gap.2));
            }
        }
        let mut open = 0;
        for life in lives {
            let gaps = gaps.remove(&life.key).unwrap_or_default();
            let is_current = life.key == current;
            if let Some(settled) = life.settled.get() {
                let total: i64 = gaps.iter().map(|gap| gap.1).sum();
                if life.committed.load(SeqCst) && total != *settled {
                    self.wrong(format!(
                        "the gaps of a life that is over had {settled} numbers, and now {total}"
                    ));
                }
                continue;
            }
            open += self.life(life, &gaps, is_current);
        }
        open
    }

    fn life(&self, life: &Life, gaps: &[&(i64, i64, String)], is_current: bool) -> u64 {
        let figures = &self.book.figures;
        let seen = life.seen.lock().unwrap();
        let (mut free, mut memory, mut reserved) =
            (Bits::default(), Bits::default(), Bits::default());
        if is_current && !self.sequence.uneven {
            if self.books.base != life.first || self.books.increment != life.increment {
                self.wrong(format!("a life from {} on has base {}", life.first, self.books.base));
                return 0;
            }
            let twice;
            (free, twice) = self.books.free();
            (memory, reserved) = (self.books.in_memory(), self.books.reserved());
            add(&figures.free_values, free.count());
            self.none(life, twice, "is in two free ranges");
            self.none(life, seen.common(&free), "was seen, but is free to be served again");
            if !self.sequence.apart
                && let Some(furthest) = seen.highest()
                && reserved.highest().is_none_or(|reserved| furthest > reserved)
            {
                self.none(life, Some(furthest), "was seen, but is not yet reserved");
            }
        }
        // Of another increment: an altered sequence is not held against its gaps.
        if self.sequence.uneven {
            return 0;
        }
        let recorded = self.gaps(life, gaps, &seen);
        self.none(life, recorded.common(&free), "is in a gap, and free as well");
        self.none(life, recorded.common(&memory), "is in a gap, and lent to memory as well");
        if !life.committed.load(SeqCst) {
            return 0;
        }
        let mut open = Bits::default();
        if is_current {
            open = reserved;
        } else {
            let reach = seen.highest().max(recorded.highest()).map_or(0, |last| last + 1);
            open.insert_range(0, reach);
            if life.is_over() {
                let _ = life.settled.set(gaps.iter().map(|gap| gap.1).sum());
            }
        }
        let mut closed = life.closed.lock().unwrap();
        open.remove(&closed);
        add(&figures.checked, open.count());
        for known in [&*seen, &free, &memory, &recorded] {
            open.remove(known);
        }
        closed.add(&recorded);
        closed.add(&open);
        let count = open.count();
        if count > 0 && std::env::var_os("EXPLAIN").is_some() {
            eprintln!(
                "{}: {count} missing in life {} from {:?} to {:?}, base {} next {} {:?}",
                self.name,
                life.key,
                open.lowest(),
                open.highest(),
                self.books.base,
                self.books.next_index,
                self.sequence.lately()
            );
        }
        count
    }

    /// What the gaps of a life hold.
    fn gaps(&self, life: &Life, gaps: &[&(i64, i64, String)], seen: &Bits) -> Bits {
        let mut recorded = Bits::default();
        let closed = life.closed.lock().unwrap();
        for (first, count, reason) in gaps {
            let Some(place) = life.place(*first) else {
                self.wrong(format!("gap at {first} ({reason}) is between the steps"));
                continue;
            };
            let mut here = Bits::default();
            let mut twice = None;
            for (first, end) in self.books.steps_from(place, *count) {
                here.insert_range(first, end);
                twice = twice.or(recorded.insert_range(first, end));
            }
            // A crash or an alteration writes off what may have been served; nothing else does.
            if reason == "discarded" && !self.promoted {
                self.none(life, here.common(seen), "was seen, but is recorded as discarded");
            }
            self.none(life, twice, "is in two gaps");
            here.remove(&closed);
            add(&self.book.figures.gaps, u64::from(here.lowest().is_some()));
            here.remove(seen);
            add(&self.book.figures.gap_values, here.count());
        }
        recorded
    }

    fn none(&self, life: &Life, place: Option<i64>, what: &str) {
        if let Some(place) = place {
            self.wrong(format!("{} {what}: {:?}", life.value(place), self.sequence.lately()));
        }
    }
}
