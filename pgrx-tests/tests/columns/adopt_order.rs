//! The order of values across sessions, which a sequence of core's with CACHE 1 has, outlasts the move to hilo.

use hilo_tests::{Client, ClientExt};

use crate::adopt::{cluster, insert};

/// A sequence with CACHE 1 is in order across sessions, and so is the one that takes its place. A caller of
/// hilo_adopt can say otherwise, and the NOTICE and the rows of hilo_adopt_all say which it is.
#[test]
fn a_sequence_with_cache_one_keeps_its_order() {
    let (cluster, _client) = cluster();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    for (cache, argument, expected) in [
        (1, "", true),
        (2, "", false),
        (1, ", ordered => false", false),
        (50, ", ordered => true", true),
        (50, ", ordered => NULL", false),
    ] {
        let table = format!(
            "CREATE SCHEMA shop; CREATE TABLE shop.t (id bigserial); ALTER SEQUENCE shop.t_id_seq CACHE {cache}"
        );
        let kind = if expected { "ordered" } else { "unordered" };
        let told = format!(
            "{kind} hilo sequence \"t_id_seq\" replaces sequence shop.t_id_seq, which is dropped"
        );
        let row = format!("sequence shop.t_id_seq; the new one is {kind}");
        for (call, told, row) in [
            (format!("hilo_adopt('shop.t', 'id'{argument})::text"), Some(&told), None),
            (format!("hilo_adopt_sequence('shop.t_id_seq'{argument})::text"), Some(&told), None),
            (
                format!(
                    "detail FROM hilo_adopt_all('shop', true{argument}) UNION ALL SELECT hilo_adopt_all('shop'{argument})::text"
                ),
                None,
                Some(&row),
            ),
        ] {
            client.run(&table);
            heard.take();
            let first = client.all::<String>(&format!("SELECT {call}"));
            let said = heard.messages();
            assert!(
                told.is_none_or(|told| said.iter().any(|message| message.contains(told.as_str()))),
                "{call}: {said:?}"
            );
            assert!(
                row.is_none_or(|row| &first[0] == row && first[1].contains(row.as_str())),
                "{call}: {first:?}"
            );
            assert_eq!(
                client.one::<bool>("SELECT ordered FROM hilo_sequences"),
                expected,
                "{call}"
            );
            client.run("DROP SCHEMA shop CASCADE");
        }
    }
    // The sequences of tables that inherit count, too.
    client.run(
        "CREATE SCHEMA shop; CREATE TABLE shop.t (id bigserial); CREATE TABLE shop.u () INHERITS (shop.t);
         CREATE SEQUENCE shop.of_u OWNED BY shop.u.id; ALTER TABLE shop.u ALTER id SET DEFAULT nextval('shop.of_u');
         ALTER SEQUENCE shop.t_id_seq CACHE 50");
    let rows = "SELECT detail FROM hilo_adopt_all('shop', true) UNION ALL SELECT detail FROM hilo_adopt_all('shop')";
    let rows = client.all::<String>(rows);
    let told = "sequence shop.t_id_seq; the new one is ordered";
    assert_eq!(rows.iter().filter(|row| row.starts_with(told)).count(), 2, "{rows:?}");
    assert!(client.one::<bool>("SELECT ordered FROM hilo_sequences"));
    client.run("DROP SCHEMA shop CASCADE");
    // A program that follows the rows by their ids misses none of those whose writers take turns.
    client.run("CREATE TABLE t (id bigserial); SELECT hilo_adopt('t', 'id')");
    let mut writers: Vec<Client> = (0..3).map(|_| cluster.connect("postgres")).collect();
    let ids: Vec<i64> = (0..60).map(|turn| insert(&mut writers[turn % 3])).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let give_up = "SELECT hilo_alter('t_id_seq', ordered => false);";
    client.refusal("SELECT * FROM hilo_lease('t_id_seq', 10)").is("0A000").hints(give_up);
    client.run(give_up);
    client.run("SELECT * FROM hilo_lease('t_id_seq', 10)");
    cluster.finish();
}
