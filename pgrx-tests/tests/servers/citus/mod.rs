//! On Citus every node calls `hilo_nextval`, so what is right for a single server serves numbers
//! twice. Debian has no Citus, so an extension of that name replaces it here. It has the tables
//! that hilo reads and the functions that it calls. They connect to the others with psql or dblink.

mod answers;
mod branches;
mod planted;
mod prepared;
mod stripes;

use hilo_tests::extension::install_script;
use hilo_tests::{Client, ClientExt, Cluster, SERVER};

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

const INSTALL: &str = "CREATE EXTENSION dblink; CREATE EXTENSION citus SCHEMA public;
    INSERT INTO pg_catalog.pg_dist_local_group VALUES (0)";

/// A server that can have the extension of that name.
fn bare(settings: &[(&str, &str)]) -> (Cluster, Client) {
    install_script("citus.control", "default_version = '0'\n");
    let bindir = SERVER.bindir().display().to_string();
    install_script("citus--0.sql", &STAND_IN.replace("BINDIR", &bindir));
    let builder = Cluster::builder().own_identity();
    let cluster = settings
        .iter()
        .fold(builder, |builder, (name, value)| builder.config(name, value))
        .start_with_hilo();
    let client = cluster.connect("postgres");
    (cluster, client)
}

/// A server with it, which has joined no cluster yet.
fn server(settings: &[(&str, &str)]) -> (Cluster, Client) {
    let (cluster, mut client) = bare(settings);
    client.run(INSTALL);
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

/// A coordinator and two workers.
fn three() -> Nodes {
    let mut nodes: Vec<_> = (0..3).map(|_| server(&[("max_worker_processes", "20")])).collect();
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

/// The work of `hilo_create_on_all_nodes`: the coordinator first, then the workers.
fn create(client: &mut Client, arguments: &str) -> Vec<String> {
    let all = "SELECT action FROM hilo_create_on_all_nodes";
    client.all(&format!("{all}({arguments}) ORDER BY node <> 'coordinator', action"))
}

/// Ends all servers.
fn finish(nodes: Nodes) {
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

fn findings(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT severity || ': ' || object || ': ' || what FROM hilo_check()
          WHERE object NOT LIKE 'setting f%' AND severity <> 'note'",
    )
}

const NOTHING: [&str; 0] = [];
