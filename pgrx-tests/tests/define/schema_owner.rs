//! `CREATE EXTENSION` takes nobody's schema, and `DROP EXTENSION` leaves it as it was.

use hilo_tests::{Client, ClientExt, Cluster};

/// Database `shop` of `owner`. `mallory` may only create schemas there. `bob` has a schema, and so has the group
/// `staff`, of which `anna` is a member, and `nick` one that has to SET ROLE. `dora` may use nothing.
fn shop(cluster: &Cluster) -> Client {
    let mut admin = cluster.connect("postgres");
    for role in ["owner", "mallory", "bob", "staff", "anna", "dora"] {
        admin.run(&format!("CREATE ROLE {role} LOGIN"));
    }
    admin.run("CREATE ROLE nick LOGIN NOINHERIT; GRANT staff TO anna, nick; GRANT bob TO nick");
    admin.run("CREATE DATABASE shop OWNER owner");
    let mut admin = cluster.connect("shop");
    admin.run(
        "GRANT CREATE ON DATABASE shop TO mallory, bob, anna, nick, staff;
         CREATE SCHEMA bobs AUTHORIZATION bob; CREATE SCHEMA hilo AUTHORIZATION staff;
         CREATE SCHEMA mine AUTHORIZATION mallory; GRANT USAGE ON SCHEMA hilo TO clerks",
    );
    admin
}

/// The schemas as Postgres stores them, and the relations in them.
fn schemas(admin: &mut Client) -> Vec<String> {
    admin.all(
        "SELECT format('%s %s %s %s %s %s', n.nspname, n.nspowner::regrole, n.nspacl,
                       (SELECT string_agg(c.oid::regclass || ' ' || c.relowner::regrole, ', ') FROM pg_class c WHERE c.relnamespace = n.oid),
                       (SELECT count(*) FROM pg_init_privs i WHERE i.objoid = n.oid),
                       (SELECT count(*) FROM pg_depend d WHERE d.objid = n.oid AND d.classid = 'pg_namespace'::regclass))
           FROM pg_namespace n WHERE n.nspname !~ '^(_hilo|pg_)' ORDER BY 1",
    )
}

/// Creates the extension in a schema, and returns what is refused of that.
fn create(client: &mut Client, schema: &str) -> Option<(String, String)> {
    let refused = client.batch_execute(&format!("CREATE EXTENSION hilo SCHEMA {schema}")).err()?;
    let report = refused.as_db_error().expect("a report");
    Some((report.code().code().to_owned(), report.message().to_owned()))
}

/// Whoever has not the rights of the schema's owner is told whose it is, also with CREATE on it. The schema stays
/// the owner's, and closed.
#[test]
fn the_schema_of_another_role_is_refused_and_stays_as_it_is() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.connect("postgres").run("CREATE ROLE clerks");
    let mut admin = shop(&cluster);
    cluster
        .connect_as("bob", "shop")
        .run("CREATE TABLE bobs.private AS SELECT 42 AS x; GRANT SELECT ON bobs.private TO PUBLIC");
    admin.run("GRANT ALL ON SCHEMA bobs, hilo TO mallory; GRANT ALL ON SCHEMA public TO mallory");
    let before = schemas(&mut admin);
    for (role, schema, whose) in [
        ("mallory", "bobs", "bob"),
        ("mallory", "hilo", "staff"),
        ("mallory", "public", "pg_database_owner"),
        ("anna", "bobs", "bob"),
        ("nick", "bobs", "bob"),
        ("nick", "hilo", "staff"),
        ("owner", "bobs", "bob"),
        ("owner", "mine", "mallory"),
    ] {
        let mut client = cluster.connect_as(role, "shop");
        let refused = create(&mut client, schema);
        let (state, message) = refused.unwrap_or_else(|| panic!("{role} in {schema}"));
        assert_eq!(state, "42501", "{role} in {schema}");
        if message != format!("schema \"{schema}\" belongs to role \"{whose}\"") {
            // Core asks for CREATE on the schema first.
            assert_eq!(message, format!("permission denied for schema {schema}"));
            assert_ne!(role, "mallory", "{schema}");
        }
        assert_eq!(schemas(&mut admin), before, "{role} in {schema}");
        assert_eq!(admin.one::<i64>("SELECT count(*) FROM pg_extension WHERE extname = 'hilo'"), 0);
    }
    let mut dora = cluster.connect_as("dora", "shop");
    dora.refusal("SELECT x FROM bobs.private").is("42501");
    cluster.connect_as("bob", "shop").run("CREATE TABLE bobs.more (); DROP SCHEMA bobs CASCADE");
    cluster.finish();
}

/// The role owns the schema, is a member of the group that does, sets its role, owns the database or
/// is a superuser. The schema is as before while the extension is in it, and after that.
#[test]
fn the_schema_is_the_same_before_the_extension_and_after_it() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.connect("postgres").run("CREATE ROLE clerks");
    let mut admin = shop(&cluster);
    cluster.connect_as("bob", "shop").run("CREATE TABLE bobs.private (x bigint)");
    for (role, sets, schema) in [
        ("mallory", "mallory", "mine"),
        ("bob", "bob", "bobs"),
        ("nick", "bob", "bobs"),
        ("anna", "anna", "hilo"),
        ("nick", "staff", "hilo"),
        ("owner", "owner", "public"),
        ("postgres", "postgres", "bobs"),
        ("postgres", "bob", "bobs"),
        ("postgres", "postgres", "public"),
    ] {
        let before = schemas(&mut admin);
        let mut client = cluster.connect_as(role, "shop");
        client.run(&format!("SET ROLE {sets}"));
        assert_eq!(create(&mut client, schema), None, "{role} as {sets} in {schema}");
        let during = schemas(&mut admin);
        let owner_and_rights = |all: &[String]| -> Vec<String> {
            all.iter().map(|one| one.splitn(4, ' ').take(3).collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(owner_and_rights(&during), owner_and_rights(&before), "{role} in {schema}");
        let owner = "SELECT extowner::regrole::text FROM pg_extension WHERE extname = 'hilo'";
        assert_eq!(admin.one::<String>(owner), sets);
        admin.run(&format!("SELECT {schema}.hilo_create('orders')"));
        client.run("DROP EXTENSION hilo");
        assert_eq!(schemas(&mut admin), before, "{role} in {schema}");
    }
    cluster.connect_as("bob", "shop").run("DROP SCHEMA bobs CASCADE");
    cluster.connect_as("anna", "shop").run("DROP SCHEMA hilo");
    cluster.finish();
}
