//! Functions that mallory has planted, which a call of hilo_lite's or of the migration could prefer:
//! none of them runs.

use hilo_tests::planted::{OF_HILO, assert_none_ran, plant, plants};
use hilo_tests::{ClientExt, Cluster};

use super::conversion::convert;
use super::script;

/// A superuser has hilo_lite in a schema where mallory may create, and puts hilo in its place.
#[test]
fn no_planted_function_runs_in_hilo_lite_nor_in_the_migration() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN; CREATE ROLE clerk LOGIN; CREATE EXTENSION hilo");
    let mut planted = plants(&mut admin, OF_HILO, true);
    admin.run("CREATE DATABASE shop");
    let mut admin = cluster.connect("shop");
    admin.run("CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO mallory; SET search_path = ids");
    admin.run(&script("hilo_lite--1.0.0.sql"));
    admin.run(
        "SELECT hilo_create('s', increment => 10), hilo_create('g', gapless => true);
         CREATE TABLE public.t (id bigint DEFAULT hilo_nextval('s'), key text DEFAULT hilo_nextkey('g'), n integer);
         GRANT ALL ON public.t TO clerk; SELECT hilo_grant('s', 'clerk', 'ALL'), hilo_grant('g', 'clerk', 'ALL');
         SELECT hilo_lease('s', 10), hilo_lease_revoke(holder => 'nobody')",
    );
    let of_lite = "p.pronamespace IN ('ids'::regnamespace, '_hilo'::regnamespace)";
    planted.extend(plants(&mut admin, of_lite, true));
    admin.run(
        "CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap, ids TO PUBLIC;
         ALTER DATABASE shop SET search_path = trap, public, ids",
    );
    for schema in ["trap", "ids"] {
        let made = plant(&mut admin, schema, &planted);
        assert!(made > 1000, "{made}");
    }
    let mut admin = cluster.connect("shop");
    admin.run(
        "INSERT INTO public.t (n) SELECT g FROM generate_series(1, 100) g;
         SELECT * FROM ids.hilo_sequences; SELECT * FROM ids.hilo_leases; SELECT * FROM ids.hilo_gaps",
    );
    cluster.connect_as("clerk", "shop").run("INSERT INTO public.t (n) VALUES (1)");
    drop(admin);
    convert(&cluster, "shop");
    for role in ["postgres", "clerk"] {
        cluster
            .connect_as(role, "shop")
            .run("INSERT INTO public.t (n) SELECT g FROM generate_series(1, 100) g");
    }
    assert_none_ran(&cluster);
    cluster.finish();
}
