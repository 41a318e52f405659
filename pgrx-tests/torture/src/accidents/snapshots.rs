//! An old snapshot: dead rows stay, across crashes and stops, until it ends.

use fastrand::Rng;

use crate::Torture;
use crate::figures::add;
use crate::session::repeat;
use hilo_tests::ClientExt;

/// Begins or ends an old snapshot. A prepared transaction survives the server.
pub fn hold_or_end(torture: &Torture, _rng: &mut Rng) -> &'static str {
    if end(torture) { "an old snapshot ended" } else { begin(torture) }
}

pub fn begin(torture: &Torture) -> &'static str {
    let mut client = torture.cluster.connect_when_up(torture.databases[0]);
    let begin = "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'old'";
    repeat(torture, &mut client, begin);
    "an old snapshot held from now on"
}

/// Ends the old snapshot. Returns whether there was one.
pub fn end(torture: &Torture) -> bool {
    let mut client = torture.cluster.connect_when_up(torture.databases[0]);
    let ages: Vec<i64> =
        client.all("SELECT extract(epoch FROM now() - prepared)::bigint FROM pg_prepared_xacts");
    for age in &ages {
        add(&torture.ledger.figures.snapshot_seconds, *age as u64);
        repeat(torture, &mut client, "ROLLBACK PREPARED 'old'");
    }
    !ages.is_empty()
}
