//! Databases and extensions that are dropped and created again, with their sequences.

use std::sync::atomic::Ordering::SeqCst;

use fastrand::Rng;
use postgres::Client;

use crate::ledger::Sequence;
use crate::session::repeat;
use crate::{Torture, gapless};
use hilo_tests::ClientExt;

pub fn recreate_one(torture: &Torture, _rng: &mut Rng) -> &'static str {
    recreate(torture, "shop");
    "DROP and CREATE DATABASE"
}

/// A dozen databases, one after the other.
pub fn recreate_a_dozen(torture: &Torture, rng: &mut Rng) -> &'static str {
    let mut some: Vec<_> =
        torture.databases.iter().filter(|database| **database != "postgres").collect();
    rng.shuffle(&mut some);
    some.into_iter().take(12).for_each(|database| recreate(torture, database));
    "DROP and CREATE of a dozen databases"
}

/// Drops and creates a database, while no session can define its sequences.
fn recreate(torture: &Torture, database: &'static str) {
    let sequences = torture.sequences_of(database);
    let _definers: Vec<_> =
        sequences.iter().map(|sequence| sequence.definer.lock().unwrap()).collect();
    let mut client = torture.cluster.connect_when_up("postgres");
    repeat(torture, &mut client, &format!("DROP DATABASE {database} WITH (FORCE)"));
    let since = torture.ledger.now();
    sequences.iter().for_each(|sequence| torture.ledger.close_other_lives(sequence, None, since));
    repeat(torture, &mut client, &format!("CREATE DATABASE {database}"));
    let mut client = torture.cluster.connect(database);
    repeat(torture, &mut client, "CREATE EXTENSION IF NOT EXISTS hilo");
    populate(torture, &mut client, &sequences);
}

pub fn extension(torture: &Torture, _rng: &mut Rng) -> &'static str {
    let database = "stall";
    let sequences = torture.sequences_of(database);
    let _definers: Vec<_> =
        sequences.iter().map(|sequence| sequence.definer.lock().unwrap()).collect();
    let mut client = torture.cluster.connect_when_up(database);
    repeat(torture, &mut client, "DROP EXTENSION hilo CASCADE");
    let since = torture.ledger.now();
    sequences.iter().for_each(|sequence| torture.ledger.close_other_lives(sequence, None, since));
    repeat(torture, &mut client, "CREATE EXTENSION hilo");
    populate(torture, &mut client, &sequences);
    "DROP and CREATE EXTENSION"
}

/// Gives each sequence its first life, or a new one.
pub fn populate(torture: &Torture, client: &mut Client, sequences: &[&Sequence]) {
    gapless::create(torture, client);
    for sequence in sequences {
        let life = torture.ledger.begin_life(sequence);
        let (name, _) = sequence.name();
        repeat(torture, client, &sequence.create(&name, &life));
        life.committed.store(true, SeqCst);
        torture.ledger.close_other_lives(sequence, Some(life.key), torture.ledger.now());
        torture.ledger.forgotten(sequence, life.key);
    }
}

/// The databases of a scene, with the extension and its sequences.
pub fn create_all(torture: &Torture) {
    let tablespace = torture.disk.as_ref().map(|(database, _)| *database);
    for &database in &torture.databases {
        if database != "postgres" {
            let place = if tablespace == Some(database) { " TABLESPACE small" } else { "" };
            let mut client = torture.cluster.connect("postgres");
            client.run(&format!("CREATE DATABASE {database}{place}"));
            // The files of a new database have holes, which core could not fill on a full disk.
            client.run("CHECKPOINT");
        }
        let mut client = torture.cluster.connect(database);
        client.run("CREATE EXTENSION hilo");
        populate(torture, &mut client, &torture.sequences_of(database));
    }
}
