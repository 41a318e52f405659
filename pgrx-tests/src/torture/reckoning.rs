//! The end: everything put back, and the catalog's books held against what was seen.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;

use postgres::Client;

use super::Torture;
use super::bits::Bits;
use super::book::{Book, Kind, Last, Life, Sequence};
use super::figures::add;
use crate::cluster::Mode;

/// No sequence here can have so many numbers in memory.
const MOST: i64 = 1 << 30;

/// What the catalog says of one sequence.
struct Books {
    base: i64,
    next_index: i64,
    increment: i64,
    free: Vec<(i64, i64)>,
    /// First value, count, reason.
    gaps: Vec<(i64, i64, String)>,
}

pub fn settle_accounts(torture: &Torture) {
    // What the last crash lost is recorded by the next reservation.
    draw_from_all(torture, 1);
    torture.cluster.stop(Mode::Fast);
    torture.cluster.start();
    for database in torture.databases {
        let mut client = torture.cluster.connect(database);
        for sequence in torture.sequences_of(database) {
            audit(&torture.book, sequence, &mut client);
        }
    }
    // What is free comes again, and nothing that was seen does.
    draw_from_all(torture, 5_000);
}

fn draw_from_all(torture: &Torture, count: usize) {
    for database in torture.databases {
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

fn audit(book: &Book, sequence: &Sequence, client: &mut Client) {
    let mut open = 0;
    match sequence.kind {
        Kind::Cycle(_) => return,
        Kind::Wide => {
            let name = sequence.name().0;
            let Some(books) = read(client, &name) else {
                book.figures.wrong(format!("{name} is not there"));
                return;
            };
            open += audit_lives(book, sequence, &name, &books, &sequence.lives());
        }
        Kind::Small(_) => {
            let (name, generation) = sequence.name();
            let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
            for number in 1..=generation {
                let name = format!("{stem}-{number}");
                let (Some(books), Some(life)) = (read(client, &name), sequence.life(number)) else {
                    continue;
                };
                open += audit_lives(book, sequence, &name, &books, &[life]);
            }
        }
    }
    let lost = sequence.lost.load(SeqCst);
    add(&book.figures.in_lost_statements, open.min(lost));
    if open > lost {
        add(&book.figures.unexplained, open - lost);
        book.figures.wrong(format!(
            "{}: {open} numbers were neither seen nor recorded, and lost statements had at most {lost}",
            sequence.name().0
        ));
    }
}

fn read(client: &mut Client, name: &str) -> Option<Books> {
    let row = client
        .query_opt(
            "SELECT s.id, s.increment, p.epoch, p.base, p.next_index, p.settled_index, p.incarnation
             FROM hilo.sequence s JOIN hilo.position p ON p.sequence = s.id WHERE s.name = $1::text",
            &[&name],
        )
        .expect("the catalog can be read")?;
    let (id, epoch): (i64, i64) = (row.get(0), row.get(2));
    let free = client
        .query(
            "SELECT first_index, end_index FROM hilo.free_range WHERE sequence = $1 AND epoch = $2 ORDER BY 1",
            &[&id, &epoch],
        )
        .expect("the catalog can be read");
    let gaps = client
        .query("SELECT first_value, count, reason FROM hilo.gap WHERE sequence = $1 ORDER BY recorded_at", &[&id])
        .expect("the catalog can be read");
    Some(Books {
        increment: row.get(1),
        base: row.get(3),
        next_index: row.get(4),
        free: free.iter().map(|row| (row.get(0), row.get(1))).collect(),
        gaps: gaps.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
    })
}

/// How many numbers of these lives were neither seen nor recorded.
fn audit_lives(
    book: &Book,
    sequence: &Sequence,
    name: &str,
    books: &Books,
    lives: &[std::sync::Arc<Life>],
) -> u64 {
    let small = matches!(sequence.kind, Kind::Small(_));
    let key = |value: i64| if small { lives[0].key } else { sequence.key(value) };
    let lives: HashMap<i64, &Life> = lives.iter().map(|life| (life.key, &**life)).collect();
    let mut recorded: HashMap<i64, Bits> = HashMap::new();
    let wrong = |what: String| book.figures.wrong(format!("{name}: {what}"));
    let value = |index: i64| books.base + index * books.increment;

    let current = key(books.base);
    let Some(life) = lives.get(&current) else {
        wrong(format!("{} is of no life", books.base));
        return 0;
    };
    for &(first, end) in &books.free {
        add(&book.figures.free_values, (end - first) as u64);
        let bits = recorded.entry(current).or_default();
        let seen = life.seen.lock().unwrap();
        for value in (first..end).map(value) {
            if seen.contains(value) {
                wrong(format!("{value} was seen, but is free to be served again"));
            }
            if !bits.insert(value) {
                wrong(format!("{value} is in two free ranges"));
            }
        }
    }
    let sign = books.increment.signum();
    if let Some((low, high)) = life.seen.lock().unwrap().bounds() {
        let furthest = if sign > 0 { high } else { low };
        if furthest * sign > (value(books.next_index) - books.increment) * sign {
            wrong(format!("{furthest} was seen, but is not yet reserved"));
        }
    }
    // Of another increment: an altered sequence is not held against its gaps.
    if sequence.uneven {
        return 0;
    }
    for (first, count, reason) in &books.gaps {
        add(&book.figures.gaps, 1);
        let key = key(*first);
        let Some(life) = lives.get(&key) else {
            wrong(format!("gap at {first} is of no life"));
            continue;
        };
        if *count > MOST {
            wrong(format!("gap of {count} at {first} ({reason})"));
            continue;
        }
        let bits = recorded.entry(key).or_default();
        let seen = life.seen.lock().unwrap();
        let mut unseen = 0;
        for value in (0..*count).map(|n| first + n * books.increment) {
            if !bits.insert(value) {
                wrong(format!("{value} of the gap at {first} ({reason}) is recorded twice"));
            }
            unseen += u64::from(!seen.contains(value));
        }
        add(&book.figures.gap_values, unseen);
    }
    let mut open = 0;
    for life in lives.values().filter(|life| life.committed.load(SeqCst)) {
        let nothing = Bits::default();
        let recorded = recorded.get(&life.key).unwrap_or(&nothing);
        let seen = life.seen.lock().unwrap();
        let reserved =
            (life.key == current && books.next_index > 0).then(|| value(books.next_index - 1));
        let bounds = [seen.bounds(), recorded.bounds(), reserved.map(|value| (value, value))];
        let reach =
            bounds.iter().flatten().map(|&(low, high)| if sign > 0 { high } else { -low }).max();
        let Some(reach) = reach else { continue };
        let count = (reach - life.first * sign) / books.increment.abs() + 1;
        add(&book.figures.checked, count.max(0) as u64);
        let value = |n| life.first + n * books.increment;
        let missing = |n: &i64| !seen.contains(value(*n)) && !recorded.contains(value(*n));
        let here = (0..count).filter(missing).count() as u64;
        if here > 10_000 && std::env::var_os("EXPLAIN").is_some() {
            let first = (0..count).find(missing).unwrap_or_default();
            let run = (first..count).take_while(missing).count();
            eprintln!(
                "{name}: {here} of {count} missing in life {} (current {current}), the first {run} from {first} on, base {} {} next {} seen {:?} recorded {:?} reserved {reserved:?} {:?}",
                life.key,
                books.base,
                books.increment,
                books.next_index,
                seen.bounds(),
                recorded.bounds(),
                sequence.lately()
            );
        }
        open += here;
    }
    open
}
