//! Clients of one server: they draw in several ways, and connect again when it is back.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use postgres::{Client, Error};

use super::Server;
use super::book::{Book, CORE, MOODY, TABLE};
use crate::figures::add;

/// The values of a block of the mapper's.
const BLOCK: i64 = 10;

/// A sequence of Postgres and the table of Marten, each with a sequence of hilo's beside it. Then a
/// counter that refuses more values than its mood allows, and three that refuse always.
pub const COUNTERS: &str = "
    CREATE SEQUENCE notes_seq;
    SELECT hilo_attach('notes', 'notes_seq');
    CREATE TABLE mt_hilo (entity_name varchar PRIMARY KEY, hi_value bigint DEFAULT 0);
    CREATE FUNCTION mt_get_next_hi(entity varchar) RETURNS integer LANGUAGE sql AS $$
        INSERT INTO mt_hilo AS t VALUES (entity, 0)
            ON CONFLICT (entity_name) DO UPDATE SET hi_value = t.hi_value + 1
         RETURNING hi_value::integer $$;
    SELECT hilo_create('Order', block_size => 10);
    SELECT hilo_attach('Order', 'mt_hilo', 'marten', 'Order');
    CREATE TABLE mood (most bigint, next bigint);
    INSERT INTO mood VALUES (9223372036854775807, 1);
    CREATE FUNCTION check_mood(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        IF n > (SELECT most FROM public.mood) THEN
            RAISE 'the counter does not give % values', n;
        END IF;
        RETURN n;
    END $$;
    CREATE FUNCTION give(n bigint) RETURNS TABLE (first bigint, last bigint) LANGUAGE sql AS $$
        UPDATE public.mood SET next = next + public.check_mood(n) RETURNING next - n, next - 1 $$;
    SELECT hilo_create('moody', source => 'SELECT * FROM public.give($2)');
    CREATE SEQUENCE news;
    CREATE FUNCTION new_line(name text) RETURNS text LANGUAGE sql AS $$
        SELECT hilo_create(name, source => 'SELECT m * 1000000 + 1, m * 1000000 + least($2, 1000000)
            FROM public.check_mood($2), nextval(''public.news'') AS m') $$;
    SELECT hilo_create('never ' || n, source => format('SELECT %s / 0::bigint, $2', n))
      FROM generate_series(1, 3) n";

/// Draws until the server's writers are to end.
pub fn run(server: &Server, book: &Book, batch: i64, mut rng: Rng) {
    let is_over = || book.over.load(SeqCst) || server.ended.load(SeqCst);
    while !is_over() {
        let Ok(mut client) = server.cluster.try_connect("postgres", "postgres") else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        add(&book.figures.sessions, 1);
        while !is_over() {
            if !step(server, book, &mut client, batch, &mut rng) {
                break;
            }
            thread::sleep(Duration::from_micros(rng.u64(..4_000)));
        }
    }
}

/// One statement; returns whether the connection lasts.
fn step(server: &Server, book: &Book, client: &mut Client, batch: i64, rng: &mut Rng) -> bool {
    if server.has_counters && rng.u32(..100) == 0 {
        return try_in_vain(book, client, rng);
    }
    let lines = if server.has_counters { book.lines.len() } else { CORE };
    let number = rng.usize(..lines);
    let count = 1 + rng.i64(0..batch) * rng.i64(0..10) / 10;
    let (share, name) = (&server.share[number], book.lines[number].name);
    add(&book.figures.statements, 1);
    let since = Instant::now();
    let (drawn, count) = match (number, rng.u32(..20)) {
        (CORE, ..10) => (draw(client, &format!("nextval('{name}_seq')"), count), count),
        (TABLE, ..10) => (next_block(client), BLOCK),
        (MOODY, ..2) => (range(client, name, 50 * count), 50 * count),
        (_, 19) => (lease(client, name, count), count),
        (_, 18) => {
            add(&book.figures.transactions_rolled_back, 1);
            (draw_and_roll_back(client, name, count), count)
        }
        _ => (draw(client, &format!("hilo_nextval('{name}')"), count), count),
    };
    book.figures.took(name, since.elapsed());
    match drawn {
        Ok(values) => {
            book.saw(number, share, values.into_iter());
            true
        }
        Err(error) => {
            book.note_lost(share, count as u64);
            if let Some(report) = error.as_db_error() {
                book.figures.note_refusal(report.code().code());
            }
            // A failure inside a transaction leaves that open.
            !client.is_closed() && client.batch_execute("ROLLBACK").is_ok()
        }
    }
}

pub fn draw(client: &mut Client, call: &str, count: i64) -> Result<Vec<i64>, Error> {
    let sql = format!("SELECT {call} FROM generate_series(1, {count})");
    Ok(client.query(&sql, &[])?.iter().map(|row| row.get(0)).collect())
}

fn range(client: &mut Client, name: &str, count: i64) -> Result<Vec<i64>, Error> {
    let row = client
        .query_one("SELECT first, last FROM hilo_nextrange($1::text, $2)", &[&name, &count])?;
    Ok((row.get(0)..=row.get(1)).collect())
}

/// Draws where the source refuses always.
fn try_in_vain(book: &Book, client: &mut Client, rng: &mut Rng) -> bool {
    let name = format!("never {}", rng.u32(1..=3));
    let since = Instant::now();
    let drawn = draw(client, &format!("hilo_nextval('{name}')"), 1);
    book.figures.took(&name, since.elapsed());
    match drawn {
        Ok(values) => book.figures.wrong(format!("{name}: {values:?} from a source that has none")),
        Err(error) => {
            if let Some(report) = error.as_db_error() {
                book.figures.note_refusal(report.code().code());
            }
        }
    }
    !client.is_closed()
}

fn draw_and_roll_back(client: &mut Client, name: &str, count: i64) -> Result<Vec<i64>, Error> {
    client.batch_execute("BEGIN")?;
    let values = draw(client, &format!("hilo_nextval('{name}')"), count)?;
    client.batch_execute("ROLLBACK")?;
    Ok(values)
}

/// The holder of a lease has all its values, and keeps them.
fn lease(client: &mut Client, name: &str, count: i64) -> Result<Vec<i64>, Error> {
    let sql =
        format!("SELECT first, increment, count FROM hilo_lease('{name}', {count}, 'torture')");
    let row = client.query_one(&sql, &[])?;
    let (first, increment, count): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    Ok((0..count).map(|at| first + at * increment).collect())
}

/// The statements of Marten, and the values that it then takes for its own.
fn next_block(client: &mut Client) -> Result<Vec<i64>, Error> {
    let row = client.query_one("SELECT mt_get_next_hi($1)", &[&"Order"])?;
    let hi = i64::from(row.get::<_, i32>(0));
    Ok((hi * BLOCK + 1..=(hi + 1) * BLOCK).collect())
}
