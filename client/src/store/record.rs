//! The record of a lease in a slot of the state file.

use std::time::Duration;

use uuid::Uuid;

use super::machine;
use super::slots::{MAX_NAME, SLOT, Slot, Slots, part};

/// The state of a lease, in the lowest 8 bits of its record's first word. For a lease in a lane,
/// bits 8 to 31 have the lane's slot, and the bits above it the number of the filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Free = 0,
    /// The lease is being asked for. The server may have given it, and none of its values was
    /// served.
    Asked = 1,
    /// The lease has come, and `LEFT` says how many values are left.
    Held = 2,
    /// The lease is being returned: none of its values is served any more.
    Returned = 3,
    InLane = 4,
}

const KIND: usize = 64;
const LEFT: usize = 72;
const NEXT: usize = 80;
/// When the lease expires, in time since the machine has started; 0: never, or nobody knows.
const EXPIRES: usize = 88;
/// How many values are left at least after a crash of the machine. Above it a checksum of all that
/// follows, so that the number holds for this lease alone.
const FLOOR: usize = 96;
const NAME_LENGTH: usize = 104;
const TOKEN: usize = 112;
const SIZE: usize = 128;
const LAST: usize = 136;
const INCREMENT: usize = 144;
/// How many values the lease has; 0: it has not come yet.
const COUNT: usize = 152;
const NAME: usize = 160;

/// A lease that has come, as the server has described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub last: i64,
    pub increment: i64,
    pub count: i64,
}

/// See the module's documentation.
#[derive(Clone, Copy)]
pub struct Record(pub Slot);

impl Record {
    pub fn kind(self) -> Kind {
        match self.0.get(KIND) & 0xff {
            1 => Kind::Asked,
            2 => Kind::Held,
            3 => Kind::Returned,
            4 => Kind::InLane,
            _ => Kind::Free,
        }
    }

    fn set_kind(self, kind: Kind) {
        self.0.set(KIND, kind as u64);
    }

    pub fn token(self) -> Uuid {
        Uuid::from_bytes(part(&self.0.read(TOKEN, 16), 0))
    }

    pub fn size(self) -> i64 {
        self.0.get(SIZE) as i64
    }

    pub fn name(self) -> Option<String> {
        let length = (self.0.get(NAME_LENGTH) as usize).min(MAX_NAME);
        String::from_utf8(self.0.read(NAME, length)).ok()
    }

    /// The lease as it has come, if it has.
    pub fn held(self) -> Option<Held> {
        let [last, increment, count] = [LAST, INCREMENT, COUNT].map(|at| self.0.get(at) as i64);
        (count > 0).then_some(Held { last, increment, count })
    }

    pub fn left(self) -> u32 {
        self.0.get(LEFT) as u32
    }

    /// Whether some of its values were used.
    pub fn is_begun(self) -> bool {
        self.held().is_some_and(|held| i64::from(self.left()) < held.count)
    }

    pub fn next(self) -> i64 {
        self.0.get(NEXT) as i64
    }

    /// Enters a lease that is about to be asked for, in a record that is free.
    pub fn ask(self, token: Uuid, name: &str, size: i64) {
        self.0.write(TOKEN, token.as_bytes());
        self.0.set(NAME_LENGTH, name.len() as u64);
        self.0.write(NAME, name.as_bytes());
        self.0.set(SIZE, size as u64);
        [COUNT, LEFT, EXPIRES, FLOOR].into_iter().for_each(|at| self.0.set(at, 0));
        self.set_kind(Kind::Asked);
    }

    /// Enters a lease that has come, and whose values are all unused.
    pub fn hold(self, held: &Held) {
        // Until its kind changes, the lease counts as asked for.
        self.set_kind(Kind::Asked);
        self.0.set(LAST, held.last as u64);
        self.0.set(INCREMENT, held.increment as u64);
        self.0.set(COUNT, held.count as u64);
        self.0.set(FLOOR, 0);
        self.settle(held.count as u32);
    }

    /// Notes that `left` values of the lease are left, and that it is in no lane.
    pub fn settle(self, left: u32) {
        self.set_left(left.min(self.0.get(COUNT) as u32));
        self.set_kind(Kind::Held);
    }

    pub fn set_left(self, left: u32) {
        self.0.set(LEFT, u64::from(left));
    }

    pub fn enter_lane(self, lane: u32, filling: u32) {
        self.0.set(KIND, in_lane(lane, filling));
    }

    pub fn is_in_lane(self, lane: u32, filling: u32) -> bool {
        self.0.get(KIND) == in_lane(lane, filling)
    }

    pub fn give_back(self, next: i64) {
        self.0.set(NEXT, next as u64);
        self.set_kind(Kind::Returned);
    }

    pub fn free(self) {
        self.set_kind(Kind::Free);
    }

    /// How many values are left, wherever that is written.
    pub fn resolve(self, slots: &Slots) -> u32 {
        let kind = self.0.get(KIND);
        let (lane, filling) = ((kind >> 8) as u32 & 0xff_ffff, (kind >> 32) as u32);
        if self.kind() == Kind::InLane && lane < slots.count() {
            let word = slots.slot(lane).get(0);
            if (word >> 32) as u32 == filling {
                return word as u32;
            }
        }
        self.left()
    }

    pub fn set_expiry(self, ttl: Option<Duration>) {
        let at = ttl.map_or(0, |ttl| machine::uptime().saturating_add(ttl.as_micros() as u64));
        self.0.set(EXPIRES, at);
    }

    pub fn has_expired(self) -> bool {
        let at = self.0.get(EXPIRES);
        at != 0 && at <= machine::uptime()
    }

    fn checksum(self) -> u32 {
        crc32fast::hash(&self.0.read(NAME_LENGTH, SLOT - NAME_LENGTH))
    }

    pub fn set_floor(self, floor: u32) {
        self.0.set(FLOOR, u64::from(self.checksum()) << 32 | u64::from(floor));
    }

    /// How many values are left for sure after a crash of the machine; 0: nobody knows.
    pub fn floor(self) -> u32 {
        let floor = self.0.get(FLOOR);
        if (floor >> 32) as u32 == self.checksum() { floor as u32 } else { 0 }
    }
}

fn in_lane(lane: u32, filling: u32) -> u64 {
    u64::from(filling) << 32 | u64::from(lane) << 8 | Kind::InLane as u64
}
