//! The document's sections: for each measurement a description, a table, and a picture.

use super::contenders::*;
use super::pictures::{bulk_sizes, crowds};
use super::results::Results;
use super::table::{Section, Table, cell, median};
use super::{
    bystanders, client_sections, copies, first, footprint, gapless, inserts, latency, parallel,
    throughput,
};

/// The sections of the page.
pub const ON_PAGE: [fn(&Results) -> Section; 15] = [
    call,
    sessions,
    insert,
    without_holes,
    copy,
    bystanders::section,
    long_calls,
    client_sections::hits,
    client_sections::fleet,
    client_sections::branches,
    wal,
    many,
    first_calls,
    first_uses,
    memory,
];

/// Sections that only `ONLY` prints; docs/benchmarks.tsv has their samples.
pub const PRINTED: [fn(&Results) -> Section; 4] =
    [bulk, statements, parallel_query, gaps_per_connection];

/// The short table, for the README too: cost, throughput, rows, WAL, numbers lost.
pub fn summary(results: &Results) -> Table {
    let mut table = Table::new(&[
        "",
        "µs for a row of a long INSERT",
        "µs for a row of a long COPY",
        "lost to 1,000 short connections",
        "WAL for a million, kB",
        "million/s, 8 sessions",
        "ns for a call",
    ]);
    if results.words("connections") != "1000" {
        table.head[3] = format!("lost to {} short connections", results.words("connections"));
    }
    for contender in [&CORE_1, &CORE_100, &CORE_1000, &HILO, &ORDERED] {
        let id = contender.id;
        let median = |key: String, factor: f64| cell(results.median(&key).map(|m| m * factor));
        let over = results.over(&format!("call/{id}"), &format!("call/{}", contender.floor));
        table.row(
            contender.label,
            [
                median(format!("insert/{id}"), 1e-3),
                median(format!("copy/table/{id}"), 1e-3),
                median(format!("burned/{id}"), 1.0),
                median(format!("wal/bytes/{id}"), 1e-3),
                median(format!("throughput/{id}/8"), 1e-6),
                cell(over.map(|stat| stat.median)),
            ],
        );
    }
    table
}

fn call(results: &Results) -> Section {
    let mut table = Table::new(&["", "ns over the floor", "ns in all", "against CACHE 1000"]);
    let over =
        |who: &Contender| results.over(&format!("call/{}", who.id), &format!("call/{}", who.floor));
    let core = over(&CORE_1000).map(|stat| stat.median);
    for contender in CALLED {
        let cost = over(contender);
        let ratio = cost.and_then(|stat| Some(stat.median / core?));
        let total = results.stat(&format!("call/{}", contender.id));
        table.row(contender.label, [median(cost), median(total), cell(ratio)]);
    }
    let floor = results.stat(&format!("call/{}", FLOOR_HILO.id));
    table.row(FLOOR_HILO.label, ["–".to_owned(), median(floor), "–".to_owned()]);
    let counter = results.stat("call/counter");
    table.row(
        "counter table, a transaction each",
        [median(counter), median(counter), "–".to_owned()],
    );
    let text = format!(
        "`SELECT count(CALL) FROM generate_series(1, {})` by one session. A floor is a C function of core \
         that takes the same argument and only looks at it: its time is what the executor needs for a row \
         and a call of any function. *Over the floor* is the median of the differences within each round.",
        results.words("calls")
    );
    let picture = Some(("call", "What a number costs over a function that does nothing"));
    Section { title: "The cost of a call", text, tables: vec![table], picture }
}

fn bulk(results: &Results) -> Section {
    let sizes = bulk_sizes(results);
    let heads: Vec<String> = sizes.iter().map(|n| format!("n = {n}, µs")).collect();
    let mut head = vec![""];
    head.extend(heads.iter().map(String::as_str));
    let mut table = Table::new(&head);
    let ways = [
        ("nextval", "`hilo_nextval` for each row of `generate_series`"),
        ("nextvals", "`SELECT count(*) FROM hilo_nextvals('s', n)`"),
        ("nextrange", "`SELECT * FROM hilo_nextrange('s', n)`"),
        ("generate_series", "`generate_series(1, n)` alone: the rows themselves"),
    ];
    for (way, label) in ways {
        let stat = |n: &u64| results.stat(&format!("bulk/{way}/{n}"));
        table.row(label, sizes.iter().map(|n| median(stat(n).map(|stat| stat.times(1e-3)))));
    }
    Section {
        title: "Many numbers at once",
        text: "Whole statements, prepared, with their round trip to the client.".to_owned(),
        tables: vec![table],
        picture: Some(("bulk", "What n numbers cost, by way of getting them")),
    }
}

fn rates(results: &Results, key: &str, who: &[&Contender], sessions: &[usize], unit: f64) -> Table {
    let heads: Vec<String> = sessions.iter().map(usize::to_string).collect();
    let mut head = vec!["sessions"];
    head.extend(heads.iter().map(String::as_str));
    let mut table = Table::new(&head);
    for contender in who {
        let stat = |n: &usize| results.stat(&format!("{key}/{}/{n}", contender.id));
        let cells = sessions.iter().map(|n| median(stat(n).map(|stat| stat.times(unit))));
        table.row(contender.label, cells);
    }
    table
}

fn sessions(results: &Results) -> Section {
    let who = [&CORE_1, &CORE_100, &CORE_1000, &HILO, &ORDERED, &UUID, &FLOOR_HILO];
    let table = rates(results, "throughput", &who, &[1, 4, 8, 32], 1e-6);
    let mut steady =
        Table::new(&["in steady state, 8 sessions", "numbers", "blocks reserved", "waits"]);
    for contender in [&HILO, &ORDERED] {
        let count = |what| cell(results.sum(&format!("steady/{what}/{}", contender.id)));
        steady.row(contender.label, ["served", "blocks_reserved", "waits"].map(count));
    }
    let text = format!(
        "Millions of numbers per second of all sessions together, from one sequence, by long SELECTs. Of hilo's {} \
         numbers {} had to wait for a block. The second table shows a steady load.",
        cell(results.sum("throughput/served")),
        cell(results.sum("throughput/waits")),
    );
    let picture = Some(("throughput", "Numbers a second by the number of sessions"));
    Section { title: "Sessions that draw at once", text, tables: vec![table, steady], picture }
}

fn statements(results: &Results) -> Section {
    let who = [&CORE_1, &CORE_1000, &HILO, &ORDERED, &COUNTER, &FLOOR_HILO];
    let table = rates(results, "statements", &who, &throughput::PGBENCH_SESSIONS, 1e-3);
    Section {
        title: "One statement for each number",
        text: "Thousands of numbers per second of all sessions together, by `pgbench -M prepared`: each number \
               takes a round trip, which is most of the time. CACHE 1 and the counter table also wait for the disk \
               when they commit what they have logged."
            .to_owned(),
        tables: vec![table],
        picture: Some(("statements", "Numbers a second, one statement for each")),
    }
}

fn insert(results: &Results) -> Section {
    let mut table = Table::new(&[
        "default of the primary key",
        "µs for a row of a long INSERT",
        "against no default",
        "rows/s, 8 sessions, single rows",
        "the same, `synchronous_commit = off`",
    ]);
    let floor = results.median("insert/floor");
    let labels = inserts::DEFAULTS.iter().map(|who| (who.id, who.label));
    let others = [("counter", "counter table, in a WITH"), ("floor", "none: the number is there")];
    for (id, label) in labels.chain(others) {
        let cost = results.stat(&format!("insert/{id}"));
        let ratio = cost.and_then(|cost| Some(cost.median / floor?));
        let rows = |commit| median(results.stat(&format!("rows/{id}/{commit}")));
        let cost = median(cost.map(|cost| cost.times(1e-3)));
        table.row(label, [cost, cell(ratio), rows("on"), rows("off")]);
    }
    let text = format!(
        "`INSERT INTO t (v) SELECT n FROM generate_series(1, {}) n` into an empty table with a primary key, by one \
         session; and single rows through `pgbench -M prepared`, one transaction each. The number is a small part \
         of the cost of a row, and a commit that waits for the disk is nearly all of the cost of a transaction. \
         A key is a `text` column, so its rows and its index are wider.",
        results.words("calls"),
    );
    let picture = Some(("insert", "Microseconds for a row, by the default of its key"));
    Section { title: "INSERT", text, tables: vec![table], picture }
}

fn copy(results: &Results) -> Section {
    let mut table = Table::new(&[
        "default",
        "µs for a row",
        "against CACHE 1000",
        "WAL for a million, MB",
        "µs for a row, 8 partitions",
        "against CACHE 1000",
        "WAL for a million, MB",
    ]);
    let loaded = copies::LOADED.iter().map(|who| (who.id, who.label));
    for (id, label) in loaded.chain([("floor", "none: the number is in the file")]) {
        let cells = copies::TABLES.iter().flat_map(|table| {
            let key = format!("copy/{table}/{id}");
            let cost = results.stat(&key).map(|cost| cost.times(1e-3));
            let ratio = results.ratio(&key, &format!("copy/{table}/core1000"));
            let wal = results.median(&format!("copy/wal/{table}/{id}"));
            [median(cost), cell(ratio), cell(wal.map(|bytes| bytes * 1e-6))]
        });
        table.row(label, cells.collect::<Vec<_>>());
    }
    let text = format!(
        "`COPY t (v) FROM` a file of {} lines, into an empty table `t (id bigint DEFAULT …, v integer)` without an \
         index, by one session; and into the same table with eight partitions by the hash of `v`. Core inserts \
         row by row, each with a WAL record of its own, where a default is volatile, as `gen_random_uuid()` is. It \
         exempts its own `nextval`, and hilo has its functions exempted: with both, rows are inserted many at a time.",
        results.words("calls")
    );
    let picture = Some(("copy", "Microseconds for a row of COPY, by its default"));
    Section { title: "COPY", text, tables: vec![table], picture }
}

fn parallel_query(results: &Results) -> Section {
    let mut table = Table::new(&["number", "ms", "workers", "times as fast as CACHE 1"]);
    let core = results.median("parallel/core1");
    for (id, label, _) in parallel::NUMBERED {
        let time = results.stat(&format!("parallel/{id}"));
        let faster = time.and_then(|time| Some(core? / time.median));
        let workers = cell(results.median(&format!("parallel/workers/{id}")));
        table.row(label, [median(time), workers, cell(faster)]);
    }
    let text = format!(
        "`CREATE TABLE … AS SELECT CALL, totals.* FROM (SELECT g, count(*), sum(n), avg(n) FROM many GROUP BY g) AS \
         totals` over {} rows in a thousand groups, with `max_parallel_workers_per_gather = 2`. Core's `nextval` makes a whole query serial; with \
         `hilo_nextval` it stays parallel, and the leader draws.",
        results.words("parallel_rows")
    );
    Section { title: "Parallel queries", text, tables: vec![table], picture: None }
}

fn without_holes(results: &Results) -> Section {
    let mut rates = Table::new(&[
        "rows/s, 8 sessions, a transaction each",
        "one sequence",
        "1,000 sequences",
        "one, `synchronous_commit = off`",
        "1,000, `synchronous_commit = off`",
    ]);
    for (id, label, _) in gapless::WAYS {
        let rate =
            |crowd: u32, commit| median(results.stat(&format!("gapless/{id}/{crowd}/{commit}")));
        let [one, many] = gapless::CROWDS;
        rates.row(label, [rate(one, "on"), rate(many, "on"), rate(one, "off"), rate(many, "off")]);
    }
    let mut rows = Table::new(&["µs for a row of one large transaction", "median"]);
    for (id, label, _) in gapless::DRAWS {
        let cost = results.stat(&format!("gapless/row/{id}"));
        rows.row(label, [median(cost.map(|cost| cost.times(1e-3)))]);
    }
    let text = "A row with the next number, by a gapless sequence and by a row of a counter table. All of them let one \
                transaction at a time count, so with one sequence the rate is that of commits that wait for each other. \
                In a large transaction, a gapless sequence draws as an ordinary one does."
        .to_owned();
    let tables = vec![rates, rows];
    Section { title: "Numbers without holes", text, tables, picture: None }
}

fn long_calls(results: &Results) -> Section {
    let table = |sessions: usize| {
        let first = format!("{sessions} session{}, µs", if sessions == 1 { "" } else { "s" });
        let mut head = vec![first.as_str()];
        head.extend(latency::PERCENTILES[1..].iter().map(|(name, _)| *name));
        head.push("waits");
        let mut table = Table::new(&head);
        for (id, label, _) in latency::TIMED.iter().filter(|(id, ..)| *id != "ordered_off") {
            let key = format!("latency/{sessions}/{id}");
            let times = latency::PERCENTILES[1..].iter().map(|(name, _)| {
                let name = format!("{key}/{name}");
                if name.ends_with("max") { results.max(&name) } else { results.median(&name) }
            });
            let waits = results.sum(&format!("{key}/waits"));
            table.row(label, times.chain([waits]).map(cell));
        }
        table
    };
    Section {
        title: "How long calls take, to the longest",
        text: "The server's clock is read before and after each call; it counts whole microseconds, so 0 is less than \
               one. With more sessions than cores a call can be interrupted while other sessions have the core. That \
               affects the floor too, where only a clock is read, and is most of every maximum."
            .to_owned(),
        tables: vec![table(8)],
        picture: Some(("latency", "How long calls take, by percentile")),
    }
}

fn wal(results: &Results) -> Section {
    let what = ["bytes", "records"];
    let mut table = Table::new(&["for a million numbers", "bytes", "records"]);
    let cold = Contender { id: "cold", label: "hilo, the first million of a sequence", ..HILO };
    for contender in [&CORE_1, &CORE_100, &CORE_1000, &HILO, &ORDERED, &cold, &COUNTER] {
        let stat = |what| median(results.stat(&format!("wal/{what}/{}", contender.id)));
        table.row(contender.label, what.map(stat));
    }
    Section {
        title: "WAL and catalog writes",
        text: "The WAL of one session, measured by `pg_current_wal_insert_lsn()` and `pg_waldump --stats`. hilo \
               updates a row for each block that it reserves. The counter table is measured over fewer numbers, one transaction \
               each, and scaled up."
            .to_owned(),
        tables: vec![table],
        picture: Some(("wal", "WAL for a million numbers")),
    }
}

fn gaps_per_connection(results: &Results) -> Section {
    let mut table = Table::new(&["", "numbers that no connection got"]);
    for contender in footprint::SHORT {
        table.row(contender.label, [cell(results.median(&format!("burned/{}", contender.id)))]);
    }
    let text = format!(
        "{} connections, four at a time, take one number each from each sequence and disconnect. Numbers between \
         those that they got, and that no connection got, are lost; with hilo they are returned and served to the \
         next connection.",
        results.words("connections")
    );
    let picture = Some(("burned", "Numbers lost to short connections"));
    Section { title: "Short connections", text, tables: vec![table], picture }
}

fn many(results: &Results) -> Section {
    let mut table =
        Table::new(&["sequences", "hilo, ns", "hilo in all, ns", "core, ns", "core in all, ns"]);
    for n in crowds(results) {
        let over = |way: &str| {
            median(results.over(&format!("many/{way}/{n}"), &format!("many/floor_{way}/{n}")))
        };
        let total = |way: &str| median(results.stat(&format!("many/{way}/{n}")));
        table.row(&n.to_string(), [over("hilo"), total("hilo"), over("core"), total("core")]);
    }
    Section {
        title: "Many sequences at random",
        text: "One session calls `hilo_nextval('tenant-' || (1 + floor(random() * n))::integer)`, and \
               `nextval(('tenant_' || …)::regclass)` of core's sequences with CACHE 32. The columns show the time \
               beyond that of the same expression without drawing, and the time in all. A session has slices of \
               `hilo.max_backend_slices` (64) sequences."
            .to_owned(),
        tables: vec![table],
        picture: Some(("many", "The cost of a call by the number of sequences")),
    }
}

fn first_calls(results: &Results) -> Section {
    let mut table = Table::new(&[
        "",
        "after connecting, ms",
        "over CACHE 1, ms",
        "the call after that, ms",
        "connections/s, a call each",
        "after the server's start, ms",
    ]);
    for contender in first::FIRST {
        let stat = |when| results.stat(&format!("first/{when}/{}", contender.id));
        let time = |when| median(stat(when).map(|s| s.times(1e-3)));
        let first = format!("first/connect/{}", contender.id);
        let over =
            results.over(&first, "first/connect/core1").filter(|_| contender.id != CORE_1.id);
        let over = median(over.map(|s| s.times(1e-3)));
        table.row(
            contender.label,
            [time("connect"), over, time("second"), median(stat("rate")), time("start")],
        );
    }
    Section {
        title: "First calls",
        text: "The time from sending a session's first call to receiving its answer, after a `SELECT 1`, on a server that preloads \
               hilo. Another session has used the sequence before. The connections are those of one client of `pgbench -C`. After the \
               server's start the first call also waits for a worker to start, connect, and reserve a block."
            .to_owned(),
        tables: vec![table],
        picture: Some(("first", "First calls")),
    }
}

fn first_uses(results: &Results) -> Section {
    let count = results.words("first uses");
    let head = ["", "after the server's start, ms", "of those, waits", "after their creation, ms"];
    let mut table = Table::new(&head);
    for (id, label) in [("core", "core"), ("hilo", "hilo")] {
        let columns = ["use", "waits", "new"];
        table.row(label, columns.map(|what| median(results.stat(&format!("first/{what}/{id}")))));
    }
    let created = median(results.stat("first/created").map(|stat| stat.times(1e-3)));
    Section {
        title: "First uses of sequences",
        text: format!(
            "One session draws once from each of {count} sequences, in one statement; none of them has been used since the \
             server's start. Or the session has just created them. The first number of a sequence that `hilo.auto_create` \
             creates takes {created} ms."
        ),
        tables: vec![table],
        picture: None,
    }
}

fn memory(results: &Results) -> Section {
    let crowds = crowds(results);
    let heads: Vec<String> = crowds.iter().map(|n| format!("{n}, kB")).collect();
    let mut head = vec!["memory added per session, by number of sequences"];
    head.extend(heads.iter().map(String::as_str));
    let mut table = Table::new(&head);
    for (kind, label) in [("hilo", "hilo"), ("core", "core"), ("floor", "only building the names")]
    {
        let stat = |n: &u64| results.stat(&format!("memory/{kind}/{n}"));
        table.row(
            label,
            crowds.iter().map(|n| median(stat(n).map(|stat| stat.times(1.0 / 1024.0)))),
        );
    }
    let text = format!(
        "Shared memory is {} MB with `hilo.max_sequences = 12000`, which is {} bytes for each slot. For 100,000 active \
         sequences it is {} MB. A session's own memory is what `/proc/PID/smaps_rollup` calls anonymous, minus what it was \
         after a first query.",
        cell(results.median("memory/shared").map(|bytes| bytes / 1048576.0)),
        cell(results.median("memory/slot")),
        cell(results.median("memory/large").map(|bytes| bytes / 1048576.0)),
    );
    Section { title: "Memory", text, tables: vec![table], picture: None }
}
