//! Checks that account for every number of a sequence.

use postgres::Client;

use crate::client::ClientExt;

/// Fails the test if a value occurs more than once.
#[track_caller]
pub fn assert_unique(what: &str, values: &[i64]) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let twice: Vec<i64> =
        sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    let shown = &twice[..twice.len().min(20)];
    assert!(twice.is_empty(), "{what}: {} values twice: {shown:?} …", twice.len());
}

/// How many numbers of a sequence this node has reserved that are not free.
pub fn taken_count(client: &mut Client, name: &str) -> i64 {
    let row = row_of(name);
    client.one(&format!(
        "SELECT next_index - (SELECT coalesce(sum(end_index - first_index), 0)::bigint {})
           FROM _hilo.hilo_position WHERE sequence = {row} AND node = _hilo.hilo_node_id()",
        free(&row)
    ))
}

/// Writes `count` free ranges of the sequence with this id directly into the catalog. The first begins at
/// `first`; each has `length` indexes and is followed by a hole of the same size.
pub fn write_free_ranges(client: &mut Client, id: &str, first: i64, length: i64, count: i64) {
    let lent: bool = client.one(
        "SELECT EXISTS (SELECT FROM pg_attribute
                         WHERE attrelid = '_hilo.hilo_free_range'::regclass AND attname = 'incarnation')",
    );
    let (column, value) = if lent { (", incarnation", ", 0") } else { ("", "") };
    client.run(&format!(
        "ALTER TABLE _hilo.hilo_free_range DISABLE TRIGGER ALL;
         INSERT INTO _hilo.hilo_free_range (sequence, node, epoch, first_index, end_index{column})
         SELECT s.id, 0, coalesce(p.epoch, 0), n, n + {length}{value}
           FROM (SELECT ({id})::bigint AS id) s
           LEFT JOIN _hilo.hilo_position p ON p.sequence = s.id
          CROSS JOIN generate_series({first}, {first} + ({count} - 1) * 2 * {length}, 2 * {length}) AS n",
    ));
}

fn row_of(name: &str) -> String {
    format!("(SELECT id FROM _hilo.hilo_definition WHERE name = '{name}')")
}

/// The free ranges of the sequence `row`, without those that are lent to memory: their rows name the life of
/// the server that has them.
fn free(row: &str) -> String {
    format!(
        "FROM _hilo.hilo_free_range AS f
          WHERE sequence = {row} AND node = _hilo.hilo_node_id()
            AND epoch = (SELECT epoch FROM _hilo.hilo_position
                          WHERE sequence = {row} AND node = _hilo.hilo_node_id())
            AND coalesce((to_jsonb(f) ->> 'incarnation')::bigint, 0) = 0"
    )
}

/// Fails the test unless every reserved number of this node was seen, is free, or is recorded as a
/// gap, and only one of these. The sequence starts at 1 and rises by 1.
///
/// The server's memory must hold nothing of the sequence: it has been restarted and no session has drawn since.
#[track_caller]
pub fn assert_accounted(client: &mut Client, name: &str, seen: &[i64]) {
    assert_unique(name, seen);
    let row = row_of(name);
    let reserved: i64 = client.one(&format!(
        "SELECT next_index FROM _hilo.hilo_position WHERE sequence = {row} AND node = _hilo.hilo_node_id()"
    ));
    let mut ranges: Vec<(i64, i64, &str)> = Vec::new();
    ranges.extend(seen.iter().map(|&value| (value - 1, value, "seen")));
    let free = format!("SELECT first_index, end_index {}", free(&row));
    let gaps = format!(
        "SELECT first_value - 1, last_value FROM _hilo.hilo_gap
          WHERE sequence = {row} AND node = _hilo.hilo_node_id()"
    );
    for (kind, sql) in [("free", free), ("gap", gaps)] {
        let rows = client.query(&sql, &[]).expect("the catalog can be read");
        ranges.extend(rows.iter().map(|row| (row.get(0), row.get(1), kind)));
    }
    ranges.sort_unstable();
    let mut missing = Vec::new();
    let mut twice = Vec::new();
    let mut next = 0;
    for &(first, end, kind) in &ranges {
        if first > next {
            missing.push(next + 1..=first);
        }
        if first < next {
            twice.push((kind, first + 1..=end.min(next)));
        }
        next = next.max(end);
    }
    if next < reserved {
        missing.push(next + 1..=reserved);
    }
    assert!(
        missing.is_empty() && twice.is_empty() && next == reserved,
        "{name}, of {reserved} numbers up to {next}: missing {missing:?}, accounted twice {twice:?}"
    );
}
