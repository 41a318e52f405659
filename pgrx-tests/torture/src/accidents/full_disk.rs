//! A disk that is full when the worker ends.

use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::Torture;

/// Fills the disk, terminates the worker and some of the sessions, and frees the space again.
/// Sometimes only after the next worker has started, or after the server has stopped.
pub fn fill(torture: &Torture, rng: &mut Rng) -> &'static str {
    let Some((database, disk)) = &torture.disk else { return "no disk to fill" };
    let end = |kind: &str, most: i64| {
        let Ok(mut client) = torture.cluster.try_connect("postgres", "postgres") else { return };
        let _ = client.batch_execute(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE backend_type = '{kind}' AND datname = '{database}' LIMIT {most}"
        ));
    };
    disk.fill();
    thread::sleep(Duration::from_millis(rng.u64(..1_000)));
    if rng.bool() {
        end("client backend", 8);
        thread::sleep(Duration::from_millis(rng.u64(..100)));
    }
    let what = if rng.u32(..3) == 0 {
        // Writes that the worker could not make are lost, as in a crash.
        torture.cluster.stop(hilo_tests::Mode::Fast);
        disk.clear();
        torture.cluster.start();
        "disk full at a fast stop"
    } else {
        end("hilo worker", 1);
        thread::sleep(Duration::from_millis(rng.u64(..1_500)));
        "disk full at a worker's end"
    };
    disk.clear();
    what
}
