//! The types that bound a sequence's values.

use serde::{Deserialize, Serialize};

use crate::named;

named! {
    /// The type that bounds a sequence's values, by the name that SQL prints.
    #[derive(Default, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum DataType {
        SmallInt = "smallint",
        Integer = "integer",
        #[default]
        BigInt = "bigint",
    }
}

impl DataType {
    pub const fn min(self) -> i64 {
        match self {
            DataType::SmallInt => i16::MIN as i64,
            DataType::Integer => i32::MIN as i64,
            DataType::BigInt => i64::MIN,
        }
    }

    pub const fn max(self) -> i64 {
        -1 - self.min()
    }

    /// This type or, if that is narrower, the type of a column that is to hold the values.
    pub fn within(self, column: Option<DataType>) -> DataType {
        column.filter(|column| column.max() < self.max()).unwrap_or(self)
    }

    /// The value of this type that is nearest to `value`.
    pub fn clamp(self, value: i64) -> i64 {
        value.clamp(self.min(), self.max())
    }

    pub(crate) fn holds(self, value: i64) -> bool {
        self.clamp(value) == value
    }

    pub(crate) fn values(self) -> String {
        format!("A sequence of type {self} has values from {} to {}.", self.min(), self.max())
    }
}

impl core::fmt::Display for DataType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
