//! Before a sequence is numbered anew: what the pool holds is put back, so that the catalog knows how
//! far it was really served. A courtesy to those who like few gaps; nothing depends on it.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::{change, draw, memo, wait};
use crate::errors::HiloError;
use crate::shared::{self, Condition};

const PATIENCE: Duration = Duration::from_millis(500);

/// Has the worker put back what the pool holds of a sequence, and gives back what this session does.
pub fn recall(id: i64) -> Result<(), HiloError> {
    let shared = shared::get()?;
    // A session that is ended while it waits must give up its pin.
    super::prepare();
    let key = memo::key_of(id)?;
    let Some(slot) = shared.find(&key) else { return Ok(()) };
    let _pin = wait::Pin::found(slot);
    let number = shared.number_of(slot);
    // Its row may be locked by this very transaction: then there is nothing to wait for.
    if !change::in_progress() {
        memo::for_each_entry(|entry| {
            if entry.slot.get().is_some_and(|other| std::ptr::eq(other, slot)) {
                draw::let_go(entry);
            }
        });
        slot.recall.store(1, Release);
        shared.want(number);
        let began = Instant::now();
        slot.refilled.prepare();
        while slot.recall.load(Acquire) != 0 && began.elapsed() < PATIENCE {
            if !wait::wake(shared) {
                break;
            }
            slot.refilled.sleep(10, super::wait::WaitEvent::Recall.code());
        }
        Condition::cancel();
        slot.recall.store(0, Release);
    }
    Ok(())
}
