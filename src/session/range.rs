//! Consecutive indexes: for `hilo_nextrange` and `hilo_next_hi`.

use hilo_core::fit::Fit;
use hilo_core::hi::next_hi;
use hilo_core::mapping::{Mapping, Run};
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::catalog::rights::privileges::Privileges;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::HiloError;
use crate::session::look_up;
use crate::session::names::{CachedName, Entry, Own, Supply};
use crate::session::pool::Claim;
use crate::shared::slot::Terms;

/// Takes `count` values that step evenly. Returns the run and the increment.
///
/// # Errors
/// `RangeTooLarge`, and those of [`look_up::look_up`] and of waiting.
pub fn next_range(name: &[u8], count: i64) -> Result<(Run, i64), HiloError> {
    let (cached, entry) = look_up::look_up(name, Privileges::UPDATE)?;
    if let Some(first) = entry.supply.get().at_hand(cached, entry, count) {
        let (run, increment) = (Run { first, count }, entry.increment());
        cached.note_value(entry, run.last(increment));
        return Ok((run, increment));
    }
    let (cached, entry, range) = claim(
        name,
        |terms, run| fit_evenly_spaced(&terms.mapping, count, run),
        |name| HiloError::RangeTooLarge { name, count },
    )?;
    let increment = entry.increment();
    let first = entry.mapping().value(range.start).unwrap_or_default();
    let run = Run { first, count };
    cached.note_value(entry, run.last(increment));
    Ok((run, increment))
}

/// The first part of `run` that has `count` values at even steps.
fn fit_evenly_spaced(mapping: &Mapping, count: i64, run: Range) -> Fit<Range> {
    let stripes = mapping.stripes;
    if count > mapping.limit() - Index::ZERO || (stripes.nodes > 1 && count > stripes.size) {
        return Fit::Never;
    }
    let mut rest = run;
    loop {
        let whole = Range::with_len(rest.start, count);
        let Some(part) = mapping.run(whole) else { return Fit::Never };
        if part.count >= count {
            return if whole.end <= run.end { Fit::Here(whole) } else { Fit::Needs(whole.end) };
        }
        if whole.end > mapping.limit() || (mapping.cycle && part.count == 0) {
            return Fit::Never;
        }
        rest.start += part.count;
        if mapping.cycle
            && mapping.run(Range::ALL.from(rest.start)).is_none_or(|lap| lap.count < count)
        {
            return Fit::Never;
        }
    }
}

/// The hi of the next block of classic Hi/Lo.
///
/// # Errors
/// `NeedsBlockSize`, `Exhausted`, and those of [`look_up::look_up`] and of waiting.
pub fn next_block(name: &[u8]) -> Result<i64, HiloError> {
    let (_, entry) = look_up::look_up(name, Privileges::UPDATE)?;
    if let Supply::Own(Own::Gapless) = entry.supply.get() {
        return Err(HiloError::GaplessHi(escape_for_message(name)));
    }
    let mut hi = 0;
    let size = entry.terms.get().block_size;
    if size < 1 {
        return Err(HiloError::NeedsBlockSize(escape_for_message(name)));
    }
    let fit = |terms: &Terms, run: Range| {
        let size = terms.block_size.max(1);
        next_hi(&terms.mapping, terms.start_value, size, run).map(|block| {
            hi = block.hi;
            block.range
        })
    };
    let mapping = entry.mapping();
    claim(name, fit, |name| HiloError::exhaustion(name, &mapping))?;
    Ok(hi)
}

type Claimed = (&'static CachedName, &'static Entry, Range);

/// Takes the range that `fit` chooses. The session is served nothing before its end any more: what
/// the range skips is left to others. `never` makes the error for the case that values are left
/// but do not fit; if none are left, the sequence is exhausted.
fn claim(
    name: &[u8],
    mut fit: impl FnMut(&Terms, Range) -> Fit<Range>,
    never: impl Fn(String) -> HiloError,
) -> Result<Claimed, HiloError> {
    loop {
        pgrx::check_for_interrupts!();
        let (cached, entry) = look_up::look_up(name, Privileges::UPDATE)?;
        match entry.supply.get().claim(cached, entry, &mut fit)? {
            Claim::Here(range) => {
                entry.supply.get().pass(entry, range.end);
                return Ok((cached, entry, range));
            }
            Claim::Outdated => cached.forget(),
            Claim::Never => return Err(never(cached.name())),
            Claim::Exhausted => return Err(HiloError::exhaustion(cached.name(), &entry.mapping())),
        }
    }
}
