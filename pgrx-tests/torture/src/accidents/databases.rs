//! Databases and extensions that are dropped and created again, with their sequences.

use std::sync::atomic::Ordering::SeqCst;

use fastrand::Rng;
use postgres::Client;

use crate::ledger::{Last, Life, Sequence};
use crate::session::repeat;
use crate::{Torture, gapless};
use hilo_tests::ClientExt;

/// How a database is dropped and comes back.
#[derive(Clone, Copy)]
enum Way {
    /// With other ids, and numbers that it has never had.
    Empty,
    /// As a copy of the template, with the OID that it had, so that all its ids are the same. It
    /// was dropped while sessions were connected.
    CopyWithForce,
    /// The same, but the sessions had left.
    Copy,
}

impl Way {
    fn any(rng: &mut Rng) -> Way {
        [Way::Empty, Way::CopyWithForce, Way::Copy][rng.usize(..3)]
    }
}

/// More sessions than this do not come to a database just before it is dropped.
const MAX_CROWD: usize = 40;

/// The database that copies are made of: nobody uses it.
const TEMPLATE: &str = "pattern";

pub fn recreate_one(torture: &Torture, rng: &mut Rng) -> &'static str {
    let way = Way::any(rng);
    recreate(torture, "shop", way, rng);
    match way {
        Way::Empty => "DROP and CREATE DATABASE",
        Way::CopyWithForce => "DROP DATABASE (FORCE), and a copy of a template under its OID",
        Way::Copy => "DROP DATABASE, and a copy of a template under its OID",
    }
}

/// A dozen databases, one after the other.
pub fn recreate_a_dozen(torture: &Torture, rng: &mut Rng) -> &'static str {
    let way = Way::any(rng);
    let mut some: Vec<_> =
        torture.databases.iter().filter(|database| **database != "postgres").collect();
    rng.shuffle(&mut some);
    some.into_iter().take(12).for_each(|database| recreate(torture, database, way, rng));
    match way {
        Way::Empty => "DROP and CREATE of a dozen databases",
        Way::CopyWithForce => "DROP (FORCE) of a dozen databases, and copies under their OIDs",
        Way::Copy => "DROP of a dozen databases, and copies under their OIDs",
    }
}

/// Drops and creates a database, while no session can define its sequences.
fn recreate(torture: &Torture, database: &'static str, way: Way, rng: &mut Rng) {
    let sequences = torture.sequences_of(database);
    let _definers: Vec<_> =
        sequences.iter().map(|sequence| sequence.definer.lock().unwrap()).collect();
    let mut client = torture.cluster.connect_when_up("postgres");
    if !matches!(way, Way::Empty) {
        ensure_template(torture, &mut client, &sequences);
    }
    let oid: i64 =
        client.one(&format!("SELECT oid::bigint FROM pg_database WHERE datname = '{database}'"));
    drop_it(torture, &mut client, database, way, rng);
    let since = torture.ledger.now();
    sequences.iter().for_each(|sequence| torture.ledger.close_other_lives(sequence, None, since));
    if matches!(way, Way::Empty) {
        repeat(torture, &mut client, &format!("CREATE DATABASE {database}"));
        let mut client = torture.cluster.connect(database);
        repeat(torture, &mut client, "CREATE EXTENSION IF NOT EXISTS hilo");
        populate(torture, &mut client, &sequences);
        return;
    }
    let lives: Vec<_> =
        sequences.iter().map(|sequence| torture.ledger.begin_copy(sequence)).collect();
    let create = format!("CREATE DATABASE {database} TEMPLATE {TEMPLATE} OID = {oid}");
    repeat(torture, &mut client, &create);
    count_a_visit(torture, database);
    for (sequence, life) in sequences.iter().zip(lives) {
        torture.ledger.close_other_lives(sequence, Some(life.key), torture.ledger.now());
    }
}

/// Has statistics of a database that has got the OID of another one. PostgreSQL (15.18) panics in
/// DROP DATABASE if there are none since, and a process remembers those of the other.
fn count_a_visit(torture: &Torture, database: &str) {
    let mut visitor = torture.cluster.connect(database);
    repeat(torture, &mut visitor, "SELECT pg_stat_force_next_flush()");
}

/// Drops a database that is in use. It may have a transaction that keeps the worker from writing
/// anything back.
fn drop_it(torture: &Torture, client: &mut Client, database: &str, way: Way, rng: &mut Rng) {
    if matches!(way, Way::Copy) {
        repeat(torture, client, &format!("ALTER DATABASE {database} ALLOW_CONNECTIONS false"));
        let all = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = '{database}' AND backend_type = 'client backend'"
        );
        repeat(torture, client, &all);
        return repeat(torture, client, &format!("DROP DATABASE {database}"));
    }
    let mut crowd = crowd(torture, database, rng);
    if let Some(holder) = crowd.first_mut()
        && rng.bool()
    {
        let _ = holder.batch_execute("BEGIN; SELECT FROM _hilo.hilo_position FOR UPDATE");
    }
    repeat(torture, client, &format!("DROP DATABASE {database} WITH (FORCE)"));
}

/// Sessions that have drawn from each sequence, and hold slices until their database is dropped.
fn crowd(torture: &Torture, database: &str, rng: &mut Rng) -> Vec<Client> {
    let count = rng.usize(..MAX_CROWD);
    let mut crowd: Vec<Client> =
        (0..count).filter_map(|_| torture.cluster.try_connect("postgres", database).ok()).collect();
    for client in &mut crowd {
        for sequence in torture.sequences_of(database) {
            let ticket = torture.ledger.ticket(sequence);
            let sql = format!("SELECT hilo_nextval('{}') FROM generate_series(1, 40)", ticket.name);
            match client.query(&sql, &[]) {
                Ok(rows) => {
                    let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    torture.ledger.saw(sequence, &ticket, &mut Last::default(), &values, true);
                }
                Err(_) => torture.ledger.note_lost(sequence, 40),
            }
        }
    }
    crowd
}

/// Creates the template, if there is none. All databases that are dropped have the same sequences.
fn ensure_template(torture: &Torture, client: &mut Client, sequences: &[&Sequence]) {
    let exists = format!("SELECT count(*) = 1 FROM pg_database WHERE datname = '{TEMPLATE}'");
    if client.one(&exists) {
        return;
    }
    repeat(torture, client, &format!("CREATE DATABASE {TEMPLATE}"));
    let mut client = torture.cluster.connect(TEMPLATE);
    repeat(torture, &mut client, "CREATE EXTENSION hilo");
    create_beside(torture, &mut client);
    for sequence in sequences {
        let first = Life::new(sequence.kind, 1, sequence.increment, true);
        repeat(torture, &mut client, &sequence.create(&sequence.first_name(), &first));
    }
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
    create_beside(torture, client);
    for sequence in sequences {
        let life = torture.ledger.begin_life(sequence);
        let (name, _) = sequence.name();
        repeat(torture, client, &sequence.create(&name, &life));
        life.committed.store(true, SeqCst);
        torture.ledger.close_other_lives(sequence, Some(life.key), torture.ledger.now());
        torture.ledger.forgotten(sequence, life.key);
    }
}

/// Creates the sequences that a database has beside those of the ledger.
fn create_beside(torture: &Torture, client: &mut Client) {
    gapless::create(torture, client);
    repeat(torture, client, "SELECT hilo_create('probe', if_not_exists => true)");
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
