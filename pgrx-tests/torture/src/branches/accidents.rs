//! The accidents of the fleet's servers and of the connections between them. All run after each,
//! but for those that were retired.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use super::{Fleet, Server, audit, writers};
use crate::figures::{Figures, add};
use hilo_tests::{ClientExt, Mode, came_true};

/// The most servers at once.
const MAX_SERVERS: usize = 6;
/// The first that has neither the numbers of all nor the counters: it may be copied and retired.
const ORDINARY: usize = 2;

impl Fleet<'_, '_> {
    pub(super) fn accident(&mut self) -> &'static str {
        let at = self.rng.usize(..self.running.len());
        let server = self.running[at].clone();
        match self.rng.u32(..24) {
            0..=1 => crash(&self.book.figures, &server, "client backend", "kill -9 of a backend"),
            2 => crash(&self.book.figures, &server, "hilo worker", "kill -9 of the worker"),
            3..=4 => crash(
                &self.book.figures,
                &server,
                "hilo source",
                "kill -9 of a process that asks a source",
            ),
            5..=6 => {
                add(&self.book.figures.expected_recoveries, 1);
                server.cluster.kill9_postmaster();
                server.cluster.start();
                "kill -9 of the postmaster"
            }
            7 => {
                add(&self.book.figures.expected_recoveries, 1);
                server.cluster.stop(Mode::Immediate);
                server.cluster.start();
                "immediate stop"
            }
            8..=9 => {
                server.cluster.restart();
                "fast stop"
            }
            10 => terminate(&server, "hilo source", "a process that asks a source terminated"),
            11 => terminate(&server, "client backend", "session terminated"),
            12..=13 => self.centre_stands_still(),
            14..=16 => self.trouble_a_link(),
            17..=18 => self.copy_a_branch(),
            19..=20 => self.copy_files_of_a_branch(),
            21..=22 => self.counter_refuses(),
            _ => self.promote_a_centre(),
        }
    }

    fn wait(&mut self, from: u64, to: u64) {
        thread::sleep(Duration::from_millis(self.rng.u64(from..to)));
    }

    /// All its processes, so that no connection breaks and none answers.
    fn centre_stands_still(&mut self) -> &'static str {
        let cluster = &self.running[0].cluster;
        cluster.connect_when_up("postgres");
        let frozen = cluster.freeze();
        self.wait(200, 4_000);
        drop(frozen);
        "the centre stopped (SIGSTOP) for a while"
    }

    fn trouble_a_link(&mut self) -> &'static str {
        let links: Vec<_> = self.running.iter().filter_map(|one| one.link.clone()).collect();
        let link = &links[self.rng.usize(..links.len())];
        match self.rng.u32(..3) {
            0 => {
                link.freeze(true);
                self.wait(100, 4_000);
                link.freeze(false);
                "a link frozen for a while"
            }
            1 => {
                link.set_round_trip(Duration::from_millis(self.rng.u64(50..700)));
                self.wait(500, 3_000);
                link.set_round_trip(Duration::ZERO);
                "a link slow for a while"
            }
            _ => {
                link.cut();
                "a link cut"
            }
        }
    }

    /// Both go on, or only the copy does. The copy may lack what came after it.
    fn copy_a_branch(&mut self) -> &'static str {
        let at = self.rng.usize(ORDINARY..self.running.len());
        let original = self.running[at].clone();
        let copy = original.cluster.clone_by_base_backup();
        let lags = self.rng.bool();
        if lags {
            copy.stop(Mode::Fast);
        }
        self.wait(50, 800);
        let both = self.rng.bool();
        if !both {
            self.retire(at);
        }
        if lags {
            copy.start();
        }
        copy.promote();
        let copy = self.server(copy, original.link.clone(), false);
        copy.is_copied.store(true, SeqCst);
        original.is_copied.store(true, SeqCst);
        self.join(copy);
        if self.running.len() > MAX_SERVERS {
            self.retire(self.rng.clone().usize(ORDINARY..self.running.len()));
        }
        if both { "copy of a branch beside it" } else { "copy of a branch in its place (kill -9)" }
    }

    /// The copy has no recovery, so nothing distinguishes the two: what both hold, both may serve.
    /// They go on beside each other, until one of them learns of the other.
    fn copy_files_of_a_branch(&mut self) -> &'static str {
        let at = self.rng.usize(ORDINARY..self.running.len());
        let original = self.running[at].clone();
        let copy = original.cluster.clone_by_base_backup();
        copy.stop(Mode::Fast);
        let mark = copy.data_directory().join("standby.signal");
        std::fs::remove_file(mark).expect("it was a standby");
        self.wait(50, 800);
        add(&self.book.figures.expected_recoveries, 1);
        copy.start();
        let copy = self.server(copy, original.link.clone(), false);
        copy.is_copied.store(true, SeqCst);
        original.is_copied.store(true, SeqCst);
        for line in self.book.shared_lines() {
            line.shared.lock().unwrap().add(&audit::read(line, &copy).free);
            let wanted = format!(
                "SELECT coalesce(sum(wanted), 0)::bigint FROM _hilo.hilo_source WHERE request IS NOT NULL
                    AND sequence = (SELECT id FROM _hilo.hilo_definition WHERE name = '{}')",
                line.name
            );
            let wanted: i64 = copy.cluster.connect("postgres").one(&wanted);
            line.shared_request.fetch_add(wanted as u64, SeqCst);
        }
        self.join(copy);
        if self.running.len() > MAX_SERVERS {
            self.retire(self.rng.clone().usize(ORDINARY..self.running.len()));
        }
        "copy of a branch's files beside it, without recovery"
    }

    /// A counter gives no more values at once than this, or none at all, and later as many as
    /// anybody wants again. A sequence that has no values yet takes them from it too. Whoever wants
    /// few is served, and everybody at the end.
    fn counter_refuses(&mut self) -> &'static str {
        let most = [0, 10, 1_000][self.rng.usize(..3)];
        let wait = Duration::from_millis(self.rng.u64(1_000..6_000));
        let server = self.running.iter().find(|server| server.has_counters).expect("there is one");
        let mut client = server.cluster.connect_when_up("postgres");
        let name: String = client.one("SELECT 'new ' || nextval('news')");
        client.run(&format!("UPDATE mood SET most = {most}; SELECT new_line('{name}')"));
        thread::sleep(wait);
        let figures = &self.book.figures;
        match most {
            0 => drop(writers::draw(&mut client, &format!("hilo_nextval('{name}')"), 1)),
            _ if serves(&mut client, &name) => {}
            _ => {
                figures.wrong(format!("{name}: not served by a counter that gives {most} at once"))
            }
        }
        client.run("UPDATE mood SET most = 9223372036854775807");
        if !serves(&mut client, &name) {
            figures.wrong(format!("{name}: not served by a counter that gives again"));
        }
        client.run(&format!("SELECT hilo_drop('{name}')"));
        if most > 0 { "a counter refuses many values at once" } else { "a counter refuses" }
    }

    /// Killed, and not started again before the end.
    fn retire(&mut self, at: usize) {
        let server = self.running.remove(at);
        server.ended.store(true, SeqCst);
        add(&self.book.figures.expected_recoveries, 1);
        server.cluster.kill9_postmaster();
        self.retired.push(server);
    }

    /// The standby has nothing of what came after it. The old centre never comes back.
    fn promote_a_centre(&mut self) -> &'static str {
        let old = self.running[0].clone();
        let standby = old.cluster.clone_by_base_backup();
        standby.stop(Mode::Fast);
        self.wait(100, 1_500);
        old.ended.store(true, SeqCst);
        old.cluster.kill9_postmaster();
        standby.start();
        standby.promote();
        let centre = self.server(standby, None, false);
        self.join(centre);
        let centre = self.running.pop().expect("it has joined");
        self.running[0] = centre;
        for server in self.running.iter().chain(&self.retired) {
            if let Some(link) = &server.link {
                link.lead_to(&self.running[0].cluster);
            }
        }
        "promotion of the centre's standby, which lagged behind (kill -9)"
    }
}

/// Whether somebody who wants some values, one at a time, gets them soon.
fn serves(client: &mut Client, name: &str) -> bool {
    const PATIENCE: Duration = Duration::from_secs(30);
    came_true(PATIENCE, || writers::draw(client, &format!("hilo_nextval('{name}')"), 100).is_ok())
}

fn crash(figures: &Figures, server: &Arc<Server>, kind: &str, what: &'static str) -> &'static str {
    let mut witness = server.cluster.connect_when_up("postgres");
    let pids: Vec<i32> = witness.all(&format!(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}' AND pid <> pg_backend_pid()
          ORDER BY random() LIMIT 1"
    ));
    let Some(&pid) = pids.first() else { return "nothing to kill" };
    add(&figures.expected_recoveries, 1);
    if kill(Pid::from_raw(pid), Signal::SIGKILL).is_err() {
        return "nothing to kill";
    }
    // It may have ended by itself: then the signal came too late.
    let noticed = came_true(Duration::from_secs(5), || witness.simple_query("SELECT 1").is_err());
    server.cluster.connect_when_up("postgres");
    if noticed { what } else { "nothing to kill" }
}

fn terminate(server: &Arc<Server>, kind: &str, what: &'static str) -> &'static str {
    let told: i64 = server.cluster.connect_when_up("postgres").one(&format!(
        "SELECT count(pg_terminate_backend(pid)) FROM (
             SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}'
                AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) p"
    ));
    if told == 0 { "no process to signal" } else { what }
}
