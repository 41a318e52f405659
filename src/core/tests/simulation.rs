//! The refill policy on virtual time: traffic of several shapes against a pool, and a worker that
//! needs some milliseconds for a reservation. Nothing sleeps.
//!
//! `cargo test -p hilo-core --test simulation -- --nocapture` prints block, threshold and refills
//! over time.

use hilo_core::numbers::{Micros, Timestamp};
use hilo_core::policy::{
    Remaining, Settings, next_block, reservation_size, shrunk_block, threshold,
};
use hilo_core::rate::Rate;

const SECOND: i64 = 1_000_000;
const WINDOW: Micros = Micros(60 * SECOND);
const SAMPLE: i64 = SECOND;

/// One sequence, its pool and its worker.
struct World {
    settings: Settings,
    room: Remaining,
    /// µs from a request until the values are in the pool
    latency: i64,
    rate: Rate,
    block: i64,
    threshold: i64,
    available: i64,
    taken: i64,
    due: f64,
    /// how many values can be waited for at once: a session that waits draws nothing more
    sessions: f64,
    /// when the reservation under way is done, and how many values it brings
    under_way: Option<(i64, i64)>,
    dry: bool,
    refills: Vec<i64>,
    waits: Vec<i64>,
    /// (time, values in the pool) after each refill
    held: Vec<(i64, i64)>,
}

impl World {
    fn new(settings: Settings, latency: i64) -> Self {
        World {
            settings,
            room: Remaining { whole: i64::MAX, left: i64::MAX },
            latency,
            rate: Rate::default(),
            block: 0,
            threshold: 0,
            available: 0,
            taken: 0,
            due: 0.0,
            sessions: 8.0,
            under_way: None,
            dry: false,
            refills: Vec::new(),
            waits: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Runs for `seconds` in steps of `step` µs; `traffic` is in values per second at a second.
    fn run(&mut self, name: &str, seconds: i64, step: i64, traffic: impl Fn(f64) -> f64) {
        let mut printed = 1;
        println!("\n{name} (reservation {} ms)", self.latency as f64 / 1000.0);
        println!(
            "{:>7} {:>10} {:>10} {:>9} {:>9} {:>10} {:>8} {:>6}",
            "second", "traffic", "rate", "block", "threshold", "in pool", "refills", "waits"
        );
        for now in (0..seconds * SECOND).step_by(step as usize) {
            let speed = traffic(now as f64 / SECOND as f64);
            self.draw(now, speed * step as f64 / SECOND as f64);
            self.work(now);
            if now % SAMPLE == 0 {
                self.sample(now);
            }
            if now == printed * SECOND {
                printed = if printed < 8 { printed * 2 } else { printed + seconds / 12 };
                println!(
                    "{:>7} {:>10.2} {:>10.2} {:>9} {:>9} {:>10} {:>8} {:>6}",
                    now / SECOND,
                    speed,
                    self.rate.per_second(Timestamp(now), self.taken, WINDOW),
                    self.block,
                    self.threshold,
                    self.available,
                    self.refills.len(),
                    self.waits.len()
                );
            }
        }
        println!("waits: {}, after 2 s: {}", self.waits.len(), self.waits_after(2));
    }

    fn draw(&mut self, now: i64, values: f64) {
        self.due += values;
        let drawn = (self.due as i64).min(self.available);
        self.available -= drawn;
        self.taken += drawn;
        self.due = (self.due - drawn as f64).min(self.sessions);
        if self.due >= 1.0 && !self.dry {
            self.waits.push(now);
        }
        self.dry = self.due >= 1.0;
    }

    fn work(&mut self, now: i64) {
        if let Some((done, count)) = self.under_way {
            if now < done {
                return;
            }
            self.available += count;
            self.room.left -= count;
            self.under_way = None;
            self.held.push((now, self.available));
        }
        if !self.dry && self.available >= self.threshold {
            return;
        }
        let demand = self.rate.refill(Timestamp(now), self.taken, WINDOW);
        self.block = next_block(self.block, &demand, self.room, &self.settings);
        self.threshold = threshold(self.block, &demand, self.room, &self.settings);
        let need = if self.dry { 8 } else { 0 };
        let count =
            reservation_size(self.available, need, self.block, &demand, self.room, &self.settings);
        if count > 0 {
            self.under_way = Some((now + self.latency, count));
            self.refills.push(now);
        }
    }

    fn sample(&mut self, now: i64) {
        self.rate.sample(Timestamp(now), self.taken, WINDOW);
        let demand = self.rate.demand(Timestamp(now), self.taken, WINDOW);
        self.block = shrunk_block(self.block, &demand, self.room, &self.settings);
        self.threshold = threshold(self.block, &demand, self.room, &self.settings);
    }

    fn waits_after(&self, second: i64) -> usize {
        self.waits.iter().filter(|at| **at >= second * SECOND).count()
    }

    fn most_held_after(&self, second: i64) -> i64 {
        let later = self.held.iter().filter(|(at, _)| *at >= second * SECOND);
        later.map(|(_, count)| *count).max().unwrap_or(0)
    }

    fn refills_between(&self, from: i64, to: i64) -> usize {
        self.refills.iter().filter(|at| (from * SECOND..to * SECOND).contains(*at)).count()
    }
}

/// The values that may be in the pool at a steady rate: the buffer, and one smallest block.
fn most_allowed(settings: &Settings, speed: f64) -> i64 {
    (speed * settings.buffer) as i64 + settings.min_block
}

#[test]
fn full_speed() {
    for latency in [2_000, 5_000, 10_000] {
        let speed = 10e6;
        let mut world = World::new(Settings::default(), latency);
        world.run("full speed, 10 million a second", 30, 50, |_| speed);
        assert_eq!(world.waits_after(1), 0);
        assert_eq!(world.block, world.settings.max_block);
        assert!(world.most_held_after(2) <= most_allowed(&world.settings, speed));
        let millions = 10.0 * speed / 1e6;
        let per_million = world.refills_between(20, 30) as f64 / millions;
        println!("reservations per million values: {per_million:.2}");
        assert!(per_million <= 10.0);
    }
}

#[test]
fn a_million_a_second() {
    let mut world = World::new(Settings::default(), 5_000);
    world.run("steady, 1 million a second", 200, 200, |_| 1e6);
    assert_eq!(world.waits_after(1), 0);
    assert!(world.most_held_after(2) <= most_allowed(&world.settings, 1e6));
    assert!(world.refills_between(100, 200) <= 1000);
}

#[test]
fn ramp_up() {
    let mut world = World::new(Settings::default(), 10_000);
    // Tenfold every 15 s, from 1 to a million a second.
    world.run("ramp-up, 1 to a million in 90 s", 240, 200, |t| 10f64.powf((t / 15.0).min(6.0)));
    assert_eq!(world.waits_after(2), 0);
    assert!(world.most_held_after(155) <= most_allowed(&world.settings, 1e6));
}

#[test]
fn from_nothing_to_everything() {
    let mut world = World::new(Settings::default(), 10_000);
    world.run("one a second, a million from second 100 on", 240, 200, |t| {
        if t < 100.0 { 1.0 } else { 1e6 }
    });
    let during_the_jump =
        world.waits.iter().filter(|at| (2 * SECOND..100 * SECOND).contains(*at)).count();
    assert_eq!(during_the_jump, 0);
    assert_eq!(world.waits_after(102), 0);
    assert!(world.most_held_after(161) <= most_allowed(&world.settings, 1e6));
}

#[test]
fn decline() {
    let mut world = World::new(Settings::default(), 10_000);
    // A tenth every 30 s, from a million to one a second.
    world.run("decline, a million to 1 in 180 s", 600, 500, |t| {
        10f64.powf(6.0 - (t / 30.0).clamp(0.0, 6.0))
    });
    assert_eq!(world.waits_after(2), 0);
    assert_eq!(world.block, world.settings.min_block);
    assert_eq!(world.threshold, world.settings.min_threshold);
}

#[test]
fn the_block_comes_down_within_minutes() {
    let mut world = World::new(Settings::default(), 10_000);
    world.run("a million a second, one from second 30 on", 150, 200, |t| {
        if t < 30.0 { 1e6 } else { 1.0 }
    });
    assert_eq!(world.waits_after(2), 0);
    assert_eq!(world.block, world.settings.min_block);
}

#[test]
fn bursts() {
    let mut world = World::new(Settings::default(), 10_000);
    world.run("100 a second, 200,000 for 2 s of every 30", 300, 200, |t| {
        if t % 30.0 < 28.0 { 100.0 } else { 2e5 }
    });
    assert_eq!(world.waits_after(31), 0);

    let mut world = World::new(Settings::default(), 10_000);
    // A job inserts until it is done, however long it waits.
    world.sessions = f64::INFINITY;
    world.run("1,000 within 20 ms, once a minute", 600, 200, |t| {
        if (t + 50.0) % 60.0 < 0.02 { 5e4 } else { 0.0 }
    });
    assert!(world.waits_after(131) == 0, "{:?}", world.waits);
}

#[test]
fn one_a_minute() {
    let mut world = World::new(Settings::default(), 10_000);
    world.run("one a minute", 7200, 20_000, |t| if t % 60.0 < 0.01 { 50.0 } else { 0.0 });
    assert_eq!(world.waits_after(2), 0);
    let settings = &world.settings;
    assert!(world.most_held_after(2) <= settings.min_threshold + settings.min_block);
    assert_eq!(world.block, settings.min_block);
    assert!(world.refills.len() <= 6, "{:?}", world.refills);
}

#[test]
fn steady_at_every_speed() {
    for exponent in 1..7 {
        let speed = 10f64.powi(exponent);
        let mut world = World::new(Settings::default(), 10_000);
        world.run("steady", 120, 500, |_| speed);
        let settings = &world.settings;
        assert_eq!(world.waits_after(2), 0);
        let held = most_allowed(settings, speed).max(settings.min_threshold + settings.min_block);
        assert!(world.most_held_after(3) <= held);
        assert!(world.refills_between(60, 120) <= 600);
    }
}

#[test]
fn a_fixed_block_keeps_its_size() {
    let settings = Settings { fixed: Some(100), ..Settings::default() };
    let mut world = World::new(settings, 5_000);
    world.run("fixed block of 100, 100,000 a second", 60, 200, |_| 1e5);
    assert_eq!(world.waits_after(2), 0);
    assert!(world.most_held_after(2) <= 1_000_000 + 100);
}

#[test]
fn without_prefetch_somebody_waits_for_each_block() {
    let settings = Settings { prefetch: false, ..Settings::default() };
    let mut world = World::new(settings, 5_000);
    world.run("no prefetch, 10,000 a second", 60, 200, |_| 1e4);
    assert_eq!(world.waits.len(), world.refills.len());
    assert_eq!(world.threshold, 0);
}

#[test]
fn a_smallint_is_not_eaten_by_a_few_blocks() {
    let mut world = World::new(Settings::default(), 5_000);
    world.room = Remaining { whole: 32_767, left: 32_767 };
    world.run("smallint, 1,000 a second", 30, 200, |_| 1e3);
    assert_eq!(world.waits_after(2), 0);
    assert!(world.block <= 32_767 / 64);
    assert!(world.most_held_after(0) <= 32_767 / 16);
    assert_eq!(world.taken + world.available + world.room.left, 32_767);
}
