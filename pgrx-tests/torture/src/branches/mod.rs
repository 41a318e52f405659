//! A centre and its branches, each server with its own accidents. Beside them are sequences that
//! draw from the counters of others, whose own clients draw too.

mod accidents;
mod audit;
mod book;
mod writers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Plan;
use super::figures::Figures;
use super::one_server;
use book::{Book, Share};
use hilo_tests::{ClientExt, Cluster, Ends, Link};

/// One server of the fleet.
struct Server {
    number: usize,
    cluster: Cluster,
    /// From this branch to the centre; copies share it.
    link: Option<Arc<Link>>,
    /// Whether its writers are to end.
    ended: AtomicBool,
    /// The values of each sequence that its clients saw.
    share: Vec<Share>,
    /// Whether it was copied or is a copy: then its books tell of another's numbers too.
    is_copied: AtomicBool,
    /// Whether it has the counters.
    has_counters: bool,
}

struct Fleet<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    plan: &'env Plan,
    book: &'env Book,
    rng: Rng,
    /// The centre, the branch with the counters, and the others.
    running: Vec<Arc<Server>>,
    /// Killed for good, as far as anybody knows; at the end they are looked at once more.
    retired: Vec<Arc<Server>>,
    count: usize,
}

pub fn play(plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let book = Book::new(figures.clone());
    let (running, retired) = thread::scope(|scope| {
        let _ends = Ends(&book.over);
        let rng = Rng::with_seed(seed);
        let mut fleet =
            Fleet { scope, plan, book: &book, rng, running: vec![], retired: vec![], count: 0 };
        fleet.begin();
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(fleet.rng.u64(200..plan.pause.max(201))));
            if Instant::now() < end {
                let what = fleet.accident();
                figures.accident(what);
            }
        }
        (fleet.running, fleet.retired)
    });
    audit::audit(&book, &running, &retired);
}

impl Fleet<'_, '_> {
    fn begin(&mut self) {
        let cluster = self.builder().start_with_hilo();
        let mut client = cluster.connect("postgres");
        self.book.shared_lines().for_each(|line| client.run(&line.create()));
        let centre = self.server(cluster, None, false);
        self.join(centre);
        for has_counters in [true, false, false] {
            let link = Arc::new(Link::to(&self.running[0].cluster));
            let branch = self.builder().own_identity().start_with_hilo();
            let mut client = branch.connect("postgres");
            client.run(&format!(
                "CREATE EXTENSION dblink;
                 CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw
                     OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', connect_timeout '3');
                 CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres')",
                link.port()
            ));
            for line in self.book.shared_lines() {
                client.run(&format!("SELECT hilo_attach_server('{}', 'centre')", line.name));
            }
            if has_counters {
                client.run(writers::COUNTERS);
            }
            let server = self.server(branch, Some(link), has_counters);
            self.join(server);
        }
    }

    fn builder(&self) -> hilo_tests::Builder {
        one_server::builder(self.plan)
            .config("max_worker_processes", "24")
            .config("max_connections", &(self.plan.sessions + 40).to_string())
            .config("hilo.source_timeout", "4s")
            .config("hilo.reserve_timeout", "3s")
    }

    fn server(&mut self, cluster: Cluster, link: Option<Arc<Link>>, has_counters: bool) -> Server {
        // The reason why it is killed is known; a backup ends with its server.
        cluster.expect_crash();
        self.count += 1;
        Server {
            number: self.count,
            cluster,
            link,
            ended: AtomicBool::new(false),
            share: self.book.lines.iter().map(|_| Share::default()).collect(),
            is_copied: AtomicBool::new(false),
            has_counters,
        }
    }

    /// The server gets its writers.
    fn join(&mut self, server: Server) {
        let server = Arc::new(server);
        self.running.push(server.clone());
        for _ in 0..(self.plan.sessions / 4).max(2) {
            let (server, book, rng) = (server.clone(), self.book, self.rng.fork());
            let batch = self.plan.batch;
            self.scope.spawn(move || writers::run(&server, book, batch, rng));
        }
    }
}
