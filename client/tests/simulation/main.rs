//! Many clients of many sequences on virtual time: the engine of the client, a model of the server,
//! and random traffic. Nothing sleeps.
//!
//! `cargo test --release -p hilo-client --test simulation -- --nocapture` prints what a small fleet
//! does. `scripts/bench-refill` does it with `PROCESSES=1000 COUNTERS=10000`.

mod process;
mod server;
mod world;

use world::{Phase, World};

/// The draws of each process in a second, of all its counters together. The counter of rank r is
/// drawn in proportion to r to the power of -1.2.
const RATE: f64 = 50.0;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn print(phase: &Phase) {
    println!(
        "| {} | {:.0} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |",
        phase.name,
        phase.per_second(phase.drawn),
        phase.per_second(phase.refills),
        phase.per_second(phase.statements - phase.refills),
        phase.per_second(phase.worker),
        phase.peak,
        phase.full,
        phase.late,
        phase.discarded,
        phase.leases,
        phase.lost,
        phase.first_uses,
        phase.waits,
        phase.longest_wait as f64 / 1000.0
    );
}

/// Processes that all begin at the same moment, for more leases than the server has places for, get
/// them all. Their statements have a size that it has room for, and there is not one for each
/// sequence.
#[test]
fn a_server_without_room_serves_everybody() {
    let (processes, counters) = (20, 300);
    let mut world = World::new(processes, counters, RATE, 60.0);
    world.run("all started cold", 300.0);
    world.set_places(400);
    world.restart_all();
    let pairs = world.pairs() as i64;
    let restart = world.run("all restarted", 60.0);
    print(&restart);
    assert!(restart.full > 0, "there was room for all");
    // Each is refused some times, with fewer leases each time, until one has room.
    assert!(restart.full <= 10 * processes as u64, "{} refused statements", restart.full);
    assert!(restart.statements <= pairs / 4, "{} for {pairs} leases", restart.statements);
    assert!(world.pairs() as i64 >= pairs);
    let after = world.run("the minute after it", 60.0);
    assert_eq!((after.full, after.discarded, after.waits), (0, 0, 0));
}

/// A server that becomes so slow that no statement of full size ends in time gets smaller ones, and
/// serves everybody. It does not spend its time on what is canceled and asked for again.
#[test]
fn a_server_that_is_slow_is_not_flooded() {
    let (processes, counters) = (20, 300);
    let mut world = World::new(processes, counters, RATE, 60.0);
    world.run("all started cold", 300.0);
    world.restart_all();
    // 40 ms for a lease, of which each process wants three hundred.
    world.set_slowness(1_600);
    let restart = world.run("all restarted", 120.0);
    print(&restart);
    assert!(restart.late > 0, "all were in time");
    assert!(restart.late <= 5 * processes as u64, "{} statements were too slow", restart.late);
    assert_eq!(world.dry(), 0, "of {}", world.pairs());
    world.set_slowness(1);
    let after = world.run("the minute after it", 60.0);
    assert_eq!((after.late, after.waits), (0, 0));
}

/// A cold start, steady traffic, a deployment that restarts every process at once, a crash of every
/// tenth, and an outage of half a buffer.
#[test]
fn a_fleet_from_day_to_day() {
    let (processes, counters) = (number("PROCESSES", 20), number("COUNTERS", 300));
    let mut world = World::new(processes, counters, RATE, 60.0);
    println!(
        "| {processes} processes × {counters} counters | numbers/s | refills/s | first leases/s | \
         reservations/s | peak commits/s | no room | too slow | discarded | leases | lost | \
         first uses | other waits | longest, ms |"
    );
    println!(
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: \
         | ---: |"
    );
    let start = world.run("all started cold, the first minute", 60.0);
    print(&start);
    let after = world.run("the four minutes after it", 240.0);
    print(&after);
    let steady = world.run("steady, three minutes", 180.0);
    print(&steady);
    world.restart_all();
    let restart = world.run("all restarted with a warm-up, a minute", 60.0);
    print(&restart);
    world.run("until it is steady", 120.0);
    let held = world.crash(10);
    let crash = world.run("every tenth crashed, a minute", 60.0);
    print(&crash);
    world.run("until it is steady", 120.0);
    world.stop_server();
    let outage = world.run("the server stopped for 30 s", 30.0);
    print(&outage);
    world.start_server();
    let recovery = world.run("the minute after it", 60.0);
    print(&recovery);
    println!("{} pairs of a process and a counter", world.pairs());

    assert_eq!(steady.waits, 0);
    let each = steady.per_second(steady.refills) / processes as f64;
    assert!(each <= 0.25, "{each} refills a second by each process");
    assert!(steady.worker <= 2 * steady.statements);
    assert_eq!(start.lost + after.lost + steady.lost + restart.lost, 0);
    assert!(restart.first_uses < start.first_uses / 2);
    assert!(held > 0 && crash.lost == held);
    assert_eq!(crash.waits, 0);
    assert_eq!(outage.waits, 0, "what was used before");
}
