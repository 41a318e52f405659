//! `_hilo.hilo_lease`: ranges that are in somebody's hands outside of this server. A row owns its
//! range from the commit of the transaction that has leased it until the worker *files* it, under
//! the position's lock. Then the part that comes back becomes free, the rest is recorded as a gap,
//! and the row is deleted. A transaction that ends a lease only marks the row (`lease_changes`), so
//! it needs no lock on the position and holds up nobody who draws.

use pgrx::pg_sys;

use hilo_core::gaps::Gap;
use hilo_core::numbers::{Epoch, Index, SequenceId, Timestamp};
use hilo_core::range::Range;

use crate::catalog::lease::lease_id::{LeaseId, display};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::lease as column;
use crate::catalog::rows::record::{Field, get, record};
use crate::catalog::rows::scan::{self, Match};
use crate::catalog::rows::table::{
    LockWait, Row, RowLock, Strength, Table, next_command, text_datum,
};
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::{self, Position, REPLICATED};
use crate::errors::{Closed, HiloError};
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};

hilo_core::named! {
    /// How a lease ended before its time.
    pub enum Ended {
        Returned = "returned",
        Revoked = "revoked",
    }
}

/// Leases that have ended are due before this time, the year 1000, and others later.
const FIRST_EXPIRY: Timestamp = Timestamp(-1_000 * YEAR);
const YEAR: i64 = 31_557_600_000_000;

/// The `due_at` of the leases that this transaction ends: two thousand years before it began. So
/// they are due by any clock of the server. Leases that end later sort last. The worker need not
/// look at the earlier ones again, whose rows an old snapshot keeps.
pub fn due_at_end() -> Timestamp {
    Timestamp(ffi::transaction_start().0 - 2_000 * YEAR)
}

/// A row of `_hilo.hilo_lease`, without the columns that only views show.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub id: LeaseId,
    pub sequence: SequenceId,
    pub node: i32,
    pub epoch: Epoch,
    pub range: Range,
    /// The first index that the holder has not used, as far as is known.
    pub next: Index,
    pub first_value: i64,
    pub increment: i64,
    pub role: pg_sys::Oid,
    pub expires_at: Option<Timestamp>,
    pub ended: Option<Ended>,
    pub ended_at: Option<Timestamp>,
    /// Whether the sequence was moved beyond values of the range.
    pub passed: bool,
    system_id: i64,
    timeline: i32,
}

record! {
    Lease of lease {
        id in LEASE;
        sequence in SEQUENCE;
        node in NODE;
        epoch in EPOCH;
        range of Range { start: FIRST_INDEX, end: END_INDEX };
        next in NEXT_INDEX;
        first_value in FIRST_VALUE;
        increment in INCREMENT;
        role in ROLE;
        expires_at in EXPIRES_AT;
        ended in ENDED;
        ended_at in ENDED_AT;
        passed in PASSED;
        system_id in SYSTEM_ID;
        timeline in TIMELINE;
    } beside HOLDER CLIENT_ADDR LEASED_AT LAST_VALUE DUE_AT
}

impl Field for Ended {
    fn read(datum: pg_sys::Datum) -> Option<Ended> {
        Ended::by_name(&String::read(datum)?)
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        Some(text_datum(self.name().as_bytes()))
    }
}

impl Lease {
    /// A lease that the current user takes on this server. It has no name yet, and never expires.
    pub fn new(
        (sequence, node, epoch): (SequenceId, i32, Epoch),
        range: Range,
        first_value: i64,
        increment: i64,
    ) -> Lease {
        let (system_id, timeline) = positions::server();
        Lease {
            id: [0; 16],
            sequence,
            node,
            epoch,
            range,
            next: range.start,
            first_value,
            increment,
            role: ffi::current_user(),
            expires_at: None,
            ended: None,
            ended_at: None,
            passed: false,
            system_id,
            timeline,
        }
    }

    /// Maps an index of the lease, or the index after its last, to a value.
    pub fn value(&self, index: Index) -> i128 {
        self.first_value as i128 + self.increment as i128 * (index - self.range.start) as i128
    }

    /// Maps a value of the lease, or the value after its last, to an index.
    pub fn index_of(&self, value: i64) -> Option<Index> {
        let distance = value as i128 - self.first_value as i128;
        let step = self.increment as i128;
        let at = distance.checked_div(step).filter(|_| distance % step == 0)?;
        (0..=self.range.len() as i128).contains(&at).then(|| self.range.start + at as i64)
    }

    /// The lowest and the highest value of the lease.
    pub fn span(&self) -> (i64, i64) {
        let ends = (self.first_value, self.value(self.range.last()) as i64);
        (ends.0.min(ends.1), ends.0.max(ends.1))
    }

    /// The part that the holder has not used, as far as is known.
    pub fn rest(&self) -> Range {
        self.range.from(self.next)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.ended.is_none() && self.expires_at.is_some_and(|at| at <= now)
    }

    /// Whether the holder has the range at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.ended.is_none() && !self.is_expired(now)
    }

    /// Why the lease is not open; `None`: it is open.
    pub fn closed_reason(&self, now: Timestamp) -> Option<Closed> {
        let at = |at: Option<Timestamp>| at.map_or_else(String::new, time_text);
        match self.ended {
            Some(Ended::Returned) => Some(Closed::Returned(at(self.ended_at))),
            Some(Ended::Revoked) => Some(Closed::Revoked(at(self.ended_at))),
            None => self.is_expired(now).then(|| Closed::Expired(at(self.expires_at))),
        }
    }

    /// Why values that come back must not be served again; `None`: they may be served. `numbered`
    /// is the sequence, and its position on the lease's node, if both exist.
    pub fn loss_reason(&self, numbered: Option<(&Sequence, &Position)>) -> Option<Reason> {
        let Some((sequence, position)) = numbered else { return Some(Reason::Altered) };
        if position.epoch != self.epoch || self.passed {
            return Some(Reason::Altered);
        }
        if sequence.definition.ordered {
            return Some(Reason::Discarded);
        }
        // Another server may have taken the lease back, and served its rest to others.
        let (system_id, timeline) = positions::server();
        let elsewhere = self.timeline == REPLICATED
            || position.is_replicated()
            || ((self.system_id, self.timeline) != (system_id, timeline)
                && gucs::failover_skip() != Some(0));
        elsewhere.then_some(Reason::Restored)
    }

    /// The part that the holder has not used if the lease has ended or ends now, and when. Also why
    /// that part is lost (`None`: it is served again). `numbered` is as for
    /// [`loss_reason`](Self::loss_reason).
    pub fn outcome(
        &self,
        now: Timestamp,
        numbered: Option<(&Sequence, &Position)>,
    ) -> (Range, Option<Reason>, Timestamp) {
        let (part, reason, at) = match self.ended {
            None if self.is_expired(now) => (self.range, Some(Reason::Expired), self.expires_at),
            None => (self.range, Some(Reason::Revoked), None),
            Some(Ended::Revoked) => (self.range, Some(Reason::Revoked), self.ended_at),
            Some(Ended::Returned) => (self.rest(), self.loss_reason(numbered), self.ended_at),
        };
        (part, reason, at.unwrap_or(now))
    }

    /// The first and the last value of a part of the lease.
    pub fn ends(&self, part: Range) -> (i64, i64) {
        (self.value(part.start) as i64, self.value(part.last()) as i64)
    }

    /// A part of the lease, as a gap since `at`.
    pub fn gap(&self, part: Range, reason: Reason, at: Timestamp) -> Gap {
        let (first, last) = self.ends(part);
        let (epoch, increment) = (Some(self.epoch), self.increment);
        Gap { epoch, first, last, count: part.len(), increment, reason: reason as usize, at }
    }
}

/// Adds the row of a new lease. `client_addr`: of type inet.
pub fn insert(
    lease: &Lease,
    leased_at: Timestamp,
    holder: Option<&[u8]>,
    client_addr: Option<pg_sys::Datum>,
) -> Result<(), HiloError> {
    let (_, last_value) = lease.ends(lease.range);
    let mut values = lease.values();
    for (column, value) in [
        (column::HOLDER, holder.map(text_datum)),
        (column::CLIENT_ADDR, client_addr),
        (column::LEASED_AT, leased_at.datum()),
        (column::LAST_VALUE, last_value.datum()),
        (column::DUE_AT, lease.expires_at.datum()),
    ] {
        values[column as usize - 1] = value;
    }
    CatalogTable::Lease.write()?.insert(&mut values);
    next_command();
    Ok(())
}

/// A lease whose row is locked.
pub struct LockedLease {
    table: Table,
    row: Row,
    pub lease: Lease,
}

impl LockedLease {
    fn new(table: Table, row: Row) -> LockedLease {
        let lease = Lease::from_row(&row);
        LockedLease { table, row, lease }
    }

    pub(in crate::catalog) fn update(&self, changes: &[(i16, Option<pg_sys::Datum>)]) {
        self.table.change(&self.row, changes);
        next_command();
    }

    pub fn delete(&self) {
        self.table.delete(&self.row);
    }
}

/// Locks the row of a lease against all others.
pub fn lock(id: &LeaseId, wait: LockWait) -> Result<RowLock<LockedLease>, HiloError> {
    lock_as(id, wait, Strength::Alone)
}

pub(in crate::catalog) fn lock_as(
    id: &LeaseId,
    wait: LockWait,
    strength: Strength,
) -> Result<RowLock<LockedLease>, HiloError> {
    let table = CatalogTable::Lease.write()?;
    let find = || table.find(catalog_tables::LEASE_PKEY, &[(column::LEASE, Match::Uuid(id))]);
    let found = table.lock_found_as(find, wait, strength);
    Ok(found.map(|row| LockedLease::new(table, row)))
}

/// The error about a lease that is not open.
pub fn not_open(id: &LeaseId, since: Closed) -> HiloError {
    HiloError::LeaseNotOpen { lease: display(id), since }
}

/// A time as SQL prints it.
pub fn time_text(at: Timestamp) -> String {
    // SAFETY: it returns a C string in static memory, for any timestamp.
    unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(at.0)) }
        .to_string_lossy()
        .into_owned()
}

/// The lease, without a lock, and whether surely nobody else has locked it.
pub fn find(id: &LeaseId) -> Result<Option<(Lease, bool)>, HiloError> {
    let key = [(column::LEASE, Match::Uuid(id))];
    let found = CatalogTable::Lease.read()?.find(catalog_tables::LEASE_PKEY, &key);
    Ok(found.map(|row| (Lease::from_row(&row), row.is_untouched())))
}

/// The leases that an index has under these keys.
fn all(index: scan::Index, keys: &[(i16, Match)]) -> Result<Vec<Lease>, HiloError> {
    CatalogTable::Lease.read()?.collect(index, keys, |row| Some(Lease::from_row(row)))
}

fn of_sequence(sequence: SequenceId) -> (i16, Match<'static>) {
    (column::SEQUENCE, Match::Int8(sequence.0))
}

/// The ranges of a position's epoch that leases own.
pub fn leased_ranges(position: &Position) -> Result<Vec<Range>, HiloError> {
    let mut ranges = Vec::new();
    for lease in of_node(position.sequence, position.node)? {
        if lease.epoch == position.epoch {
            ranges.try_push(lease.range)?;
        }
    }
    Ok(ranges)
}

/// All leases of a sequence on a node, of whatever epoch.
pub fn of_node(sequence: SequenceId, node: i32) -> Result<Vec<Lease>, HiloError> {
    all(
        catalog_tables::LEASE_SEQUENCE_IDX,
        &[of_sequence(sequence), (column::NODE, Match::Int4(node))],
    )
}

/// The leases of a sequence on a node that are to be filed.
pub fn due_of(sequence: SequenceId, node: i32) -> Result<Vec<Lease>, HiloError> {
    all(catalog_tables::LEASE_SEQUENCE_IDX, &due_by(sequence, node, ffi::now()))
}

/// The keys of the leases of a sequence on a node that are due by `at`.
fn due_by(sequence: SequenceId, node: i32, at: Timestamp) -> [(i16, Match<'static>); 3] {
    let due = (column::DUE_AT, Match::TimestampLess(at.0 + 1));
    [of_sequence(sequence), (column::NODE, Match::Int4(node)), due]
}

/// Leases that are to be filed. Further ones may be due from `due_at` on.
pub struct Due {
    pub leases: Vec<Lease>,
    pub next: Option<Timestamp>,
}

/// Up to `most` leases that have ended, with a `due_at` of at least `from`, without those that
/// `pass` picks. The leases that are due the longest come first.
pub fn ended(
    from: Timestamp,
    most: usize,
    pass: impl Fn(&Lease) -> bool,
) -> Result<Due, HiloError> {
    due(from, FIRST_EXPIRY, most, pass)
}

/// Like [`ended`], for leases that have expired or have not expired yet.
pub fn expired(
    from: Timestamp,
    most: usize,
    pass: impl Fn(&Lease) -> bool,
) -> Result<Due, HiloError> {
    due(from.max(FIRST_EXPIRY), Timestamp(i64::MAX), most, pass)
}

fn due(
    from: Timestamp,
    before: Timestamp,
    most: usize,
    pass: impl Fn(&Lease) -> bool,
) -> Result<Due, HiloError> {
    let (mut leases, mut next, now) = (Vec::new(), None, ffi::now());
    // Without this key, the scan would visit every dead row first.
    let from = (column::DUE_AT, Match::TimestampFrom(from.0));
    let keys = [from, (column::DUE_AT, Match::TimestampLess(before.0))];
    CatalogTable::Lease.read()?.scan(catalog_tables::LEASE_DUE_AT_IDX, &keys, |row| {
        let (lease, at) = (Lease::from_row(&row), get::<Option<Timestamp>>(&row, column::DUE_AT));
        row.free();
        let late = at.is_some_and(|at| at > now);
        if !late && pass(&lease) {
            return Ok(true);
        }
        if late || leases.len() == most {
            next = at;
            return Ok(false);
        }
        leases.try_push(lease)?;
        Ok(true)
    })?;
    Ok(Due { leases, next })
}

/// Whether leases of a sequence on a node have ended that are to be filed.
pub fn any_ended(sequence: SequenceId, node: i32) -> Result<bool, HiloError> {
    let key = due_by(sequence, node, FIRST_EXPIRY);
    Ok(CatalogTable::Lease.read()?.find(catalog_tables::LEASE_SEQUENCE_IDX, &key).is_some())
}

/// The open leases with this holder.
pub fn of_holder(holder: &[u8]) -> Result<Vec<Lease>, HiloError> {
    let (now, key) = (ffi::now(), [(column::HOLDER, Match::Text(holder))]);
    let mut found = all(catalog_tables::LEASE_HOLDER_IDX, &key)?;
    found.retain(|lease| lease.is_open(now));
    Ok(found)
}

/// The leases of a position's epoch that have not ended, and whose rests may be served when they
/// come back.
pub fn open_of(position: &Position) -> Result<Vec<Lease>, HiloError> {
    let mut all = of_node(position.sequence, position.node)?;
    all.retain(|lease| lease.ended.is_none() && lease.epoch == position.epoch && !lease.passed);
    Ok(all)
}

/// Ends the leases of a sequence, on whatever node, as gaps; waits for transactions that end one of
/// them.
pub fn write_off(sequence: SequenceId) -> Result<(), HiloError> {
    let now = ffi::now();
    let mut lost: Vec<(i32, Gap)> = Vec::new();
    delete_all(sequence, |lease| {
        // There will be no position to return values to.
        let (part, reason, at) = lease.outcome(now, None);
        match reason.filter(|_| !part.is_empty()) {
            Some(reason) => lost.try_push((lease.node, lease.gap(part, reason, at))),
            None => Ok(()),
        }
    })?;
    lost.sort_by_key(|(node, ..)| *node);
    for of_node in lost.chunk_by(|one, other| one.0 == other.0) {
        let gaps = memory::try_collect(of_node.iter().map(|(_, gap)| *gap))?;
        gaps::add(sequence, of_node[0].0, &gaps)?;
    }
    Ok(())
}

/// Deletes the leases of a dropped sequence; waits for transactions that end one of them.
pub fn forget(sequence: SequenceId) -> Result<(), HiloError> {
    delete_all(sequence, |_| Ok(()))
}

/// Deletes the leases of a sequence, on whatever node, after `last_look` at each of them.
fn delete_all(
    sequence: SequenceId,
    mut last_look: impl FnMut(&Lease) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    for lease in all(catalog_tables::LEASE_SEQUENCE_IDX, &[of_sequence(sequence)])? {
        if let RowLock::Locked(locked) = lock(&lease.id, LockWait::Block)? {
            last_look(&locked.lease)?;
            locked.delete();
        }
    }
    next_command();
    Ok(())
}
