//! The three ways in which this session gets numbers of a sequence. They are the pool that all
//! sessions share (`pool`), the count of a gapless sequence (`gapless`), and what its transaction
//! has defined (`uncommitted`).
//!
//! From the last two a session takes what is left, and nobody else takes from them meanwhile. In a
//! pool others take too, so a session claims there, and waits if nothing is left.

use hilo_core::fit::Fit;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::errors::HiloError;
use crate::session::names::{CachedName, Entry, Own, Supply};
use crate::session::pool::{self, Claim};
use crate::session::{gapless, uncommitted};
use crate::shared::slot::Terms;

impl Supply {
    /// The next value. A pool gives a slice of at least `least` values, if that many are available
    /// at once. `None`: the caller tries again, because the cached name must be renewed or there
    /// are values to take now.
    pub fn draw(
        self,
        cached: &'static CachedName,
        entry: &'static Entry,
        least: i64,
    ) -> Result<Option<i64>, HiloError> {
        match self {
            Supply::Pool(slot) => pool::draw(cached, entry, slot, least),
            Supply::Own(Own::Gapless) => gapless::more(cached, entry),
            Supply::Own(Own::Defined) => uncommitted::next(cached, entry),
        }
    }

    /// The first of `count` values at even steps, if they are at hand.
    pub fn at_hand(
        self,
        cached: &'static CachedName,
        entry: &'static Entry,
        count: i64,
    ) -> Option<i64> {
        match self {
            Supply::Pool(slot) => pool::take_at_once(cached, entry, slot, count),
            Supply::Own(_) => None,
        }
    }

    /// Takes the range that `fit` chooses. Waits for it if it can still come.
    pub fn claim(
        self,
        cached: &'static CachedName,
        entry: &'static Entry,
        fit: &mut impl FnMut(&Terms, Range) -> Fit<Range>,
    ) -> Result<Claim, HiloError> {
        match self {
            Supply::Pool(slot) => pool::claim(cached, entry, slot, fit),
            Supply::Own(own) => own.claim(cached, entry, fit),
        }
    }

    /// Lets this session be served nothing before `end` any more. A transaction that serves itself
    /// goes on in order anyway, in an epoch that other sessions may never see.
    pub fn pass(self, entry: &Entry, end: Index) {
        if let Supply::Pool(_) = self {
            entry.floor.set(end);
        }
    }
}

impl Own {
    /// All that is left. `None`: the cached name is out of date.
    ///
    /// # Errors
    /// The errors of [`gapless::rest`].
    pub fn rest(
        self,
        cached: &CachedName,
        entry: &'static Entry,
    ) -> Result<Option<Range>, HiloError> {
        match self {
            Own::Gapless => gapless::rest(cached, entry),
            Own::Defined => Ok(uncommitted::rest(entry)),
        }
    }

    /// Takes a part of the [`rest`](Self::rest). The part before it is skipped.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of writing the count of a gapless sequence.
    pub fn take(self, entry: &'static Entry, range: Range) -> Result<(), HiloError> {
        match self {
            Own::Gapless => gapless::take(entry, range),
            Own::Defined => uncommitted::take(entry, range),
        }
    }

    fn claim(
        self,
        cached: &CachedName,
        entry: &'static Entry,
        fit: &mut impl FnMut(&Terms, Range) -> Fit<Range>,
    ) -> Result<Claim, HiloError> {
        let Some(left) = self.rest(cached, entry)? else { return Ok(Claim::Outdated) };
        let range = match fit(&entry.terms.get(), left) {
            Fit::Here(range) => range,
            _ if left.is_empty() => return Ok(Claim::Exhausted),
            _ => return Ok(Claim::Never),
        };
        self.take(entry, range)?;
        Ok(Claim::Here(range))
    }
}
