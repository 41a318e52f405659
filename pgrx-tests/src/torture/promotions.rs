//! A primary dies while its standby lags behind; the standby is promoted and gets a standby of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::book::Book;
use super::figures::Figures;
use super::{Plan, Torture, market, reckoning, sequences};
use crate::client::ClientExt;
use crate::cluster::{Cluster, Mode};
use crate::wait::{LONG, came_true};

/// Nothing that was served comes again, as long as the lag is below what the documents name.
pub fn play(plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let mut rng = Rng::with_seed(seed);
    let book = Arc::new(Book::new(sequences::lasting("postgres", false), figures.clone()));
    let mut primary = Arc::new(market::builder(plan).start_with_hilo());
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('probe')");
    for sequence in &book.sequences {
        let life = book.begin_life(sequence);
        client.run(&sequence.create(&sequence.name().0, &life));
        life.committed.store(true, SeqCst);
        sequence.join(&life);
    }
    drop(client);
    let end = Instant::now() + time;
    let mut round = 0;
    while Instant::now() < end {
        // Sessions that hold slices when the server is stopped leave free ranges to the catalog.
        let torture = server(plan, &primary, &book, round > 0, rng.u64(300..1_500));
        market::load(&torture, plan.sessions, rng.u64(..), |_| {});
        reckoning::stop_cleanly(&torture, Mode::Fast, || {});
        drop(torture);
        let standby = Arc::new(primary.clone_by_base_backup());
        let torture = server(plan, &primary, &book, round > 0, rng.u64(2_000..6_000));
        market::load(&torture, plan.sessions, rng.u64(..), |torture| {
            fall_behind(torture, &standby, &mut rng);
        });
        drop(torture);
        Arc::into_inner(primary).expect("nobody else has it").finish();
        standby.promote();
        figures.accident("promotion of a standby that lagged behind");
        primary = standby;
        let torture = server(plan, &primary, &book, true, 0);
        reckoning::settle_accounts(&torture);
        torture.let_in();
        round += 1;
    }
    let last = server(plan, &primary, &book, true, 0);
    drop(primary);
    market::finish(last);
}

fn server(
    plan: &Plan,
    cluster: &Arc<Cluster>,
    book: &Arc<Book>,
    promoted: bool,
    milliseconds: u64,
) -> Torture {
    Torture {
        cluster: cluster.clone(),
        book: book.clone(),
        databases: vec!["postgres"],
        favourite: 1.0,
        end: Instant::now() + Duration::from_millis(milliseconds),
        batch: plan.batch,
        pause: plan.pause,
        away: AtomicBool::new(false),
        inside: AtomicUsize::new(0),
        disk: None,
        promoted,
        scarce: false,
    }
}

/// The standby receives nothing any more, and a while later the primary is no more.
fn fall_behind(torture: &Torture, standby: &Cluster, rng: &mut Rng) {
    let left = torture.end.saturating_duration_since(Instant::now());
    // From the first statement on, or later.
    thread::sleep(left.mul_f32(rng.f32() * rng.u32(..2) as f32));
    let mut client = standby.connect("postgres");
    client.run("ALTER SYSTEM SET primary_conninfo = ''");
    standby.reload();
    let gone = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";
    if !came_true(LONG, || client.one::<bool>(gone)) {
        torture.book.figures.wrong("the standby goes on receiving".into());
    }
    thread::sleep(torture.end.saturating_duration_since(Instant::now()));
    torture.cluster.kill9_postmaster();
}
