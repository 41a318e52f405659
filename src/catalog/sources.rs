//! `_hilo.hilo_source`: what was asked of the sources of sequences, and what they have brought.
//!
//! A row belongs to a position, and is written under that position's lock. A request is in the row
//! before it is made. Until its answer is committed it is made again with the same uuid, by the
//! server that has written it. Another one, as after a promotion or in a copy, makes a new request:
//! the answer of the old one may be the first server's.

use std::time::Duration;

use pgrx::pg_sys;

use hilo_core::backoff;
use hilo_core::numbers::{Epoch, SequenceId, Timestamp};
use hilo_core::past::Past;

use crate::catalog::lease_id::{LeaseId, random};
use crate::catalog::own::{self, Own};
use crate::catalog::places::Places;
use crate::catalog::positions::{self, Position};
use crate::catalog::record::{Field, record};
use crate::catalog::table::{Row, next_command};
use crate::errors::HiloError;
use crate::process::ffi;

/// A row of `_hilo.hilo_source`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Supply {
    pub sequence: SequenceId,
    pub node: i32,
    /// The request that has no answer yet.
    pub request: Option<Request>,
    /// How many values were asked for and (`received`) have come, from all sources it has had.
    pub requested: i64,
    pub received: i64,
    pub brought: Past,
    /// Values that the sequence may have served before it had this source.
    pub own: Past,
    /// The epoch with which it began to number itself after it had a source. Earlier values are in
    /// `own`.
    pub own_epoch: Epoch,
    /// In microseconds: how long the last answer took.
    pub latency: i64,
    /// How often the source has failed since it last answered.
    pub failures: i32,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    /// The database that the row is of, by which a copy is recognized; 0: none yet.
    pub database: i64,
    /// The system identifier and the timeline of the server that the row is of.
    pub system_id: i64,
    pub timeline: i32,
    /// Random: no other copy of this server has it, not even one on the same timeline. Each request
    /// begins with it.
    pub receiver: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: LeaseId,
    pub wanted: i64,
    pub at: Timestamp,
}

record! {
    Supply of source {
        sequence in SEQUENCE;
        node in NODE;
        request of_some Request { id: REQUEST, wanted: WANTED, at: REQUESTED_AT };
        requested in REQUESTED;
        received in RECEIVED;
        brought in BROUGHT;
        own in OWN;
        own_epoch in OWN_EPOCH;
        latency in LATENCY;
        failures in FAILURES;
        last_error in LAST_ERROR;
        last_error_at in LAST_ERROR_AT;
        database in DATABASE;
        system_id in SYSTEM_ID;
        timeline in TIMELINE;
        receiver in RECEIVER;
    }
}

impl Supply {
    /// The request without an answer, if this server has written it.
    pub fn open_request(&self) -> Option<Request> {
        self.request.filter(|_| self.is_here())
    }

    fn is_here(&self) -> bool {
        (self.database, (self.system_id, self.timeline)) == here()
    }

    /// Makes the row this database's on this server, unless it is. Another one may still make its
    /// request.
    pub fn take_over(&mut self) -> bool {
        if self.is_here() {
            return false;
        }
        (self.database, (self.system_id, self.timeline)) = here();
        let [.., a, b, c, d] = random();
        self.receiver = i64::from(u32::from_be_bytes([a, b, c, d]));
        self.request = None;
        true
    }

    /// The last value in the direction of the sequence that this source has brought.
    pub fn furthest(&self, rising: bool) -> Option<i64> {
        self.brought.bounds().map(|(low, high)| if rising { high } else { low })
    }

    /// How long its open request is not made again after it has failed.
    pub fn rests(&self, now: Timestamp) -> Duration {
        let (Some(request), Some(at), 1..) = (self.request, self.last_error_at, self.failures)
        else {
            return Duration::ZERO;
        };
        let failures = self.failures as u32;
        let [.., a, b, c, d] = request.id;
        // Another one for each attempt.
        let random = u32::from_be_bytes([a, b, c, d]).wrapping_mul(2 * failures + 1);
        // It failed itself, or it follows one whose answer was refused. Its answer may be, too.
        let delay = if request.at > at { backoff::delay_of_losses } else { backoff::delay_of_many };
        let pause = delay(failures, random);
        match u64::try_from(now.since(at).0) {
            Ok(since) => pause.saturating_sub(Duration::from_micros(since)),
            // The clock was put back.
            Err(_) => Duration::ZERO,
        }
    }

    /// Notes a request that is about to be made.
    pub fn ask(&mut self, wanted: i64) {
        let mut id = random();
        id[..4].copy_from_slice(&(self.receiver as u32).to_be_bytes());
        self.request = Some(Request { id, wanted, at: ffi::now() });
        self.requested = self.requested.saturating_add(wanted);
    }
}

/// This database and this server.
fn here() -> (i64, (i64, i32)) {
    (i64::from(ffi::database().to_u32()), positions::server())
}

fn row_of(sequence: SequenceId, node: i32) -> Result<Option<Row>, HiloError> {
    static ROOTS: Places = Places::new();
    Ok(ROOTS.find(&Own::Source.read()?, own::SOURCE_PKEY, (sequence, node)))
}

/// Whether a request has no answer yet. The caller need not hold the lock.
pub fn is_open(sequence: SequenceId, node: i32, request: &Request) -> Result<bool, HiloError> {
    let supply = row_of(sequence, node)?.map(|row| Supply::from_row(&row));
    Ok(supply.and_then(|supply| supply.open_request()) == Some(*request))
}

/// The row of a position whose lock the caller holds; a new one if there is none.
pub fn of(position: &Position) -> Result<Supply, HiloError> {
    let Position { sequence, node, .. } = *position;
    let row = row_of(sequence, node)?;
    let new = || Supply { sequence, node, ..Supply::default() };
    Ok(row.map_or_else(new, |row| Supply::from_row(&row)))
}

/// Writes the row of a position whose lock the caller holds.
pub fn write(position: &Position, supply: &Supply) -> Result<(), HiloError> {
    let table = Own::Source.write()?;
    match row_of(position.sequence, position.node)? {
        Some(row) => table.replace(&row, &mut supply.values()),
        None => table.insert(&mut supply.values()),
    };
    next_command();
    Ok(())
}

/// The requests of `node` that this server has written and that have no answer.
pub fn open(node: i32) -> Result<Vec<Supply>, HiloError> {
    Own::Source.read()?.collect(own::SOURCE_PKEY, &[], |row| {
        let supply = Supply::from_row(row);
        (supply.node == node && supply.open_request().is_some()).then_some(supply)
    })
}
