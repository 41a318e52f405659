//! Logical replication between clusters, of the database `postgres`.

use crate::client::ClientExt;
use crate::cluster::{Builder, Cluster};
use crate::wait::{LONG, wait_until};

impl Builder {
    /// Sets what a server that publishes needs.
    pub fn logical(self) -> Builder {
        self.config("wal_level", "logical").config("wal_receiver_status_interval", "1s")
    }

    /// One of several nodes that serve the same sequences. A test defines on all of them what it
    /// defines on one.
    pub fn node(self, id: usize, count: usize) -> Builder {
        self.config("hilo.node_id", &id.to_string())
            .config("hilo.node_count", &count.to_string())
            .config("hilo.on_every_node", "on")
    }
}

impl Cluster {
    /// The major version of the server, which need not be running.
    pub fn version(&self) -> u32 {
        self.server.version()
    }

    /// How another server connects to this one.
    pub fn address(&self) -> String {
        let host = self.socket_directory().display();
        format!("host={host} port=5432 user=postgres dbname=postgres")
    }

    /// Subscribes to publication `of` of `publisher`, as `name`, and waits until the existing rows
    /// have been copied.
    #[track_caller]
    pub fn subscribe(&self, name: &str, publisher: &Cluster, of: &str, options: &str) {
        let mut client = self.connect("postgres");
        client.run(&format!(
            "CREATE SUBSCRIPTION {name} CONNECTION '{}' PUBLICATION {of} {options}",
            publisher.address()
        ));
        self.wait_for_copy();
        publisher.wait_for_apply(name);
    }

    /// Waits until all tables of all subscriptions have been copied.
    #[track_caller]
    pub fn wait_for_copy(&self) {
        let mut client = self.connect("postgres");
        let ready = "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel";
        wait_until("the tables are copied", LONG, || {
            client.one::<Option<bool>>(ready) != Some(false)
        });
    }

    /// Waits until subscription `name` has applied everything that this server has written so far.
    #[track_caller]
    pub fn wait_for_apply(&self, name: &str) {
        let mut client = self.connect("postgres");
        let written: String = client.one("SELECT pg_current_wal_flush_lsn()::text");
        let applied = format!(
            "SELECT EXISTS (SELECT FROM pg_stat_replication
                             WHERE application_name = '{name}' AND replay_lsn >= '{written}')"
        );
        wait_until("the subscription has applied", LONG, || client.one::<bool>(&applied));
    }
}
