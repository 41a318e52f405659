//! The statements that each Hi/Lo mapper sends to the server, and which values it then takes for
//! its own.

use std::ops::Range;

use hilo_tests::{Client, ClientExt};

/// Each but `core`, by the name under which hilo knows it.
pub const MAPPERS: [&str; 15] = [
    "efcore",
    "doctrine",
    "hibernate",
    "hibernate-pooled-lo",
    "hibernate-pooled-old",
    "hibernate-hilo",
    "hibernate-legacy-hilo",
    "hibernate-table",
    "hibernate-table-pooled-lo",
    "hibernate-table-hilo",
    "hibernate-table-old",
    "nhibernate",
    "nhibernate-pooled",
    "nhibernate-table",
    "marten",
];

/// Whether it counts blocks from 0, with values from 0 on.
pub fn counts_from_zero(mapper: &str) -> bool {
    ["hibernate-legacy-hilo", "nhibernate"].contains(&mapper)
}

/// The values of the next block of `size` that a mapper takes, of the sequence or segment `name`.
pub fn next_block(client: &mut Client, mapper: &str, name: &str, size: i64) -> Range<i64> {
    let pooled = |last: i64| last - size + 1..last + 1;
    let old = |next: i64| next - size..next;
    let counted = |hi: i64| (hi - 1) * size + 1..hi * size + 1;
    match mapper {
        "efcore" => {
            let low = client.one(&format!("SELECT nextval('\"{name}\"')"));
            low..low + size
        }
        "doctrine" | "hibernate-pooled-lo" => {
            let low = client.one(&format!("SELECT NEXTVAL('{name}')"));
            low..low + size
        }
        "hibernate" => pooled(client.one(&format!("select nextval('{name}')"))),
        "hibernate-pooled-old" | "nhibernate-pooled" => {
            old(client.one(&format!("select nextval ('{name}')")))
        }
        "hibernate-hilo" => counted(client.one(&format!("select nextval ('{name}')"))),
        "hibernate-legacy-hilo" => {
            let hi: i64 = client.one(&format!("select nextval ('{name}')"));
            hi * size..(hi + 1) * size
        }
        "nhibernate" => {
            let hi = next_of_unique_key(client);
            hi * size..(hi + 1) * size
        }
        "hibernate-table" => pooled(next_of_segment(client, name, size) + 1),
        "hibernate-table-pooled-lo" => {
            let low = next_of_segment(client, name, size) + 1;
            low..low + size
        }
        "hibernate-table-hilo" => counted(next_of_segment(client, name, 1) + 1),
        "hibernate-table-old" | "nhibernate-table" => old(next_of_segment(client, name, size)),
        "marten" => {
            let sql = "SELECT mt_get_next_hi($1)";
            let hi: i32 = client.query_one(sql, &[&name]).expect("Marten gets a hi").get(0);
            i64::from(hi) * size + 1..(i64::from(hi) + 1) * size + 1
        }
        _ => panic!("{mapper}"),
    }
}

/// The table generator of Hibernate and NHibernate, with the transaction that it opens for itself.
fn next_of_segment(client: &mut Client, segment: &str, step: i64) -> i64 {
    let mut work = client.transaction().expect("a transaction begins");
    loop {
        let select = "select tbl.next_val from hibernate_sequences tbl \
             where tbl.sequence_name=$1 for update of tbl";
        let value: i64 = work.query_one(select, &[&segment]).expect("the segment is there").get(0);
        let update =
            "update hibernate_sequences set next_val=$1  where next_val=$2 and sequence_name=$3";
        if work.execute(update, &[&(value + step), &value, &segment]).expect("it is updated") == 1 {
            work.commit().expect("it commits");
            return value;
        }
    }
}

fn next_of_unique_key(client: &mut Client) -> i64 {
    let mut work = client.transaction().expect("a transaction begins");
    loop {
        let select = "select next_hi from hibernate_unique_key for update";
        let value: i64 = work.query_one(select, &[]).expect("there is a row").get(0);
        let update = "update hibernate_unique_key set next_hi = $1 where next_hi = $2";
        if work.execute(update, &[&(value + 1), &value]).expect("it is updated") == 1 {
            work.commit().expect("it commits");
            return value;
        }
    }
}
