//! pg_dump, pg_dumpall and pg_restore: a restored database continues to serve, without a value that the dumped
//! one had served when the dump's snapshot was taken.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, Load, Mode, Source};

/// Values by sequence.
type Values = BTreeMap<&'static str, BTreeSet<i64>>;

const NAMES: [&str; 5] = ["orders", "ordered", "falling", "set", "tenants/42/Größe"];

/// Draws from each sequence; no value may come twice.
#[track_caller]
fn draw_from_each(client: &mut Client, count: usize, seen: &mut Values) {
    for name in NAMES {
        for value in client.draw(name, count) {
            assert!(seen.entry(name).or_default().insert(value), "{name}: {value} twice");
        }
    }
}

/// A database with sequences of several kinds, grants, gaps and free ranges, and what it has served.
fn shop(cluster: &Cluster) -> Values {
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE keeper; CREATE ROLE \"Shop Clerk\"");
    admin.run("CREATE DATABASE shop");
    let mut client = cluster.connect("shop");
    client.run(
        "CREATE EXTENSION hilo;
         SELECT hilo_create('orders'), hilo_create('ordered', ordered => true),
                hilo_create('falling', increment => -3, block_size => 20), hilo_create('set', data_type => 'integer'),
                hilo_create('tenants/42/Größe', key_format => 'T-{value:06}', description => E'die ''Größe''\\n'), hilo_create('unused');
         SELECT hilo_grant('orders', 'Shop Clerk', 'USAGE'), hilo_grant('ordered', 'public', 'LEASE, SELECT');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text);
         INSERT INTO orders (customer) SELECT 'Ada' FROM generate_series(1, 100);
         SELECT hilo_setval('set', 5000);
         GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper;
         SET ROLE keeper;
         SELECT hilo_create('kept');",
    );
    let mut seen = Values::from([("orders", (1..=100).collect())]);
    drop(client);
    draw_from_each(&mut cluster.connect("shop"), 30, &mut seen);
    cluster.crash(cluster.wait_for_worker("shop"));
    draw_from_each(&mut cluster.connect("shop"), 30, &mut seen);
    // The first leaves with a slice below what the second was given, which becomes a free range.
    let (mut first, mut second) = (cluster.connect("shop"), cluster.connect("shop"));
    draw_from_each(&mut first, 20, &mut seen);
    draw_from_each(&mut second, 20, &mut seen);
    drop((first, second));
    cluster.restart();
    let free: i64 = cluster.connect("shop").one("SELECT count(*) FROM _hilo.hilo_free_range");
    assert!(free > 0, "the tests need free ranges");
    seen
}

/// The definitions, as somebody who looks at them would compare them.
fn definitions(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT concat_ws(' ', s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value, s.cycle,
                          s.ordered, s.block_size, s.slice_size, s.key_format, s.description, s.owner,
                          (SELECT string_agg(p.grantee || '=' || p.privilege || '/' || p.grantor, ',' ORDER BY 1)
                             FROM (SELECT grantee::text, privilege, grantor::text FROM _hilo.hilo_privilege WHERE sequence = s.id) p))
           FROM _hilo.hilo_definition s ORDER BY s.name",
    )
}

/// How a database is dumped and restored.
#[derive(Clone, Copy, Debug)]
enum Format {
    Plain,
    Custom,
    Directory,
}

impl Format {
    fn dump(self, cluster: &Cluster, database: &str) -> std::path::PathBuf {
        let file = cluster.file(&format!("{self:?}.dump"));
        let mut dump = cluster.tool("pg_dump", database);
        dump.arg("--file").arg(&file).args(match self {
            Format::Plain => &["--format=plain"][..],
            Format::Custom => &["--format=custom"],
            Format::Directory => &["--format=directory", "--jobs=2"],
        });
        ran(&mut dump);
        file
    }

    fn restore(self, cluster: &Cluster, database: &str, file: &std::path::Path) {
        cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        let mut restore = match self {
            Format::Plain => cluster.tool("psql", database),
            _ => cluster.tool("pg_restore", database),
        };
        match self {
            Format::Plain => {
                restore.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f"])
            }
            Format::Custom => restore.args(["--exit-on-error", "--dbname", database]),
            Format::Directory => {
                restore.args(["--exit-on-error", "--jobs=2", "--dbname", database])
            }
        };
        ran(restore.arg(file));
    }
}

/// Runs a tool that must succeed; gives what it said on standard error.
#[track_caller]
fn ran(command: &mut Command) -> String {
    let output = command.output().expect("cannot run the tool");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// The values of a rising sequence in steps of 1 that nothing explains, from 1 to its position.
fn missing(client: &mut Client, name: &str, seen: &BTreeSet<i64>) -> Vec<i64> {
    client
        .all::<i64>(&format!(
            "SELECT v FROM hilo_sequences s, generate_series(1, s.max_reserved) v
              WHERE s.name = '{name}'
                AND NOT EXISTS (SELECT FROM hilo_gaps g WHERE g.name = s.name AND v BETWEEN g.first AND g.last)
                AND NOT EXISTS (SELECT FROM hilo_blocks b WHERE b.name = s.name AND v BETWEEN b.first AND b.last)
                AND NOT EXISTS (SELECT FROM _hilo.hilo_free_range f JOIN _hilo.hilo_definition q ON q.id = f.sequence
                                 WHERE q.name = s.name AND v > f.first_index AND v <= f.end_index)"
        ))
        .into_iter()
        .filter(|value| !seen.contains(value))
        .collect()
}

/// In each format, into another cluster and into the same one, where both databases serve at once.
/// All definitions, owners and privileges are there, and no value that the original had served is
/// served again. The values that it had in memory are written down as a gap.
#[test]
fn a_restored_database_repeats_nothing() {
    let cluster = Cluster::builder().preload(true).start();
    let mut seen = shop(&cluster);
    let mut holder = cluster.connect("shop");
    draw_from_each(&mut holder, 7, &mut seen);
    let other = Cluster::builder().preload(true).start();
    other.connect("postgres").run("CREATE ROLE keeper; CREATE ROLE \"Shop Clerk\"");
    for format in [Format::Plain, Format::Custom, Format::Directory] {
        let file = format.dump(&cluster, "shop");
        for target in [&cluster, &other] {
            let database = format!("{format:?}").to_lowercase();
            format.restore(target, &database, &file);
            let mut client = target.connect(&database);
            assert_eq!(definitions(&mut client), definitions(&mut holder), "{format:?}");
            let mut copy_seen = seen.clone();
            draw_from_each(&mut client, 400, &mut copy_seen);
            draw_from_each(&mut target.connect(&database), 400, &mut copy_seen);
            let lost = missing(&mut client, "orders", &copy_seen["orders"]);
            assert!(lost.is_empty(), "{format:?}: {lost:?} are nowhere");
            client.run("INSERT INTO orders (customer) SELECT 'Grace' FROM generate_series(1, 100)");
            assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_check() WHERE object LIKE 'column%' OR object LIKE 'node%'"), 0);
            draw_from_each(&mut holder, 20, &mut seen);
        }
    }
    drop(holder);
    for cluster in [cluster, other] {
        cluster.stop(Mode::Fast);
        cluster.start();
        for database in ["plain", "custom", "directory"] {
            cluster.connect(database).run("SELECT hilo_nextval('orders')");
        }
        cluster.finish();
    }
}

/// Sessions draw while the dump runs: nothing that was seen before it began is served again. A
/// value that was seen later may: the dump is of one snapshot, as for the rows of the tables.
#[test]
fn a_dump_under_load_repeats_nothing_from_before_it() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    let load = Load { sessions: 4, values: 30_000, ..Load::sixteen_sessions(11) };
    let mut before = BTreeSet::new();
    thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&cluster, &sources));
        hilo_tests::wait_until("2,000 numbers are drawn", hilo_tests::LONG, || {
            Source::count_seen(&sources) > 2_000
        });
        // A session of the test's own knows what it saw before the dump began.
        before.extend(cluster.connect("postgres").draw("adaptive", 5_000));
        let file = Format::Custom.dump(&cluster, "postgres");
        running.join().expect("the load has failed");
        Format::Custom.restore(&cluster, "copy", &file);
    });
    let mut copy = cluster.connect("copy");
    let drawn = copy.draw("adaptive", 50_000);
    let again: Vec<i64> = drawn.into_iter().filter(|value| before.contains(value)).collect();
    assert!(again.is_empty(), "{again:?} came again");
    load.run(&cluster, &sources);
    sources.iter().for_each(Source::assert_kept);
    cluster.finish();
}

/// A restored database skips nothing by itself; but an asynchronous standby of it that is promoted may
/// lack what was reserved since, as any other.
#[test]
fn a_standby_of_a_restored_database_skips_what_it_may_lack() {
    // A reservation ahead may come between the two looks at the position.
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    client.run("SELECT hilo_nextval('s') FROM generate_series(1, 250)");
    let reserved: i64 = client.one("SELECT max_reserved FROM hilo_sequences");
    let file = Format::Custom.dump(&cluster, "postgres");
    let primary = Cluster::builder().preload(true).config("hilo.failover_skip", "5000").start();
    Format::Custom.restore(&primary, "copy", &file);
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    assert_eq!(primary.connect("copy").one::<i64>("SELECT hilo_nextval('s')"), reserved + 1);
    primary.kill9_postmaster();
    standby.promote();
    assert!(standby.connect("copy").one::<i64>("SELECT hilo_nextval('s')") > reserved + 5000);
}

/// Roles that the target does not have cost a warning: their sequences belong to who restores, their
/// grants are left out, everything else is there.
#[test]
fn missing_roles_cost_a_warning() {
    let cluster = Cluster::builder().preload(true).start();
    let mut seen = shop(&cluster);
    let dump = cluster.pg_dump("shop", &["--no-owner", "--no-privileges"]);
    let other = Cluster::builder().preload(true).start();
    other.connect("postgres").run("CREATE DATABASE shop");
    other.restore("shop", &dump);
    assert_eq!(other.log_count("role \"keeper\" does not exist"), 1);
    assert!(other.log_count("role \"Shop Clerk\" does not exist") >= 1);
    let mut client = other.connect("shop");
    assert_eq!(
        client.one::<String>("SELECT owner::text FROM hilo_sequences WHERE name = 'kept'"),
        "postgres"
    );
    assert_eq!(
        client.all::<String>("SELECT grantee::text FROM _hilo.hilo_privilege"),
        ["public", "public"]
    );
    draw_from_each(&mut client, 300, &mut seen);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('kept')"), 1);
    other.finish();
}

/// pg_dumpall brings roles, databases and sequences into an empty cluster.
#[test]
fn pg_dumpall_brings_all() {
    let cluster = Cluster::builder().preload(true).start();
    let mut seen = shop(&cluster);
    let mut dump = cluster.tool("pg_dumpall", "postgres");
    let script = cluster.file("all.sql");
    ran(dump.arg("--file").arg(&script));
    let other = Cluster::builder().preload(true).start();
    // Its first error is that the role postgres exists; there must be no other.
    let mut restore = other.tool("psql", "postgres");
    let said = ran(restore.args(["-X", "-q", "-o", "/dev/null", "-f"]).arg(&script));
    let errors: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("ERROR") && !line.contains("role \"postgres\" already"))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut client = other.connect("shop");
    assert_eq!(definitions(&mut client), definitions(&mut cluster.connect("shop")));
    draw_from_each(&mut client, 300, &mut seen);
    other.finish();
}

/// A sequence is a row: a dump of the schema alone has the column defaults but not their sequences. The
/// error says what to do, and hilo_check lists the columns. The data alone brings them.
#[test]
fn schema_and_data_apart() {
    let cluster = Cluster::builder().preload(true).start();
    let mut seen = shop(&cluster);
    let schema = cluster.pg_dump("shop", &["--schema-only"]);
    let data = cluster.pg_dump("shop", &["--data-only"]);
    cluster.connect("postgres").run("CREATE DATABASE copy");
    cluster.restore("copy", &schema);
    let mut client = cluster.connect("copy");
    client
        .refusal("INSERT INTO orders (customer) VALUES ('Ada')")
        .is("42704")
        .says("\"orders\"")
        .hints("hilo_create");
    assert_eq!(
        client.one::<String>(
            "SELECT what FROM hilo_check() WHERE object = 'column public.orders.id'"
        ),
        "its default uses hilo sequence \"orders\", which does not exist"
    );
    cluster.restore("copy", &data);
    assert_eq!(definitions(&mut client), definitions(&mut cluster.connect("shop")));
    draw_from_each(&mut client, 300, &mut seen);
    client.run("INSERT INTO orders (customer) VALUES ('Grace')");
    cluster.finish();
}

/// A table's dump has its default, but no sequence: the same error, until hilo_create_missing makes one behind the rows.
#[test]
fn a_single_table_lacks_its_sequence() {
    let cluster = Cluster::builder().preload(true).start();
    shop(&cluster);
    let table = cluster.pg_dump("shop", &["--table=orders"]);
    assert!(!table.contains("COPY _hilo."), "{table}");
    cluster.connect("postgres").run("CREATE DATABASE copy");
    let mut client = cluster.connect("copy");
    client.run("CREATE EXTENSION hilo");
    cluster.restore("copy", &table);
    client.refusal("INSERT INTO orders (customer) VALUES ('Ada')").is("42704").hints("hilo_create");
    assert_eq!(client.one::<i64>("SELECT next_value FROM hilo_create_missing()"), 101);
    assert_eq!(client.one::<i64>("INSERT INTO orders (customer) VALUES ('Ada') RETURNING id"), 101);
    cluster.finish();
}

/// A role that is no superuser restores the tables, and is told what the columns need.
#[test]
fn restored_without_being_superuser() {
    let cluster = Cluster::builder().preload(true).start();
    shop(&cluster);
    let file = Format::Custom.dump(&cluster, "shop");
    cluster.connect("postgres").run("CREATE ROLE clerk LOGIN");
    cluster.connect("postgres").run("CREATE DATABASE copy OWNER clerk");
    cluster.connect("copy").run("CREATE EXTENSION hilo; GRANT CREATE ON SCHEMA public TO clerk; GRANT INSERT ON hilo_sequences TO clerk");
    let mut restore = cluster.tool("pg_restore", "copy");
    restore.args(["--no-owner", "--username=clerk", "--dbname=copy"]).arg(file);
    let said = restore.output().expect("cannot run pg_restore").stderr;
    assert!(String::from_utf8_lossy(&said).contains("permission denied for table"));
    let mut clerk = cluster.connect_as("clerk", "copy");
    clerk.refusal("INSERT INTO orders (customer) VALUES ('Ada')").is("42704").hints("hilo_create");
    clerk.run("SELECT hilo_create('orders')");
    let fix: String =
        clerk.one("SELECT fix FROM hilo_check() WHERE object = 'column public.orders.id'");
    assert!(fix.starts_with("SELECT public.hilo_sync('orders'::public.hilo_sequence, "), "{fix}");
    clerk.run(&fix);
    assert_eq!(clerk.one::<i64>("INSERT INTO orders (customer) VALUES ('Ada') RETURNING id"), 101);
    cluster.finish();
}

/// Data restored over sequences that are there already, the very same ones or others of the same
/// names, replaces none of them. The restore says so, and nothing that they have served is served
/// again.
#[test]
fn data_over_existing_sequences_is_refused() {
    let cluster = Cluster::builder().preload(true).start();
    let mut seen = shop(&cluster);
    let data = cluster.pg_dump("shop", &["--data-only"]);
    draw_from_each(&mut cluster.connect("shop"), 500, &mut seen);
    restore_over(&cluster, "shop", &data, "is in use and cannot be restored");
    cluster.restart();
    draw_from_each(&mut cluster.connect("shop"), 500, &mut seen);

    cluster.connect("postgres").run("CREATE DATABASE other");
    let mut client = cluster.connect("other");
    client.run("CREATE EXTENSION hilo");
    for name in NAMES {
        client.run(&format!("SELECT hilo_create('{name}')"));
    }
    let mut seen = Values::new();
    draw_from_each(&mut client, 50, &mut seen);
    restore_over(&cluster, "other", &data, "Key (name)=(");
    draw_from_each(&mut client, 500, &mut seen);
    cluster.finish();
}

/// Restores a script that is refused in part, with `complaint`.
#[track_caller]
fn restore_over(cluster: &Cluster, database: &str, script: &str, complaint: &str) {
    let file = cluster.file("over.sql");
    std::fs::write(&file, script).expect("cannot write the script");
    let mut psql = cluster.tool("psql", database);
    let said = ran(psql.args(["-X", "-q", "-o", "/dev/null", "-f"]).arg(&file));
    assert!(said.contains(complaint), "{said}");
}

/// hilo names the language that its functions need. A database without it says so and can bring it, and a dump creates it
/// first, although its name comes later.
#[test]
fn the_language_comes_before_the_extension() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    for database in ["bare", "copy"] {
        admin.run(&format!("CREATE DATABASE {database}"));
        cluster.connect(database).run("DROP EXTENSION plpgsql");
    }
    let mut client = cluster.connect("bare");
    client.refusal("CREATE EXTENSION hilo").is("42704").says("plpgsql").hints("CASCADE");
    client.run("CREATE EXTENSION hilo CASCADE; SELECT hilo_create('orders')");
    client.refusal("DROP EXTENSION plpgsql").is("2BP01").details("extension hilo");
    let drawn = client.draw("orders", 3);
    cluster.restore("copy", &cluster.pg_dump("bare", &[]));
    assert!(cluster.connect("copy").draw("orders", 1)[0] > drawn[2]);
    cluster.finish();
}
