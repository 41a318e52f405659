//! Mappers that take their blocks from hilo through a façade.

use std::io::Write;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, Mode, assert_accounted, assert_unique};

use crate::mappers::emulated::{MAPPERS, counts_from_zero, next_block};

const SIZE: i64 = 20;

/// The sequences that mappers draw from, a façade in a schema for each mapper, and a role for it.
fn set_up(client: &mut Client) {
    client.run(&format!(
        "SELECT hilo_create('orders', block_size => {SIZE});
         SELECT hilo_create('hibernate_unique_key', block_size => {SIZE}, start_value => {SIZE});
         CREATE TABLE filled (id bigint DEFAULT hilo_nextval('orders'), line text)"
    ));
    for mapper in MAPPERS {
        client.run(&format!("CREATE ROLE \"{mapper}\" LOGIN; CREATE SCHEMA \"{mapper}\""));
        client.run(&format!("SELECT hilo_facade('{mapper}', '{mapper}')"));
        client.run(&format!(
            "GRANT USAGE ON SCHEMA \"{mapper}\" TO \"{mapper}\";
             ALTER ROLE \"{mapper}\" SET search_path = '{mapper}', public;
             SELECT hilo_grant('orders', '{mapper}', 'UPDATE');
             SELECT hilo_grant('hibernate_unique_key', '{mapper}', 'UPDATE')"
        ));
    }
}

fn sequence_of(mapper: &str) -> &'static str {
    if counts_from_zero(mapper) { "hibernate_unique_key" } else { "orders" }
}

/// Values by single calls, by COPY, and leased ones that are all used.
fn draw_otherwise(cluster: &Cluster, rounds: usize) -> Vec<i64> {
    let mut client = cluster.connect("postgres");
    let mut seen = Vec::new();
    for _ in 0..rounds {
        seen.extend(client.draw("orders", 7));
        client.run("BEGIN");
        seen.extend(client.draw("orders", 3));
        client.run("ROLLBACK");
        let mut copy = client.copy_in("COPY filled (line) FROM STDIN").expect("COPY begins");
        copy.write_all(b"a\nb\nc\n").expect("rows are sent");
        copy.finish().expect("COPY ends");
        let leased = "SELECT first, last, lease::text FROM hilo_lease('orders', 13)";
        let lease = client.query_one(leased, &[]).expect("a lease is given");
        seen.extend(lease.get::<_, i64>(0)..=lease.get::<_, i64>(1));
        let (uuid, next): (String, i64) = (lease.get(2), lease.get::<_, i64>(1) + 1);
        client.run(&format!("SELECT hilo_lease_return('{uuid}', {next})"));
    }
    seen
}

fn run_all(cluster: &Cluster, rounds: usize) -> Vec<(&'static str, Vec<i64>)> {
    thread::scope(|scope| {
        let mappers: Vec<_> = MAPPERS
            .into_iter()
            .map(|mapper| {
                let work = scope.spawn(move || {
                    let mut client = cluster.connect_as(mapper, "postgres");
                    (0..rounds)
                        .flat_map(|_| next_block(&mut client, mapper, sequence_of(mapper), SIZE))
                        .collect::<Vec<i64>>()
                });
                (sequence_of(mapper), work)
            })
            .collect();
        let others = scope.spawn(|| draw_otherwise(cluster, rounds));
        let mut seen = vec![("orders", others.join().expect("the others draw"))];
        for (sequence, work) in mappers {
            seen.push((sequence, work.join().expect("the mapper draws")));
        }
        seen
    })
}

/// All mappers at once, beside SQL, COPY and leases: each value has one owner.
#[test]
fn no_value_of_a_mapper_belongs_to_anybody_else() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    set_up(&mut client);
    let seen = run_all(&cluster, 40);
    let mut orders: Vec<i64> = client.all("SELECT id FROM filled");
    for (sequence, values) in &seen {
        if *sequence == "orders" {
            orders.extend(values);
        }
    }
    let hi: Vec<i64> = seen
        .iter()
        .filter(|(sequence, _)| *sequence != "orders")
        .flat_map(|(_, values)| values.clone())
        .collect();
    assert_eq!(hi.len() as i64, 2 * 40 * SIZE);
    assert_unique("hibernate_unique_key", &hi);
    assert_eq!(hi.iter().max(), Some(&(81 * SIZE - 1)), "blocks are not dense");
    drop(client);
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "orders", &orders);
    cluster.finish();
}

/// The same, before and after a kill of the server, and after the promotion of a standby that lags.
#[test]
fn a_crash_gives_no_value_to_two_mappers() {
    assert!(draw_through_accidents(5) > 2_000);
}

#[test]
#[ignore = "it takes minutes"]
fn none_of_a_million_values_belongs_to_two() {
    let drawn = draw_through_accidents(1_100);
    println!("{drawn} values, each once");
    assert!(drawn > 1_000_000);
}

/// So many rounds, and as many after a kill of the server. Then come some that its standby does not
/// know, and as many on that standby. Returns how many values there are.
fn draw_through_accidents(rounds: usize) -> usize {
    let cluster = Cluster::with_hilo();
    set_up(&mut cluster.connect("postgres"));
    let copied = |server: &Cluster| {
        vec![("orders", server.connect("postgres").all::<i64>("SELECT id FROM filled"))]
    };
    let mut seen = run_all(&cluster, rounds);
    cluster.kill9_postmaster();
    cluster.start();
    seen.extend(run_all(&cluster, rounds));
    let standby = cluster.clone_by_base_backup();
    standby.stop(Mode::Fast);
    seen.extend(run_all(&cluster, rounds.div_ceil(4)));
    seen.extend(copied(&cluster));
    cluster.kill9_postmaster();
    standby.start();
    standby.promote();
    standby.connect("postgres").run("TRUNCATE filled");
    seen.extend(run_all(&standby, rounds));
    seen.extend(copied(&standby));
    let mut drawn = 0;
    for name in ["orders", "hibernate_unique_key"] {
        let of_it = seen.iter().filter(|(sequence, _)| *sequence == name);
        let values: Vec<i64> = of_it.flat_map(|(_, values)| values.clone()).collect();
        assert_unique(name, &values);
        drawn += values.len();
    }
    drawn
}

/// A rolled back transaction of a table generator loses its block, and nobody gets it again.
#[test]
fn a_row_is_read_once_and_then_written() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    set_up(&mut client);
    client.run("SET search_path = 'hibernate-table', public");
    let read = "SELECT tbl.next_val FROM hibernate_sequences tbl
                 WHERE tbl.sequence_name = 'orders' FOR UPDATE OF tbl";
    client.run("BEGIN");
    assert_eq!(client.one::<i64>(read), 19);
    assert_eq!(client.one::<i64>(read), 19);
    client.run("ROLLBACK; BEGIN");
    assert_eq!(client.one::<i64>(read), 39);
    let write = |next: i64, value: i64| {
        format!(
            "UPDATE hibernate_sequences SET next_val = {next}
              WHERE next_val = {value} AND sequence_name = 'orders'"
        )
    };
    assert_eq!(client.execute(&write(59, 40), &[]).expect("it finds no row"), 0);
    assert_eq!(client.execute(&write(59, 39), &[]).expect("it finds the row"), 1);
    assert_eq!(client.one::<i64>(read), 59);
    client.run("SAVEPOINT s");
    client.refusal(&write(60, 59)).is("22023").says("different blocks").helps();
    client.run("ROLLBACK TO s; COMMIT");
    // A setting that a session has made itself is worth nothing in another transaction.
    client.run(r#"SET hilo_facade.drawn = '{"transaction": "3", "hibernate-table orders": 19}'"#);
    assert_eq!(client.one::<i64>(read), 79);
    client.refusal("INSERT INTO hibernate_sequences VALUES ('bills', 1)").is("55000").helps();
    client.run("SET search_path = 'nhibernate', public");
    assert_eq!(client.one::<i64>("SELECT next_hi FROM hibernate_unique_key FOR UPDATE"), 1);
    cluster.finish();
}

/// It fails rather than give a block that is not whole or not the mapper's.
#[test]
fn a_facade_refuses_what_it_cannot_do() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SCHEMA ef; SELECT hilo_facade('ef', 'efcore'); SET search_path = ef, public;
         CREATE SCHEMA \"Mar\"\"t\"; SELECT hilo_facade('Mar\"t', 'marten');
         SELECT hilo_create('short', block_size => 20, max_value => 30);
         SELECT hilo_create('adaptive');
         SELECT hilo_create('Falling', block_size => 5, increment => -1);
         SELECT hilo_create('odd', block_size => 20, start_value => 7)",
    );
    assert_eq!(client.one::<i64>("SELECT nextval('SHORT')"), 1);
    client.refusal("SELECT nextval('short')").is("2200H");
    client.refusal("SELECT nextval('nothing')").is("42704").helps();
    client.refusal("SELECT nextval('adaptive')").is("55000").details("adaptive").helps();
    client.refusal("SELECT nextval('\"Falling\"')").is("55000").details("increment is -1").helps();
    client.refusal("SELECT nextval('not an identifier')").is("22023");
    client.refusal("SELECT \"Mar\"\"t\".mt_get_next_hi('odd')").is("55000").hints("plus 1");
    client.refusal("SELECT setval('short', 5)").is("0A000").helps();
    client.refusal("SELECT setval('short', 5, false)").is("0A000").helps();
    client.refusal("SELECT nextval('short'::regclass)").is("42P01");
    client.refusal("SELECT hilo_facade('ef', 'none')").is("22023").helps();
    client.refusal("SELECT hilo_facade('ef', 'nhibernate-optimizer-hilo')").is("0A000").helps();
    client.refusal("SELECT hilo_facade('ef', NULL)").is("22023");
    client.refusal("SELECT hilo_facade('ef', 'hibernate')").is("42723");
    client.refusal("SELECT hilo_facade('nothing', 'efcore')").is("3F000");
    client.run("CREATE ROLE clerk; GRANT USAGE ON SCHEMA ef TO clerk; SET ROLE clerk");
    client.refusal("SELECT hilo_facade('ef', 'efcore')").is("42501");
    client.refusal("SELECT nextval('short')").is("42704");
    client.run("RESET ROLE; SELECT hilo_grant('short', 'clerk', 'SELECT'); SET ROLE clerk");
    client.refusal("SELECT nextval('short')").is("42501");
    cluster.finish();
}

/// Marten's SetFloor moves a sequence on, core's functions serve single values, and all of it goes
/// with its schema.
#[test]
fn a_facade_is_its_makers_and_goes_with_its_schema() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE maker LOGIN; GRANT CREATE ON DATABASE postgres TO maker;
         SELECT hilo_create('Invoice', block_size => 10);
         SELECT hilo_grant('Invoice', 'maker', 'UPDATE')",
    );
    let mut maker = cluster.connect_as("maker", "postgres");
    let before = "SELECT count(*) FROM pg_class c FULL JOIN pg_proc p ON false";
    let count: i64 = maker.one(before);
    maker.run("CREATE SCHEMA docs; CREATE SCHEMA plain; SELECT hilo_facade('plain', 'core')");
    let made: Vec<String> = maker.all("SELECT hilo_facade('docs', 'marten')");
    assert_eq!(made.len(), 5, "{made:?}");
    assert_eq!(maker.one::<i32>("SELECT docs.mt_get_next_hi('Invoice')"), 0);
    let floor = "UPDATE docs.mt_hilo SET hi_value = 7 WHERE entity_name = 'Invoice'";
    assert_eq!(maker.execute(floor, &[]).expect("it is moved"), 1);
    assert_eq!(maker.one::<i32>("SELECT docs.mt_get_next_hi('Invoice')"), 8);
    assert_eq!(maker.one::<i64>("SELECT plain.nextval('\"Invoice\"')"), 91);
    let owners = "SELECT DISTINCT proowner::regrole::text FROM pg_proc
                   WHERE pronamespace = 'docs'::regnamespace";
    assert_eq!(maker.all::<String>(owners), ["maker"]);
    maker.run("DROP SCHEMA docs CASCADE; DROP SCHEMA plain CASCADE");
    assert_eq!(maker.one::<i64>(before), count);
    cluster.finish();
}

/// hilo_check tells of a counter that is left behind, and of one with blocks of another size.
#[test]
fn a_counter_that_is_left_behind_is_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders', block_size => 10);
         SELECT hilo_create('public.bills', block_size => 10);
         SELECT hilo_create('parcels'); SELECT hilo_create('single', block_size => 10);
         CREATE SEQUENCE orders INCREMENT BY 50; CREATE SEQUENCE bills INCREMENT BY 10;
         CREATE SEQUENCE parcels INCREMENT BY 50; CREATE SEQUENCE single",
    );
    let found = "SELECT concat_ws(' ', object, severity, what) FROM hilo_check()
                  WHERE what LIKE '%of Postgres%'";
    assert_eq!(client.all::<String>(found), [] as [&str; 0]);
    client.run("CREATE SCHEMA ef; SELECT hilo_facade('ef', 'efcore')");
    let findings = client.all::<String>(found);
    let starts = [
        "sequence \"orders\" warning sequence public.orders of Postgres lives on beside it: whoever \
         draws from that one gets the same numbers; mappers take blocks of 10 here, and INCREMENT \
         BY there is 50",
        "sequence \"public.bills\" note sequence public.bills of Postgres lives on beside it",
        "sequence \"single\" note sequence public.single of Postgres lives on beside it",
    ];
    assert_eq!(findings.len(), starts.len(), "{findings:#?}");
    for (finding, start) in findings.iter().zip(starts) {
        assert!(finding.starts_with(start), "{finding}");
    }
    cluster.finish();
}
