//! The files in monitoring/ work with the programs that they are for.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

const PACKAGE: &str = "prometheus-postgres-exporter";

fn monitoring(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring").join(file)
}

/// The exporter that Debian packages finds every series of queries.yaml in a real cluster, and the
/// dashboard asks for no other.
#[test]
fn the_exporter_finds_the_series() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor");
    client.run("SELECT hilo_create('watched', block_size => 100)");
    client.run("SELECT hilo_nextval('watched') FROM generate_series(1, 42)");
    client.run(
        "INSERT INTO hilo.gap SELECT id, 0, -9, -5, 5, 'crash', now() FROM hilo.sequence WHERE name = 'watched'",
    );

    let queries = cluster.file("queries.yaml");
    fs::copy(monitoring("queries.yaml"), &queries).expect("cannot copy the queries");
    let exporter = Exporter::start(&cluster, &queries);
    let mut page = String::new();
    wait_until("the exporter shows hilo's series", LONG, || {
        page = exporter.metrics();
        page.contains("hilo_sequence_served{") && page.contains("hilo_check_findings{")
    });
    assert_eq!(value(&page, "hilo_sequence_served{", "sequence=\"watched\""), Some(42.0), "{page}");
    assert_eq!(value(&page, "hilo_gap_values{", "reason=\"crash\""), Some(5.0), "{page}");
    assert_eq!(value(&page, "hilo_database_active_sequences{", "datname=\"postgres\""), Some(1.0));
    let ready =
        client.one::<i64>("SELECT in_current FROM hilo_stat_sequences WHERE name = 'watched'");
    assert_eq!(
        value(&page, "hilo_sequence_in_current{", "sequence=\"watched\""),
        Some(ready as f64)
    );

    // No column uses the sequence, and that is no reason for an alert.
    let notes = "SELECT count(*) FROM hilo_check() WHERE severity = 'note'";
    assert_eq!(client.one::<i64>(notes), 1);
    assert!(value(&page, "hilo_check_findings{", "severity=\"warning\"").is_some(), "{page}");
    assert_eq!(value(&page, "hilo_check_findings{", "severity=\"note\""), None, "{page}");

    for series in series_of_queries() {
        assert!(page.contains(&format!("{series}{{")), "{series} is missing from\n{page}");
    }
    let dashboard =
        fs::read_to_string(monitoring("dashboard.json")).expect("cannot read the dashboard");
    let asked = names(&dashboard);
    assert!(asked.len() > 10, "{asked:?}");
    for name in asked {
        assert!(
            page.contains(&format!("{name}{{")),
            "the dashboard asks for {name}, which nobody delivers"
        );
    }
    drop(exporter);
    cluster.finish();
}

/// The names that queries.yaml makes series of.
fn series_of_queries() -> Vec<String> {
    let text = fs::read_to_string(monitoring("queries.yaml")).expect("cannot read the queries");
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
        {
            series.push(format!("{query}_{column}"));
        }
    }
    assert!(series.len() > 20);
    series
}

/// The words of `text` that begin as our series do.
fn names(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = |word: &&str| {
        ["hilo_sequence_", "hilo_database_", "hilo_gap_", "hilo_check_"]
            .iter()
            .any(|start| word.starts_with(start))
    };
    let mut names: Vec<String> = words.filter(ours).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// The value in the line of `page` that begins with `series` and holds `label`.
fn value(page: &str, series: &str, label: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(series) && line.contains(label))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// A running exporter, ended with the test.
struct Exporter {
    process: Child,
    port: u16,
}

impl Exporter {
    fn start(cluster: &Cluster, queries: &Path) -> Exporter {
        let program = installed(&cluster.file("exporter"));
        // Free a moment ago.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap().port();
        let source = format!(
            "postgresql:///postgres?host={}&user=watcher&sslmode=disable",
            cluster.socket_directory().display()
        );
        let process = Command::new(program)
            .env("DATA_SOURCE_NAME", source)
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--extend.query-path")
            .arg(queries)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start the exporter");
        Exporter { process, port }
    }

    /// What it answers, or nothing while it does not.
    fn metrics(&self) -> String {
        let mut page = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let asked = stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n");
            if asked.is_err() || stream.read_to_string(&mut page).is_err() {
                page.clear();
            }
        }
        page
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The exporter's program: the one that is installed, or else out of Debian's package, unpacked for this
/// test only, since installing it would leave a service running on the machine.
fn installed(directory: &Path) -> PathBuf {
    let program = Path::new("/usr/bin").join(PACKAGE);
    if program.exists() {
        return program;
    }
    fs::create_dir(directory).expect("cannot create a directory");
    // apt drops root's rights for the download.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(directory, open).expect("cannot open it up");
    let steps = format!("apt-get download -qq {PACKAGE} && dpkg-deb --extract {PACKAGE}_*.deb .");
    let output = Command::new("sh")
        .args(["-c", &steps])
        .current_dir(directory)
        .output()
        .expect("cannot run sh");
    assert!(
        output.status.success(),
        "the package {PACKAGE} is not installed and cannot be downloaded, so the exporter was not tested: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    directory.join("usr/bin").join(PACKAGE)
}
