//! Draws from many sequences at random, by names that are made at run time.

use super::Bench;
use super::calls::nanoseconds;
use super::contenders::rotate;
use hilo_tests::ClientExt;

/// Ways to draw from the sequence `{n}`: an id, and a call.
const WAYS: [(&str, &str); 4] = [
    ("hilo", "hilo_nextval('tenant-' || {n})"),
    ("floor_hilo", "floor_hilo(('tenant-' || {n})::hilo_sequence)"),
    ("core", "nextval(('tenant_' || {n})::regclass)"),
    // Core's floor makes the name too, but does not look it up: that is part of the call.
    ("floor_core", "length('tenant_' || {n})"),
];

/// Creates the requested number of sequences of each kind, unless they are there.
pub fn create(bench: &Bench) {
    let mut client = bench.connect();
    if client.one("SELECT EXISTS (SELECT FROM hilo_sequences WHERE name = 'tenant-1')") {
        return;
    }
    let count = bench.plan.sequences;
    client.run(&format!(
        "SELECT count(hilo_create('tenant-' || n)) FROM generate_series(1, {count}) n"
    ));
    for first in (1..=count).step_by(1_000) {
        let last = (first + 999).min(count);
        client.run(&format!(
            "DO $$ BEGIN FOR n IN {first}..{last} LOOP
                 EXECUTE 'CREATE SEQUENCE tenant_' || n || ' CACHE 32';
             END LOOP; END $$"
        ));
    }
}

/// `many/WAY/N`: nanoseconds for each call, N sequences.
pub fn measure(bench: &mut Bench) {
    create(bench);
    let mut client = bench.connect();
    let crowds = bench.plan.crowds();
    let calls = bench.plan.calls / 5;
    // Each sequence has been drawn from before.
    for (_, call) in WAYS {
        let call = call.replace("{n}", "n");
        client.run(&format!(
            "SELECT count({call}) FROM generate_series(1, {}) n",
            bench.plan.sequences
        ));
    }
    for round in bench.rounds(bench.plan.rounds.min(7) + 1) {
        for crowd in rotate(&crowds, round) {
            for (way, call) in rotate(&WAYS, round) {
                let number = format!("(1 + floor(random() * {crowd}))::integer");
                let call = call.replace("{n}", &number);
                let sql = format!("SELECT count({call}) FROM generate_series(1, {calls})");
                let cost = nanoseconds(&mut client, &sql, calls);
                if round > 0 {
                    bench.results.push(format!("many/{way}/{crowd}"), cost);
                }
            }
        }
    }
}
