//! The recipes of docs/multi-node.md, run as printed.
//!
//! A block of kind ```text that begins with `-- on …` is SQL for these servers, one that begins with
//! `-- on …, until it gives no row` is repeated until it returns none, one that begins with `# postgresql.conf of …`
//! is their configuration, and one that begins with `# in a shell` is for a shell. `host=north` stands
//! for that server's address.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use postgres::types::FromSqlOwned;

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::server::{SERVER, run};
use crate::wait::{LONG, wait_until};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    Sql,
    Until,
    Configuration,
    Shell,
}

/// A block: what it is for, and its lines.
pub struct Block {
    pub servers: Vec<String>,
    pub kind: BlockKind,
    pub text: String,
}

impl Block {
    fn parse(text: &str) -> Block {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let (first, rest) = lines.split_first().expect("a block has lines");
        let (kind, servers) = if let Some(servers) = first.strip_prefix("-- on ") {
            match servers.strip_suffix(", until it gives no row") {
                Some(servers) => (BlockKind::Until, servers),
                None => (BlockKind::Sql, servers),
            }
        } else if *first == "# in a shell" {
            (BlockKind::Shell, "")
        } else {
            let servers = first.strip_prefix("# postgresql.conf of ");
            (BlockKind::Configuration, servers.expect("it is for servers"))
        };
        let servers = servers.replace(" and ", ", ").replace("the ", "");
        let servers = servers.split(", ").filter(|name| !name.is_empty());
        Block { servers: servers.map(str::to_owned).collect(), kind, text: rest.join("\n") }
    }

    /// Its settings, if it is a configuration.
    fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = if self.kind == BlockKind::Configuration { self.text.as_str() } else { "" };
        text.lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, value)| (name, value.trim_matches('\'')))
    }
}

/// The blocks for servers below one heading of the document.
#[track_caller]
pub fn blocks(heading: &str) -> Vec<Block> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/multi-node.md");
    let text = fs::read_to_string(file).expect("cannot read the document");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with(heading))
        .unwrap_or_else(|| panic!("there is no section {heading}"));
    let blocks: Vec<Block> = section
        .split("```text\n")
        .skip(1)
        .map(|part| Block::parse(part.split("```").next().unwrap_or_default()))
        .collect();
    assert!(!blocks.is_empty());
    blocks
}

/// The servers of a recipe, by the names that it gives them.
#[derive(Default)]
pub struct Servers(pub BTreeMap<String, Cluster>);

impl Servers {
    /// Starts the servers of a block that do not exist yet; a block of settings is their configuration.
    #[track_caller]
    pub fn start(&mut self, block: &Block) {
        for name in &block.servers {
            if !self.0.contains_key(name) {
                let builder = Cluster::builder().logical().preload(true);
                let builder = block
                    .settings()
                    .fold(builder, |builder, (name, value)| builder.config(name, value));
                self.0.insert(name.clone(), builder.start());
            }
        }
    }

    /// Runs a block on each of its servers, and a function after each.
    #[track_caller]
    pub fn run_block(&self, block: &Block, after_each: impl Fn(&Servers)) {
        let text = self.0.iter().fold(block.text.clone(), |text, (name, cluster)| {
            text.replace(&format!("host={name} dbname=postgres"), &cluster.address())
        });
        if block.kind == BlockKind::Shell {
            let path = std::env::var("PATH").unwrap_or_default();
            let (_, any) = self.0.first_key_value().expect("a shell command is for servers");
            run(SERVER
                .command_at(Path::new("sh"))
                .current_dir(any.socket_directory())
                .env("PATH", format!("{}:{path}", SERVER.bindir().display()))
                .args(["-euc", &text]));
        }
        for cluster in block.servers.iter().map(|name| &self.0[name]) {
            match block.kind {
                BlockKind::Sql => cluster.restore("postgres", &text),
                BlockKind::Until => wait_until(&format!("no row is left: {text}"), LONG, || {
                    cluster.psql("postgres", &text).is_empty()
                }),
                BlockKind::Configuration => reload(cluster, block),
                BlockKind::Shell => {}
            }
            after_each(self);
        }
    }

    /// Runs the blocks in order; what one has written has arrived on all servers before the next one.
    #[track_caller]
    pub fn run(&mut self, blocks: Vec<Block>) {
        for block in blocks {
            self.start(&block);
            self.run_block(&block, Servers::wait_for_replication);
        }
    }

    /// Waits until everything that was written has arrived at all subscriptions that are not disabled.
    #[track_caller]
    pub fn wait_for_replication(&self) {
        let running = || self.0.values().filter(|cluster| cluster.is_running());
        let enabled = "SELECT subname::text FROM pg_subscription WHERE subenabled";
        let enabled: Vec<String> =
            running().flat_map(|cluster| cluster.connect("postgres").all(enabled)).collect();
        for cluster in running() {
            cluster.wait_for_copy();
            let slots = "SELECT slot_name::text FROM pg_replication_slots";
            for slot in cluster.connect("postgres").all::<String>(slots) {
                if enabled.contains(&slot) {
                    cluster.wait_for_apply(&slot);
                }
            }
        }
    }

    /// A query's first column, on one of the servers.
    #[track_caller]
    pub fn all<T: FromSqlOwned>(&self, name: &str, sql: &str) -> Vec<T> {
        self.0[name].connect("postgres").all(sql)
    }
}

/// Makes a running server apply the settings of a block.
#[track_caller]
fn reload(cluster: &Cluster, block: &Block) {
    block.settings().for_each(|(name, value)| cluster.configure(name, value));
    cluster.reload();
    let mut client = cluster.connect("postgres");
    for (name, value) in block.settings() {
        let taken = format!("SELECT current_setting('{name}') = '{value}'");
        wait_until("the settings are applied", LONG, || client.one::<bool>(&taken));
    }
}
