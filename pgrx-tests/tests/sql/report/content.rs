//! The text of the page.

use hilo_tests::{ClientExt, Cluster};

use super::{HOSTILE, headings, page, quote, section, shop, visible_text};

/// Each part is there, with the figures of the views.
#[test]
fn it_shows_what_there_is() {
    let cluster = Cluster::builder().config("hilo.buffer", "5s").start_with_hilo();
    let mut client = shop(&cluster);
    let page = page(&mut client);
    let text = visible_text(&page);
    for part in ["What needs attention", "Sequences", "Gaps", "Leases", "Settings"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("hilo in"), "{text}");
    assert!(text.contains("seen by postgres"), "{text}");

    let findings = visible_text(&format!("</style>{}", section(&page, "findings")));
    let rows = client
        .query("SELECT object, severity, what, what_to_do FROM hilo_check()", &[])
        .expect("it can be checked");
    assert!(rows.len() > 1, "there is something to see");
    for row in &rows {
        for column in 0..4 {
            let value: &str = row.get(column);
            assert!(findings.contains(value), "{value} is not in {findings}");
        }
    }

    let sequences = section(&page, "sequences");
    assert_eq!(
        headings(&page, "sequences").into_iter().collect::<std::collections::BTreeSet<_>>(),
        client.all::<String>("SELECT name FROM hilo_sequences").into_iter().collect()
    );
    let tickets = sequences.split("<tr>").find(|row| row.contains(">tickets<")).expect("a row");
    for figure in ["31.5 k served", ">error<", "Used: ", "class=\"tier-"] {
        assert!(tickets.contains(figure), "{figure}: {tickets}");
    }
    let parcels = sequences.split("<tr>").find(|row| row.contains(">parcels<")).expect("a row");
    assert!(parcels.contains("+ 1.50 k leased"), "{parcels}");
    assert!(parcels.contains("1,500 leased"), "{parcels}");
    let idle = sequences.split("<tr>").find(|row| row.contains(">idle<")).expect("a row");
    assert!(idle.contains("not active"), "{idle}");
    let bills = sequences.split("<tr>").find(|row| row.contains(">bills<")).expect("a row");
    assert!(bills.contains("gapless") && !bills.contains("not active"), "{bills}");

    assert_eq!(headings(&page, "gaps"), ["revoked"]);
    assert!(section(&page, "gaps").contains("revoked</title>"), "{page}");
    assert_eq!(headings(&page, "leases"), ["sorter-7", "sorter-8"]);
    assert!(section(&page, "leases").contains("in 60 min"), "{page}");
    assert_eq!(headings(&page, "settings"), ["hilo.buffer"]);
    assert!(section(&page, "settings").contains("<bdi>5 s</bdi>"), "{page}");

    client.run("SELECT hilo_alter('tickets', description => 'for the <lottery>')");
    let page = super::page(&mut client);
    assert_eq!(headings(&page, "sequences")[0], "tickets (for the <lottery>)");
    let object = "sequence \"tickets\" (for the <lottery>)";
    let found = format!("SELECT severity FROM hilo_check() WHERE object = '{object}'");
    assert_eq!(client.one::<String>(&found), "error");
    assert!(visible_text(&page).contains(object), "{page}");
    cluster.finish();
}

/// A role sees what the views and hilo_check show it, and nothing else.
#[test]
fn a_role_sees_what_the_views_show_it() {
    let cluster = Cluster::with_hilo();
    let mut admin = shop(&cluster);
    admin.run(
        "CREATE ROLE clerk LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE stranger LOGIN;
         CREATE ROLE owner LOGIN; SELECT hilo_grant('orders', 'clerk', 'USAGE');
         SELECT hilo_set_owner('parcels', 'owner')",
    );
    for (role, expected) in [("clerk", 1), ("watcher", 5), ("stranger", 0), ("owner", 1)] {
        let mut client = cluster.connect_as(role, "postgres");
        let page = page(&mut client);
        let mut seen = headings(&page, "sequences");
        seen.sort();
        assert_eq!(
            seen,
            client.all::<String>("SELECT name FROM hilo_sequences ORDER BY name"),
            "{role}"
        );
        assert_eq!(seen.len(), expected, "{role}");
        assert_eq!(
            headings(&page, "leases"),
            client.all::<String>("SELECT DISTINCT holder FROM hilo_leases ORDER BY 1"),
            "{role}"
        );
        assert_eq!(
            headings(&page, "gaps"),
            client.all::<String>("SELECT DISTINCT reason FROM hilo_gaps"),
            "{role}"
        );
        let text = visible_text(&page);
        for finding in client.all::<String>("SELECT what FROM hilo_check()") {
            assert!(text.contains(&finding), "{role} does not see {finding}");
        }
        let names: Vec<String> = admin.all("SELECT name FROM hilo_sequences");
        for name in names.iter().filter(|name| !seen.contains(name)) {
            assert!(!text.contains(name.as_str()), "{role} sees {name}: {text}");
        }
        assert!(!text.contains("cannot be read"), "{role}: {text}");
    }
    cluster.finish();
}

/// However many sequences, findings and holders there are, a table has 200 rows, and says how many are left out.
#[test]
fn tables_have_an_end() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s' || n) FROM generate_series(1, 250) n;
         SELECT hilo_lease('s' || n, 1, 'holder ' || n) FROM generate_series(1, 230) n;
         CREATE TABLE t ();
         DO $$ BEGIN FOR n IN 1..220 LOOP
             EXECUTE format('ALTER TABLE t ADD c%s bigint DEFAULT hilo_nextval(''missing %s'')', n, n);
         END LOOP; END $$",
    );
    let page = page(&mut client);
    for (part, more) in [("sequences", 50), ("leases", 30)] {
        assert_eq!(headings(&page, part).len(), 200, "{part}");
        assert!(section(&page, part).contains(&format!(">{more} more ")), "{part}");
    }
    assert_eq!(section(&page, "findings").matches("<th scope=\"row\">").count(), 200);
    let found: i64 = client.one("SELECT count(*) FROM hilo_check()");
    let more = format!(">{} more findings", found - 200);
    assert!(section(&page, "findings").contains(&more), "{more}");
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    cluster.finish();
}

/// Everything that needs attention comes first: errors and warnings of hilo_check, then what is
/// used most, then by rate.
#[test]
fn what_needs_attention_comes_first() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create(name, data_type => 'smallint', block_size => 10)
           FROM unnest(ARRAY['a idle', 'b busy', 'c used by half', 'd nearly used', 'e used up', 'f calm']) AS name;
         SELECT hilo_create('cycles', data_type => 'smallint', cycle => true, block_size => 10)",
    );
    // In another transaction, which does not serve itself.
    client.run(
        "SELECT hilo_nextval('e used up') FROM generate_series(1, 32000);
         SELECT hilo_nextval('d nearly used') FROM generate_series(1, 28000);
         SELECT hilo_nextval('c used by half') FROM generate_series(1, 17000);
         SELECT hilo_nextval('cycles') FROM generate_series(1, 20000);
         SELECT hilo_nextval('b busy') FROM generate_series(1, 2000);
         SELECT hilo_nextval('f calm')",
    );
    let order =
        ["e used up", "d nearly used", "c used by half", "cycles", "b busy", "f calm", "a idle"];
    assert_eq!(headings(&page(&mut client), "sequences"), order);
    cluster.finish();
}

/// Names, holders, databases, settings and messages are text, whatever they hold; the page is ASCII.
#[test]
fn everything_foreign_is_escaped() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE \"<script>db & co\"");
    let mut client = cluster.connect("<script>db & co");
    client.run("CREATE SCHEMA \"a <b>\" CREATE TABLE t (); CREATE EXTENSION hilo SCHEMA \"a <b>\"");
    client.run("SET search_path = \"a <b>\", public; SET hilo.server_prefix = '<b>'");
    client.run("CREATE ROLE \"<script>role\" SUPERUSER; SET ROLE \"<script>role\"");
    for name in HOSTILE {
        let name = quote(name);
        client.run(&format!("SELECT hilo_create({name}), hilo_nextval({name})"));
        client.run(&format!("SELECT hilo_lease({name}, 10, {name} || E'\\n\\t\\x7f')"));
    }
    let long = "<".repeat(255);
    client.run(&format!("SELECT hilo_create('{long}')"));
    let html = page(&mut client);
    assert!(html.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{html}");
    for name in HOSTILE {
        let name = name.replace('\u{202E}', "[U+202E]").replace('\u{2066}', "[U+2066]");
        assert!(headings(&html, "sequences").contains(&name), "{name}: {html}");
        let holder = name + "[U+000A][U+0009][U+007F]";
        assert!(headings(&html, "leases").contains(&holder), "{holder}: {html}");
    }
    assert!(headings(&html, "sequences").contains(&long));
    let text = visible_text(&html);
    for foreign in ["<script>db & co", "<script>role", "<b>"] {
        assert!(text.contains(foreign), "{foreign}: {text}");
    }
    // The text of the page's own source, and no tag else.
    let tags = html.split('<').skip(1).map(|tag| {
        tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("")
    });
    for tag in tags {
        let known = "!DOCTYPE html head meta style title body header main section h1 h2 p dl div dt dd ul li span bdi \
                     table caption thead tbody tr th td svg path rect g small figure figcaption";
        let known = known.split_whitespace().map(|tag| tag.trim_start_matches('!'));
        assert!(tag.is_empty() || known.into_iter().any(|known| known == tag), "<{tag}");
    }
    cluster.finish();
}

/// The page needs nothing from elsewhere: no address, no script, no picture, no style sheet, no font.
#[test]
fn it_is_in_one_piece() {
    let cluster = Cluster::with_hilo();
    let page = page(&mut shop(&cluster)).to_lowercase();
    for needs in [
        "http:",
        "https:",
        "//",
        "<script",
        "<link",
        "<img",
        "<iframe",
        "<object",
        "url(",
        "@import",
        "@font-face",
        " src=",
        " href=",
        "javascript:",
        " on",
    ] {
        // Attributes only: " on" stands in sentences.
        let found = match needs {
            " on" => page.split('<').skip(1).any(|tag| {
                let tag = tag.split('>').next().unwrap_or("");
                tag.split('"').step_by(2).any(|part| part.contains(" on"))
            }),
            _ => page.contains(needs),
        };
        assert!(!found, "{needs} is in {page}");
    }
    assert!(page.contains("default-src 'none'"), "{page}");
    cluster.finish();
}

/// A new database has an empty page, not none.
#[test]
fn nothing_is_shown_as_nothing() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE nobody_special LOGIN");
    let page = page(&mut cluster.connect_as("nobody_special", "postgres"));
    let text = visible_text(&page);
    for said in [
        "There is no sequence that this role may read.",
        "None: no value of these sequences is lost.",
        "None is open.",
        "All are at their defaults.",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    cluster.finish();
}

/// The rates of hilo_stat_rates follow each other without a break until now, and make what was taken.
#[test]
fn rates_over_time_make_what_was_taken() {
    let cluster = Cluster::builder()
        .config("hilo.sample_interval", "100ms")
        .config("hilo.window", "2s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders', block_size => 1000)");
    client.run("SELECT hilo_nextval('orders')");
    hilo_tests::wait_until("some samples", hilo_tests::LONG, || {
        client.run("SELECT hilo_nextval('orders') FROM generate_series(1, 200)");
        client.one::<i64>("SELECT count(*) FROM hilo_stat_rates") >= 4
    });
    let sql = "SELECT bool_and(since < until AND rate >= 0), bool_and(before IS NULL OR before = since),
                      max(until) BETWEEN clock_timestamp() - interval '10 s' AND clock_timestamp(),
                      max(rate) > 0
                 FROM (SELECT *, lag(until) OVER (ORDER BY since) AS before FROM hilo_stat_rates) r";
    let row = client.query_one(sql, &[]).expect("there are rates");
    for (column, what) in ["intervals", "no break", "until now", "a rate"].into_iter().enumerate() {
        assert!(row.get::<_, bool>(column), "{what}");
    }
    // No more than was taken from the pool: what was served, and what the session holds.
    let sql = "SELECT (SELECT sum(rate * extract(epoch FROM until - since)) FROM hilo_stat_rates) <= served + in_slices + 1
                 FROM hilo_stat_sequences";
    assert!(client.one::<bool>(sql));
    cluster.finish();
}
