//! `_hilo.hilo_source`: what was asked of the sources of sequences, and what they have brought.
//!
//! A row belongs to a position, and is written under that position's lock. A request is in the row
//! before it is made. Until its answer is committed it is made again with the same uuid, by the
//! server that has written it. Another one, as after a promotion or in a copy, makes a new request:
//! the answer of the old one may be the first server's.
//!
//! A request that is refused is given up, and the next one has another uuid. An answer to it that
//! is still on its way is not taken: [`SourceState::open_request`] is another one by then. A centre
//! that has given values for the refused request makes them a gap at the next request, which says
//! what was answered last.

use std::time::Duration;

use pgrx::pg_sys;

use hilo_core::backoff;
use hilo_core::numbers::{Epoch, SequenceId, Timestamp};
use hilo_core::past::Past;
use hilo_core::policy::MAX_LEASE_SIZE;

use crate::catalog::lease::lease_id::{LeaseId, random};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::record::{Field, record};
use crate::catalog::rows::table::{Row, next_command};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::places::Places;
use crate::catalog::sequence::positions::{self, Position};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;

/// The most values of one request: more than a lease may have is refused for ever.
const MAX_REQUEST: i64 = MAX_LEASE_SIZE;
/// The request after one that was refused asks for one part in so many. Each answer allows so many
/// times as much again.
const STEP: i64 = 4;

/// A row of `_hilo.hilo_source`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceState {
    pub sequence: SequenceId,
    pub node: i32,
    /// The request that has no answer yet.
    pub request: Option<Request>,
    /// How many values were asked for, and how many have come (`received`), from all sources that
    /// the sequence has had.
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
    /// The database that the row belongs to, by which a copy is recognized; 0: none yet.
    pub database: i64,
    /// The system identifier and the timeline of the server that the row belongs to.
    pub system_id: i64,
    pub timeline: i32,
    /// A random number that no copy of this server has, not even one on the same timeline. Each
    /// request begins with it.
    pub receiver: i64,
    /// The last request that was answered, as a centre knows it.
    pub answered: Option<LeaseId>,
    /// The most values of the next request, since a larger one was refused. 0: an answer was
    /// refused. The next answer may be lost too, so it is for one value.
    pub most: Option<i64>,
    /// When the server took a new name because a copy of it has the old one.
    pub parted_at: Option<Timestamp>,
    /// When the source failed first since its last answer.
    pub failing_since: Option<Timestamp>,
    /// How many of the next values from the source may have been served already: the next request
    /// is larger by them.
    pub passes: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: LeaseId,
    pub wanted: i64,
    pub at: Timestamp,
}

record! {
    SourceState of source {
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
        answered in ANSWERED;
        most in MOST;
        parted_at in PARTED_AT;
        failing_since in FAILING_SINCE;
        passes in PASSES;
    }
}

impl SourceState {
    /// The request without an answer, if this server has written it.
    pub fn open_request(&self) -> Option<Request> {
        self.request.filter(|_| self.is_here())
    }

    fn is_here(&self) -> bool {
        (self.database, (self.system_id, self.timeline)) == here()
    }

    /// Makes the row this server's and this database's, unless it is. The server that has written
    /// it may still make its request.
    pub fn take_over(&mut self) -> bool {
        if self.is_here() {
            return false;
        }
        (self.database, (self.system_id, self.timeline)) = here();
        self.take_new_name();
        self.parted_at = None;
        true
    }

    /// Takes another name, under which nothing was asked.
    fn take_new_name(&mut self) {
        let [.., a, b, c, d] = random();
        self.receiver = i64::from(u32::from_be_bytes([a, b, c, d]));
        (self.request, self.answered) = (None, None);
        (self.most, self.passes) = (None, None);
    }

    /// Whether a copy of this server may ask under the same name. No copy does under a name that
    /// was taken after a copy was found, and was never answered.
    pub fn may_part(&self) -> bool {
        self.answered.is_some() || self.parted_at.is_none()
    }

    /// Parts from a copy of this server that asks under the same name. The caller has written off
    /// what the sequence holds, since the copy may hold it too.
    pub fn part(&mut self, why: String) {
        self.take_new_name();
        let now = Some(ffi::now());
        (self.failures, self.last_error, self.last_error_at) = (0, Some(why), now);
        self.parted_at = now;
    }

    /// Forgets the failures: the next request is a new one, of any size.
    pub fn begin_again(&mut self) {
        (self.request, self.failures, self.parted_at) = (None, 0, None);
        (self.most, self.passes) = (None, None);
    }

    /// Leaves the source, and writes off what the server holds. Then this server and a copy of it
    /// do not take the same values from now on.
    pub fn leave(&mut self) {
        self.begin_again();
        self.take_new_name();
    }

    /// Ends the open request, which was answered.
    pub fn end_answered(&mut self) {
        self.answered = self.request.map(|request| self.known_as(&request));
        self.request = None;
    }

    /// Gives the open request up, and asks for less the next time.
    pub fn give_up(&mut self) {
        if let Some(request) = self.request.take() {
            self.most = Some((request.wanted / STEP).max(1));
        }
    }

    /// Asks for one value the next time, and seldom: its answer may be lost.
    pub fn ask_for_one(&mut self) {
        (self.most, self.passes) = (Some(0), None);
    }

    /// Adds the next `count` values to the next request, since they may have been served, as all of
    /// an answer to `asked` may have been. A slow source loses what it does not bring in time, so
    /// the requests grow by steps. They do so as long as fewer and fewer values are left.
    pub fn ask_beyond(&mut self, count: i64, asked: i64) {
        const LEAP: i64 = 16;
        let is_closer = self.passes.replace(count).is_none_or(|before| count < before);
        self.most = Some(if is_closer { asked.saturating_mul(LEAP) } else { 0 });
        if is_closer {
            self.failures = 0;
        }
    }

    /// Asks for more again, after an answer that was served.
    pub fn ask_for_more(&mut self) {
        if self.passes.take().is_some() {
            self.most = None;
        }
        let more = self.most.map(|most| most.max(1).saturating_mul(STEP));
        self.most = more.filter(|most| *most < MAX_REQUEST);
    }

    /// A request of this row as a centre knows it: a uuid of version 7, which begins with what was
    /// asked for so far. So each new one is higher, and one that comes late is refused.
    pub fn known_as(&self, request: &Request) -> LeaseId {
        let mut id = request.id;
        id[..6].copy_from_slice(&self.requested.to_be_bytes()[2..]);
        (id[6], id[7]) = (0x70, 0);
        id
    }

    /// The last value in the direction of the sequence that this source has brought.
    pub fn furthest(&self, ascending: bool) -> Option<i64> {
        self.brought.bounds().map(|(low, high)| if ascending { high } else { low })
    }

    /// How long the open request waits after a failure before it is made again.
    pub fn rests(&self, now: Timestamp) -> Duration {
        let (Some(request), Some(at), 1..) = (self.request, self.last_error_at, self.failures)
        else {
            return Duration::ZERO;
        };
        let failures = self.failures as u32;
        let [.., a, b, c, d] = request.id;
        // A different number for each attempt.
        let random = u32::from_be_bytes([a, b, c, d]).wrapping_mul(2 * failures + 1);
        // Either this request failed, or it follows one whose answer was refused, as its own may
        // be.
        let follows_loss = request.at > at && self.most == Some(0);
        let delay = if follows_loss { backoff::delay_of_losses } else { backoff::delay_of_many };
        let pause = delay(failures, random);
        match u64::try_from(now.since(at).0) {
            Ok(since) => pause.saturating_sub(Duration::from_micros(since)),
            // The clock was put back.
            Err(_) => Duration::ZERO,
        }
    }

    /// Notes a request that is about to be made, for up to so many values.
    pub fn ask(&mut self, wanted: i64) {
        let wanted = wanted.saturating_add(self.passes.unwrap_or(0));
        let wanted = wanted.min(self.most.unwrap_or(MAX_REQUEST).clamp(1, MAX_REQUEST));
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
    Ok(ROOTS.find(&CatalogTable::Source.read()?, catalog_tables::SOURCE_PKEY, (sequence, node)))
}

/// Whether a request is still open. The caller need not hold the lock.
pub fn is_open(sequence: SequenceId, node: i32, request: &Request) -> Result<bool, HiloError> {
    let state = row_of(sequence, node)?.map(|row| SourceState::from_row(&row));
    Ok(state.and_then(|state| state.open_request()) == Some(*request))
}

/// The row of a position whose lock the caller holds; a new one if there is none.
pub fn read(position: &Position) -> Result<SourceState, HiloError> {
    let Position { sequence, node, .. } = *position;
    let row = row_of(sequence, node)?;
    let new = || SourceState { sequence, node, ..SourceState::default() };
    Ok(row.map_or_else(new, |row| SourceState::from_row(&row)))
}

/// Writes the row of a position whose lock the caller holds.
pub fn write(position: &Position, state: &SourceState) -> Result<(), HiloError> {
    let table = CatalogTable::Source.write()?;
    match row_of(position.sequence, position.node)? {
        Some(row) => table.replace(&row, &mut state.values()),
        None => table.insert(&mut state.values()),
    };
    next_command();
    Ok(())
}

/// A request that has no answer.
pub struct Open {
    pub sequence: Sequence,
    pub state: SourceState,
    pub request: Request,
}

/// The open requests that this server has written for node `node`, for the sequences of an owner.
pub fn open(node: i32, owner: pg_sys::Oid) -> Result<Vec<Open>, HiloError> {
    let states = CatalogTable::Source.read()?.collect(catalog_tables::SOURCE_PKEY, &[], |row| {
        let state = SourceState::from_row(row);
        (state.node == node && state.open_request().is_some()).then_some(state)
    })?;
    let mut open = Vec::new();
    for state in states {
        let is_its = |one: &Sequence| one.owner == owner && one.definition.source.is_some();
        let sequence = definitions::by_id(state.sequence)?.filter(is_its);
        if let (Some(sequence), Some(request)) = (sequence, state.open_request()) {
            open.try_push(Open { sequence, state, request })?;
        }
    }
    Ok(open)
}
