//! A client with TLS, by rustls and by the system's library: it draws from the server that it trusts, and from no other.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use hilo_tests::example::Example;
use hilo_tests::{ClientExt, Cluster, SERVER};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Makes an authority, or with one a certificate of the server with this address, as `name`.crt and `name`.key.
fn make(directory: &Path, name: &str, signed_by: Option<(&str, &str)>) {
    let of = |name: &str, kind: &str| directory.join(format!("{name}.{kind}"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]);
    openssl.arg(format!("/CN={name}")).arg("-keyout").arg(of(name, "key"));
    openssl.arg("-out").arg(of(name, "crt"));
    if let Some((authority, address)) = signed_by {
        openssl.arg("-CA").arg(of(authority, "crt")).arg("-CAkey").arg(of(authority, "key"));
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-addext", &format!("subjectAltName=IP:{address}")]);
    }
    let output = openssl.output().expect("openssl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn example(database: &str, authority: &Path, kind: &str) -> Output {
    let run = ["run", "--quiet", "--package", "hilo-client", "--features", "native-tls,rustls"];
    let mut cargo = Command::new("cargo");
    cargo.current_dir(ROOT).env_remove("RUSTFLAGS").args(run).args(["--example", "tls", "--"]);
    cargo.arg(database).arg(authority).arg(kind).output().expect("cargo runs")
}

#[test]
fn a_client_with_tls_draws_only_from_whom_it_trusts() {
    // The settings that the build of its example needs.
    let Some(_) = Example::find("rust") else { return };
    // An address of its own, since other servers listen too.
    let [a, b] = [fastrand::u8(1..255), fastrand::u8(1..255)];
    let (named, other) = (format!("127.77.{a}.{b}"), format!("127.78.{a}.{b}"));
    let cluster = Cluster::builder()
        .config("listen_addresses", &format!("{named},{other}"))
        .start_with_hilo();
    let directory = cluster.data_directory();
    make(&directory, "authority", None);
    make(&directory, "stranger", None);
    make(&directory, "server", Some(("authority", &named)));
    for file in ["server.key", "server.crt"] {
        SERVER.own(&directory.join(file));
    }
    let rules = directory.join("pg_hba.conf");
    let all = fs::read_to_string(&rules).expect("rules") + "host all all 127.0.0.0/8 trust\n";
    fs::write(&rules, all).expect("rules");
    cluster.reload();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('orders')");
    let database = |host: &str, mode: &str| {
        format!("host={host} port=5432 user=postgres dbname=postgres sslmode={mode}")
    };
    let (trusted, stranger) = (directory.join("authority.crt"), directory.join("stranger.crt"));
    let plain = example(&database(&named, "require"), &trusted, "rustls");
    let errors = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert!(!plain.status.success() && errors.contains("TLS"), "without TLS: {errors}");
    cluster.configure("ssl", "on");
    cluster.reload();
    for (kind, expected) in [("rustls", "1\n"), ("native-tls", "2\n")] {
        let drawn = example(&database(&named, "require"), &trusted, kind);
        let errors = String::from_utf8_lossy(&drawn.stderr);
        assert_eq!(String::from_utf8_lossy(&drawn.stdout), expected, "{kind}: {errors}");
        for (host, authority) in [(&named, &stranger), (&other, &trusted)] {
            let refused = example(&database(host, "require"), authority, kind);
            let errors = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success(), "{kind} at {host}");
            assert!(errors.contains("certificate"), "{kind} at {host}: {errors}");
        }
    }
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    cluster.finish();
}
