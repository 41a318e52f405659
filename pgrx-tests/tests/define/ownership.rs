//! Roles are created and dropped: what they own and what they were granted is dropped with them, or prevents
//! the drop, as with core's sequences.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// A cluster with the roles anna, bert and carl, who may create in schema public; and a superuser.
fn with_roles() -> (Cluster, Client) {
    let cluster = Cluster::builder().config("max_prepared_transactions", "4").start_with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna LOGIN; CREATE ROLE bert LOGIN; CREATE ROLE carl LOGIN;
         CREATE ROLE makers; GRANT CREATE ON SCHEMA public TO makers; GRANT INSERT ON hilo_sequences TO makers; GRANT makers TO anna, bert, carl",
    );
    (cluster, admin)
}

fn owner_of(admin: &mut Client, name: &str) -> String {
    admin.one(&format!("SELECT owner::text FROM hilo_sequences WHERE name = '{name}'"))
}

/// The roles that core knows to be mentioned in this database's catalog.
fn known_roles(admin: &mut Client) -> Vec<String> {
    admin.all(
        "SELECT DISTINCT rolname::text FROM pg_shdepend d
           JOIN pg_database b ON b.oid = d.dbid AND b.datname = current_database()
           JOIN pg_roles r ON r.oid = d.refobjid AND d.refclassid = 'pg_authid'::regclass
          WHERE d.classid = 'pg_type'::regclass AND d.objid = '_hilo.hilo_role'::regtype ORDER BY 1",
    )
}

/// The same statements for a sequence of core's and for one of ours, refused with the same SQLSTATE.
#[track_caller]
fn both(client: &mut Client, core: &str, ours: &str) -> Option<String> {
    let mut outcome = |sql: &str| match client.batch_execute(sql) {
        Ok(()) => None,
        Err(error) => Some(error.code().expect("a report of the server").code().to_owned()),
    };
    let (of_core, of_ours) = (outcome(core), outcome(ours));
    assert_eq!(of_core, of_ours, "{core} | {ours}");
    of_ours
}

/// DROP ROLE is refused while the role owns a sequence or has a privilege on one, by the same
/// message as core's, which names them. Afterwards it goes.
#[test]
fn a_role_with_belongings_is_not_dropped() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.run("SELECT hilo_create('orders'), hilo_grant('orders', 'bert', 'ALL')");
    drop(anna);
    admin
        .refusal("DROP ROLE anna")
        .is("2BP01")
        .says("role \"anna\" cannot be dropped because some objects depend on it")
        .details("owner of hilo sequence \"orders\"");
    admin.refusal("DROP ROLE bert").is("2BP01").details("privileges for hilo sequence \"orders\"");
    admin.run("SELECT hilo_revoke('orders', 'bert', 'ALL'); DROP ROLE bert");
    admin.refusal("DROP ROLE anna").is("2BP01");
    // Rolled back, nothing has changed.
    admin.run("BEGIN; SELECT hilo_drop('orders'); ROLLBACK");
    admin.refusal("DROP ROLE anna").is("2BP01");
    admin.run("BEGIN; SELECT hilo_drop('orders'); DROP ROLE anna; ROLLBACK");
    admin.refusal("DROP ROLE anna").is("2BP01");
    assert_eq!(known_roles(&mut admin), ["anna"]);
    admin.run("SELECT hilo_drop('orders'); DROP ROLE anna");
    assert!(known_roles(&mut admin).is_empty());
    cluster.finish();
}

/// The same from another database, where core counts the objects; DROP OWNED in each lets the role go.
#[test]
fn nor_from_another_database() {
    let (cluster, mut admin) = with_roles();
    admin.run("CREATE DATABASE shop");
    admin.run("CREATE DATABASE other");
    let mut shop = cluster.connect("shop");
    shop.run(
        "CREATE EXTENSION hilo; GRANT CREATE ON SCHEMA public TO PUBLIC; GRANT INSERT ON hilo_sequences TO PUBLIC;
         SET ROLE anna; SELECT hilo_create('orders'), hilo_grant('orders', 'bert', 'USAGE')",
    );
    drop(shop);
    let mut other = cluster.connect("other");
    other.refusal("DROP ROLE anna").is("2BP01").details("in database shop");
    other.refusal("DROP ROLE bert").is("2BP01").details("1 object in database shop");
    // A database made of it knows them too.
    wait_until("no session is in the template", LONG, || {
        admin.batch_execute("CREATE DATABASE copy TEMPLATE shop").is_ok()
    });
    other.refusal("DROP ROLE bert").is("2BP01").details("1 object in database copy");
    cluster.connect("shop").run("DROP OWNED BY bert");
    other.refusal("DROP ROLE bert").is("2BP01").details("1 object in database copy");
    admin.run("DROP DATABASE copy");
    other.run("DROP ROLE bert");
    cluster.connect("shop").run("REASSIGN OWNED BY anna TO carl; DROP OWNED BY anna");
    other.run("DROP ROLE anna");
    other.refusal("DROP ROLE carl").is("2BP01");
    cluster.connect("shop").run("DROP EXTENSION hilo");
    other.run("DROP ROLE carl");
    cluster.finish();
}

/// DROP OWNED drops the role's sequences and takes its privileges, also when the role does it
/// itself. A default of its own tables is no hindrance, one of another's is, except with CASCADE.
#[test]
fn drop_owned() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    let mut bert = cluster.connect_as("bert", "postgres");
    anna.run(
        "SELECT hilo_create('own'), hilo_create('used'), hilo_grant('used', 'bert', 'USAGE');
         CREATE TABLE own (id bigint DEFAULT hilo_nextval('own'));
         INSERT INTO own DEFAULT VALUES",
    );
    bert.run(
        "SELECT hilo_create('berts'), hilo_grant('berts', 'anna', 'ALL'), hilo_grant('berts', 'carl', 'SELECT');
         CREATE TABLE orders (id bigint DEFAULT hilo_nextval('used'));
         INSERT INTO orders DEFAULT VALUES",
    );
    anna.run("SELECT hilo_nextval('berts')");
    anna.refusal("DROP OWNED BY anna")
        .is("2BP01")
        .says("cannot drop desired object(s) because other objects depend on them")
        .details("default value for column id of table orders depends on hilo sequence \"used\"");
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_sequences"), 3);
    anna.run("SELECT hilo_nextval('berts')");
    // The others' belongings are not hers to drop.
    anna.refusal("DROP OWNED BY bert").is("42501");
    anna.run("DROP OWNED BY anna CASCADE");
    assert_eq!(admin.all::<String>("SELECT name::text FROM hilo_sequences"), ["berts"]);
    anna.refusal("SELECT hilo_nextval('berts')").is("42501");
    anna.refusal("SELECT hilo_nextval('own')").is("42704");
    bert.run("INSERT INTO orders DEFAULT VALUES");
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM orders WHERE id IS NULL"), 1);
    assert_eq!(known_roles(&mut admin), ["bert", "carl"]);
    drop(anna);
    admin.run("DROP ROLE anna; DROP OWNED BY carl; DROP ROLE carl");
    cluster.finish();
}

/// A DROP OWNED that is rolled back, as a whole or to a savepoint, has done nothing.
#[test]
fn drop_owned_rolled_back() {
    let (cluster, mut admin) = with_roles();
    admin.run("SET ROLE anna; SELECT hilo_create('orders'), hilo_grant('orders', 'bert', 'USAGE'); RESET ROLE");
    let mut bert = cluster.connect_as("bert", "postgres");
    assert_eq!(bert.one::<i64>("SELECT hilo_nextval('orders')"), 1);
    admin.run("BEGIN; DROP OWNED BY anna, bert; ROLLBACK");
    admin.run("BEGIN; SAVEPOINT s; DROP OWNED BY anna, bert; ROLLBACK TO s; COMMIT");
    assert_eq!(bert.one::<i64>("SELECT hilo_nextval('orders')"), 2);
    assert_eq!(owner_of(&mut admin, "orders"), "anna");
    assert_eq!(known_roles(&mut admin), ["anna", "bert"]);
    admin.run("BEGIN; DROP OWNED BY anna; SELECT hilo_create('orders'); COMMIT");
    assert_eq!(owner_of(&mut admin, "orders"), "postgres");
    cluster.finish();
}

/// A transaction with such statements can be prepared.
#[test]
fn belongings_change_hands_in_two_phases() {
    let (cluster, mut admin) = with_roles();
    admin.run("SET ROLE anna; SELECT hilo_create('orders'); RESET ROLE");
    admin.run(
        "BEGIN; DROP OWNED BY bert; REASSIGN OWNED BY bert TO carl; PREPARE TRANSACTION 'none'",
    );
    admin.run("COMMIT PREPARED 'none'");
    for statement in ["DROP OWNED BY anna", "REASSIGN OWNED BY anna TO bert"] {
        admin.run(&format!("BEGIN; {statement}; PREPARE TRANSACTION 'some'"));
        admin.run("ROLLBACK PREPARED 'some'");
        assert_eq!(owner_of(&mut admin, "orders"), "anna");
    }
    admin.run("BEGIN; REASSIGN OWNED BY anna TO bert; PREPARE TRANSACTION 'some'");
    admin.run("COMMIT PREPARED 'some'");
    assert_eq!(owner_of(&mut admin, "orders"), "bert");
    cluster.finish();
}

/// A standby refuses them as core does.
#[test]
fn belongings_on_a_standby() {
    let (cluster, mut admin) = with_roles();
    admin.run("SET ROLE anna; SELECT hilo_create('orders'); RESET ROLE");
    let standby = cluster.clone_by_base_backup();
    cluster.wait_for_replay(&standby);
    let mut reader = standby.connect("postgres");
    for statement in ["DROP OWNED BY anna", "REASSIGN OWNED BY anna TO bert", "DROP ROLE anna"] {
        reader.refusal(statement).is("25006");
    }
    standby.finish();
    cluster.finish();
}

/// REASSIGN OWNED moves what is owned and leaves what is granted.
#[test]
fn reassign_owned() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "SET ROLE anna; SELECT hilo_create('one'), hilo_create('two'), hilo_grant('one', 'carl', 'USAGE');
         SET ROLE bert; SELECT hilo_create('three'), hilo_grant('three', 'anna', 'USAGE'); RESET ROLE",
    );
    let mut anna = cluster.connect_as("anna", "postgres");
    let mut carl = cluster.connect_as("carl", "postgres");
    assert_eq!(anna.one::<i64>("SELECT hilo_nextval('one')"), 1);
    assert_eq!(carl.one::<i64>("SELECT hilo_nextval('one')"), 2);
    anna.refusal("REASSIGN OWNED BY anna TO bert").is("42501");
    anna.refusal("REASSIGN OWNED BY bert TO anna").is("42501");
    assert_eq!(owner_of(&mut admin, "one"), "anna");
    admin.run("REASSIGN OWNED BY anna TO bert");
    for name in ["one", "two", "three"] {
        assert_eq!(owner_of(&mut admin, name), "bert");
    }
    anna.refusal("SELECT hilo_nextval('one')").is("42501");
    anna.run("SELECT hilo_nextval('three')");
    assert_eq!(carl.one::<i64>("SELECT hilo_nextval('one')"), 3);
    admin.run("SELECT hilo_revoke('three', 'anna', 'ALL')");
    drop(anna);
    admin.run("DROP ROLE anna");
    admin.refusal("DROP ROLE bert").is("2BP01").details("\"two\"");
    cluster.finish();
}

/// hilo_set_owner asks for what ALTER SEQUENCE … OWNER TO asks for.
#[test]
fn a_new_owner() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "CREATE ROLE team; CREATE ROLE poor; GRANT team, poor TO anna;
         CREATE SCHEMA core; GRANT USAGE, CREATE ON SCHEMA core TO anna, bert, carl, team;
         GRANT CREATE ON SCHEMA public TO team; GRANT INSERT ON hilo_sequences TO team",
    );
    let mut anna = cluster.connect_as("anna", "postgres");
    let mut bert = cluster.connect_as("bert", "postgres");
    anna.run(
        "CREATE SEQUENCE core.orders; GRANT ALL ON SEQUENCE core.orders TO team;
         GRANT USAGE ON SEQUENCE core.orders TO bert;
         SELECT hilo_create('orders'), hilo_grant('orders', 'team', 'ALL'), hilo_grant('orders', 'bert', 'USAGE')",
    );
    let to = |role: &str| {
        (
            format!("ALTER SEQUENCE core.orders OWNER TO {role}"),
            format!("SELECT hilo_set_owner('orders', '{role}')"),
        )
    };
    for (role, who, sqlstate) in [
        ("bert", "anna", Some("42501")),   // not a member of the new one
        ("poor", "anna", Some("42501")),   // who may not create
        ("bert", "bert", Some("42501")),   // not the owner
        ("nobody", "anna", Some("42704")), // no such role
        ("anna", "anna", None),            // is it already
        ("team", "anna", None),
        ("anna", "anna", None), // as a member of the owner, and of the new one
        ("team", "anna", None),
    ] {
        let client = if who == "anna" { &mut anna } else { &mut bert };
        let (core, ours) = to(role);
        assert_eq!(both(client, &core, &ours).as_deref(), sqlstate, "{who} gives to {role}");
    }
    anna.refusal("SELECT hilo_set_owner('orders', 'public')")
        .is("42704")
        .says("role \"public\" does not exist");
    anna.refusal("SELECT hilo_set_owner('none', 'anna')").is("42704");
    assert_eq!(owner_of(&mut admin, "orders"), "team");
    // The grant to bert holds; that to team has become what an owner has.
    for rest in ["team", "anna", "poor"] {
        let (core, ours) = to(rest);
        assert_eq!(both(&mut admin, &core, &ours), None);
        let next =
            both(&mut bert, "SELECT nextval('core.orders')", "SELECT hilo_nextval('orders')");
        assert_eq!(next, None);
    }
    let mut team = cluster.connect("postgres");
    team.run("SET ROLE team");
    let next = both(&mut team, "SELECT nextval('core.orders')", "SELECT hilo_nextval('orders')");
    assert_eq!(next.as_deref(), Some("42501"));
    cluster.finish();
}

/// Two transactions that create, and one that drops the owner's belongings: whichever is first, the
/// role is known while it owns something. A sequence that has not been committed is not dropped, as
/// in core.
#[test]
fn creating_while_belongings_are_dropped() {
    let (cluster, mut admin) = with_roles();
    let mut first = cluster.connect("postgres");
    first.run("SET ROLE anna; BEGIN; SELECT hilo_create('one')");
    admin.run("SET lock_timeout = '2s'; DROP OWNED BY anna");
    first.run("COMMIT");
    assert_eq!(known_roles(&mut admin), ["anna"]);
    admin.refusal("DROP ROLE anna").is("2BP01").details("\"one\"");
    admin.run("DROP OWNED BY anna");
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    assert!(known_roles(&mut admin).is_empty());

    let mut dropper = cluster.connect("postgres");
    dropper.run("BEGIN; DROP OWNED BY anna");
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ";
    let pid = first.backend_pid();
    let created = std::thread::spawn(move || {
        first.batch_execute("SELECT hilo_create('two')").unwrap();
    });
    wait_until("the creator waits", LONG, || admin.one::<i64>(&format!("{waits}{pid}")) == 1);
    dropper.run("COMMIT");
    created.join().unwrap();
    assert_eq!(known_roles(&mut admin), ["anna"]);
    admin.refusal("DROP ROLE anna").is("2BP01");
    cluster.finish();
}

/// Whoever deletes a default privilege that another transaction is deleting waits for that one, and has nothing
/// to do if it commits.
#[test]
fn one_row_deleted_twice() {
    let (cluster, mut admin) = with_roles();
    for end in ["COMMIT", "ROLLBACK"] {
        let mut anna = cluster.connect_as("anna", "postgres");
        anna.run("SELECT hilo_default_grant('carl', 'ALL'), hilo_default_grant('anna', 'ALL')");
        anna.run("BEGIN; SELECT hilo_default_revoke('carl', 'ALL')");
        let mut dropper = cluster.connect("postgres");
        let pid = dropper.backend_pid();
        let dropped = std::thread::spawn(move || dropper.batch_execute("DROP OWNED BY carl"));
        let waits = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {pid}");
        wait_until("the dropper waits", LONG, || admin.one::<i64>(&waits) == 1);
        anna.run(end);
        dropped.join().unwrap().unwrap();
        assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_default_privileges"), 4);
        admin.run("DROP OWNED BY anna");
    }
    cluster.finish();
}

/// A sequence made by its first use is its user's, and so known.
#[test]
fn auto_created() {
    let (cluster, mut admin) = with_roles();
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.run("SET hilo.auto_create = on; SELECT hilo_nextval('new')");
    assert_eq!(owner_of(&mut admin, "new"), "anna");
    assert_eq!(known_roles(&mut admin), ["anna"]);
    drop(anna);
    admin.refusal("DROP ROLE anna").is("2BP01").details("\"new\"");
    cluster.finish();
}

/// Rows may come without their roles' dependencies, as pg_upgrade brings them. The next worker has
/// the roles known, and nobody gets what belongs to no role, which hilo_check reports.
#[test]
fn rows_without_dependencies() {
    let (cluster, mut admin) = with_roles();
    admin.run(
        "SET ROLE anna; SELECT hilo_create('annas'), hilo_grant('annas', 'bert', 'USAGE'), hilo_grant('annas', 'carl', 'USAGE');
         SET ROLE bert; SELECT hilo_create('berts'); RESET ROLE;
         SELECT hilo_nextval('annas')",
    );
    admin.run(
        "SET allow_system_table_mods = on;
         DELETE FROM pg_shdepend WHERE objid = '_hilo.hilo_role'::regtype;
         DELETE FROM pg_shdepend WHERE refobjid = 'bert'::regrole;
         DELETE FROM pg_authid WHERE rolname = 'bert'",
    );
    assert!(known_roles(&mut admin).is_empty());
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_check() WHERE what LIKE '1 sequences, such as this one, belong to no role%'"), 1);
    drop(admin);
    cluster.restart();
    let mut admin = cluster.connect("postgres");
    assert_eq!(admin.one::<i64>("SELECT hilo_nextval('annas')"), 2);
    wait_until("the worker has recorded the roles", LONG, || {
        known_roles(&mut admin) == ["anna", "carl"]
    });
    assert_eq!(
        admin.all::<String>("SELECT owner::text FROM _hilo.hilo_definition ORDER BY name"),
        ["anna", "-"]
    );
    assert_eq!(admin.all::<String>("SELECT grantee::text FROM _hilo.hilo_privilege"), ["carl"]);
    let object: String = admin.one("SELECT object FROM hilo_check() WHERE what LIKE '1 sequences, such as this one, belong to no role%'");
    assert_eq!(object, "sequence \"berts\"");
    admin.run("SELECT hilo_set_owner('berts', 'anna')");
    assert_eq!(
        admin
            .one::<i64>("SELECT count(*) FROM hilo_check() WHERE what LIKE '% belong to no role%'"),
        0
    );
    cluster.finish();
}

/// Rows that a restore copies in make their roles known at once.
#[test]
fn restored_rows() {
    let (cluster, mut admin) = with_roles();
    admin.run("SET ROLE anna; SELECT hilo_create('annas'), hilo_grant('annas', 'bert', 'USAGE'); RESET ROLE");
    admin.run(
        "CREATE TABLE one AS TABLE _hilo.hilo_definition; CREATE TABLE two AS TABLE _hilo.hilo_privilege;
         CREATE TABLE three AS TABLE _hilo.hilo_position; DROP EXTENSION hilo CASCADE",
    );
    // The columns of type _hilo.hilo_role have gone with it.
    admin.run("DROP TABLE one, two, three; CREATE EXTENSION hilo");
    assert!(known_roles(&mut admin).is_empty());
    admin.meddle(
        "INSERT INTO _hilo.hilo_definition VALUES (7, 'annas', 'anna', now(), NULL, NULL, NULL, 'bigint', 1, 1, 1, 9, false, false);
         INSERT INTO _hilo.hilo_privilege VALUES (7, 'bert', 'USAGE', 'anna')",
    );
    assert_eq!(known_roles(&mut admin), ["anna", "bert"]);
    admin.refusal("DROP ROLE anna").is("2BP01").details("\"annas\"");
    cluster.finish();
}
