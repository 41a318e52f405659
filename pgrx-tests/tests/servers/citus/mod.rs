//! On Citus every node calls `hilo_nextval`, so what is right for a single server serves numbers
//! twice. Debian has no Citus, so an extension of that name replaces it here. It has the tables
//! that hilo reads and the functions that it calls. They connect to the others with psql or dblink.

mod added_again;
mod alone;
mod branches;
mod comparison;
mod creation;
mod groups_given_again;
mod identity;
mod prepared;

use hilo_tests::extension::install_script;
use hilo_tests::{Client, ClientExt, Cluster, SERVER, assert_unique};

type Nodes = Vec<(Cluster, Client)>;

/// As with Citus, a command's result has one column only. A change of the group makes all processes
/// forget what they know of its table.
const STAND_IN: &str = r#"
    SET LOCAL allow_system_table_mods = on;
    CREATE TABLE pg_catalog.pg_dist_local_group (groupid integer);
    CREATE TABLE pg_catalog.pg_dist_node (nodeid integer, groupid integer, nodename text, nodeport integer DEFAULT 5432,
        nodeisclone boolean NOT NULL DEFAULT false, nodeprimarynodeid integer DEFAULT 0);
    CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
    CREATE FUNCTION pg_catalog.citus_forget() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN GRANT SELECT ON pg_catalog.pg_dist_local_group TO PUBLIC; RETURN NULL; END';
    CREATE TRIGGER forget AFTER INSERT OR UPDATE OR DELETE ON pg_catalog.pg_dist_local_group
        FOR EACH STATEMENT EXECUTE FUNCTION pg_catalog.citus_forget();
    CREATE FUNCTION pg_catalog.run_command_on_all_nodes(
        command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false,
        OUT nodeid integer, OUT success boolean, OUT result text
    ) RETURNS SETOF record LANGUAGE plpgsql AS $$
    DECLARE
        node record;
        lines text[];
    BEGIN
        CREATE TEMP TABLE IF NOT EXISTS citus_answer (at serial, line text);
        FOR node IN SELECT * FROM pg_catalog.pg_dist_node n ORDER BY n.nodeid LOOP
            TRUNCATE citus_answer;
            EXECUTE pg_catalog.format('COPY citus_answer (line) FROM PROGRAM %L WITH (FORMAT csv, DELIMITER E''\x01'', QUOTE E''\x02'')',
                pg_catalog.format('echo %s | base64 -d | PGCONNECT_TIMEOUT=2 %s/psql -XAtq -F "$(printf ''\003'')" -v ON_ERROR_STOP=1 -h %s -p %s -U postgres -d postgres 2>&1; echo $?',
                    pg_catalog.translate(pg_catalog.encode(pg_catalog.convert_to(command, 'UTF8'), 'base64'), E'\n', ''),
                    'BINDIR', node.nodename, node.nodeport));
            lines := ARRAY(SELECT a.line FROM citus_answer a ORDER BY a.at);
            nodeid := node.nodeid;
            success := lines[pg_catalog.cardinality(lines)] = '0';
            result := pg_catalog.array_to_string(lines[1:pg_catalog.cardinality(lines) - 1], E'\n');
            IF pg_catalog.strpos(result, E'\x03') > 0 THEN
                success := false;
                result := 'expected a single column in query target';
            END IF;
            RETURN NEXT;
        END LOOP;
        DROP TABLE citus_answer;
    END $$;
    CREATE FUNCTION pg_catalog.citus_run(host text, command text, OUT success boolean, OUT result text) LANGUAGE plpgsql AS $$
    BEGIN
        SELECT r INTO result
          FROM public.dblink(pg_catalog.format('host=%s port=5432 dbname=postgres connect_timeout=2 user=%s', host, current_user), command) AS t (r text);
        success := true;
    EXCEPTION WHEN OTHERS THEN
        success := false;
        result := 'ERROR:  ' || SQLERRM;
    END $$;
    CREATE FUNCTION pg_catalog.run_command_on_coordinator(
        command text, give_warning_for_connection_errors boolean DEFAULT false,
        OUT nodeid integer, OUT success boolean, OUT result text
    ) RETURNS SETOF record LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_dist_node n WHERE n.groupid = 0) THEN
            RAISE EXCEPTION 'the coordinator is not added to the metadata';
        END IF;
        RETURN QUERY SELECT n.nodeid, r.* FROM pg_catalog.pg_dist_node n, pg_catalog.citus_run(n.nodename, command) r WHERE n.groupid = 0;
    END $$;
    CREATE FUNCTION pg_catalog.run_command_on_workers(
        command text, parallel boolean DEFAULT true, OUT nodename text, OUT nodeport integer, OUT success boolean, OUT result text
    ) RETURNS SETOF record LANGUAGE sql AS
        'SELECT n.nodename, n.nodeport, r.* FROM pg_catalog.pg_dist_node n, pg_catalog.citus_run(n.nodename, command) r WHERE n.groupid <> 0';
"#;

/// A server with the extension of that name, which has joined no cluster yet.
fn server(settings: &[(&str, &str)]) -> (Cluster, Client) {
    install_script("citus.control", "default_version = '0'\n");
    let bindir = SERVER.bindir().display().to_string();
    install_script("citus--0.sql", &STAND_IN.replace("BINDIR", &bindir));
    let builder = Cluster::builder().own_identity();
    let cluster = settings
        .iter()
        .fold(builder, |builder, (name, value)| builder.config(name, value))
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION dblink; CREATE EXTENSION citus SCHEMA public; INSERT INTO pg_catalog.pg_dist_local_group VALUES (0)");
    (cluster, client)
}

/// The rows that `citus_add_node` leaves on a node: its group, and who else there is.
fn join(client: &mut Client, group: i32, nodes: &[(i32, &Cluster)]) {
    client.run("BEGIN; DELETE FROM pg_catalog.pg_dist_node");
    for (other, cluster) in nodes {
        let host = cluster.socket_directory().display();
        client.run(&format!(
            "INSERT INTO pg_catalog.pg_dist_node VALUES ({other} + 100, {other}, '{host}')"
        ));
    }
    client.run(&format!("UPDATE pg_catalog.pg_dist_local_group SET groupid = {group}; COMMIT"));
}

/// Settings of a node that Citus says the id of.
const FOLLOWS: [(&str, &str); 2] = [("hilo.node_id", "citus"), ("hilo.node_count", "8")];

/// Lets a session number sequences on its node, as a test then does on every other one.
fn by_hand(client: &mut Client) {
    client.run("SET hilo.on_every_node = on");
}

/// A Citus of three, which follow their groups.
fn three() -> Nodes {
    let mut nodes: Vec<_> = (0..3).map(|_| server(&FOLLOWS)).collect();
    join_all(&mut nodes);
    nodes
}

/// Lets all of these join, each as the group of its place.
fn join_all(nodes: &mut [(Cluster, Client)]) {
    let groups: Vec<i32> = (0..nodes.len() as i32).collect();
    join_as(nodes, &groups);
}

/// Lets these servers be the nodes of a cluster, each as the group at its place.
fn join_as(nodes: &mut [(Cluster, Client)], groups: &[i32]) {
    for at in 0..groups.len() {
        let (clusters, mut clients): (Vec<_>, Vec<_>) =
            nodes.iter_mut().map(|(cluster, client)| (&*cluster, client)).unzip();
        let all: Vec<_> = groups.iter().copied().zip(clusters).collect();
        join(clients[at], groups[at], &all);
    }
}

/// Three nodes that have all drawn.
fn three_nodes(each: usize) -> (Nodes, Vec<i64>) {
    let mut nodes = three();
    nodes[0].1.run("SELECT * FROM hilo_create_on_all_nodes('s')");
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", each));
    }
    (nodes, seen)
}

/// The work of `hilo_create_on_all_nodes`, in the order of the words.
fn create(client: &mut Client) -> Vec<String> {
    let sql = "SELECT action FROM hilo_create_on_all_nodes('s')";
    let mut actions = client.all(sql);
    actions.sort();
    actions
}

/// The way out where the nodes cannot agree: all of them begin again, beyond what any has reserved.
fn renumber(nodes: &mut Nodes, seen: &mut Vec<i64>) {
    for (_, client) in nodes.iter_mut() {
        by_hand(client);
        client.run("SELECT hilo_alter('s', restart_with => 10000000)");
        seen.extend(client.draw("s", 2_000));
    }
    assert_eq!(create(&mut nodes[0].1), ["exists"; 3]);
}

/// Every node serves what nobody has seen, and finds nothing wrong. Ends all servers.
fn all_serve(mut nodes: Nodes, mut seen: Vec<i64>) {
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 3_000));
        assert_eq!(findings(client), NOTHING);
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Ends all servers.
fn finish(nodes: Nodes) {
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

/// How a node numbers its sequences, as `hilo_create_on_all_nodes` would tell it to others.
fn summary(client: &mut Client) -> String {
    client.one("SELECT hilo_node_summary()::text")
}

/// Tells a node that has another group now how others number the sequences.
fn tell(client: &mut Client, summary: &str) {
    client.run(&format!("SELECT * FROM hilo_apply('{summary}')"));
}

fn findings(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT severity || ': ' || object || ': ' || what FROM hilo_check()
          WHERE object NOT LIKE 'setting f%' AND severity <> 'note'",
    )
}

const NOTHING: [&str; 0] = [];
