//! Takes over a file from an earlier process.

use std::io;

use super::Left;
use super::machine::Place;
use super::record::{Kind, Record};
use super::slots::{Header, Slots};

/// The end of the other one of the two names that a holder takes in turn.
pub const OTHER: &str = "+";

/// The name of a holder whose leases are revoked, by that of the one who does it. They differ: the
/// statement may be late, and must not end what its sender, or the next process, has taken since.
pub fn other_name(holder: &str) -> String {
    holder.strip_suffix(OTHER).map_or_else(|| format!("{holder}{OTHER}"), str::to_owned)
}

/// Takes the file over from an earlier process, as far as possible. Returns the header, except for
/// the process that has it now, and the leases: those that were in use come first.
pub fn take_over(slots: &Slots, before: Option<Header>, place: Place) -> (Header, Vec<Left>) {
    let before = before.unwrap_or_default();
    let was_open = before.process != 0;
    let is_same_file = was_open && before.place.is_same_file(&place);
    let is_same_start = is_same_file && before.place == place;
    let records = || (1..slots.count()).map(|number| Record(slots.slot(number)));
    for record in records().filter(|record| record.kind() != Kind::Free) {
        match record.kind() {
            Kind::Held | Kind::InLane if is_same_start && !record.has_expired() => {
                record.settle(record.resolve(slots));
            }
            Kind::Asked | Kind::Returned if is_same_start => {}
            // The machine has crashed. Or it is a clone of another machine with the same id, which
            // users of `sync_every` rule out.
            Kind::Held | Kind::InLane | Kind::Returned if is_same_file && record.floor() > 0 => {
                record.settle(record.floor());
                record.set_expiry(None);
            }
            _ => record.free(),
        }
    }
    // No record names a lane any more.
    for number in 1..slots.count() {
        slots.lane(number).close();
    }
    let (begun, others): (Vec<Record>, _) = records().partition(|record| record.is_begun());
    let left: Vec<Left> = begun.into_iter().chain(others).filter_map(left_in).collect();
    let header = match is_same_file {
        false => Header::default(),
        true if is_same_start || before.revoke || !left.is_empty() => before,
        true => Header { revoke: true, holder: other_name(&before.holder), ..before },
    };
    (header, left)
}

/// Sets the floors to 0, on the disk: values below them are going to be served, and the disk will
/// not hear of it.
pub fn forget_floors(slots: &Slots) -> io::Result<()> {
    let mut changed = Vec::new();
    for number in 1..slots.count() {
        let record = Record(slots.slot(number));
        if record.kind() != Kind::Free && record.floor() > 0 {
            record.set_floor(0);
            changed.push(number);
        }
    }
    slots.sync_all(&mut changed)
}

/// The work that a lease of an earlier process needs.
fn left_in(record: Record) -> Option<Left> {
    let returns = match record.kind() {
        Kind::Free => return None,
        Kind::Asked => None,
        Kind::Returned => Some(record.next()),
        Kind::Held | Kind::InLane => {
            let held = record.held().filter(|_| record.left() == 0);
            held.map(|held| held.last.wrapping_add(held.increment))
        }
    };
    let (token, size) = (record.token(), record.size());
    Some(Left { token, name: record.name().unwrap_or_default(), size, returns })
}
