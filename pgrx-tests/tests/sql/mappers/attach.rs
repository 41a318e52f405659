//! hilo takes blocks from a mapper's own counter, as the mapper does.

use hilo_tests::{ClientExt, Cluster, assert_unique};

use crate::mappers::emulated::{MAPPERS, next_block};

const SIZE: i64 = 20;

/// The counter that a mapper makes for itself, and how hilo names it.
fn counter(mapper: &str) -> (&'static str, &'static str) {
    match mapper {
        "marten" => (
            "CREATE TABLE mt_hilo (entity_name varchar PRIMARY KEY, hi_value bigint DEFAULT 0);
             CREATE FUNCTION mt_get_next_hi(entity varchar) RETURNS integer LANGUAGE sql AS $$
                 INSERT INTO mt_hilo AS t VALUES (entity, 0)
                     ON CONFLICT (entity_name) DO UPDATE SET hi_value = t.hi_value + 1
                  RETURNING hi_value::integer $$",
            "mt_hilo",
        ),
        "nhibernate" => (
            "CREATE TABLE hibernate_unique_key (next_hi bigint);
             INSERT INTO hibernate_unique_key VALUES (1)",
            "hibernate_unique_key",
        ),
        table if table.contains("table") => (
            "CREATE TABLE hibernate_sequences (sequence_name varchar PRIMARY KEY, next_val bigint);
             INSERT INTO hibernate_sequences VALUES ('orders', 1)",
            "hibernate_sequences",
        ),
        hi if hi.ends_with("hilo") => ("CREATE SEQUENCE orders", "orders"),
        _ => ("CREATE SEQUENCE orders INCREMENT BY 20", "orders"),
    }
}

/// The mapper and hilo take turns; nothing comes twice, and hilo gets what it wants.
#[test]
fn the_source_of_each_mapper_takes_blocks_as_the_mapper_does() {
    let cluster = Cluster::with_hilo();
    for mapper in MAPPERS {
        let mut client = cluster.connect("postgres");
        let (counter, relation) = counter(mapper);
        client.run(&format!("CREATE SCHEMA \"{mapper}\"; SET search_path = '{mapper}', public"));
        client.run(counter);
        let source: String = client
            .one(&format!("SELECT hilo.source_of('{relation}', '{mapper}', 'orders', {SIZE})"));
        client.run(&format!("PREPARE source (text, bigint, uuid) AS {source}"));
        let mut seen = Vec::new();
        for wanted in [1, 45, 20, 100] {
            let block = next_block(&mut client, mapper, "orders", SIZE);
            seen.extend(block.filter(|value| *value > 0));
            let rows = client.query(&format!("EXECUTE source ('orders', {wanted}, NULL)"), &[]);
            let rows = rows.unwrap_or_else(|error| panic!("{mapper}: {error}"));
            let before = seen.len() as i64;
            for row in rows {
                seen.extend(row.get::<_, i64>(0)..=row.get::<_, i64>(1));
            }
            assert!(seen.len() as i64 - before >= wanted, "{mapper}: {wanted}");
        }
        assert_unique(mapper, &seen);
    }
    cluster.finish();
}
