//! Functions that mallory has planted on all nodes, where a call of hilo's could prefer one: none of them runs.

use hilo_tests::ClientExt;
use hilo_tests::planted::{OF_HILO, assert_none_ran, make_typed, plant, plants};

use super::{Nodes, finish, three};

/// Draws on each node, until each has asked its source again.
fn draw_on_all(nodes: &mut Nodes, name: &str) {
    for (_, client) in nodes {
        client.run(&format!(
            "SELECT count(typed.hilo_nextval('{name}')) FROM generate_series(1, 3000)"
        ));
    }
}

/// Sequences on all nodes, a table that is adopted, and what hilo_check asks of the nodes.
#[test]
fn no_planted_function_runs_on_any_node() {
    let mut nodes = three();
    let mut planted = plants(&mut nodes[0].1, OF_HILO, false);
    planted.extend(plants(&mut nodes[0].1, "p.proname LIKE 'dblink%'", false));
    for (cluster, client) in &mut nodes {
        client.run(
            "CREATE ROLE mallory LOGIN; GRANT ALL ON SCHEMA public TO mallory;
             CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap TO PUBLIC;
             ALTER DATABASE postgres SET search_path = trap, public",
        );
        make_typed(client, "public");
        for schema in ["trap", "public"] {
            assert!(plant(client, schema, &planted) > 2000);
        }
        *client = cluster.connect("postgres");
    }
    let coordinator = &mut nodes[0].1;
    coordinator.run("SELECT * FROM typed.hilo_create_on_all_nodes('s'::public.hilo_sequence, '{\"start_value\": 7}')");
    coordinator.run("SELECT * FROM typed.hilo_create_on_all_nodes('{s,t}'::text[])");
    draw_on_all(&mut nodes, "s");
    let coordinator = &mut nodes[0].1;
    coordinator.run(
        "CREATE TABLE public.rows (id bigserial PRIMARY KEY); INSERT INTO public.rows SELECT FROM generate_series(1, 9);
         INSERT INTO pg_catalog.pg_dist_partition VALUES ('public.rows')",
    );
    coordinator.run("SELECT typed.hilo_adopt_on_all_nodes('public.rows', 'id', 'rows')");
    coordinator
        .run("INSERT INTO public.rows DEFAULT VALUES; INSERT INTO public.rows VALUES (1000000)");
    draw_on_all(&mut nodes, "rows");
    let coordinator = &mut nodes[0].1;
    coordinator.run("SELECT typed.hilo_setval('s', 6656000); SELECT typed.hilo_create('own')");
    for (_, client) in &mut nodes {
        client.run("SELECT * FROM typed.hilo_check(); SELECT typed.hilo_report()");
    }
    nodes[0].1.run("SELECT * FROM typed.hilo_create_on_all_nodes('{s,t,rows}'::text[])");
    draw_on_all(&mut nodes, "s");
    nodes.iter().for_each(|(cluster, _)| assert_none_ran(cluster));
    finish(nodes);
}
