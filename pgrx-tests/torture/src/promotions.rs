//! A primary is killed while its standby lags behind; the standby is promoted and gets its own standby.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::figures::Figures;
use super::ledger::Ledger;
use super::sequences::Servers;
use super::{Plan, Torture, audit, gapless, one_server, sequences};
use hilo_tests::ClientExt;
use hilo_tests::{Cluster, Mode};
use hilo_tests::{LONG, came_true};

/// Nothing is served twice as long as the lag stays below the limit in the documents.
pub fn play(plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let mut rng = Rng::with_seed(seed);
    let ledger =
        Arc::new(Ledger::new(sequences::lasting("postgres", Servers::One), figures.clone()));
    let mut primary = Arc::new(one_server::builder(plan).start_with_hilo());
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('probe')");
    for sequence in &ledger.sequences {
        let life = ledger.begin_life(sequence);
        client.run(&sequence.create(&sequence.name().0, &life));
        life.committed.store(true, SeqCst);
        sequence.join(&life);
    }
    gapless::create(&server(plan, &primary, &ledger, false, 0), &mut client);
    drop(client);
    let end = Instant::now() + time;
    let mut round = 0;
    while Instant::now() < end {
        // Sessions that hold slices when the server is stopped leave free ranges in the catalog.
        let torture = server(plan, &primary, &ledger, round > 0, rng.u64(300..1_500));
        one_server::load(&torture, plan.sessions, rng.u64(..), |_| {});
        audit::stop_cleanly(&torture, Mode::Fast, || {});
        drop(torture);
        let standby = Arc::new(primary.clone_by_base_backup());
        let torture = server(plan, &primary, &ledger, round > 0, rng.u64(2_000..6_000));
        one_server::load(&torture, plan.sessions, rng.u64(..), |torture| {
            fall_behind(torture, &standby, &mut rng);
        });
        drop(torture);
        Arc::into_inner(primary).expect("no other owner is left").finish();
        standby.promote();
        figures.accident("promotion of a standby that lagged behind");
        primary = standby;
        let torture = server(plan, &primary, &ledger, true, 0);
        audit::final_audit(&torture);
        torture.allow_sessions();
        round += 1;
    }
    let last = server(plan, &primary, &ledger, true, 0);
    drop(primary);
    one_server::finish(last);
}

fn server(
    plan: &Plan,
    cluster: &Arc<Cluster>,
    ledger: &Arc<Ledger>,
    promoted: bool,
    milliseconds: u64,
) -> Torture {
    Torture {
        cluster: cluster.clone(),
        ledger: ledger.clone(),
        databases: vec!["postgres"],
        favourite: 1.0,
        end: Instant::now() + Duration::from_millis(milliseconds),
        batch: plan.batch,
        pause: plan.pause,
        refusing: AtomicBool::new(false),
        connected: AtomicUsize::new(0),
        disk: None,
        refuse_memory: plan.refuse_memory,
        promoted,
        scarce: false,
    }
}

/// Cuts the standby off, and some time later kills the primary.
fn fall_behind(torture: &Torture, standby: &Cluster, rng: &mut Rng) {
    let left = torture.end.saturating_duration_since(Instant::now());
    // Right from the start, or later.
    thread::sleep(left.mul_f32(rng.f32() * rng.u32(..2) as f32));
    let mut client = standby.connect("postgres");
    client.run("ALTER SYSTEM SET primary_conninfo = ''");
    standby.reload();
    let gone = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";
    if !came_true(LONG, || client.one::<bool>(gone)) {
        torture.ledger.figures.wrong("the standby still receives".into());
    }
    thread::sleep(torture.end.saturating_duration_since(Instant::now()));
    torture.cluster.kill9_postmaster();
}
