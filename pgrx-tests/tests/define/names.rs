//! Names of every kind, through every function, and in databases of other encodings.

use std::error::Error;

use postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use hilo_tests::{Client, ClientExt, Cluster};

/// A parameter sent as these bytes, whatever its type.
#[derive(Debug)]
struct Raw<'a>(&'a [u8]);

impl ToSql for Raw<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn good_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a",
        " ",
        " both ends ",
        "it's",
        "'; DROP TABLE users; --",
        "\"quoted\"",
        "back\\slash\\",
        "100 %s %d %n",
        "{value}",
        "{name}/{server}{value:04}",
        "}{",
        "$1",
        "tenants/42/orders",
        "NULL",
        "Größe",
        "مرحبا",
        "\u{202e}desrever",
        "\u{feff}bom",
        "🦀",
        "e\u{301}",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(255));
    names.push("é".repeat(127) + "x");
    names.push("🦀".repeat(63));
    names
}

/// All that can be done with a name.
fn live_with(client: &mut Client, name: &str, other: &str) {
    let ask = |client: &mut Client, sql: &str| -> i64 {
        client
            .query_one(sql, &[&Raw(name.as_bytes())])
            .unwrap_or_else(|e| panic!("{name:?}: {e:?}"))
            .get(0)
    };
    let text = |client: &mut Client, sql: &str| -> String {
        client
            .query_one(sql, &[&Raw(name.as_bytes())])
            .unwrap_or_else(|e| panic!("{name:?}: {e:?}"))
            .get(0)
    };
    assert_eq!(text(client, "SELECT hilo_create($1)::text"), name);
    assert_eq!(ask(client, "SELECT hilo_nextval($1)"), 1);
    assert_eq!(ask(client, "SELECT hilo_nextvals($1, 1)"), 2);
    assert_eq!(ask(client, "SELECT first FROM hilo_nextrange($1, 1)"), 3);
    assert_eq!(ask(client, "SELECT hilo_currval($1)"), 3);
    assert_eq!(
        text(client, "SELECT name::text FROM hilo_sequences WHERE name = $1::hilo_sequence"),
        name
    );
    assert_eq!(text(client, "SELECT hilo_nextkey($1)"), format!("{name}/4"));
    assert_eq!(ask(client, "SELECT hilo_key_value($1, hilo_key($1, 7))"), 7);
    let quoted = name.replace('\'', "''");
    client.run(&format!(
        "CREATE TABLE by_name (id bigint DEFAULT hilo_nextval('{quoted}'), n integer)"
    ));
    let insert = "INSERT INTO by_name (n) VALUES (0) RETURNING id";
    assert_eq!(client.one::<i64>(insert), 5);
    client.refusal(&format!("SELECT hilo_drop('{quoted}')")).is("2BP01");
    client
        .query("SELECT hilo_rename($1, $2)", &[&Raw(name.as_bytes()), &Raw(other.as_bytes())])
        .expect("renamed");
    assert_eq!(client.one::<i64>(insert), 6);
    client
        .query("SELECT hilo_rename($2, $1)", &[&Raw(name.as_bytes()), &Raw(other.as_bytes())])
        .expect("and back");
    assert_eq!(client.one::<i64>(insert), 7);
    ask(client, "SELECT hilo_setval($1, 50)");
    client.run(&format!("SELECT hilo_alter('{quoted}', increment => 10)"));
    assert_eq!(client.one::<i64>(insert), 60);
    client.run("SELECT * FROM hilo_check(); SELECT * FROM hilo_stat_sequences; DROP TABLE by_name");
    client.run(&format!("SELECT hilo_grant('{quoted}', 'PUBLIC', 'ALL')"));
    client.run(&format!("SELECT hilo_drop('{quoted}')"));
    let refusal = client.query("SELECT hilo_nextval($1)", &[&Raw(name.as_bytes())]);
    assert_eq!(refusal.expect_err("it is gone").code().map(|code| code.code()), Some("42704"));
}

/// Every good name can be created, served, shown, keyed, a default, renamed and dropped.
#[test]
fn good_names_can_be_lived_with() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for name in good_names() {
        live_with(&mut client, &name, "other 'name'");
    }
    cluster.finish();
}

/// A text that is no name is refused in every way in, and what is no text in the binary one.
#[test]
fn bad_names_are_refused_in_every_way() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut bad: Vec<(Vec<u8>, &str)> = ["", "a\tb", "two\nlines", "\u{7f}", "c1\u{85}", "\u{1}"]
        .map(|name| (name.as_bytes().to_vec(), "22023"))
        .into();
    bad.push((b"x".repeat(256), "22023"));
    bad.push(("é".repeat(128).into_bytes(), "22023"));
    bad.push((b"x".repeat(1 << 20), "22023"));
    for invalid in
        [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80", b"a\0b", b"\0"]
    {
        bad.push((invalid.to_vec(), "22021"));
    }
    for (bytes, sqlstate) in bad {
        for sql in [
            "SELECT hilo_create($1::hilo_sequence)",
            "SELECT hilo_nextval($1::hilo_sequence)",
            "SELECT hilo_nextval($1::text)",
            "SELECT $1::text::hilo_sequence",
            "SELECT hilo_rename('a', $1)",
        ] {
            let error = client.query(sql, &[&Raw(&bytes)]).expect_err(sql);
            let code = error.code().unwrap_or_else(|| panic!("{sql}: {error:?}")).code();
            assert_eq!(code, sqlstate, "{sql} {bytes:?}: {error:?}");
        }
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    cluster.finish();
}

fn database(cluster: &Cluster, encoding: &str) -> Client {
    let name = encoding.to_lowercase();
    cluster.connect("postgres").run(&format!(
        "CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    ));
    let mut client = cluster.connect(&name);
    client.run("CREATE EXTENSION hilo");
    client
}

/// In a database of another encoding names are what the client has sent, after conversion.
#[test]
fn names_are_kept_in_other_encodings() {
    let cluster = Cluster::builder().preload(true).start();
    for (encoding, names) in [
        ("LATIN1", ["Größe", "naïve café"]),
        ("EUC_JP", ["注文番号", "表示ソ"]),
        ("SQL_ASCII", ["Größe", "注文番号"]),
        ("WIN1251", ["заказы", "Ель"]),
    ] {
        let mut client = database(&cluster, encoding);
        for name in names {
            live_with(&mut client, name, "other");
            live_with(&mut client, "other", name);
        }
        client.run(&format!("SET hilo.auto_create = on; SELECT hilo_nextval('{}')", names[0]));
        assert_eq!(client.one::<String>("SELECT name::text FROM hilo_sequences"), names[0]);
        client.refusal(&format!("SELECT hilo_create('{}')", names[0])).is("42710").helps();
    }
    cluster.finish();
}

/// A role of such a name can be granted to; a key format, which is put together byte by byte, must be
/// ASCII there.
#[test]
fn other_texts_in_other_encodings() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = database(&cluster, "LATIN1");
    client.run("CREATE ROLE \"Zoë\"; SELECT hilo_create('granted'); SELECT hilo_grant('granted', 'Zoë', 'USAGE')");
    client.run("SET ROLE \"Zoë\"; SELECT hilo_nextval('granted'); RESET ROLE");
    client
        .refusal("SELECT hilo_create('formatted', key_format => 'Größe-{value}')")
        .is("22023")
        .says("ASCII")
        .helps();
    client.refusal("SELECT hilo_key_value('granted', 'Größe')").is("22023").helps();
    let mut ascii = database(&cluster, "SQL_ASCII");
    // No client can send this as text, but bytes are bytes there.
    for name in [r"E'\xff\xfe'", r"E'half \xc3'"] {
        ascii.run(&format!("SELECT hilo_create({name}) IS NULL"));
        assert_eq!(ascii.one::<i64>(&format!("SELECT hilo_nextval({name})")), 1);
        assert_eq!(ascii.one::<i64>(&format!("SELECT hilo_setval({name}, 9)")), 9);
        assert_eq!(ascii.one::<i64>(&format!("SELECT hilo_nextval({name})")), 10);
        ascii.refusal(&format!("SELECT hilo_create({name})")).is("42710").says("\\x");
        ascii.run(&format!("SELECT hilo_drop({name})"));
    }
    cluster.finish();
}
