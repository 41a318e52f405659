//! Whether each number has an owner, and one only, by the books of all servers.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use postgres::{Client, Row};

use super::Server;
use super::book::{Book, CORE, Line, MOODY, TABLE};
use crate::bits::Bits;
use crate::figures::add;
use hilo_tests::{ClientExt, LONG, Mode, came_true};

/// The catalog of one server about a sequence.
#[derive(Default)]
pub struct Books {
    /// To be served there, and not in memory.
    pub free: Bits,
    /// The ranges that memory has, or a killed server's had.
    memory: Bits,
    gaps: Bits,
    /// Where gaps lie that stand for several, between which are other numbers; and how many.
    scattered: Bits,
    scattered_count: u64,
    leases: Bits,
    /// The place behind the last that was reserved of its own numbers.
    end: i64,
    /// The ranges that its source has brought.
    received: u64,
}

/// All servers come back, also those that were retired, and say what they have. Then the numbers of
/// all are put together.
pub fn audit(book: &Book, running: &[Arc<Server>], retired: &[Arc<Server>]) {
    let servers: Vec<&Arc<Server>> = running.iter().chain(retired).collect();
    for server in &servers {
        if !server.cluster.is_running() {
            server.cluster.start();
        }
    }
    for server in &servers {
        draw_one_each(book, server);
    }
    // From now on no number goes from one to another.
    servers.iter().filter_map(|server| server.link.as_ref()).for_each(|link| link.freeze(true));
    for server in &servers {
        server.cluster.restart();
    }
    add(&book.figures.audits, 1);
    for (number, line) in book.lines.iter().enumerate() {
        let own: Vec<&Arc<Server>> = match number {
            CORE.. => servers.iter().copied().filter(|server| server.has_counters).collect(),
            _ => servers.clone(),
        };
        let books: Vec<Books> = own.iter().map(|server| read(line, server)).collect();
        check_each(book, number, &own, &books);
        let end = match number {
            CORE => continue,
            TABLE => count_blocks(&mut own[0].cluster.connect("postgres")),
            MOODY => own[0].cluster.connect("postgres").one::<i64>("SELECT next - 1 FROM mood"),
            _ => books[0].end,
        };
        check_all(book, number, &servers, &books, end);
    }
    for server in servers {
        server.cluster.stop(Mode::Fast);
        let recoveries = server.cluster.log_count("automatic recovery in progress");
        book.figures.recovered(recoveries);
        if let Some(link) = &server.link {
            link.freeze(false);
        }
    }
}

/// A server that was killed learns of what it has lost when a sequence is used again.
fn draw_one_each(book: &Book, server: &Server) {
    for (number, line) in book.lines.iter().enumerate() {
        if number >= CORE && !server.has_counters {
            continue;
        }
        let sql = format!("SELECT hilo_nextval('{}')", line.name);
        let drawn = came_true(LONG, || {
            let mut client = server.cluster.connect_when_up("postgres");
            let Ok(row) = client.query_one(&sql, &[]) else {
                book.note_lost(&server.share[number], 1);
                return false;
            };
            book.saw(number, &server.share[number], std::iter::once(row.get(0)));
            true
        });
        if !drawn {
            book.figures.wrong(format!("{} on server {} has ended", line.name, server.number));
        }
    }
}

/// The place behind the last block of the mapper's table. hilo leaves the first two of a fresh
/// counter, and counts them as lost.
fn count_blocks(client: &mut Client) -> i64 {
    10 * (1 + client.one::<i64>("SELECT max(hi_value) FROM mt_hilo"))
}

pub fn read(line: &Line, server: &Server) -> Books {
    let mut client = server.cluster.connect_when_up("postgres");
    let mut books = Books::default();
    let name = line.name;
    let position = format!(
        "FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id WHERE s.name = '{name}'"
    );
    let row = client
        .query_one(
            &format!("SELECT p.base, p.settled_index, p.next_index, p.incarnation <> 0 {position}"),
            &[],
        )
        .expect("there is a position");
    let (base, settled, next): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let shift = line.place(base).expect("the base is a value");
    books.end = next + shift;
    if row.get(3) {
        books.memory.insert_range(settled + shift, next + shift);
    }
    let ranges = format!(
        "SELECT f.first_index, f.end_index, f.incarnation <> 0 FROM _hilo.hilo_free_range f
           JOIN (SELECT s.id, p.epoch, p.node {position}) q
             ON q.id = f.sequence AND q.epoch = f.epoch AND q.node = f.node"
    );
    for row in client.query(&ranges, &[]).expect("the catalog can be read") {
        let of = if row.get(2) { &mut books.memory } else { &mut books.free };
        of.insert_range(row.get::<_, i64>(0) + shift, row.get::<_, i64>(1) + shift);
    }
    let places = |row: &Row| {
        let (first, last) = (line.place(row.get(0)), line.place(row.get(1)));
        let (Some(first), Some(last)) = (first, last) else {
            panic!("{name} on server {}: a range is off the grid", server.number)
        };
        (first, last + 1)
    };
    let of_view = |view| format!("SELECT first, last, count FROM {view} WHERE name = '{name}'");
    for row in client.query(&of_view("hilo_gaps"), &[]).expect("gaps can be read") {
        let ((first, end), count) = (places(&row), row.get::<_, i64>(2));
        if count == end - first {
            books.gaps.insert_range(first, end);
        } else {
            books.scattered.insert_range(first, end);
            books.scattered_count += count as u64;
        }
    }
    for row in client.query(&of_view("hilo_leases"), &[]).expect("leases can be read") {
        let (first, end) = places(&row);
        books.leases.insert_range(first, end);
    }
    let received = format!(
        "SELECT COALESCE(sum(received), 0)::int8 FROM hilo_stat_sources WHERE name = '{name}'"
    );
    books.received = client.one::<i64>(&received) as u64;
    books
}

/// A value that is to be served has not been served, is in no gap, and is to be served by one
/// server only.
fn check_each(book: &Book, number: usize, servers: &[&Arc<Server>], books: &[Books]) {
    let line = &book.lines[number];
    let seen = line.seen.lock().unwrap();
    let shared = line.shared.lock().unwrap();
    let none = |server: &Server, both: Bits, what: &str| {
        if let Some(place) = both.lowest() {
            let value = line.start + place * line.increment;
            let text = format!("{}: {value} {what}, server {}", line.name, server.number);
            book.figures.wrong(text);
        }
    };
    // The numbers that two may hold are left out, and as many as one request may have brought both.
    let none_but_shared = |server: &Server, mut both: Bits, what: &str| {
        both.remove(&shared);
        if both.count() > line.shared_request.load(SeqCst) {
            none(server, both, what);
        }
    };
    let mut all = Bits::default();
    for (server, books) in servers.iter().zip(books) {
        add(&book.figures.free_values, books.free.count());
        add(&book.figures.gap_values, books.gaps.count());
        let here = server.share[number].seen.lock().unwrap();
        none(server, here.both(&books.free), "was seen here, and is free");
        none(server, books.gaps.both(&books.free), "is in a gap, and is free");
        none_but_shared(server, seen.both(&books.free), "was seen, and is free");
        none_but_shared(server, all.both(&books.free), "is free on two servers");
        all.add(&books.free);
        let is_alone = !server.is_copied.load(SeqCst) && server.link.is_some();
        if number >= CORE || !is_alone {
            continue;
        }
        // All that such a server has had came from its source.
        let mut known = Bits::default();
        let share = &server.share[number];
        for part in [&here, &books.free, &books.memory, &books.gaps, &books.leases] {
            known.add(part);
        }
        let known = known.count() + books.scattered_count;
        let missing = books.received.saturating_sub(known);
        add(&book.figures.checked, books.received);
        if missing > share.lost.load(SeqCst) {
            let of =
                format!("{missing} of {} numbers that server {}", books.received, server.number);
            book.figures.wrong(format!("{}: {of} got have no owner", line.name));
        }
    }
}

/// Each number that the centre has given out is somewhere.
fn check_all(book: &Book, number: usize, servers: &[&Arc<Server>], books: &[Books], end: i64) {
    let line = &book.lines[number];
    let mut open = Bits::default();
    open.insert_range(0, end);
    add(&book.figures.checked, open.count());
    open.remove(&line.seen.lock().unwrap());
    for books in books {
        for part in [&books.free, &books.memory, &books.gaps, &books.leases] {
            open.remove(part);
        }
    }
    let before = open.count();
    books.iter().for_each(|books| open.remove(&books.scattered));
    let (hidden, scattered) =
        (before - open.count(), books.iter().map(|books| books.scattered_count).sum::<u64>());
    if hidden > scattered {
        let text = format!("{}: {hidden} numbers in gaps of {scattered}", line.name);
        book.figures.wrong(text);
    }
    let mut lost: u64 = servers.iter().map(|server| server.share[number].lost.load(SeqCst)).sum();
    if number == TABLE {
        lost += 20;
    }
    let count = open.count();
    add(&book.figures.in_lost_statements, count.min(lost));
    if count > lost {
        add(&book.figures.unexplained, count - lost);
        let first = open.lowest().map(|place| line.start + place * line.increment);
        let text = format!("{}: {count} numbers without an owner, from {first:?}", line.name);
        book.figures.wrong(text);
    }
}
