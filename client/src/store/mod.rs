//! A file that has the leases of a client, and how far each is used. A process that is killed and
//! started again goes on with them.
//!
//! The file comes first. A lease is written down before it is asked for, and before it is returned.
//! Its count is lowered before a value goes to a caller. So a process may be killed at any moment.
//! Its successor repeats the questions that may not have been answered, under their names, and
//! serves what nobody has got.
//!
//! A record says whose turn it is ([`Kind`]). It also has the count of the lease. While the lease
//! is in a lane, the lane's word has it, if that has the number of the filling that the record
//! names.
//!
//! Locking: `inner`, after the client's lock. A hit touches only its lane.

mod machine;
mod record;
mod slots;
mod take_over;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fs4::FileExt;
use uuid::Uuid;

use crate::Error;
use crate::engine::{Ask, Lease, Return};
use crate::lane::{self, Lane};
use crate::refusal::Report;
use machine::Place;
use record::{Held, Kind, Record};
use slots::{Header, MAX_NAME, Slots};
use take_over::{OTHER, forget_floors, other_name, take_over};

pub struct Store {
    path: Arc<str>,
    holder: String,
    /// How many values of each lease may be lost when the machine crashes; `None`: all of them.
    sync_every: Option<u32>,
    inner: Mutex<Inner>,
}

struct Inner {
    slots: Slots,
    /// Whether another process may have the file.
    is_released: bool,
    header: Header,
    lanes: Vec<u32>,
    records: Vec<u32>,
    /// Records that are to be written to the disk.
    unsynced: Vec<u32>,
    /// The record of each lease, and of each lane that has one.
    by_token: HashMap<Uuid, u32>,
    by_lane: HashMap<u32, u32>,
}

/// A lease that an earlier process has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub token: Uuid,
    pub name: String,
    /// The size that was asked for.
    pub size: i64,
    /// The first value that was not used, if the lease only has to be returned.
    pub returns: Option<i64>,
}

impl Store {
    /// Opens the file for this process alone, and returns what it has. `name` is the holder's.
    ///
    /// # Errors
    /// [`Error::State`] if another process has it, or it cannot be written.
    pub fn open(
        path: &Path,
        name: &str,
        sync_every: Option<u32>,
    ) -> Result<(Store, Vec<Left>), Error> {
        let shown: Arc<str> = path.display().to_string().into();
        Store::try_to_open(path, name, sync_every, shown.clone())
            .map_err(|error| state_error(&shown, &error))
    }

    fn try_to_open(
        path: &Path,
        name: &str,
        sync_every: Option<u32>,
        shown: Arc<str>,
    ) -> io::Result<(Store, Vec<Left>)> {
        let file = lock(path)?;
        let place = Place::for_file(&file.metadata()?)?;
        let slots = Slots::map(file)?;
        let before = slots.header().map_err(io::Error::other)?;
        let (mut header, left) = take_over(&slots, before, place);
        if sync_every.is_none() {
            forget_floors(&slots)?;
        }
        if left.is_empty() && !header.revoke {
            header.holder = format!("{name}/{}", Uuid::new_v4().simple());
            (header.server, header.database) = (0, 0);
        }
        let plain = header.holder.strip_suffix(OTHER).unwrap_or(&header.holder);
        if plain.len() + OTHER.len() > MAX_NAME {
            return Err(io::Error::other("the name of the client is too long"));
        }
        (header.place, header.process) = (place, std::process::id());
        slots.set_header(&header)?;
        let holder = header.holder.clone();
        let inner = Mutex::new(Inner::new(slots, header));
        Ok((Store { path: shown, holder, sync_every, inner }, left))
    }

    /// The holder of all leases in the file.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// A panic under the lock leaves every word whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Checks that the leases are of this server. Returns the holder whose leases are to be
    /// revoked before anything is asked for, if there is one.
    ///
    /// # Errors
    /// [`Error::State`] if they are of another server.
    pub fn meet(&self, server: u64, database: u32) -> Result<Option<String>, Error> {
        let mut inner = self.lock();
        let known = (inner.header.server, inner.header.database);
        if known != (server, database) {
            if known.0 != 0 && !inner.by_token.is_empty() {
                let why = "it has leases of another server or database";
                return Err(state_error(&self.path, &io::Error::other(why)));
            }
            (inner.header.server, inner.header.database) = (server, database);
            inner.write_header().map_err(|error| state_error(&self.path, &error))?;
        }
        Ok(inner.header.revoke.then(|| other_name(&inner.header.holder)))
    }

    /// The leases of that holder were revoked.
    pub fn note_revoked(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.header.revoke = false;
        inner.write_header().map_err(|error| state_error(&self.path, &error))
    }

    /// A free lane.
    pub fn take_lane(&self) -> io::Result<NonNull<Lane>> {
        let mut inner = self.lock();
        if inner.lanes.is_empty() {
            inner.grow()?;
        }
        let number = inner.lanes.pop().ok_or_else(|| io::Error::other("it was closed"))?;
        Ok(NonNull::from(inner.slots()?.lane(number)))
    }

    /// Gives back a lane from which nobody takes any more.
    pub fn give_lane_back(&self, lane: NonNull<Lane>) {
        let mut inner = self.lock();
        let number = inner.slots.number_of(lane);
        inner.lanes.extend(number);
    }

    /// Writes down a lease of a sequence of this name before it is asked for.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn write_ask(&self, ask: &Ask, name: &str) -> io::Result<()> {
        let mut inner = self.lock();
        // The server refuses a name that is too long.
        if !inner.by_token.contains_key(&ask.token) && name.len() <= MAX_NAME {
            let number = inner.new_record()?;
            Record(inner.slots()?.slot(number)).ask(ask.token, name, ask.count);
            inner.by_token.insert(ask.token, number);
        }
        Ok(())
    }

    /// Writes down what is returned before that.
    pub fn write_returns(&self, returns: &[Return]) -> io::Result<()> {
        let mut inner = self.lock();
        for back in returns {
            let Some(number) = inner.by_token.get(&back.token).copied() else { continue };
            let Some(record) = inner.record_in(number) else { continue };
            record.give_back(back.next);
            // The server may have the lease back before the machine crashes.
            if record.floor() > 0 {
                record.set_floor(0);
                inner.unsynced.push(number);
            }
        }
        inner.sync()
    }

    /// An error of the file, as callers see it.
    pub fn error(&self, source: Arc<Report>) -> Error {
        Error::State { path: self.path.clone(), source }
    }

    /// A lease has come. Returns how many of its values, the last ones, are left, and whether the
    /// file had it before. `ttl`: how long it is open at least. Call [`sync`](Self::sync) after it.
    pub fn hold(
        &self,
        token: &Uuid,
        (last, increment, count): (i64, i64, i64),
        ttl: Option<Duration>,
    ) -> (i64, bool) {
        let mut inner = self.lock();
        let Some(number) = inner.by_token.get(token).copied() else { return (count, false) };
        let Some(record) = inner.record_in(number) else { return (count, false) };
        let held = Held { last, increment, count };
        let known = record.held().filter(|_| record.kind() == Kind::Held);
        let left = if known == Some(held) { record.left() as i64 } else { count };
        if known != Some(held) {
            record.hold(&held);
        }
        record.set_expiry(ttl);
        if self.sync_every.is_some() {
            record.set_floor(left as u32);
            inner.unsynced.push(number);
        }
        (left, known == Some(held))
    }

    /// Writes the leases that have come to the disk, so that a crash of the machine leaves them.
    pub fn sync(&self) -> io::Result<()> {
        self.lock().sync()
    }

    /// The first value that is left of a lease in no lane. `None`: it has not come, or is being
    /// returned.
    pub fn first_left(&self, token: &Uuid) -> Option<i64> {
        let record = self.lock().record(token).filter(|record| record.kind() == Kind::Held)?;
        let held = record.held()?;
        Some(lane::value(held.last, held.increment, record.left()))
    }

    /// A lease was renewed.
    pub fn renew(&self, token: &Uuid, ttl: Option<Duration>) {
        if let Some(record) = self.lock().record(token) {
            record.set_expiry(ttl);
        }
    }

    /// Fills an empty lane from a lease.
    pub fn fill(&self, lane: &Lane, lease: &Lease) -> io::Result<()> {
        let mut inner = self.lock();
        let slots = inner.slots()?;
        let of_lane = slots.number_of(NonNull::from(lane));
        let of_lease = inner.by_token.get(&lease.token).copied();
        let (Some(of_lane), Some(of_lease)) = (of_lane, of_lease) else {
            return Err(io::Error::other("it does not have the lease"));
        };
        let record = Record(slots.slot(of_lease));
        record.set_left(lease.count as u32);
        record.enter_lane(of_lane, lane.number().wrapping_add(1));
        let floor = self.floor(lease.count as u32);
        if self.sync_every.is_some() {
            record.set_floor(floor);
            slots.sync(of_lease).inspect_err(|_| record.settle(lease.count as u32))?;
        }
        lane.fill_to(lease.last, lease.increment, lease.count, floor);
        // From here on the lane's word counts; when the lane moves on, the lease was used up.
        record.set_left(0);
        inner.by_lane.insert(of_lane, of_lease);
        Ok(())
    }

    /// How many of the `left` values are not served before the next sync.
    fn floor(&self, left: u32) -> u32 {
        left.saturating_sub(self.sync_every.unwrap_or(u32::MAX).max(1))
    }

    /// Lets takers have more values of a lane, if they may have none now.
    pub fn release_more(&self, lane: &Lane) -> io::Result<()> {
        let inner = self.lock();
        let slots = inner.slots()?;
        let of_lane = slots.number_of(NonNull::from(lane));
        if let Some(number) = of_lane.and_then(|lane| inner.by_lane.get(&lane)) {
            let floor = self.floor(lane.remaining() as u32);
            Record(slots.slot(*number)).set_floor(floor);
            slots.sync(*number)?;
            lane.set_floor(floor);
        }
        Ok(())
    }

    /// Empties a lane, and returns how many values were left.
    pub fn close(&self, lane: &Lane) -> i64 {
        let mut inner = self.lock();
        let number = inner.slots.number_of(NonNull::from(lane));
        let record = number.and_then(|number| inner.by_lane.remove(&number));
        let record = record.and_then(|number| inner.record_in(number));
        // The lane may have another lease by now.
        let is_in = |record: &Record| number.is_some_and(|at| record.is_in_lane(at, lane.number()));
        let record = record.filter(is_in);
        lane.close_with(|left| {
            if let Some(record) = record {
                record.set_left(left);
            }
        })
    }

    /// Writes that this many values of a lease in no lane are left, before the others go to a
    /// caller.
    pub fn set_left(&self, token: &Uuid, left: i64) -> io::Result<()> {
        let inner = self.lock();
        let (Some(number), slots) = (inner.by_token.get(token), inner.slots()?) else {
            return Err(io::Error::other("it does not have the lease"));
        };
        let record = Record(slots.slot(*number));
        if self.sync_every.is_some() {
            record.set_floor(left as u32);
            slots.sync(*number)?;
        }
        record.set_left(left as u32);
        Ok(())
    }

    /// A lease has ended.
    pub fn free(&self, token: &Uuid) {
        let mut inner = self.lock();
        if let Some(record) = inner.record(token) {
            record.free();
            let number = inner.by_token.remove(token);
            inner.records.extend(number);
        }
    }

    /// Forgets the leases in `tokens` that did not come, unless they are asked for again.
    pub fn forget_asked(&self, tokens: &[Uuid], again: &HashSet<Uuid>) {
        for token in tokens.iter().filter(|token| !again.contains(token)) {
            let is_asked = self.lock().record(token).is_some_and(|one| one.kind() == Kind::Asked);
            if is_asked {
                self.free(token);
            }
        }
    }

    /// Nothing is to be returned any more. Who has the file next takes another name.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Lets another process have the file. `all_returned`: no lease is left in it.
    pub fn release(&self, all_returned: bool) {
        let mut inner = self.lock();
        if inner.is_released {
            return;
        }
        if all_returned {
            inner.clear();
            inner.header.process = 0;
            if let Err(error) = inner.write_header() {
                tracing::warn!(%error, "the state file is not marked as closed");
            }
        }
        inner.is_released = true;
        // Whoever still has a sequence reads its lanes.
        if let Err(error) = inner.slots.let_go() {
            tracing::warn!(%error, "the state file stays locked");
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Inner {
    fn new(slots: Slots, header: Header) -> Inner {
        let mut inner = Inner {
            lanes: (1..slots.count()).rev().collect(),
            slots,
            is_released: false,
            header,
            records: Vec::new(),
            unsynced: Vec::new(),
            by_token: HashMap::new(),
            by_lane: HashMap::new(),
        };
        for number in (1..inner.slots.count()).rev() {
            let record = Record(inner.slots.slot(number));
            match record.kind() {
                Kind::Free => inner.records.push(number),
                _ => drop(inner.by_token.insert(record.token(), number)),
            }
        }
        inner
    }

    /// The file, while it is this process's.
    fn slots(&self) -> io::Result<&Slots> {
        match self.is_released {
            true => Err(io::Error::other("it was closed")),
            false => Ok(&self.slots),
        }
    }

    fn record_in(&self, number: u32) -> Option<Record> {
        Some(Record(self.slots().ok()?.slot(number)))
    }

    fn record(&self, token: &Uuid) -> Option<Record> {
        self.record_in(*self.by_token.get(token)?)
    }

    fn clear(&mut self) {
        for (_, number) in self.by_token.drain() {
            Record(self.slots.slot(number)).free();
            self.records.push(number);
        }
    }

    fn new_record(&mut self) -> io::Result<u32> {
        if self.records.is_empty() {
            self.grow()?;
        }
        self.records.pop().ok_or_else(|| io::Error::other("there is no room"))
    }

    fn grow(&mut self) -> io::Result<()> {
        self.slots()?;
        let from = self.slots.count();
        self.slots.grow()?;
        self.lanes.extend((from..self.slots.count()).rev());
        self.records.extend((from..self.slots.count()).rev());
        Ok(())
    }

    /// Writes what is unsynced. If that fails, all of it is written the next time.
    fn sync(&mut self) -> io::Result<()> {
        let mut numbers = std::mem::take(&mut self.unsynced);
        let done = self.slots().and_then(|slots| slots.sync_all(&mut numbers));
        if done.is_err() {
            self.unsynced = numbers;
        }
        done
    }

    fn write_header(&self) -> io::Result<()> {
        self.slots()?.set_header(&self.header)
    }
}

fn state_error(path: &Arc<str>, error: &io::Error) -> Error {
    Error::State { path: path.clone(), source: Report::own(error, None, None) }
}

/// Opens the file of this path, and locks it for as long as it is open.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let file = Slots::open(path)?;
        match FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(fs4::TryLockError::Error(error)) => return Err(error),
            Err(fs4::TryLockError::WouldBlock) => {
                let process = slots::process_of(&file).map(|id| format!(", {id}"));
                let process = process.unwrap_or_default();
                return Err(io::Error::other(format!("another process{process} uses it")));
            }
        }
        // Nobody has put another file in its place in between.
        let (opened, named) = (file.metadata()?, fs::metadata(path)?);
        if Place::for_file(&opened)? == Place::for_file(&named)? {
            return Ok(file);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
pub mod tests;
