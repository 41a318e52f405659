//! Processes that others end: a client in Python gives back what it holds.

use hilo_tests::ClientExt;
use hilo_tests::example::{DATABASE, Example, OWNER};

use super::cluster;

/// gunicorn renews its worker, uvicorn reloads its process, and Celery renews that of its pool. Each goes on with the next
/// value, and the last one leaves neither a lease nor a gap.
#[test]
fn the_end_of_a_process_of_gunicorn_uvicorn_and_celery_returns_its_leases() {
    let Some(python) = Example::find("python") else { return };
    let cluster = cluster();
    let create = "SELECT hilo_create(n) FROM unnest('{gunicorn,uvicorn,celery}'::text[]) AS n";
    cluster.connect_as(OWNER, DATABASE).run(create);
    python.run(&cluster, &[], &[&["python3", "tests/ends.py"]]);
    cluster.finish();
}
