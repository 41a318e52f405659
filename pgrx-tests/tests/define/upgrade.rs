//! `scripts/upgrade` makes of an older version's objects what a new database has, and leaves rows, and what users have granted
//! and made, as they are. The new version is made up: the parts of this one, with a change of each kind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hilo_tests::extension::{CURRENT, assert_equal_objects, install_script, objects};
use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The versions of these tests are older than the library, which refuses to create newer objects. Until they are of its own
/// version, it serves nothing.
const OLD: &str = "0.9.1";
const NEW: &str = "0.9.2";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs a script of the project.
fn run(script: &str, arguments: &[&Path]) -> Output {
    let script = root().join("scripts").join(script);
    Command::new(script).args(arguments).output().expect("cannot run the script")
}

#[track_caller]
fn assert_fails(output: Output, says: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains(says), "{error}");
}

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the script is UTF-8")
}

/// A copy of the parts, in a directory of the cluster.
struct Parts(PathBuf);

impl Parts {
    fn copy(cluster: &Cluster) -> Parts {
        let copy = cluster.file("parts");
        fs::create_dir_all(&copy).expect("cannot make the directory");
        for part in fs::read_dir(root().join("sql")).expect("the parts") {
            let part = part.expect("a part").path();
            let name = part.file_name().expect("its name");
            fs::copy(&part, copy.join(name)).expect("cannot copy the part");
        }
        Parts(copy)
    }

    #[track_caller]
    fn replace(&self, part: &str, old: &str, new: &str) -> &Parts {
        let place = self.0.join(format!("{part}.sql"));
        let text = fs::read_to_string(&place).expect("cannot read the part");
        assert!(text.contains(old), "{part} has no {old}");
        self.write(part, &text.replace(old, new))
    }

    /// Takes away the statements of a part that name something.
    #[track_caller]
    fn remove(&self, part: &str, name: &str) -> &Parts {
        let place = self.0.join(format!("{part}.sql"));
        let text = fs::read_to_string(&place).expect("cannot read the part");
        let (gone, left): (Vec<_>, Vec<_>) =
            text.split_inclusive(";\n").partition(|statement| statement.contains(name));
        assert!(!gone.is_empty(), "{part} has no {name}");
        self.write(part, &left.concat())
    }

    fn append(&self, part: &str, sql: &str) -> &Parts {
        let place = self.0.join(format!("{part}.sql"));
        let text = fs::read_to_string(&place).unwrap_or_default();
        self.write(part, &(text + sql))
    }

    fn write(&self, part: &str, text: &str) -> &Parts {
        fs::write(self.0.join(format!("{part}.sql")), text).expect("cannot write the part");
        self
    }

    fn upgrade(&self) -> Output {
        run("upgrade", &[&root().join("sql"), &self.0])
    }

    /// Installs the objects of both versions, and what leads from one to the other.
    fn install(&self) {
        let sql = |directory: &Path| printed(run("sql", &[directory]));
        let old = sql(&root().join("sql"));
        install([(OLD, &old), (NEW, &sql(&self.0))], &printed(self.upgrade()));
    }
}

fn install(versions: [(&str, &str); 2], upgrade: &str) {
    let [(old, old_sql), (new, new_sql)] = versions;
    install_script(&format!("hilo--{old}.sql"), old_sql);
    install_script(&format!("hilo--{new}.sql"), new_sql);
    install_script(&format!("hilo--{old}--{new}.sql"), upgrade);
}

/// The parts of a version with a change of each kind.
fn next(cluster: &Cluster) -> Parts {
    let parts = Parts::copy(cluster);
    // A table's column and index.
    parts
        .replace(
            "catalog",
            "    released_from _hilo.hilo_column\n",
            "    released_from _hilo.hilo_column,\n    note text\n",
        )
        .append("catalog", "COMMENT ON COLUMN _hilo.hilo_gap.note IS 'A note';\n")
        .append("catalog", "CREATE INDEX hilo_gap_note_idx ON _hilo.hilo_gap (note);\n")
        .write(
            "changes",
            "ALTER TABLE _hilo.hilo_gap ADD COLUMN note text;
             CREATE INDEX hilo_gap_note_idx ON _hilo.hilo_gap (note);
             COMMENT ON COLUMN _hilo.hilo_gap.note IS 'A note';",
        );
    // Views' columns, comments and grants; a new view.
    parts
        .replace(
            "gaps",
            "g.increment)\n           END AS numbering\n",
            "g.increment)\n           END AS numbering, g.note\n",
        )
        .replace("gaps", "l.epoch >> 24, l.increment)\n", "l.epoch >> 24, l.increment), NULL\n")
        .append("gaps", "COMMENT ON COLUMN @extschema@.hilo_gaps.note IS 'A note';\n")
        .replace(
            "views",
            "\n      FROM _hilo.hilo_visible v;",
            ", 1 AS one\n      FROM _hilo.hilo_visible v;",
        )
        .append("views", "COMMENT ON COLUMN @extschema@.hilo_sequences.one IS 'A one';\n")
        .replace("views", " @extschema@.hilo_blocks, ", " ")
        .append("views", "GRANT SELECT ON @extschema@.hilo_blocks TO pg_monitor;\n")
        .replace(
            "views",
            "hilo_blocks IS 'Values in memory",
            "hilo_blocks IS 'The values in memory",
        )
        .append(
            "views",
            "CREATE VIEW _hilo.hilo_news AS SELECT n.* FROM _hilo.hilo_new(1) n (n);\n",
        )
        .append("views", "REVOKE ALL ON _hilo.hilo_news FROM PUBLIC;\n");
    // Arguments, also of functions that others, and views, are bound to; results, bodies, grants; functions that come and go.
    parts
        .replace("functions", "nodes integer, stripe bigint\n) RETURNS bigint", "nodes integer, stripe bigint, also text DEFAULT 'x'\n) RETURNS bigint")
        .replace("functions", "boolean, integer, integer, bigint) IS", "boolean, integer, integer, bigint, text) IS")
        .replace("functions", "cascade boolean DEFAULT false\n) RETURNS void", "cascade boolean DEFAULT false,\n    note text DEFAULT NULL\n) RETURNS void")
        .replace("functions", "hilo_drop(@extschema@.hilo_sequence, boolean, boolean) IS", "hilo_drop(@extschema@.hilo_sequence, boolean, boolean, text) IS")
        .replace("functions", "last_value bigint, left_in_slice bigint", "last_value bigint, in_slice bigint")
        .replace("views", "st.left_in_slice", "st.in_slice AS left_in_slice")
        .replace("mappers", "COALESCE(marks[i + 1], '')", "COALESCE(marks[i + 1], ''::text)")
        .replace("check", "ROWS 10\n    SET search_path", "ROWS 9\n    SET search_path")
        .append("leases", "CREATE FUNCTION _hilo.hilo_new(n integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN n;\n")
        .append("leases", "REVOKE ALL ON FUNCTION _hilo.hilo_new(integer) FROM PUBLIC;\n")
        .append("draw", "REVOKE ALL ON FUNCTION @extschema@.hilo_lastval() FROM PUBLIC;\n")
        .append("draw", "GRANT EXECUTE ON FUNCTION @extschema@.hilo_lastval() TO pg_monitor;\n")
        .remove("draw", "@extschema@.hilo_next_hi(");
    // Triggers.
    parts
        .remove("triggers", "ENABLE ALWAYS TRIGGER missing_grantee")
        .remove("triggers", "TRIGGER note_roles AFTER INSERT ON _hilo.hilo_privilege")
        .append("triggers", "CREATE TRIGGER note_roles AFTER INSERT ON _hilo.hilo_gap EXECUTE FUNCTION _hilo.hilo_note_roles();\n")
        .append("triggers", "ALTER TABLE _hilo.hilo_gap ENABLE REPLICA TRIGGER note_roles;\n");
    parts
}

/// An administrator grants and revokes rights on objects that change, and on others.
fn grant(client: &mut Client) {
    client.run(
        "REVOKE EXECUTE ON FUNCTION hilo_drop, hilo_create FROM PUBLIC;
         GRANT EXECUTE ON FUNCTION hilo_drop, hilo_create, hilo_lastval TO app WITH GRANT OPTION;
         GRANT INSERT ON hilo_sequences TO app WITH GRANT OPTION;
         REVOKE SELECT ON hilo_gaps FROM PUBLIC;
         GRANT SELECT ON hilo_gaps, hilo_blocks TO clerk;
         SET ROLE app;
         GRANT EXECUTE ON FUNCTION hilo_drop, hilo_lastval TO clerk;
         GRANT INSERT ON hilo_sequences TO clerk;
         RESET ROLE",
    );
}

/// Sequences with leases and gaps, and what uses the functions and views that the upgrade changes.
fn fill(client: &mut Client) {
    client.run(
        "SELECT hilo_create('orders', block_size => 100), hilo_create('invoices', gapless => true);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         INSERT INTO orders SELECT FROM generate_series(1, 10);
         SELECT hilo_lease_revoke(lease) FROM hilo_lease('orders', 20, 'till 1');
         SELECT FROM hilo_lease('orders', 20, 'till 2', interval '1 day');
         SELECT hilo_nextval('invoices');
         SELECT hilo_grant('orders', 'app', 'USAGE');
         CREATE VIEW lost AS SELECT name, sum(count) AS count FROM hilo_gaps GROUP BY name;
         CREATE FUNCTION late() RETURNS void LANGUAGE sql AS 'SELECT hilo_drop(hilo_create(''late''))'",
    );
    wait_until("the worker makes a gap of the revoked lease", LONG, || {
        client.one("SELECT EXISTS (SELECT FROM _hilo.hilo_gap)")
    });
}

/// Every row of hilo's tables, with the columns that both versions have.
fn rows(client: &mut Client) -> Vec<String> {
    let queries: Vec<String> = client.all(
        "SELECT format('SELECT ROW(%s)::text FROM %s ORDER BY 1',
                       string_agg(quote_ident(attname), ', ' ORDER BY attnum), attrelid::regclass)
           FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND attname <> 'note'
          WHERE relnamespace = '_hilo'::regnamespace AND relkind = 'r' GROUP BY attrelid ORDER BY attrelid",
    );
    queries.iter().flat_map(|rows| client.all::<String>(rows)).collect()
}

fn set_version(client: &mut Client, version: &str) {
    client.run(&format!("UPDATE pg_extension SET extversion = '{version}' WHERE extname = 'hilo'"));
}

fn version(client: &mut Client) -> String {
    client.one("SELECT extversion FROM pg_extension WHERE extname = 'hilo'")
}

fn connect(cluster: &Cluster, database: &str, schema: &str) -> Client {
    let mut client = cluster.connect(database);
    client.run(&format!("SET search_path = {schema}, public"));
    client
}

/// Two databases with the extension in a schema, where functions and views have other grants than by default. Only `upgraded`
/// is used, and comes from the older version. `owner` creates the extension in both, and `updater` updates it.
struct Pair {
    cluster: Cluster,
    fresh: Client,
    upgraded: Client,
    /// A dump of the database before it was upgraded.
    dump: String,
}

impl Pair {
    fn start(schema: &str, owner: &str, updater: &str) -> Pair {
        let cluster = Cluster::builder().preload(true).start();
        next(&cluster).install();
        let mut admin = cluster.connect("postgres");
        admin.run("CREATE ROLE app; CREATE ROLE clerk; CREATE ROLE lesser LOGIN; CREATE ROLE greater LOGIN SUPERUSER");
        let mut made = ["fresh", "upgraded"].map(|database| {
            admin.run(&format!("CREATE DATABASE {database} OWNER lesser"));
            let version = if database == "fresh" { NEW } else { CURRENT };
            let mut owner = cluster.connect_as(owner, database);
            let usage = format!("GRANT USAGE ON SCHEMA {schema} TO PUBLIC");
            owner.run(&format!("CREATE SCHEMA IF NOT EXISTS {schema}; {usage}"));
            owner.run(&format!("CREATE EXTENSION hilo SCHEMA {schema} VERSION '{version}'"));
            connect(&cluster, database, schema)
        });
        let [fresh, upgraded] = &mut made;
        fill(upgraded);
        grant(fresh);
        grant(upgraded);
        let rows_before = rows(upgraded);
        assert!(rows_before.len() > 6, "{rows_before:?}");
        let dump = cluster.pg_dump("upgraded", &[]);
        set_version(upgraded, OLD);
        let update = format!("ALTER EXTENSION hilo UPDATE TO '{NEW}'");
        cluster.connect_as(updater, "upgraded").run(&update);
        assert_eq!(rows(upgraded), rows_before);
        let [fresh, upgraded] = made;
        Pair { cluster, fresh, upgraded, dump }
    }
}

/// Whoever creates and updates the extension, and wherever it lives, the upgraded objects are those of a new database with the
/// same grants. Every row is as it was, and what was in use continues.
#[test]
fn an_upgraded_database_equals_a_new_one() {
    for (schema, owner, updater) in [
        ("public", "postgres", "postgres"),
        ("hilo", "lesser", "lesser"),
        ("\"My own\"", "greater", "postgres"),
    ] {
        let Pair { cluster, mut fresh, mut upgraded, .. } = Pair::start(schema, owner, updater);
        assert_equal_objects(&objects(&mut fresh), &objects(&mut upgraded));
        set_version(&mut upgraded, CURRENT);
        let mut client = connect(&cluster, "upgraded", schema);
        assert_eq!(client.all::<String>("SELECT name || ' ' || count FROM lost"), ["orders 20"]);
        client.run("INSERT INTO orders SELECT FROM generate_series(1, 10)");
        client.run("SELECT late()");
        assert_eq!(client.draw("invoices", 1), [2]);
        assert_eq!(client.one::<i64>("SELECT hilo_lease_return(lease) FROM hilo_leases"), 20);
        client.run("REVOKE ALL ON hilo_sequences, hilo_gaps, hilo_blocks FROM app, clerk CASCADE");
        client.run(
            "REVOKE ALL ON FUNCTION hilo_create, hilo_drop, hilo_lastval FROM app, clerk CASCADE",
        );
        drop(fresh);
        client.run("DROP OWNED BY app, clerk");
        client.run("DROP DATABASE fresh");
        client.run("DROP ROLE app, clerk");
        cluster.finish();
    }
}

/// Where the checkout has the tag of a release: what is written by hand leads from there to the present tables.
#[test]
fn an_upgrade_of_the_last_release_equals_a_new_database() {
    let cluster = Cluster::builder().preload(true).start();
    let git = |arguments: &[&str]| {
        let git = Command::new("git").current_dir(root()).args(arguments).output();
        git.ok().filter(|done| done.status.success()).map(printed)
    };
    let Some(tag) = git(&["describe", "--tags", "--abbrev=0", "--match", "v[1-9]*"]) else {
        println!("skipped: the checkout has no tag of a release");
        return;
    };
    let files = cluster.file("release.tar");
    let output = format!("--output={}", files.display());
    git(&["archive", &output, tag.trim()]).expect("the files of the release");
    let release = cluster.file("release");
    fs::create_dir(&release).expect("cannot make the directory");
    let unpacked = Command::new("tar").arg("-xf").arg(files).arg("-C").arg(&release).output();
    printed(unpacked.expect("tar"));
    let old = printed(Command::new(release.join("scripts/sql")).output().expect("its script"));
    let new = printed(run("sql", &[]));
    install([("0.9.3", &old), ("0.9.4", &new)], &printed(run("upgrade", &[Path::new(tag.trim())])));
    let mut admin = cluster.connect("postgres");
    let [fresh, upgraded] =
        [("fresh", "0.9.4"), ("upgraded", "0.9.3")].map(|(database, version)| {
            admin.run(&format!("CREATE DATABASE {database}"));
            let mut client = cluster.connect(database);
            client.run(&format!("CREATE EXTENSION hilo VERSION '{version}'"));
            client.run("ALTER EXTENSION hilo UPDATE TO '0.9.4'");
            objects(&mut client)
        });
    assert_equal_objects(&fresh, &upgraded);
    cluster.finish();
}

/// A dump has what users had granted and revoked before the upgrade, and nothing of what the extension gives. One from before
/// the upgrade restores into the new version, where functions have other arguments.
#[test]
fn grants_survive_the_upgrade_in_dumps() {
    let Pair { cluster, dump, .. } = Pair::start("hilo", "postgres", "postgres");
    let grants = |dump: &str| -> Vec<String> {
        let is_grant = |line: &&str| line.starts_with("GRANT") || line.starts_with("REVOKE");
        let grants: Vec<&str> = dump.lines().filter(is_grant).collect();
        grants.iter().map(|grant| grant.replace(", note text)", ")")).collect()
    };
    let [fresh, upgraded] = ["fresh", "upgraded"].map(|from| cluster.pg_dump(from, &[]));
    assert_eq!(grants(&upgraded), grants(&fresh));
    assert_eq!(grants(&upgraded).len(), 13, "{:?}", grants(&upgraded));
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE restored");
    let mut client = connect(&cluster, "restored", "hilo");
    client.run(&format!("CREATE SCHEMA hilo; CREATE EXTENSION hilo SCHEMA hilo VERSION '{NEW}'"));
    set_version(&mut client, CURRENT);
    assert!(dump.contains("if_exists boolean, cascade boolean) TO app WITH GRANT OPTION"));
    let dump = dump.replace("CREATE SCHEMA", "CREATE SCHEMA IF NOT EXISTS");
    cluster.restore("restored", &dump);
    set_version(&mut client, NEW);
    let restored = cluster.pg_dump("restored", &[]);
    assert_eq!(grants(&restored), grants(&upgraded));
    cluster.finish();
}

/// A function of users that is bound to one that an upgrade creates again, or drops, stops the upgrade by name, and nothing has
/// changed.
#[test]
fn what_is_bound_to_a_function_that_goes_stops_the_upgrade() {
    let cluster = Cluster::builder().preload(true).start();
    next(&cluster).install();
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION hilo");
    let before = objects(&mut client);
    set_version(&mut client, OLD);
    for (body, bound) in
        [("hilo_drop('made')", "hilo_drop"), ("hilo_next_hi('made')", "hilo_next_hi")]
    {
        client
            .run(&format!("CREATE FUNCTION bound() RETURNS void BEGIN ATOMIC SELECT {body}; END"));
        let update = format!("ALTER EXTENSION hilo UPDATE TO '{NEW}'");
        client.refusal(&update).is("2BP01").says(bound).details("bound() depends");
        assert_eq!(version(&mut client), OLD);
        client.run("DROP FUNCTION bound()");
    }
    set_version(&mut client, CURRENT);
    assert_equal_objects(&before, &objects(&mut client));
    cluster.finish();
}

/// The script says what it cannot make an upgrade of.
#[test]
fn an_upgrade_that_would_fail_is_not_made() {
    let cluster = Cluster::builder().start();
    let refused = |change: &dyn Fn(&Parts), says: &str| {
        let parts = Parts::copy(&cluster);
        change(&parts);
        assert_fails(parts.upgrade(), says);
    };
    let column = "COMMENT ON COLUMN @extschema@.hilo_blocks.pid ";
    refused(&|parts| _ = parts.remove("views", column), "hilo_blocks");
    let table = "CREATE TABLE _hilo.hilo_new (a int);";
    refused(&|parts| _ = parts.append("catalog", table), "hilo_new");
    let (old, new) = ("hilo_sequence(text) RETURNS", "hilo_sequence(t text) RETURNS");
    refused(&|parts| _ = parts.replace("type", old, new), "CREATE CAST");
    // Objects of the older version would call what is no longer there.
    let parts = Parts::copy(&cluster);
    parts.append("gaps", "CREATE FUNCTION _hilo.hilo_gone() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_gone_wrapper';");
    assert_fails(run("upgrade", &[&parts.0, &root().join("sql")]), "hilo_gone_wrapper");
    cluster.finish();
}

/// As a dump of another version does, GRANT and REVOKE may name a function of hilo by arguments that it does not have.
#[test]
fn a_grant_finds_a_function_that_has_other_arguments() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE app");
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    let may = |client: &mut Client, function: &str| {
        let may = "SELECT array_agg(has_function_privilege('app', oid, 'EXECUTE') ORDER BY pronargs)::text FROM pg_proc";
        client.one::<String>(&format!(
            "{may} WHERE proname = '{function}' AND pronamespace = 'public'::regnamespace"
        ))
    };
    client.run("REVOKE ALL ON FUNCTION public.hilo_create(name public.hilo_sequence, note text) FROM PUBLIC");
    assert_eq!(may(&mut client, "hilo_create"), "{f}");
    client.run("GRANT ALL ON FUNCTION public.hilo_create(gone.type, start_value bigint) TO app");
    assert_eq!(may(&mut client, "hilo_create"), "{t}");
    let said = heard.messages();
    assert_eq!(said.iter().filter(|said| said.contains("hilo_create(")).count(), 2, "{said:?}");
    // Two functions have the name, and one of them these arguments and more.
    let of_name = "public.hilo_create_on_all_nodes(public.hilo_sequence)";
    client.run(&format!("REVOKE ALL ON FUNCTION {of_name} FROM PUBLIC"));
    let each = may(&mut client, "hilo_create_on_all_nodes");
    assert!(each.contains('f') && each.contains('t'), "{each}");
    for (function, why) in [
        ("public.hilo_create_on_all_nodes(money)", "two have the name"),
        ("public.hilo_creat(public.hilo_sequence)", "none has the name"),
        ("hilo_create(money)", "no schema"),
        ("public.mine(bigint)", "it is no function of hilo"),
    ] {
        client.run("CREATE OR REPLACE FUNCTION mine() RETURNS void LANGUAGE sql AS ''");
        let refusal = client.refusal(&format!("GRANT ALL ON FUNCTION {function} TO app"));
        assert_eq!(refusal.report().code().code(), "42883", "{why}");
    }
    cluster.finish();
}
