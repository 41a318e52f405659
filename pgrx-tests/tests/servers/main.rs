//! More than one server, or a copy of one: replication, promotion, dumps, clones, upgrades, Citus.

mod attachments;
mod citus;
mod clones;
mod copied_memory;
mod decoding;
mod dump_restore;
mod extension_scripts;
mod fleet;
mod multi_node;
mod nodes;
mod owner_dumps;
mod pg_upgrade;
mod promotion;
mod replicated_rows;
mod replication;
mod sources;
mod standby_answers;
mod summaries;
mod switch;
mod third_server;
