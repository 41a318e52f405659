//! The record of a lease in a slot of the state file.

use std::time::Duration;

use uuid::Uuid;

use super::machine;
use super::slots::{MAX_NAME, SLOT, Slot, Slots, part};

/// The state of a lease, below bit 8 of its record's first word. In a lane, bits 8 to 31 say in
/// which, and those above the number of the filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Free = 0,
    /// It is being asked for: the server may have given it, and none of it was served.
    Asked = 1,
    /// `LEFT` says how many values are left.
    Held = 2,
    /// The server is being told that it has ended: nothing of it is served any more.
    Returned = 3,
    InLane = 4,
}

const KIND: usize = 64;
const LEFT: usize = 72;
const NEXT: usize = 80;
/// When it expires, by the time since the machine has started; 0: never, or nobody knows.
const EXPIRES: usize = 88;
/// So many values are left at least after a crash of the machine. Above it a checksum: of all that
/// follows, so it holds for this lease alone.
const FLOOR: usize = 96;
const NAME_LENGTH: usize = 104;
const TOKEN: usize = 112;
const SIZE: usize = 128;
const LAST: usize = 136;
const INCREMENT: usize = 144;
/// 0: it has not come yet.
const COUNT: usize = 152;
const NAME: usize = 160;

/// A lease that has come, as the server has described it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub last: i64,
    pub increment: i64,
    pub count: i64,
}

/// See the module.
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

    /// Enters what has come. Nothing of it was served.
    pub fn hold(self, held: &Held) {
        // Until its kind changes, it is asked for.
        self.set_kind(Kind::Asked);
        self.0.set(LAST, held.last as u64);
        self.0.set(INCREMENT, held.increment as u64);
        self.0.set(COUNT, held.count as u64);
        self.0.set(FLOOR, 0);
        self.settle(held.count as u32);
    }

    /// So many of its values are left, and it is in no lane.
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
