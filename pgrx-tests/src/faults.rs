//! Accidents: kills, crashes, terminated workers and full disks.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::process::{Frozen, parent, signal};
use crate::server::run;
use crate::wait::{LONG, came_true, wait_until};

const READY: &str = "database system is ready to accept connections";

/// After this time without a recovery, the killed process had no work left to interrupt.
const SOON: Duration = Duration::from_secs(5);

impl Cluster {
    /// Kills the process `pid` of this cluster with -9. If it is not the postmaster, the whole server
    /// restarts: see [`Cluster::crash`].
    #[track_caller]
    pub fn kill9(&self, pid: i32) {
        self.expect_crash();
        let mut postmaster = self.postmaster();
        let child = postmaster.as_mut().expect("the server is not running");
        if pid == child.id() as i32 {
            signal(pid, Signal::SIGKILL);
            child.wait().expect("cannot wait for the postmaster");
            *postmaster = None;
        } else {
            assert_eq!(
                parent(pid),
                Some(child.id() as i32),
                "{pid} is no process of {}",
                self.name
            );
            signal(pid, Signal::SIGKILL);
        }
    }

    /// Kills the server process `pid` with -9, and waits until the server has recovered from it.
    #[track_caller]
    pub fn crash(&self, pid: i32) {
        let before = self.log_count(READY);
        self.kill9(pid);
        wait_until("the server has recovered", LONG, || self.log_count(READY) > before);
    }

    /// Kills one of the sessions with -9, and waits until the server has recovered from it. Postgres survives the kill of a
    /// session that was about to end: then another one is killed.
    #[track_caller]
    pub fn crash_session(&self) {
        let before = self.log_count(READY);
        self.expect_crash();
        wait_until("the server has recovered from the end of a session", LONG, || {
            let pids: Vec<i32> = self.connect_when_up("postgres").all(
                "SELECT pid FROM pg_stat_activity
                 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1",
            );
            let killed = pids.first().filter(|&&pid| parent(pid) == Some(self.postmaster_pid()));
            // It may have ended by now.
            let _ = killed.map(|&pid| kill(Pid::from_raw(pid), Signal::SIGKILL));
            came_true(SOON, || self.log_count(READY) > before)
        });
    }

    /// Kills only the postmaster with -9; its children notice that and exit.
    #[track_caller]
    pub fn kill9_postmaster(&self) {
        self.kill9(self.postmaster_pid());
    }

    /// Stops all processes of the server until the result is dropped: no connection breaks, and none
    /// answers.
    #[track_caller]
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen::family(self.postmaster_pid())
    }

    /// Connects as superuser as soon as the server, which may be down or recovering, allows it.
    #[track_caller]
    pub fn connect_when_up(&self, database: &str) -> Client {
        let mut client = None;
        wait_until("the server is up again", LONG, || {
            client = self.try_connect("postgres", database).ok();
            client.is_some()
        });
        client.expect("it is connected")
    }

    /// hilo's worker in `database`, if one is connected there. Connects to `postgres` to ask, and so do
    /// the functions below.
    pub fn worker_pid(&self, database: &str) -> Option<i32> {
        self.connect("postgres")
            .query_opt(
                "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'hilo worker'",
                &[&database],
            )
            .expect("cannot read pg_stat_activity")
            .map(|row| row.get(0))
    }

    /// Waits for hilo's worker in `database`.
    #[track_caller]
    pub fn wait_for_worker(&self, database: &str) -> i32 {
        let mut pid = None;
        wait_until("hilo's worker is running", LONG, || {
            pid = self.worker_pid(database);
            pid.is_some()
        });
        pid.expect("it was found")
    }

    /// Waits for hilo's worker in `database`, terminates it as an operator would, and waits until it has
    /// ended.
    #[track_caller]
    pub fn terminate_worker(&self, database: &str) {
        let pid = self.wait_for_worker(database);
        self.connect("postgres").run(&format!("SELECT pg_terminate_backend({pid})"));
        self.wait_until_gone(pid);
    }

    /// Ends a connection, and waits until its server process has ended too.
    #[track_caller]
    pub fn close(&self, mut client: Client) {
        let pid = client.backend_pid();
        drop(client);
        self.wait_until_gone(pid);
    }

    /// Makes commits wait for a standby that does not exist, and waits until they do: the server reads its
    /// configuration at its own pace.
    #[track_caller]
    pub fn await_absent_standby(&self) {
        self.configure("synchronous_standby_names", "nobody");
        self.reload();
        let mut probe = self.connect("postgres");
        let pid = probe.backend_pid();
        let mut watch = self.connect("postgres");
        // A commit waits only if its transaction has logged something: to have an id is not enough. Nobody
        // joins the thread, which ends with its session, or else with the server.
        let log = "SELECT pg_logical_emit_message(true, '', '')";
        std::thread::spawn(move || while probe.batch_execute(log).is_ok() {});
        wait_until("commits wait for the standby", LONG, || {
            watch.one(&format!(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep')"
            ))
        });
        watch.run(&format!("SELECT pg_terminate_backend({pid})"));
        self.wait_until_gone(pid);
    }

    /// Waits until a worker of hilo waits for a synchronous standby.
    #[track_caller]
    pub fn wait_for_worker_awaiting_standby(&self) -> i32 {
        let mut client = self.connect("postgres");
        let mut pid = None;
        wait_until("hilo's worker waits for the standby", LONG, || {
            let pids: Vec<i32> = client.all(
                "SELECT pid FROM pg_stat_activity
                  WHERE backend_type = 'hilo worker' AND wait_event = 'SyncRep'",
            );
            pid = pids.first().copied();
            pid.is_some()
        });
        pid.expect("it was found")
    }

    /// Terminates a worker of hilo once it waits for a synchronous standby, and waits up to ten seconds for
    /// its end.
    #[track_caller]
    pub fn terminate_worker_awaiting_standby(&self) {
        let pid = self.wait_for_worker_awaiting_standby();
        self.connect("postgres").run(&format!("SELECT pg_terminate_backend({pid}, 10000)"));
    }

    /// Lets process `pid` write no file beyond this many bytes, as on a full disk.
    #[track_caller]
    pub fn limit_files(&self, pid: i32, bytes: u64) {
        let mut prlimit = self.server.command_at(Path::new("prlimit"));
        run(prlimit.args(["--pid", &pid.to_string(), &format!("--fsize={bytes}")]));
    }

    /// Refuses memory to process `pid`: of its next allocations, `granted` succeed, and then `count` fail. Needs
    /// [`Builder::refusing`](crate::Builder::refusing).
    #[track_caller]
    pub fn refuse_memory(&self, pid: i32, granted: i32, count: i32) {
        self.refusals.get().expect("the cluster is refusing").begin(pid, granted, count);
    }

    /// Refuses no more memory, and returns how many allocations have failed.
    #[track_caller]
    pub fn grant_memory(&self) -> i32 {
        self.refusals.get().expect("the cluster is refusing").end()
    }

    /// Waits until process `pid` is gone from pg_stat_activity.
    #[track_caller]
    pub fn wait_until_gone(&self, pid: i32) {
        let mut client = self.connect("postgres");
        let still = format!("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})");
        wait_until("the process has left", LONG, || !client.one::<bool>(&still));
    }
}
