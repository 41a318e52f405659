//! The files in monitoring/ work with the programs that they are for, and tell of everything that
//! is wrong. They also tell of a database that nobody uses, and of findings that the exporter's
//! role may not see.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use hilo_tests::exporter::{Exporter, debian_program};
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

fn monitoring(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring").join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(monitoring(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The exporter that Debian packages finds every series of queries.yaml in a real cluster, and the
/// dashboard and the alerts ask for no other.
#[test]
fn the_exporter_finds_the_series() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor");
    client.run("SELECT hilo_create('watched', block_size => 100), hilo_create('held', gapless => true), hilo_create('out')");
    client.run("SELECT hilo_nextval('watched') FROM generate_series(1, 42)");
    client.meddle(
        "INSERT INTO _hilo.hilo_gap SELECT id, 0, 1, -9, -5, 5, 1, 'crash', now() FROM _hilo.hilo_definition WHERE name = 'watched'",
    );
    client.run(
        "SELECT hilo_lease('out', 30, 'sorter-1', '30 s'); SELECT hilo_lease('out', 40, 'sorter-2'), hilo_lease('out', 20, 'sorter-2', '1 day');
         SELECT hilo_lease('out', 10)",
    );

    let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
    let page = exporter.page(&["hilo_sequence_served{", "hilo_check_findings{"]);
    let shows = |series: &str, labels: &str| value(&page, series, labels);
    assert_eq!(shows("hilo_sequence_served", "sequence=\"watched\""), Some(42.0), "{page}");
    assert_eq!(
        shows("hilo_gap_values", "reason=\"crash\",sequence=\"watched\""),
        Some(5.0),
        "{page}"
    );
    assert_eq!(shows("hilo_database_active_sequences", "datname=\"postgres\""), Some(2.0));
    assert_eq!(shows("hilo_database_sequences", ""), Some(3.0));
    assert_eq!(shows("hilo_database_seen_completely", ""), Some(1.0));
    assert_eq!(shows("hilo_gapless_sequences", ""), Some(1.0));
    let ready =
        client.one::<i64>("SELECT in_current FROM hilo_stat_sequences WHERE name = 'watched'");
    assert_eq!(shows("hilo_sequence_in_current", "sequence=\"watched\""), Some(ready as f64));

    // Values that have left the server, in all and by holder.
    assert_eq!(shows("hilo_sequence_leased", "sequence=\"out\""), Some(100.0));
    let all =
        [("open", 4.0), ("values", 100.0), ("holders", 2.0), ("expiring", 1.0), ("unlimited", 2.0)];
    for (series, expected) in all {
        assert_eq!(shows(&format!("hilo_lease_{series}"), ""), Some(expected), "{series}");
    }
    assert!(shows("hilo_lease_unlimited_oldest_seconds", "").is_some_and(|age| age > 0.0));
    for (holder, values) in [("sorter-1", 30.0), ("sorter-2", 60.0), ("", 10.0)] {
        let label = format!("holder=\"{holder}\"");
        assert_eq!(shows("hilo_holder_values", &label), Some(values), "{holder}");
        let soon = shows("hilo_holder_expires_in_seconds", &label).expect("each has one");
        assert_eq!(soon.is_nan(), holder.is_empty(), "{holder}: {soon}");
    }

    // No column uses the sequences, and that is no reason for an alert.
    let notes = "SELECT count(*) FROM hilo_check() WHERE severity = 'note'";
    assert_eq!(client.one::<i64>(notes), 1);
    assert!(shows("hilo_check_findings", "severity=\"warning\"").is_some(), "{page}");
    assert_eq!(shows("hilo_check_findings", "severity=\"note\""), None, "{page}");

    for series in series_of_queries() {
        assert!(page.contains(&format!("{series}{{")), "{series} is missing from\n{page}");
    }
    for file in ["dashboard.json", "alerts.yml"] {
        let asked = names(&read(file));
        assert!(asked.len() > 10, "{asked:?}");
        for name in asked {
            let there = page.contains(&format!("{name}{{"));
            assert!(there, "{file} asks for {name}, which nobody delivers");
        }
    }
    drop(exporter);
    cluster.finish();
}

/// The exporter shows, of ten thousand sequences, the 500 that need it most, in less than a
/// megabyte.
#[test]
fn ten_thousand_sequences_are_a_short_page() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::builder().config("hilo.max_sequences", "12000").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor");
    client.run("SELECT hilo_create('tenants/' || n || '/customer-orders') FROM generate_series(1, 10000) n");
    client.run("SELECT hilo_create('full', max_value => 100), hilo_create('idle')");
    client.run("SELECT hilo_nextval('tenants/' || n || '/customer-orders') FROM generate_series(1, 10000) n");
    client.run("SELECT hilo_nextval('tenants/777/customer-orders') FROM generate_series(1, 9)");
    client.run("SELECT hilo_nextval('full') FROM generate_series(1, 90)");
    let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
    let page = exporter.page(&["hilo_sequence_served{", "hilo_check_findings{"]);
    let began = Instant::now();
    let again = exporter.metrics();
    println!("{} bytes, a scrape takes {:?}", again.len(), began.elapsed());
    let series = |name: &str| page.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("hilo_sequence_served{"), 500);
    assert_eq!(series("hilo_sequence_in_current{"), 50);
    for name in ["full", "tenants/777/customer-orders"] {
        assert!(page.contains(&format!("sequence=\"{name}\"")), "{name}");
    }
    assert!(!page.contains("sequence=\"idle\""));
    assert_eq!(value(&page, "hilo_database_sequences", ""), Some(10_002.0));
    // As if the server's label had 45 letters.
    const LABEL: &str = ",server=\"db-orders-primary.production.example.org:5432\"} 1000000\n";
    let size: usize = page
        .lines()
        .map(|line| match line.split_once(",server=") {
            Some((before, _)) => before.len() + LABEL.len(),
            None => line.len() + 1,
        })
        .sum();
    assert!(size < 1_000_000, "{size} bytes");
    cluster.finish();
}

/// Where nothing is active and nobody is connected, all series are there, and say what the catalog
/// says. So they do after a restart, without a worker and without a slot in shared memory.
#[test]
fn an_idle_database_keeps_its_series() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
         SELECT hilo_create('nearly', max_value => 1000, block_size => 10), hilo_create('circle', max_value => 10, cycle => true),
                hilo_create('down', increment => -1, min_value => -100, block_size => 10), hilo_create('unused'), hilo_create('exact', gapless => true, max_value => 100);
         SELECT hilo_setval('nearly', 960), hilo_setval('circle', 9), hilo_setval('down', -40), hilo_setval('exact', 70);
         SELECT hilo_lease('nearly', 5, 'gone')",
    );
    let used = "SELECT name || ' ' || used_fraction FROM hilo_sequences WHERE name <> 'circle' ORDER BY name";
    let used: Vec<String> = client.all(used);
    drop(client);
    cluster.restart();

    let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
    let page = exporter.page(&["hilo_sequence_served{", "hilo_check_findings{"]);
    assert_eq!(value(&page, "hilo_database_active_sequences", ""), Some(0.0), "{page}");
    // The figures of memory are there while a sequence is active.
    let memory = series_of(|query| query == "hilo");
    assert_eq!(memory.len(), 7);
    for series in series_of_queries() {
        let of_memory = memory.contains(&series);
        assert_eq!(page.contains(&format!("{series}{{")), !of_memory, "{series}\n{page}");
    }
    for said in used {
        let (name, fraction) = said.split_once(' ').expect("two words");
        let label = format!("sequence=\"{name}\"");
        let shown = value(&page, "hilo_sequence_used_fraction", &label).expect("it is there");
        assert!((shown - fraction.parse::<f64>().unwrap()).abs() < 1e-9, "{said}: {shown}");
        assert_eq!(value(&page, "hilo_sequence_served", &label), Some(0.0), "{name}");
    }
    assert!(value(&page, "hilo_database_used_fraction_max", "").is_some_and(|used| used > 0.95));
    let circle = value(&page, "hilo_sequence_used_fraction", "sequence=\"circle\"");
    assert!(circle.is_some_and(f64::is_nan), "{circle:?}");
    assert_eq!(value(&page, "hilo_sequence_leased", "sequence=\"nearly\""), Some(5.0));
    assert_eq!(value(&page, "hilo_holder_open", "holder=\"gone\""), Some(1.0));
    for reason in ["crash", "discarded", "altered", "expired", "revoked", "restored"] {
        let label = format!("reason=\"{reason}\",sequence=\"\"");
        assert_eq!(value(&page, "hilo_gap_values", &label), Some(0.0), "{reason}");
    }
    let mut client = cluster.connect_as("watcher", "postgres");
    let errors: Vec<String> =
        client.all("SELECT object FROM hilo_check() WHERE severity = 'error'");
    assert!(errors.contains(&"sequence \"nearly\"".to_owned()), "{errors:?}");
    let counted = value(&page, "hilo_check_findings", "severity=\"error\"");
    assert_eq!(counted, Some(errors.len() as f64), "{page}");
    assert_eq!(
        client.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"),
        0,
        "the exporter has woken something"
    );
    drop(exporter);
    cluster.finish();
}

/// Sessions that wait for a transaction with a gapless sequence are counted, and no others.
#[test]
fn who_waits_for_a_gapless_sequence_is_counted() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::with_hilo();
    let mut holder = cluster.connect("postgres");
    holder.run(
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor; SELECT hilo_create('exact', gapless => true);
         CREATE TABLE other (id integer PRIMARY KEY); INSERT INTO other VALUES (1)",
    );
    holder.run("BEGIN; SELECT hilo_nextval('exact'); SELECT FROM other FOR UPDATE");
    thread::scope(|scope| {
        for statement in
            ["SELECT hilo_nextval('exact')", "SELECT hilo_nextval('exact')", "DELETE FROM other"]
        {
            scope.spawn(|| cluster.connect("postgres").run(statement));
        }
        let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
        wait_until("the exporter counts the two", LONG, || {
            let page = exporter.metrics();
            value(&page, "hilo_gapless_waiting", "") == Some(2.0)
                && value(&page, "hilo_gapless_wait_seconds_max", "")
                    .is_some_and(|longest| longest > 0.0)
        });
        holder.run("COMMIT");
        wait_until("nobody waits", LONG, || {
            value(&exporter.metrics(), "hilo_gapless_waiting", "") == Some(0.0)
        });
    });
    cluster.finish();
}

/// Findings that its role may not see are counted.
#[test]
fn hidden_findings_are_counted() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run(
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor; SELECT hilo_create('small');
         CREATE TABLE lacking (id bigint DEFAULT hilo_nextval('nothing'));
         CREATE TABLE narrow (id integer DEFAULT hilo_nextval('small'))",
    );
    let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
    let page = exporter.page(&["hilo_check_hidden{"]);
    for severity in ["error", "warning"] {
        let label = format!("severity=\"{severity}\"");
        assert_eq!(value(&page, "hilo_check_hidden", &label), Some(1.0), "{page}");
        let found = value(&page, "hilo_check_findings", &label);
        assert!(found.is_some_and(|found| found >= 1.0), "{page}");
    }
    cluster.finish();
}

/// A role that is no member of pg_monitor sees little, and the exporter says so.
#[test]
fn a_role_that_does_not_see_everything_is_noticed() {
    let Some(program) = Exporter::program() else { return };
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("CREATE ROLE watcher LOGIN; SELECT hilo_create('orders')");
    let exporter = Exporter::start(&program, &cluster, &monitoring("queries.yaml"));
    let page = exporter.page(&["hilo_database_sequences{"]);
    assert_eq!(value(&page, "hilo_database_sequences", ""), Some(0.0));
    assert_eq!(value(&page, "hilo_database_seen_completely", ""), Some(0.0));
    cluster.finish();
}

/// Prometheus accepts the rules, and the operator's guide names each alert. Each is raised by its
/// cause, and by nothing in a healthy database.
#[test]
fn the_alerts_are_raised_when_they_should_be() {
    let (rules, tests) = (read("alerts.yml"), read("alerts_test.yml"));
    let guide = read("../docs/operations.md");
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("        alertname: {alert}\n")), "nothing raises {alert}");
        assert!(guide.contains(&format!("`{alert}`")), "docs/operations.md lacks {alert}");
        let quiet = format!("alertname: {alert}, exp_alerts: []");
        assert!(tests.contains(&quiet), "nothing keeps {alert} quiet");
    }
    let Some(promtool) = debian_program("promtool", "prometheus") else { return };
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let file = if arguments[0] == "check" { "alerts.yml" } else { "alerts_test.yml" };
        let output = Command::new(&promtool).args(arguments).arg(monitoring(file)).output();
        let output = output.expect("cannot run promtool");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// The names that queries.yaml makes series of.
fn series_of_queries() -> Vec<String> {
    let series = series_of(|_| true);
    assert!(series.len() > 40);
    series
}

/// The names that the queries make series of.
fn series_of(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let text = read("queries.yaml");
    let mut series = Vec::new();
    let mut query = "";
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(':')
            && !name.starts_with([' ', '#'])
        {
            query = name;
        }
        if let Some((column, rest)) =
            line.strip_prefix("    - ").and_then(|metric| metric.split_once(':'))
            && !rest.contains("LABEL")
            && wanted(query)
        {
            series.push(format!("{query}_{column}"));
        }
    }
    series
}

/// The words of `text` that begin as our series do.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let families = ["sequence", "database", "gap", "lease", "holder", "gapless", "check"];
    let starts = families.map(|family| format!("hilo_{family}_"));
    // A function is no series.
    let functions = ["hilo_lease_revoke"];
    let ours = |word: &&str| {
        starts.iter().any(|start| word.starts_with(start)) && !functions.contains(word)
    };
    words.filter(ours).map(str::to_owned).collect()
}

/// The value in the line of `page` that has a value of `series` with `labels`.
fn value(page: &str, series: &str, labels: &str) -> Option<f64> {
    let start = format!("{series}{{");
    let line = page.lines().find(|line| line.starts_with(&start) && line.contains(labels))?;
    line.rsplit(' ').next()?.parse().ok()
}
