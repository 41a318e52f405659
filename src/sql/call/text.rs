//! Text in the encoding of the database, which need not be UTF-8.

use std::ops::Deref;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;

use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::table::{bytes_of, text_datum};
use crate::sql::call::border::argument;

/// A text that is an argument. It lives as long as the call.
#[derive(Clone, Copy)]
pub struct Text<'a>(&'a [u8]);

argument!(<'a> Text<'a>: |datum| {
    // SAFETY: SQL declares the argument as a text. A copy of it lives in a memory context that
    // outlives the call.
    Text(unsafe { bytes_of(datum) })
});

impl<'a> Text<'a> {
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text for messages, and to be compared with ASCII.
    pub fn escaped(self) -> String {
        escape_for_message(self.0)
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

/// A text that is a result.
pub struct Written(pub Vec<u8>);

/// Results that are texts, or have the layout of one.
macro_rules! text_results {
    ($($type:ty: |$own:ident| $bytes:expr;)+) => { $(
        // SAFETY: the datum is a text in the current memory context, which is the caller's.
        unsafe impl BoxRet for $type {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
                let $own = self;
                // SAFETY: as above.
                unsafe { fcinfo.return_raw_datum(text_datum($bytes)) }
            }
        }
    )+ };
}

text_results! {
    Written: |own| &own.0;
    Name: |own| &own;
}
