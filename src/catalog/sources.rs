//! `_hilo.source`: what was asked of the sources of sequences, and what they have brought.
//!
//! A row belongs to a position, and is written under that position's lock. A request is in the row
//! before it is made. Until its answer is committed it is made again with the same uuid, by the
//! server that has written it. Another one, as after a promotion or in a copy, makes a new request:
//! the answer of the old one may be the first server's.

use pgrx::pg_sys;

use hilo_core::numbers::{SequenceId, Timestamp};

use crate::catalog::columns::source as column;
use crate::catalog::lease_id::{LeaseId, id_of, random, uuid_datum};
use crate::catalog::own::{self, Own};
use crate::catalog::positions::{self, Position};
use crate::catalog::scan::Match;
use crate::catalog::table::{Row, next_command, text_datum};
use crate::errors::HiloError;
use crate::process::ffi;

/// A row of `_hilo.source`.
#[derive(Clone, Debug, PartialEq)]
pub struct Supply {
    pub sequence: SequenceId,
    pub node: i32,
    /// The request that has no answer yet.
    pub request: Option<Request>,
    /// How many values were asked for and (`received`) have come, from all sources it has had.
    pub requested: i64,
    pub received: i64,
    /// The lowest and the highest value that this source has brought.
    pub brought: Option<(i64, i64)>,
    /// The lowest and the highest value that the sequence may have served before it had this
    /// source.
    pub own: Option<(i64, i64)>,
    /// In microseconds: how long the last answer took.
    pub latency: i64,
    /// How often the source has failed since it last answered.
    pub failures: i32,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    /// The database that the row is of, by which a copy is recognized; 0: none yet.
    pub database: i64,
    /// The system identifier and the timeline of the server that the row is of.
    pub server: (i64, i32),
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

/// The lowest and the highest of both.
pub fn hull(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some((low, high)), Some((low2, high2))) => Some((low.min(low2), high.max(high2))),
        (one, other) => one.or(other),
    }
}

impl Supply {
    fn new(position: &Position) -> Supply {
        Supply {
            sequence: position.sequence,
            node: position.node,
            request: None,
            requested: 0,
            received: 0,
            brought: None,
            own: None,
            latency: 0,
            failures: 0,
            last_error: None,
            last_error_at: None,
            database: 0,
            server: (0, 0),
            receiver: 0,
        }
    }

    fn from_row(row: &Row) -> Supply {
        let pair = |low, high| row.datum(low).map(|_| (row.int8(low), row.int8(high)));
        Supply {
            sequence: SequenceId(row.int8(column::SEQUENCE)),
            node: row.int4(column::NODE),
            request: row.datum(column::REQUEST).map(|id| Request {
                id: id_of(id),
                wanted: row.int8(column::WANTED),
                at: Timestamp(row.int8(column::REQUESTED_AT)),
            }),
            requested: row.int8(column::REQUESTED),
            received: row.int8(column::RECEIVED),
            brought: pair(column::FIRST_VALUE, column::LAST_VALUE),
            own: pair(column::OWN_FIRST, column::OWN_LAST),
            latency: row.int8(column::LATENCY),
            failures: row.int4(column::FAILURES),
            last_error: row.text(column::LAST_ERROR),
            last_error_at: row
                .datum(column::LAST_ERROR_AT)
                .map(|_| Timestamp(row.int8(column::LAST_ERROR_AT))),
            database: row.int8(column::DATABASE),
            server: (row.int8(column::SYSTEM_ID), row.int4(column::TIMELINE)),
            receiver: row.int8(column::RECEIVER),
        }
    }

    fn values(&self) -> [Option<pg_sys::Datum>; column::WIDTH] {
        let request = self.request.as_ref();
        [
            Some(self.sequence.0.into()),
            Some(self.node.into()),
            request.map(|request| uuid_datum(&request.id)),
            request.map(|request| request.wanted.into()),
            request.map(|request| request.at.0.into()),
            Some(self.server.0.into()),
            Some(self.server.1.into()),
            Some(self.requested.into()),
            Some(self.received.into()),
            self.brought.map(|(low, _)| low.into()),
            self.brought.map(|(_, high)| high.into()),
            self.own.map(|(low, _)| low.into()),
            self.own.map(|(_, high)| high.into()),
            Some(self.latency.into()),
            Some(self.failures.into()),
            self.last_error.as_ref().map(|error| text_datum(error.as_bytes())),
            self.last_error_at.map(|at| at.0.into()),
            Some(self.database.into()),
            Some(self.receiver.into()),
        ]
    }

    /// The request without an answer, if this server has written it.
    pub fn open_request(&self) -> Option<Request> {
        self.request.filter(|_| self.is_here())
    }

    fn is_here(&self) -> bool {
        (self.database, self.server) == here()
    }

    /// Makes the row this database's on this server, unless it is. Another one may still make its
    /// request.
    pub fn take_over(&mut self) -> bool {
        if self.is_here() {
            return false;
        }
        (self.database, self.server) = here();
        let [.., a, b, c, d] = random();
        self.receiver = i64::from(u32::from_be_bytes([a, b, c, d]));
        self.request = None;
        true
    }

    /// The last value in the direction of the sequence that this source has brought.
    pub fn furthest(&self, rising: bool) -> Option<i64> {
        self.brought.map(|(low, high)| if rising { high } else { low })
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

fn row_of(position: &Position) -> Result<Option<Row>, HiloError> {
    let keys = [
        (column::SEQUENCE, Match::Int8(position.sequence.0)),
        (column::NODE, Match::Int4(position.node)),
    ];
    Ok(Own::Source.read()?.find(own::SOURCE_PKEY, &keys))
}

/// The row of a position whose lock the caller holds; a new one if there is none.
pub fn of(position: &Position) -> Result<Supply, HiloError> {
    let row = row_of(position)?;
    Ok(row.map_or_else(|| Supply::new(position), |row| Supply::from_row(&row)))
}

/// Writes the row of a position whose lock the caller holds.
pub fn write(position: &Position, supply: &Supply) -> Result<(), HiloError> {
    let table = Own::Source.write()?;
    match row_of(position)? {
        Some(row) => {
            table.update(&row, &mut supply.values());
        }
        None => table.insert(&mut supply.values()),
    }
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
