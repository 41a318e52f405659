//! Privileges on many sequences at once, and on future ones. Two functions do for hilo's sequences
//! what GRANT … ON ALL SEQUENCES and ALTER DEFAULT PRIVILEGES do for core's: hilo_grant_all and
//! hilo_default_grant.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// A cluster with the roles anna and bert, who may create, carl, who may not, and a superuser.
fn with_roles() -> (Cluster, Client) {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna LOGIN; CREATE ROLE bert LOGIN; CREATE ROLE carl LOGIN;
         GRANT CREATE ON SCHEMA public TO anna, bert; GRANT INSERT ON hilo_sequences TO anna, bert",
    );
    (cluster, admin)
}

/// All privileges, as `sequence grantee privilege grantor`.
fn privileges(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT concat_ws(' ', name, grantee, privilege, grantor) FROM hilo_privileges ORDER BY 1",
    )
}

/// All default privileges, as `owner pattern grantee privilege`.
fn defaults(client: &mut Client) -> Vec<String> {
    client.all("SELECT concat_ws(' ', owner, pattern, grantee, privilege) FROM hilo_default_privileges ORDER BY 1")
}

/// The role draws from the sequence if it `may`, and is refused otherwise.
#[track_caller]
fn draws(cluster: &Cluster, role: &str, name: &str, may: bool) {
    let mut client = cluster.connect_as(role, "postgres");
    let draw = format!("SELECT hilo_nextval('{name}')");
    match may {
        true => client.run(&draw),
        false => drop(client.refusal(&draw).is("42501")),
    }
}

/// A grant reaches what matches the pattern and nothing else, returns how many that are, and is
/// taken back in the same way. Sequences that are created later are not included, as in core.
#[test]
fn a_grant_reaches_all_that_match() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.run(
        "SELECT hilo_create(name) FROM unnest('{shop/orders,shop/items,shop_x,100%,Größe,\"a\\\\b\"}'::text[]) AS name",
    );
    let count = |client: &mut Client, call: &str| client.one::<i64>(&format!("SELECT {call}"));
    for (pattern, matching) in [
        ("%", 6),
        ("shop/%", 2),
        ("shop_%", 3),
        (r"shop\_%", 1),
        (r"100\%", 1),
        ("Gr__e", 1),
        (r"a\\b", 1),
        ("SHOP%", 0),
        ("shop", 0),
        ("", 0),
    ] {
        let granted =
            count(&mut anna, &format!("hilo_grant_all('carl', 'usage, SELECT', '{pattern}')"));
        assert_eq!(granted, matching, "{pattern}");
        let like = format!("SELECT count(*) FROM hilo_sequences WHERE name LIKE '{pattern}'");
        assert_eq!(granted, anna.one::<i64>(&like), "{pattern}");
        assert_eq!(privileges(&mut anna).len() as i64, 2 * matching, "{pattern}");
        let revoked = count(&mut anna, &format!("hilo_revoke_all('carl', 'ALL', '{pattern}')"));
        assert_eq!(revoked, matching, "{pattern}");
        assert_eq!(privileges(&mut anna), [] as [&str; 0]);
    }
    anna.run("SELECT hilo_grant_all('PUBLIC', 'USAGE'), hilo_grant_all('carl', 'UPDATE', 'shop%')");
    anna.run("SELECT hilo_grant_all('carl', 'USAGE', 'shop%'); SELECT hilo_revoke_all('carl', 'UPDATE', 'shop/%')");
    assert_eq!(
        privileges(&mut anna),
        [
            "100% PUBLIC USAGE anna",
            "Größe PUBLIC USAGE anna",
            "a\\b PUBLIC USAGE anna",
            "shop/items PUBLIC USAGE anna",
            "shop/items carl USAGE anna",
            "shop/orders PUBLIC USAGE anna",
            "shop/orders carl USAGE anna",
            "shop_x PUBLIC USAGE anna",
            "shop_x carl UPDATE anna",
            "shop_x carl USAGE anna",
        ]
    );
    draws(&cluster, "carl", "shop/orders", true);
    anna.run("SELECT hilo_create('shop/later')");
    draws(&cluster, "carl", "shop/later", false);
    admin.run("SELECT hilo_grant_all('carl', 'USAGE')");
    draws(&cluster, "carl", "shop/later", true);
    cluster.finish();
}

/// Who grants on all grants on what is theirs. The others that they can see are counted in a WARNING, as
/// core's GRANT warns; of those that they cannot see nothing is said. With an owner there is no warning, and
/// only who has the owner's privileges may name one.
#[test]
fn only_what_one_may_grant_on_is_granted_on() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "SET ROLE anna; SELECT hilo_create('anna 1'), hilo_create('anna 2'); SET ROLE bert;
         SELECT hilo_create('bert 1'), hilo_create('bert 2'), hilo_grant('bert 1', 'anna', 'SELECT'); RESET ROLE",
    );
    let (mut anna, heard) = cluster.connect_listening("anna", "postgres");
    assert_eq!(anna.one::<i64>("SELECT hilo_grant_all('carl', 'USAGE')"), 2);
    let warnings = heard.take();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(
        warnings[0].message(),
        "no privileges were granted on 1 matching hilo sequences of other owners"
    );
    assert_eq!((warnings[0].severity(), warnings[0].code().code()), ("WARNING", "01007"));
    assert_eq!(anna.one::<i64>("SELECT hilo_revoke_all('carl', 'USAGE')"), 2);
    assert_eq!(heard.take()[0].code().code(), "01006");
    assert_eq!(anna.one::<i64>("SELECT hilo_grant_all('carl', 'USAGE', owner => 'anna')"), 2);
    assert_eq!(anna.one::<i64>("SELECT hilo_grant_all('carl', 'USAGE', pattern => '%2')"), 1);
    assert_eq!(heard.messages(), [] as [&str; 0]);
    let refusal =
        anna.refusal("SELECT hilo_grant_all('carl', 'USAGE', owner => 'bert')").is("42501");
    refusal.says("of role \"bert\"").details("\"bert\"");
    admin.run("GRANT bert TO anna");
    assert_eq!(anna.one::<i64>("SELECT hilo_grant_all('carl', 'USAGE', owner => 'bert')"), 2);
    assert_eq!(admin.one::<i64>("SELECT hilo_revoke_all('carl', 'ALL')"), 4);
    assert_eq!(privileges(&mut admin), ["bert 1 anna SELECT bert"]);
    cluster.finish();
}

/// A wrong argument is refused, and nothing has changed then.
#[test]
fn wrong_arguments_are_refused() {
    let (cluster, mut admin) = with_roles();
    admin.run("SELECT hilo_create('orders')");
    for function in
        ["hilo_grant_all", "hilo_revoke_all", "hilo_default_grant", "hilo_default_revoke"]
    {
        for (arguments, code) in [
            ("'carl', 'INSERT'", "22023"),
            ("'carl', 'USAGE, INSERT'", "22023"),
            ("'carl', ''", "22023"),
            ("'carl', 'USAGE,'", "22023"),
            ("'nobody', 'USAGE'", "42704"),
            ("'carl', 'USAGE', '%', 'nobody'", "42704"),
            ("'carl', 'USAGE', '%', 'public'", "42704"),
            (r"'carl', 'USAGE', 'orders\'", "22023"),
            (r"'carl', 'USAGE', '\\\'", "22023"),
            ("NULL, 'USAGE'", "22023"),
            ("'carl', NULL", "22023"),
            ("'carl', 'USAGE', NULL", "22023"),
        ] {
            let refusal = admin.refusal(&format!("SELECT {function}({arguments})")).is(code);
            if code == "22023" {
                refusal.helps();
            }
        }
        admin.run("BEGIN READ ONLY");
        admin.refusal(&format!("SELECT {function}('carl', 'USAGE')")).is("25006");
        admin.run("ROLLBACK");
    }
    admin
        .refusal("SELECT hilo_grant('orders', 'carl', 'USAGE, INSERT')")
        .is("22023")
        .says("\"INSERT\"");
    admin.run("SELECT hilo_grant('orders', 'carl', ' select ,USAGE'); SELECT hilo_revoke('orders', 'carl', 'ALL')");
    assert_eq!(privileges(&mut admin), [] as [&str; 0]);
    assert_eq!(defaults(&mut admin), [] as [&str; 0]);
    cluster.finish();
}

/// New sequences of the role start with its default privileges, however they are created; existing ones, and
/// those of others, do not, as with core's.
#[test]
fn new_sequences_start_with_the_default_privileges() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.run(
        "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO carl; CREATE SEQUENCE core;
         SELECT hilo_create('before'), hilo_default_grant('carl', 'USAGE'), hilo_default_grant('PUBLIC', 'SELECT', 'open/%'),
                hilo_default_grant('anna', 'UPDATE'), hilo_default_grant('carl', 'USAGE, UPDATE', 'open%')",
    );
    assert_eq!(
        defaults(&mut anna),
        [
            "anna % anna UPDATE",
            "anna % carl USAGE",
            "anna open% carl UPDATE",
            "anna open% carl USAGE",
            "anna open/% PUBLIC SELECT"
        ]
    );
    anna.run("SELECT hilo_create('created'), hilo_create('open/created'), hilo_create('created', if_not_exists => true)");
    anna.run("SET hilo.auto_create = on; SELECT hilo_nextval('auto')");
    anna.run("BEGIN; SELECT hilo_create('undone'); ROLLBACK");
    cluster.connect_as("bert", "postgres").run("SELECT hilo_create('bert''s')");
    admin.run("SELECT hilo_create('admin''s')");
    assert_eq!(
        privileges(&mut admin),
        [
            "auto carl USAGE anna",
            "created carl USAGE anna",
            "open/created PUBLIC SELECT anna",
            "open/created carl UPDATE anna",
            "open/created carl USAGE anna",
        ]
    );
    cluster.connect_as("carl", "postgres").run("SELECT nextval('core')");
    draws(&cluster, "carl", "created", true);
    draws(&cluster, "carl", "auto", true);
    draws(&cluster, "carl", "before", false);
    draws(&cluster, "bert", "created", false);
    // An exception is made on the sequence itself, and what is taken back is for those that come.
    anna.run("SELECT hilo_revoke('created', 'carl', 'ALL'), hilo_default_revoke('carl', 'ALL')");
    draws(&cluster, "carl", "created", false);
    draws(&cluster, "carl", "auto", true);
    anna.run("SELECT hilo_create('after'), hilo_create('open/after')");
    draws(&cluster, "carl", "after", false);
    draws(&cluster, "carl", "open/after", true);
    // The pattern says what is taken back; what is not there does not matter.
    anna.run("SELECT hilo_default_revoke('carl', 'ALL', 'open%'), hilo_default_revoke('bert', 'ALL', 'none')");
    anna.run("SELECT hilo_default_revoke('public', 'SELECT', 'open/%')");
    assert_eq!(defaults(&mut anna), ["anna % anna UPDATE"]);
    cluster.finish();
}

/// Default privileges are those of the role that will own the sequence, and who has its privileges sets them.
/// Who is concerned sees them.
#[test]
fn default_privileges_are_set_for_roles_that_one_has() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    let refusal = anna.refusal("SELECT hilo_default_grant('carl', 'USAGE', for_role => 'bert')");
    refusal.is("42501").says("of role \"bert\"").details("\"bert\"");
    anna.refusal("SELECT hilo_default_revoke('carl', 'USAGE', for_role => 'bert')").is("42501");
    admin.run("GRANT bert TO anna");
    anna.run("SELECT hilo_default_grant('carl', 'USAGE', for_role => 'bert')");
    anna.run("SELECT hilo_create('annas'); SET ROLE bert; SELECT hilo_create('berts')");
    draws(&cluster, "carl", "annas", false);
    draws(&cluster, "carl", "berts", true);
    // A function with the rights of its owner creates as its owner.
    admin.run(
        "CREATE FUNCTION make() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'SELECT hilo_create(''made'')';
         ALTER FUNCTION make() OWNER TO bert; SELECT make()",
    );
    draws(&cluster, "carl", "made", true);
    admin.run("REVOKE bert FROM anna; SELECT hilo_default_grant('anna', 'USAGE', 'x%', 'bert')");
    for (role, sees) in [
        ("postgres", vec!["bert % carl USAGE", "bert x% anna USAGE"]),
        ("bert", vec!["bert % carl USAGE", "bert x% anna USAGE"]),
        ("anna", vec!["bert x% anna USAGE"]),
        ("carl", vec!["bert % carl USAGE"]),
    ] {
        let mut client = cluster.connect_as(role, "postgres");
        assert_eq!(defaults(&mut client), sees, "{role}");
        client.run("SELECT * FROM hilo_privileges");
    }
    let mut carl = cluster.connect_as("carl", "postgres");
    carl.refusal("SELECT * FROM _hilo.hilo_default_privilege").is("42501");
    carl.refusal("DELETE FROM hilo_default_privileges").is("42501");
    assert_eq!(privileges(&mut carl), ["berts carl USAGE bert", "made carl USAGE bert"]);
    cluster.finish();
}

/// A privilege that is granted or revoked on all is in effect in every session from the commit on,
/// and not before.
#[test]
fn other_sessions_notice_at_the_commit() {
    let (cluster, mut admin) = with_roles();
    admin.run("SELECT hilo_create('s ' || n) FROM generate_series(1, 50) AS n");
    let mut carl = cluster.connect_as("carl", "postgres");
    let draw = "SELECT sum(hilo_nextval('s ' || n)) FROM generate_series(1, 50) AS n";
    for _ in 0..5 {
        carl.refusal(draw).is("42501");
        admin.run("BEGIN; SELECT hilo_grant_all('carl', 'USAGE')");
        carl.refusal(draw).is("42501");
        admin.run("COMMIT");
        carl.run(draw);
        admin.run("BEGIN; SELECT hilo_revoke_all('carl', 'USAGE')");
        carl.run(draw);
        admin.run("ROLLBACK");
        carl.run(draw);
        admin.run("SELECT hilo_revoke_all('carl', 'USAGE')");
    }
    cluster.finish();
}

/// Sessions that grant and revoke on all, create, drop and set defaults at the same time wait for each other
/// and fail with nothing.
#[test]
fn many_at_the_same_time() {
    let (cluster, mut admin) = with_roles();
    admin.run("SELECT hilo_create('s ' || n) FROM generate_series(1, 200) AS n");
    thread::scope(|scope| {
        for session in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.connect("postgres");
                for round in 0..10 {
                    let sql = match (session + round) % 4 {
                        0 => "SELECT hilo_grant_all('carl', 'ALL')".to_owned(),
                        1 => "SELECT hilo_revoke_all('carl', 'USAGE, SELECT', 's%')".to_owned(),
                        2 => format!("SELECT hilo_create('t {session} {round}'), hilo_drop('s {}')", 4 * round + session + 1),
                        _ => "SELECT hilo_default_grant('carl', 'ALL'); SELECT hilo_default_revoke('carl', 'ALL')".to_owned(),
                    };
                    client.run(&sql);
                }
            });
        }
    });
    admin.run("SELECT hilo_revoke_all('carl', 'ALL')");
    assert_eq!(privileges(&mut admin), [] as [&str; 0]);
    cluster.finish();
}

/// A role without rights has changed its default privileges in an open transaction. Nobody waits
/// for it: no other role's change does, and no DROP OWNED of a role that it has granted to. DROP
/// ROLE knows of the grant when that is committed.
#[test]
fn a_role_without_rights_holds_up_nobody() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    let mut carl = cluster.connect_as("carl", "postgres");
    anna.run("SELECT hilo_create('a'), hilo_default_grant('public', 'USAGE'), hilo_default_grant('bert', 'USAGE')");
    carl.run("SELECT hilo_default_grant('anna', 'USAGE')");
    carl.run(
        "BEGIN; SELECT hilo_default_grant('public', 'USAGE'), hilo_default_grant('anna', 'SELECT'),
                hilo_default_grant('carl', 'ALL'), hilo_default_revoke('bert', 'ALL')",
    );
    for client in [&mut admin, &mut anna] {
        client.run("SET lock_timeout = '2s'");
        client.run("SELECT hilo_default_grant('bert', 'SELECT')");
        client.run("SELECT hilo_default_revoke('bert', 'SELECT')");
        client.run("SELECT hilo_create(current_user || ' new')");
    }
    admin.run("SELECT hilo_default_grant('anna', 'USAGE', for_role => 'bert'); DROP OWNED BY bert");
    admin.run("DROP OWNED BY anna");
    assert_eq!(defaults(&mut admin), [] as [&str; 0]);
    carl.run("COMMIT");
    let carls = ["carl % PUBLIC USAGE", "carl % anna SELECT"];
    assert_eq!(defaults(&mut admin)[..2], carls);
    admin.refusal("DROP ROLE anna").is("2BP01");
    admin.run("CREATE DATABASE other");
    cluster.connect("other").refusal("DROP ROLE anna").is("2BP01");
    admin.run("DROP OWNED BY anna");
    cluster.connect("other").run("DROP ROLE anna");
    cluster.finish();
}

/// Ten thousand sequences are granted on within seconds.
#[test]
fn ten_thousand_sequences_at_once() {
    let (cluster, mut admin) = with_roles();
    admin.run("SELECT hilo_create('tenants/' || n) FROM generate_series(1, 10000) AS n");
    admin.run("SET statement_timeout = '20s'");
    assert_eq!(admin.one::<i64>("SELECT hilo_grant_all('carl', 'USAGE')"), 10_000);
    draws(&cluster, "carl", "tenants/9999", true);
    assert_eq!(admin.one::<i64>("SELECT hilo_revoke_all('carl', 'USAGE')"), 10_000);
    cluster.finish();
}

/// DROP ROLE is refused while default privileges mention the role, in another database too, and
/// says so. DROP OWNED removes them; REASSIGN OWNED leaves them: all as with core's default
/// privileges.
#[test]
fn default_privileges_go_with_their_roles() {
    let (cluster, mut admin) = with_roles();
    admin.run("CREATE ROLE heir");
    admin.run("SELECT hilo_default_grant('carl', 'USAGE', for_role => 'anna'), hilo_default_grant('anna', 'USAGE', for_role => 'bert')");
    admin
        .refusal("DROP ROLE anna")
        .is("2BP01")
        .details("owner of default privileges on new hilo sequences");
    admin
        .refusal("DROP ROLE carl")
        .is("2BP01")
        .details("privileges on new hilo sequences by default");
    admin.run("CREATE DATABASE other");
    cluster.connect("other").refusal("DROP ROLE bert").is("2BP01");
    admin.run("REASSIGN OWNED BY anna TO heir; BEGIN; DROP OWNED BY anna; ROLLBACK");
    assert_eq!(defaults(&mut admin), ["anna % carl USAGE", "bert % anna USAGE"]);
    admin.refusal("DROP ROLE anna").is("2BP01");
    admin.run("DROP OWNED BY anna; DROP ROLE anna");
    assert_eq!(defaults(&mut admin), [] as [&str; 0]);
    admin.run("REVOKE CREATE ON SCHEMA public FROM bert; REVOKE INSERT ON hilo_sequences FROM bert; DROP ROLE carl; DROP ROLE bert");
    // A role that was mentioned both ways, and is mentioned no more.
    admin.run(
        "SELECT hilo_default_grant('heir', 'ALL', for_role => 'heir'); SELECT hilo_default_revoke('heir', 'ALL', for_role => 'heir');
         DROP ROLE heir",
    );
    cluster.finish();
}

/// Rows that mention a role that is no longer there, as pg_upgrade could bring them, are removed by
/// the next worker. DROP ROLE knows the roles of the others.
#[test]
fn rows_of_missing_roles_are_removed() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "SELECT hilo_default_grant('carl', 'USAGE', for_role => 'anna'), hilo_default_grant('anna', 'USAGE', for_role => 'bert'),
                hilo_default_grant('bert', 'USAGE', for_role => 'anna'), hilo_create('orders')",
    );
    admin.run(
        "SET allow_system_table_mods = on;
         DELETE FROM pg_shdepend WHERE objid = '_hilo.hilo_role'::regtype;
         DELETE FROM pg_shdepend WHERE refobjid = 'bert'::regrole; DELETE FROM pg_authid WHERE rolname = 'bert'",
    );
    drop(admin);
    cluster.restart();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_nextval('orders')");
    wait_until("the worker has settled", LONG, || defaults(&mut admin) == ["anna % carl USAGE"]);
    admin.refusal("DROP ROLE carl").is("2BP01");
    admin.refusal("DROP ROLE anna").is("2BP01");
    cluster.finish();
}

/// A dump restores default privileges and grants nothing by them on restored sequences; those of roles that do
/// not exist there are left out.
#[test]
fn default_privileges_are_dumped_and_restored() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "CREATE ROLE \"Odd Name\"; SELECT hilo_default_grant('Odd Name', 'ALL', for_role => 'anna');
         SELECT hilo_default_grant('PUBLIC', 'SELECT', E'tenants/\\\\_%', 'anna'); SET ROLE anna;
         SELECT hilo_create('orders'), hilo_revoke('orders', 'Odd Name', 'ALL'); RESET ROLE",
    );
    let dump = cluster.pg_dump("postgres", &[]);
    admin.run("CREATE DATABASE restored");
    cluster.restore("restored", &dump);
    let mut restored = cluster.connect("restored");
    assert_eq!(defaults(&mut restored), defaults(&mut admin));
    assert_eq!(defaults(&mut restored).len(), 5);
    assert_eq!(privileges(&mut restored), [] as [&str; 0]);
    restored.run("SET ROLE anna; SELECT hilo_create('new'); RESET ROLE");
    assert_eq!(privileges(&mut restored).len(), 4);
    let other = Cluster::builder().preload(true).start();
    let mut there = other.connect("postgres");
    there.run("CREATE ROLE anna");
    other.restore("postgres", &cluster.pg_dump("postgres", &["--no-owner", "--no-privileges"]));
    assert_eq!(defaults(&mut there), ["anna tenants/\\_% PUBLIC SELECT"]);
    there.refusal("DROP ROLE anna").is("2BP01");
    other.finish();
    cluster.finish();
}

/// Replicated, they arrive once, whatever the other server has already; a subscription never stops for them.
#[test]
fn default_privileges_are_replicated() {
    let start = || {
        let cluster = Cluster::builder().logical().own_identity().start_with_hilo();
        cluster.connect("postgres").run("CREATE ROLE anna; CREATE ROLE carl");
        cluster
    };
    let (publisher, subscriber) = (start(), start());
    let (mut there, mut here) = (publisher.connect("postgres"), subscriber.connect("postgres"));
    there.run("CREATE ROLE unknown_here; CREATE PUBLICATION own FOR ALL TABLES");
    let grant =
        |name: &str| format!("SELECT hilo_default_grant('{name}', 'USAGE', for_role => 'anna')");
    there.run(&format!("{}; {}", grant("carl"), grant("unknown_here")));
    here.run(&grant("carl"));
    subscriber.subscribe("own", &publisher, "own", "");
    here.run(&grant("public"));
    there.run(&format!(
        "{}; SELECT hilo_default_grant('carl', 'SELECT', 'x', 'anna')",
        grant("public")
    ));
    publisher.wait_for_apply("own");
    let both = ["anna % PUBLIC USAGE", "anna % carl USAGE", "anna x carl SELECT"];
    assert_eq!(defaults(&mut here), both);
    there.run("SELECT hilo_default_revoke('carl', 'ALL', 'x', 'anna'), hilo_default_revoke('unknown_here', 'ALL', '%', 'anna')");
    publisher.wait_for_apply("own");
    assert_eq!(defaults(&mut here), both[..2]);
    here.refusal("DROP ROLE carl").is("2BP01");
    subscriber.finish();
    publisher.finish();
}
