//! The core sequence that `hilo_adopt` replaced, as it was: `hilo_release` makes it again.

use std::ffi::CString;

use hilo_core::options::DataType;

use crate::catalog::rows::table::text_datum;
use crate::catalog::sequence::definitions::{Sequence, data_type_from};
use crate::errors::HiloError;
use crate::sql::call::spi::Planned;
use crate::sql::column::sequence_column::SequenceColumn;

static FORMER: Planned = Planned::new(include_str!("former.sql"));

/// The core sequence, as `sequences.sql` has recorded it.
pub struct Former {
    /// Its schema and its name, if both are free again.
    pub place: Option<(CString, CString)>,
    pub data_type: DataType,
    pub start: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
}

impl Former {
    /// The core sequence that the sequence of a column has replaced. `owned`: whether the column is
    /// to own the new one.
    pub fn find(
        column: &SequenceColumn,
        sequence: &Sequence,
        owned: bool,
    ) -> Result<Option<Former>, HiloError> {
        let Some(former) = &sequence.former else { return Ok(None) };
        let text = |text: &[u8]| Some(text_datum(text));
        let parameters = [
            text(former),
            text(&sequence.name),
            text(column.place.relid.to_u32().to_string().as_bytes()),
            text(sequence.owner.to_u32().to_string().as_bytes()),
            text(owned.to_string().as_bytes()),
        ];
        let mut found = FORMER.look_up(&parameters, |row| {
            let name = |number| CString::new(row.bytes(number)?).ok();
            let number = |number| row.int8(number).unwrap_or_default();
            Some(Former {
                place: name(1).zip(name(2)),
                data_type: data_type_from(row.oid(3))?,
                start: number(4),
                min: number(5),
                max: number(6),
                cache: number(7),
            })
        })?;
        Ok(found.pop().flatten())
    }
}
