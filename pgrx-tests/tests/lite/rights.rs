//! Who may do what, whatever roles and functions lie between, and that nobody's code runs with the rights of others.

use hilo_tests::{Client, ClientExt};

use super::{cluster, lease};

const ALL: [&str; 9] = [
    "hilo_nextval('s')",
    "hilo_nextrange('s', 1)",
    "hilo_lease('s', 1)",
    "hilo_setval('s', 5)",
    "hilo_alter('s', key_format => '{value}')",
    "hilo_rename('s', 't')",
    "hilo_drop('s')",
    "hilo_grant('s', 'app', 'ALL')",
    "hilo_revoke('s', 'app', 'ALL')",
];

fn refusals(client: &mut Client) -> Vec<&'static str> {
    let mut refused = Vec::new();
    for call in ALL {
        client.run("SAVEPOINT here");
        if client.batch_execute(&format!("SELECT {call}")).is_err() {
            refused.push(call);
        }
        client.run("ROLLBACK TO here");
    }
    refused
}

/// Each privilege allows what it allows in hilo.
#[test]
fn privileges_are_those_of_hilo() {
    let (cluster, mut client) = cluster();
    client.run("CREATE ROLE app; SELECT hilo_create('s')");
    for (privilege, allowed) in [("SELECT", 0), ("USAGE", 1), ("UPDATE", 4), ("ALL", 4)] {
        client.run(&format!(
            "BEGIN; SELECT hilo_grant('s', 'app', '{privilege}'); SET LOCAL ROLE app"
        ));
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 1);
        assert_eq!(refusals(&mut client), ALL[allowed..], "{privilege}");
        client.run("ROLLBACK");
    }
    client.run("BEGIN; SET LOCAL ROLE app");
    assert_eq!(refusals(&mut client), ALL);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    client.run("SAVEPOINT here");
    client.refusal("SELECT hilo_create('mine')").is("42501").helps();
    client.run("ROLLBACK");
    // An owner may do all, and so may who is a member of it.
    client.run("GRANT INSERT ON hilo_sequences TO app; CREATE ROLE member IN ROLE app");
    client.run("SET ROLE app; SELECT hilo_create('m'); SET ROLE member; SELECT hilo_drop('m')");
    cluster.finish();
}

/// A lease is ended by the role that took it, and by the owner of its sequence. Others do not see its name.
#[test]
fn a_lease_belongs_to_its_role() {
    let (cluster, mut client) = cluster();
    client.run("CREATE ROLE app; CREATE ROLE other; SELECT hilo_create('s')");
    client
        .run("SELECT hilo_grant('s', 'app', 'ALL'), hilo_grant('s', 'other', 'ALL'); SET ROLE app");
    let (name, ..) = lease(&mut client, "'s', 10, 'x'");
    client.run("SET ROLE other");
    for call in ["hilo_lease_return($, 5)", "hilo_lease_renew($, '1 h')", "hilo_lease_revoke($)"] {
        let call = call.replace('$', &format!("'{name}'"));
        client.refusal(&format!("SELECT {call}")).is("42501").helps();
    }
    assert_eq!(client.one::<i64>("SELECT hilo_lease_revoke(holder => 'x')"), 0);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases WHERE lease IS NULL"), 1);
    client.run("RESET ROLE");
    assert_eq!(client.one::<i64>("SELECT hilo_lease_revoke(holder => 'x')"), 1);
    cluster.finish();
}

/// A function with its owner's rights draws with these, also if a superuser calls it; and nobody can call as another.
#[test]
fn nobody_calls_as_somebody_else() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE app; GRANT CREATE ON SCHEMA public TO app; SELECT hilo_create('s');
         SET ROLE app;
         CREATE FUNCTION borrowed() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
             AS 'BEGIN RETURN hilo_setval(''s'', 1); END';
         RESET ROLE",
    );
    client.refusal("SELECT borrowed()").is("42501");
    // And the other way round: it lends what its owner has.
    client.run("SELECT hilo_grant('s', 'app', 'UPDATE'); CREATE ROLE poor; SET ROLE poor");
    assert_eq!(client.one::<i64>("SELECT borrowed()"), 1);
    client.run("RESET ROLE; SET ROLE app");
    for statement in [
        "INSERT INTO _hilo.hilo_request (op, names, caller) VALUES ('drop', '{s}', 'postgres')",
        "INSERT INTO _hilo.hilo_request (op, names) VALUES ('drop', '{s}')",
        "INSERT INTO _hilo.hilo_request (op, names, result) VALUES ('draw', '{s}', '{}')",
        "SELECT caller FROM _hilo.hilo_request",
        "UPDATE _hilo.hilo_definition SET next_value = 1",
        "TRUNCATE _hilo.hilo_lease",
        "SELECT * FROM _hilo.hilo_lease",
        "SELECT _hilo.hilo_may('postgres', 1, '{}')",
        "SELECT _hilo.hilo_keep(1, 'free', 1, 1, 1)",
        "SELECT nextval('_hilo.hilo_definition_id')",
        "CREATE TABLE _hilo.mine ()",
        "CREATE FUNCTION _hilo.hilo_may(text, bigint, text[]) RETURNS boolean LANGUAGE sql RETURN true",
    ] {
        client.refusal(statement).is("42501");
    }
    // A view over the view has defaults of its own, for which nobody is asked whether they may be inserted.
    client.run(
        "CREATE VIEW all_of_it AS SELECT * FROM _hilo.hilo_request;
         ALTER VIEW all_of_it ALTER caller SET DEFAULT 'postgres'",
    );
    for request in ["('drop', '{s}')", "('set', '{s}')", "('create', '{mine}')"] {
        client.refusal(&format!("INSERT INTO all_of_it (op, names) VALUES {request}"));
    }
    client.run("RESET ROLE; SELECT hilo_revoke('s', 'app', 'ALL'); SET ROLE app");
    client
        .refusal("INSERT INTO all_of_it (op, names, sizes) VALUES ('draw', '{s}', '{1}')")
        .is("42501");
    // Nor does its trigger work elsewhere, even for who may call it.
    let elsewhere = "CREATE TABLE forged (LIKE _hilo.hilo_request);
         CREATE TRIGGER t BEFORE INSERT ON forged FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_answer()";
    client.refusal(elsewhere).is("42501");
    client.run("RESET ROLE; GRANT ALL ON ALL FUNCTIONS IN SCHEMA _hilo TO app; GRANT SELECT ON _hilo.hilo_request TO app");
    client.run(&format!("SET ROLE app; {elsewhere}"));
    client
        .refusal("INSERT INTO forged (op, names, caller) VALUES ('drop', '{s}', 'postgres')")
        .is("39P01")
        .helps();
    cluster.finish();
}

/// A function in a caller's search_path or temporary schema is never called or read in place of
/// what is meant.
#[test]
fn nobodys_functions_run_with_the_rights_of_others() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE app; CREATE SCHEMA bait AUTHORIZATION app; SELECT hilo_create('s'), hilo_grant('s', 'app', 'ALL');
         SET ROLE app; SET search_path = bait, pg_catalog, public",
    );
    let body = "LANGUAGE plpgsql AS 'BEGIN RAISE ''as %'', current_user; END'";
    for function in [
        "clock_timestamp() RETURNS timestamptz",
        "pg_has_role(name, oid, text) RETURNS boolean",
        "pg_has_role(oid, text) RETURNS boolean",
        "format(text, text) RETURNS text",
        "div(numeric, numeric) RETURNS numeric",
        "inet_client_addr() RETURNS inet",
        "cardinality(anyarray) RETURNS integer",
        "jsonb_build_object(VARIADIC \"any\") RETURNS jsonb",
        "current_setting(text) RETURNS text",
        "current_setting(text, boolean) RETURNS text",
        "regexp_matches(text, text, text) RETURNS SETOF text[]",
        "lpad(text, integer, text) RETURNS text",
    ] {
        if !function.contains("\"any\"") {
            client.run(&format!("CREATE FUNCTION bait.{function} {body}"));
        }
    }
    client.run(
        "CREATE FUNCTION bait.minus(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE ''minus''; END';
         CREATE OPERATOR bait.- (FUNCTION = bait.minus, LEFTARG = bigint, RIGHTARG = bigint);
         CREATE TEMP TABLE pg_roles (rolname name, oid oid); CREATE TEMP VIEW hilo_sequences AS SELECT 1 AS name",
    );
    for call in [
        "hilo_nextval('s')",
        "hilo_nextrange('s', 5)",
        "hilo_lease('s', 5, 'x', '1 hour')",
        "hilo_refill(names => '{s}', sizes => '{5}')",
        "hilo_lease_revoke(holder => 'x')",
        "hilo_key('s', 5)",
        "hilo_nextkey('s')",
        "hilo_key_value('s', 's/5')",
    ] {
        client.run(&format!("SELECT {}", format_args!("public.{call}")));
    }
    cluster.finish();
}

/// Who may not use a sequence holds it up for nobody, also with a transaction that stays open.
#[test]
fn who_may_not_use_a_sequence_does_not_hold_it_up() {
    let (cluster, mut client) = cluster();
    client.run("CREATE ROLE app LOGIN; SELECT hilo_create('s')");
    let (name, first, _) = lease(&mut client, "'s', 10");
    let mut app = cluster.connect_as("app", "postgres");
    app.run("BEGIN");
    let refill = format!(
        "SELECT sqlstate FROM hilo_refill(returns => '{{{name}}}', nexts => '{{{first}}}',
             renewals => '{{{name}}}', names => '{{s}}', sizes => '{{5}}')"
    );
    assert_eq!(app.all::<String>(&refill), ["42501", "42501", "42501"]);
    client.run("SET lock_timeout = '1ms'");
    client.run(&format!("SELECT hilo_nextval('s'), hilo_lease_return('{name}', {first} + 3)"));
    // An error alone takes no lock with it either.
    for call in ["hilo_nextval('s')", "hilo_lease('s', 1)", "hilo_drop('s')"] {
        app.run("SAVEPOINT here");
        app.refusal(&format!("SELECT {call}")).is("42501").helps();
        app.run("ROLLBACK TO here");
        client.run("SELECT hilo_nextval('s')");
    }
    cluster.finish();
}

/// Whoever makes keys gets the error, though he may not use the schema of what makes them.
#[test]
fn everybody_is_told_what_is_wrong_with_a_key() {
    let (cluster, mut client) = cluster();
    client.run("CREATE ROLE app; SELECT hilo_create('s', key_format => '{server}{value}')");
    client.run("SELECT hilo_grant('s', 'app', 'USAGE'); SET ROLE app");
    client.refusal("SELECT hilo_key_value('s', 'x')").is("22023").helps();
    client.refusal("SELECT hilo_key('nothing', 1)").is("42704").helps();
    for prefix in ["7", "a\\x01"] {
        client.run(&format!("SET hilo.server_prefix = E'{prefix}'"));
        client.refusal("SELECT hilo_nextkey('s')").is("22023").helps();
    }
    client.run("SET hilo.server_prefix = 'a'");
    assert_eq!(client.one::<String>("SELECT hilo_nextkey('s')"), "a1");
    cluster.finish();
}
