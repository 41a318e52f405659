//! A centre and a thousand branches on virtual time. There are round trips over a wide area,
//! restarts one after the other, and a region that is cut off for an hour. The policy and the
//! retries are those of the server. Nothing sleeps.
//!
//! `cargo test -p hilo-core --test fleet -- --nocapture` prints what the centre has had to do.

use hilo_core::backoff;
use hilo_core::numbers::{Micros, Timestamp};
use hilo_core::policy::{
    Remaining, Settings, SourcePace, next_block, request_size, reservation_size, shrunk_block,
    threshold,
};
use hilo_core::rate::Rate;

const SECOND: i64 = 1_000_000;
const WINDOW: Micros = Micros(60 * SECOND);
const STEP: i64 = SECOND / 2;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const BRANCHES: usize = 1_000;
const REGIONS: usize = 5;
/// hilo.source_timeout: a branch that is cut off learns of it so late.
const TIMEOUT: i64 = 10 * SECOND;
const WHOLE: Remaining = Remaining { whole: i64::MAX, left: i64::MAX };

/// A small generator, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 32) as u32
    }
}

/// One branch: what its memory and its catalog hold of the sequence, and its request.
struct Branch {
    region: usize,
    /// values a second
    speed: f64,
    round_trip: i64,
    /// when its traffic begins
    begins: i64,
    rate: Rate,
    block: i64,
    threshold: i64,
    available: i64,
    left: i64,
    taken: i64,
    due: f64,
    /// how many were asked for, and when the question arrives at the centre
    request: Option<(i64, i64)>,
    /// how many were given, and when they arrive
    answer: Option<(i64, i64)>,
    latency: f64,
    failed: u32,
    waits: u64,
}

/// The work of the centre, second by second.
struct World {
    branches: Vec<Branch>,
    settings: Settings,
    ahead: Option<i64>,
    random: Random,
    /// transfers, each of them a commit
    commits: Vec<u32>,
    /// questions that came while it was away or cut off
    tries: Vec<u32>,
}

impl World {
    fn new(ahead: Option<i64>) -> World {
        let mut random = Random(7);
        let branch = |number: usize| Branch {
            region: number % REGIONS,
            // 50 a second in the mean.
            speed: 5.0 + f64::from(random.next() % 9_000) / 100.0,
            round_trip: i64::from(20_000 + random.next() % 230_000),
            begins: i64::from(random.next() % 180) * SECOND,
            rate: Rate::default(),
            block: 0,
            threshold: 0,
            available: 0,
            left: 0,
            taken: 0,
            due: 0.0,
            request: None,
            answer: None,
            latency: 0.0,
            failed: 0,
            waits: 0,
        };
        let branches = (0..BRANCHES).map(branch).collect();
        let seconds = (2 * HOUR / SECOND) as usize;
        let (commits, tries) = (vec![0; seconds], vec![0; seconds]);
        World { branches, settings: Settings::default(), ahead, random, commits, tries }
    }

    /// Runs from one time to another; `reaches` says whether a region reaches the centre.
    fn run(&mut self, from: i64, to: i64, reaches: impl Fn(usize, i64) -> bool) {
        for now in (from..to).step_by(STEP as usize) {
            let second = (now / SECOND) as usize;
            for branch in &mut self.branches {
                if now < branch.begins {
                    continue;
                }
                branch.draw();
                if now % SECOND == 0 {
                    branch.sample(now, &self.settings);
                }
                if let Some((count, _)) = branch.answer.take_if(|(_, at)| *at <= now) {
                    branch.left += count;
                    branch.look(now, &self.settings, self.ahead);
                } else if branch.available < branch.threshold.max(1) {
                    branch.look(now, &self.settings, self.ahead);
                }
                let Some((wanted, _)) = branch.request.take_if(|(_, at)| *at <= now) else {
                    continue;
                };
                if reaches(branch.region, now) {
                    self.commits[second] += 1;
                    branch.answer = Some((wanted, now + branch.round_trip / 2));
                    branch.latency = branch.round_trip as f64 / SECOND as f64;
                    branch.failed = 0;
                } else {
                    self.tries[second] += 1;
                    branch.failed += 1;
                    let wait = backoff::delay_of_many(branch.failed, self.random.next());
                    let again = now + TIMEOUT + wait.as_micros() as i64;
                    branch.request = Some((wanted, again + branch.round_trip / 2));
                }
            }
        }
    }

    fn waits(&self) -> u64 {
        self.branches.iter().map(|branch| branch.waits).sum()
    }

    fn commits_per_second(&self, from: i64, to: i64) -> f64 {
        let part = &self.commits[(from / SECOND) as usize..(to / SECOND) as usize];
        f64::from(part.iter().sum::<u32>()) / part.len() as f64
    }

    fn busiest_second(&self, from: i64, to: i64) -> u32 {
        let part = &self.commits[(from / SECOND) as usize..(to / SECOND) as usize];
        part.iter().copied().max().unwrap_or(0)
    }
}

impl Branch {
    fn draw(&mut self) {
        self.due += self.speed * STEP as f64 / SECOND as f64;
        let drawn = (self.due as i64).min(self.available);
        self.available -= drawn;
        self.taken += drawn;
        self.due -= drawn as f64;
        if self.due >= 1.0 && self.taken > 0 {
            self.waits += 1;
        }
    }

    fn sample(&mut self, now: i64, settings: &Settings) {
        self.rate.sample(Timestamp(now), self.taken, WINDOW);
        let demand = self.rate.demand(Timestamp(now), self.taken, WINDOW);
        self.block = shrunk_block(self.block, &demand, WHOLE, settings);
        self.threshold = threshold(self.block, &demand, WHOLE, settings);
    }

    /// The work of the worker: it lends to memory, and asks for more.
    fn look(&mut self, now: i64, settings: &Settings, ahead: Option<i64>) {
        let demand = self.rate.refill(Timestamp(now), self.taken, WINDOW);
        self.block = next_block(self.block, &demand, WHOLE, settings);
        self.threshold = threshold(self.block, &demand, WHOLE, settings);
        let need = i64::from(self.due >= 1.0);
        let count = reservation_size(self.available, need, self.block, &demand, WHOLE, settings);
        let lent = count.min(self.left);
        self.left -= lent;
        self.available += lent;
        if self.request.is_some() || self.answer.is_some() {
            return;
        }
        let held = self.available + self.left;
        let unmet = if held == 0 { need } else { 0 };
        let pace = SourcePace { ahead, latency: self.latency };
        let wanted = request_size(held, unmet, self.block, &demand, &pace, i64::MAX, settings);
        if wanted > 0 {
            self.request = Some((wanted, now + self.round_trip / 2));
        }
    }

    /// A clean stop keeps what it holds; it forgets how fast it was.
    fn restart(&mut self) {
        self.left += self.available;
        self.available = 0;
        self.rate = Rate::default();
        (self.block, self.threshold, self.due) = (0, 0, 0.0);
    }
}

/// With settings that nobody has touched: 50,000 a second in all.
#[test]
fn a_thousand_branches_cost_the_centre_a_few_commits_a_second() {
    let mut world = World::new(None);
    world.run(0, 5 * MINUTE, |_, _| true);
    let warm = world.waits();
    world.run(5 * MINUTE, 45 * MINUTE, |_, _| true);
    let commits = world.commits_per_second(10 * MINUTE, 45 * MINUTE);
    let busiest = world.busiest_second(10 * MINUTE, 45 * MINUTE);
    println!("steady: {commits:.1} commits a second, {busiest} in the busiest");
    assert_eq!(world.waits(), warm, "nobody waits");
    assert!(commits <= 20.0 && busiest <= 60, "{commits}, {busiest} in the busiest second");
}

/// One is restarted every second, as in a roll-out, while the centre stays.
#[test]
fn rolling_restarts_hold_nobody_up() {
    let mut world = World::new(None);
    let begin = 6 * MINUTE;
    world.run(0, begin, |_, _| true);
    let warm = world.waits();
    let end = begin + BRANCHES as i64 * SECOND;
    for number in 0..BRANCHES {
        let from = begin + number as i64 * SECOND;
        world.branches[number].restart();
        // Ranges that a clean stop has kept are lent at once.
        world.branches[number].look(from, &Settings::default(), None);
        world.run(from, from + SECOND, |_, _| true);
    }
    let commits = world.commits_per_second(begin, end);
    println!("rolling restarts: {commits:.1} commits a second");
    assert_eq!(world.waits(), warm, "nobody waits");
    assert!(commits <= 20.0, "{commits}");
}

/// reserve_ahead is 70 minutes. When the region comes back it is served, and the others with it.
#[test]
fn a_region_that_is_cut_off_for_an_hour_waits_for_nothing() {
    let mut world = World::new(Some(70 * 60));
    world.run(0, 5 * MINUTE, |_, _| true);
    let warm = world.waits();
    let (cut, back, end) = (30 * MINUTE, 90 * MINUTE, 120 * MINUTE);
    world.run(5 * MINUTE, cut, |_, _| true);
    let steady = world.commits_per_second(15 * MINUTE, cut);
    world.run(cut, back, |region, _| region != 0);
    assert_eq!(world.waits(), warm, "the outage is shorter than reserve_ahead");
    world.run(back, end, |_, _| true);
    assert_eq!(world.waits(), warm, "nor does anybody wait when it is over");
    let commits = world.commits_per_second(back, end);
    let busiest = world.busiest_second(back, end);
    let cut_off = (cut / SECOND) as usize..(back / SECOND) as usize;
    let tries = f64::from(world.tries[cut_off].iter().sum::<u32>()) / 3_600.0;
    println!(
        "cut off: {steady:.1} commits a second before, {tries:.1} tries a second meanwhile, \
         {commits:.1} commits a second afterwards, {busiest} in the busiest"
    );
    assert!(steady <= 20.0 && commits <= 20.0, "{steady}, {commits}");
    // All 200 ask within one timeout and one pause, which are 15 s.
    assert!(busiest <= 60, "{busiest} at once");
    let held = |branch: &Branch| branch.available + branch.left;
    let is_back = |branch: &Branch| held(branch) >= (branch.speed * 4_200.0) as i64;
    assert!(world.branches.iter().all(is_back), "each holds what reserve_ahead says again");
}
