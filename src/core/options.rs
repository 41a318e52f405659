//! The definition of a sequence, checked as core's `init_params` checks it (same order, same
//! defaults), and what hilo adds to it.

use std::any::Any;

use serde::{Deserialize, Serialize};

pub use crate::data_type::DataType;
use crate::error_table;
use crate::key_format::{self, KeyFormat, KeyFormatError};

/// The maximum of `slice_size`.
pub const MAX_SLICE_SIZE: i64 = 65_536;
/// The maximum length of a description, in bytes.
pub const MAX_DESCRIPTION: usize = 1_000;
/// The maximum length of a source, in bytes: twice what hilo itself writes with the longest names.
pub const MAX_SOURCE: usize = 8_192;

/// Calls a macro with every option: its description in the form of documents, its name, and its
/// type. `bounds` are those of the form, as schemars writes them. The columns of
/// `_hilo.hilo_definition` have the same order.
#[macro_export]
macro_rules! each_option {
    ($callback:ident) => {
        $callback! {
            /// Limits the bounds. Default: bigint.
            data_type: DataType,
            /// The first value. Default: min_value, or max_value if the increment is negative.
            start_value: i64,
            /// The distance from one value to the next. Default: 1.
            #[bounds(extend("not" = {"const": 0}))]
            increment: i64,
            /// The smallest value. Default: 1, or the minimum of the data type if the increment is
            /// negative.
            min_value: i64,
            /// The largest value. Default: the maximum of the data type, or -1 if the increment is
            /// negative.
            max_value: i64,
            /// Whether the sequence starts again at the other bound. Default: false.
            cycle: bool,
            /// Whether a later call gets a later value across all sessions. Default: false.
            ordered: bool,
            /// How many values are reserved at a time. Default: chosen by the rate.
            #[bounds(range(min = 1))]
            block_size: i64,
            /// The most values that a session takes at a time. Default: hilo.max_slice_size.
            #[bounds(range(min = 1, max = 65_536))]
            slice_size: i64,
            /// A template over {name}, {server}, {value} and {value:0N}. Default:
            /// {name}/{server}{value}.
            #[bounds(length(max = 255), regex(pattern = r"\{value(:0[0-9]+)?\}"))]
            key_format: String,
            /// Whether the committed values have no holes. Default: false.
            gapless: bool,
            /// The query that brings the values, run as the owner. Default: none, the sequence
            /// numbers itself.
            #[bounds(length(max = 8_192))]
            source: String,
            /// How many seconds' worth of values are kept ahead of the source. Default:
            /// hilo.buffer.
            #[bounds(range(min = 0, max = 31_622_400))]
            reserve_ahead: i64,
            /// The purpose of the sequence, in at most 1,000 bytes. Default: none.
            #[bounds(length(max = 1_000))]
            description: String,
        }
    };
}
pub use each_option;

macro_rules! options {
    ($($(#[doc = $about:literal])* $(#[bounds $bounds:tt])? $option:ident: $type:ty,)+) => {
        /// The options that a caller specifies. None: the default in [`Definition::create`],
        /// unchanged in [`Definition::alter`].
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Options {
            $($(#[doc = $about])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $option: Option<$type>,)+
        }

        impl Options {
            /// The options that are texts, each with its name.
            pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
                fn text<T: Any>(option: &Option<T>) -> Option<&String> {
                    (option.as_ref()? as &dyn Any).downcast_ref()
                }
                let all = [$((stringify!($option), text(&self.$option))),+];
                all.into_iter().filter_map(|(option, text)| Some((option, text?.as_str())))
            }

            /// The options of `new` that differ from `old`.
            fn difference(new: &Definition, old: &Definition) -> Options {
                Options {
                    $($option: (new.$option != old.$option).then(|| new.$option.said()),)+
                }
            }
        }
    };
}

each_option!(options);

/// An option in a definition, and how a caller specifies it.
trait Said<T> {
    fn said(&self) -> T;
}

impl<T: Clone> Said<T> for T {
    fn said(&self) -> T {
        self.clone()
    }
}

/// In alter, 0 or the empty text removes the option.
impl<T: Clone + Default> Said<T> for Option<T> {
    fn said(&self) -> T {
        self.clone().unwrap_or_default()
    }
}

/// A valid definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Definition {
    pub data_type: DataType,
    pub start_value: i64,
    pub increment: i64,
    pub min_value: i64,
    pub max_value: i64,
    pub cycle: bool,
    pub ordered: bool,
    /// None: by rate
    pub block_size: Option<i64>,
    /// None: up to the server's maximum
    pub slice_size: Option<i64>,
    /// None: the default format
    pub key_format: Option<String>,
    /// Committed values have no holes: each transaction counts on from the one before it
    pub gapless: bool,
    /// The query that brings the values. None: the sequence numbers itself
    pub source: Option<String>,
    /// How many seconds' worth of values are kept ahead. None: `hilo.buffer`
    pub reserve_ahead: Option<i64>,
    /// The purpose of the sequence
    pub description: Option<String>,
}

error_table! {
    /// Why options are refused.
    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum OptionError: &'static str {
        #[error("increment must not be zero")]
        #[hint("Use a positive increment for ascending values, or a negative one for descending \
                values.")]
        ZeroIncrement = "22023",
        #[error("max_value ({value}) is out of range for sequence data type {data_type}")]
        #[detail("{}", data_type.values())]
        #[hint("Choose a wider data type, or a bound within the range of this one.")]
        MaxOutOfRange { value: i64, data_type: DataType } = "22023",
        #[error("min_value ({value}) is out of range for sequence data type {data_type}")]
        #[detail("{}", data_type.values())]
        #[hint("Choose a wider data type, or a bound within the range of this one.")]
        MinOutOfRange { value: i64, data_type: DataType } = "22023",
        #[error("min_value ({min}) must be less than max_value ({max})")]
        #[hint("Lower min_value, or raise max_value.")]
        MinNotLessThanMax { min: i64, max: i64 } = "22023",
        #[error("start_value ({start}) cannot be less than min_value ({min})")]
        #[hint("Lower min_value, or raise start_value.")]
        StartBelowMin { start: i64, min: i64 } = "22023",
        #[error("start_value ({start}) cannot be greater than max_value ({max})")]
        #[hint("Raise max_value, or lower start_value.")]
        StartAboveMax { start: i64, max: i64 } = "22023",
        #[error("restart_with ({restart}) cannot be less than min_value ({min})")]
        #[hint("Restart with {min} or more, or lower min_value.")]
        RestartBelowMin { restart: i64, min: i64 } = "22023",
        #[error("restart_with ({restart}) cannot be greater than max_value ({max})")]
        #[hint("Restart with {max} or less, or raise max_value.")]
        RestartAboveMax { restart: i64, max: i64 } = "22023",
        #[error("current value ({current}) cannot be less than min_value ({min})")]
        #[detail("Values that the changed sequence would not allow have been served.")]
        #[hint("Specify with restart_with where the sequence continues.")]
        CurrentBelowMin { current: i64, min: i64 } = "22023",
        #[error("current value ({current}) cannot be greater than max_value ({max})")]
        #[detail("Values that the changed sequence would not allow have been served.")]
        #[hint("Specify with restart_with where the sequence continues.")]
        CurrentAboveMax { current: i64, max: i64 } = "22023",
        #[error("block_size ({0}) must be greater than zero")]
        #[hint("Leave block_size null to let it follow the rate.")]
        BlockSizeNotPositive(size: i64) = "22023",
        #[error("block_size ({block_size}) is larger than the number of values of the sequence \
                 ({values})")]
        #[detail("No whole block would fit between min_value and max_value.")]
        #[hint("Use a block_size of at most {values}.")]
        BlockSizeTooLarge { block_size: i64, values: i128 } = "22023",
        #[error("slice_size ({0}) must be between 1 and {MAX_SLICE_SIZE}")]
        #[hint("Leave slice_size null to let slices grow with use.")]
        SliceSizeOutOfRange(size: i64) = "22023",
        #[error("slice_size ({slice_size}) cannot be greater than block_size ({block_size})")]
        #[detail("A session takes its slice from one block.")]
        #[hint("Lower slice_size, or raise block_size.")]
        SliceLargerThanBlock { slice_size: i64, block_size: i64 } = "22023",
        #[error("slice_size cannot be set for an ordered sequence")]
        #[detail("Sessions that hold slices of their own cannot keep the values of all sessions in \
                  order.")]
        #[hint("Leave slice_size null, set it to 0 with hilo_alter, or do not use ordered.")]
        OrderedWithSlice = "22023",
        #[error("block_size cannot be set for a gapless sequence")]
        #[detail("{NOTHING_AHEAD}")]
        #[hint("Leave block_size null, set it to 0 with hilo_alter, or do not use gapless.")]
        GaplessWithBlock = "22023",
        #[error("slice_size cannot be set for a gapless sequence")]
        #[detail("{NOTHING_AHEAD}")]
        #[hint("Leave slice_size null, set it to 0 with hilo_alter, or do not use gapless.")]
        GaplessWithSlice = "22023",
        #[error("a gapless sequence cannot cycle")]
        #[detail("A value that is served again cannot be told from one that is missing.")]
        #[hint("Choose either cycle or gapless.")]
        GaplessCycles = "0A000",
        #[error("a sequence with a source cannot cycle")]
        #[detail("{OTHERS_DECIDE}")]
        #[hint("Choose either cycle or a source.")]
        SourceCycles = "0A000",
        #[error("a sequence with a source cannot be ordered")]
        #[detail("{OTHERS_DECIDE}")]
        #[hint("Choose either ordered or a source. hilo_alter(name, ordered => false) gives up the \
                order of a sequence that exists.")]
        SourceOrdered = "0A000",
        #[error("a sequence with a source cannot be gapless")]
        #[detail("{OTHERS_DECIDE}")]
        #[hint("Choose either gapless or a source.")]
        SourceGapless = "0A000",
        #[error("source is too long")]
        #[detail("The source has {length} bytes; at most {MAX_SOURCE} are allowed.")]
        #[hint("Put the query into a function, and let the source call that.")]
        SourceTooLong { length: usize } = "22023",
        #[error("the increment of a sequence with a source cannot change")]
        #[detail("The values that the source has brought lie on the grid of this increment.")]
        #[hint("Take the source away first, with hilo_detach.")]
        SourceIncrement = "22023",
        #[error("reserve_ahead requires a source")]
        #[detail("A sequence that numbers itself needs nobody else for its next block.")]
        #[hint("Leave reserve_ahead null, or specify a source.")]
        AheadWithoutSource = "22023",
        #[error("reserve_ahead ({0} seconds) must be between 0 and {MAX_AHEAD} seconds")]
        #[hint("Leave reserve_ahead null to keep as much ahead as hilo.buffer says.")]
        AheadOutOfRange(seconds: i64) = "22023",
        #[error("description is too long")]
        #[detail("The description has {length} bytes; at most {MAX_DESCRIPTION} are allowed.")]
        #[hint("Shorten it, and let it say where to read more.")]
        DescriptionTooLong { length: usize } = "22023",
        #[error(transparent)]
        #[detail("{}", error.detail()?)]
        #[hint("{}", error.hint()?)]
        KeyFormat(#[from] error: KeyFormatError) = "22023",
    }
}

/// The maximum of `reserve_ahead`, in seconds: a year.
pub const MAX_AHEAD: i64 = 366 * 86_400;

const OTHERS_DECIDE: &str = "The source says which values come, and others use the values between \
    them.";
const NOTHING_AHEAD: &str =
    "Nothing is reserved ahead: each transaction takes its values from the sequence itself.";

impl Definition {
    /// A new sequence. Defaults: bigint, increment 1, and all values of the type from 1 upwards, or
    /// from −1 downwards. It starts at the end from which it can run furthest.
    pub fn create(options: &Options) -> Result<Definition, OptionError> {
        let data_type = options.data_type.unwrap_or_default();
        let usual = Definition::usual(data_type, options.increment.unwrap_or(1));
        // A size of 0 is refused here: it is how hilo_alter makes a size adaptive again.
        let Options { block_size, slice_size, .. } = *options;
        let mut definition = Definition { block_size, slice_size, ..usual.with(options) };
        definition.start_value = options.start_value.unwrap_or(definition.first_bound());
        definition.check_bounds()?;
        definition.check_sizes()?;
        Ok(definition)
    }

    /// A definition with all other options at their defaults, before its first value.
    pub(crate) fn usual(data_type: DataType, increment: i64) -> Definition {
        let (min_value, max_value) =
            if increment > 0 { (1, data_type.max()) } else { (data_type.min(), -1) };
        Definition { data_type, increment, min_value, max_value, ..Self::default() }
    }

    /// The definition in a form in which equal sequences are equal.
    pub fn plain(mut self) -> Definition {
        self.key_format = self.key_format.filter(|format| format != key_format::DEFAULT);
        self
    }

    /// The fewest options that make the same sequence.
    pub fn options(&self) -> Options {
        let usual = Definition {
            data_type: DataType::default(),
            start_value: self.first_bound(),
            increment: 1,
            ..Definition::usual(self.data_type, self.increment)
        };
        Options::difference(&self.clone().plain(), &usual)
    }

    /// The options with which [`alter`](Self::alter) makes this definition from `old`. They include
    /// the bounds, which could otherwise follow the data type.
    pub fn changes_of(&self, old: &Definition) -> Options {
        let mut changes = Options::difference(self, old);
        (changes.min_value, changes.max_value) = (Some(self.min_value), Some(self.max_value));
        if let Some(format) = changes.key_format.as_mut().filter(|format| format.is_empty()) {
            *format = key_format::DEFAULT.to_owned();
        }
        changes
    }

    /// The key format. A stored one has been checked.
    pub fn parsed_key_format(&self) -> KeyFormat {
        let parsed = self.key_format.as_deref().and_then(|text| KeyFormat::parse(text).ok());
        parsed.unwrap_or_default()
    }

    /// The sequence with these options changed. `last` is the last value served or, before the
    /// first, the one to be served first (core keeps either in `last_value`). Narrower bounds must
    /// contain it, unless `restart` says where to continue. None: there is nothing to compare with.
    pub fn alter(
        &self,
        options: &Options,
        last: Option<i64>,
        restart: Option<i64>,
    ) -> Result<Definition, OptionError> {
        let definition = self.with(options);
        if self.source.is_some() && definition.increment != self.increment {
            return Err(OptionError::SourceIncrement);
        }
        definition.check_bounds()?;
        definition.check_current(self, last, restart)?;
        definition.check_sizes()?;
        Ok(definition)
    }

    /// The definition with these options, not checked yet.
    fn with(&self, options: &Options) -> Definition {
        let (old, data_type) = (self.data_type, options.data_type.unwrap_or(self.data_type));
        // A bound that was the old type's own follows the type; a bound that a user chose stays.
        let min = if self.min_value == old.min() { data_type.min() } else { self.min_value };
        let max = if self.max_value == old.max() { data_type.max() } else { self.max_value };
        let unless_0 = |given: Option<i64>, known| given.or(known).filter(|size| *size != 0);
        // reserve_ahead goes with the source.
        let ahead = self.reserve_ahead.filter(|_| options.source.as_deref() != Some(""));
        let unless_empty = |given: &Option<String>, known: &Option<String>| {
            given.as_ref().or(known.as_ref()).filter(|text| !text.is_empty()).cloned()
        };
        Definition {
            data_type,
            start_value: options.start_value.unwrap_or(self.start_value),
            increment: options.increment.unwrap_or(self.increment),
            min_value: options.min_value.unwrap_or(min),
            max_value: options.max_value.unwrap_or(max),
            cycle: options.cycle.unwrap_or(self.cycle),
            ordered: options.ordered.unwrap_or(self.ordered),
            block_size: unless_0(options.block_size, self.block_size),
            slice_size: unless_0(options.slice_size, self.slice_size),
            key_format: options.key_format.as_ref().or(self.key_format.as_ref()).cloned(),
            gapless: options.gapless.unwrap_or(self.gapless),
            source: unless_empty(&options.source, &self.source),
            reserve_ahead: unless_0(options.reserve_ahead, ahead),
            description: unless_empty(&options.description, &self.description),
        }
    }

    /// Whether sessions and the worker serve both definitions alike.
    pub fn serves_like(&self, other: &Definition) -> bool {
        let served = |of: &Definition| Definition { description: None, ..of.clone() };
        served(self) == served(other)
    }

    /// Whether an index has another value than in `old`. Another increment changes it, and so does
    /// the start or end of cycling. For a sequence that cycles, other bounds do too, because they
    /// change its laps. Any change to the serving of a gapless sequence waits for the transaction
    /// that draws from it. It gets an epoch of its own, which tells the other sessions.
    pub fn renumbers(&self, old: &Definition) -> bool {
        let terms = |of: &Definition| {
            let laps = of.cycle.then_some((of.min_value, of.max_value));
            (of.gapless, of.increment, laps)
        };
        terms(self) != terms(old) || (old.gapless && !self.serves_like(old))
    }

    fn check_bounds(&self) -> Result<(), OptionError> {
        let (min, max, start, data_type) =
            (self.min_value, self.max_value, self.start_value, self.data_type);
        if self.increment == 0 {
            return Err(OptionError::ZeroIncrement);
        }
        if !data_type.holds(max) {
            return Err(OptionError::MaxOutOfRange { value: max, data_type });
        }
        if !data_type.holds(min) {
            return Err(OptionError::MinOutOfRange { value: min, data_type });
        }
        if min >= max {
            return Err(OptionError::MinNotLessThanMax { min, max });
        }
        if start < min {
            return Err(OptionError::StartBelowMin { start, min });
        }
        if start > max {
            return Err(OptionError::StartAboveMax { start, max });
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), OptionError> {
        if let Some(block_size) = self.block_size {
            if block_size < 1 {
                return Err(OptionError::BlockSizeNotPositive(block_size));
            }
            let values = self.values();
            if block_size as i128 > values {
                return Err(OptionError::BlockSizeTooLarge { block_size, values });
            }
        }
        if let Some(slice_size) = self.slice_size {
            if !(1..=MAX_SLICE_SIZE).contains(&slice_size) {
                return Err(OptionError::SliceSizeOutOfRange(slice_size));
            }
            if self.ordered {
                return Err(OptionError::OrderedWithSlice);
            }
            if let Some(block_size) = self.block_size.filter(|size| slice_size > *size) {
                return Err(OptionError::SliceLargerThanBlock { slice_size, block_size });
            }
        }
        self.check_gapless()?;
        self.check_source()?;
        if let Some(format) = &self.key_format {
            KeyFormat::parse(format)?;
        }
        match self.description.as_ref().map_or(0, String::len) {
            length if length > MAX_DESCRIPTION => Err(OptionError::DescriptionTooLong { length }),
            _ => Ok(()),
        }
    }

    fn check_gapless(&self) -> Result<(), OptionError> {
        match self {
            Definition { gapless: false, .. } => Ok(()),
            Definition { cycle: true, .. } => Err(OptionError::GaplessCycles),
            Definition { block_size: Some(_), .. } => Err(OptionError::GaplessWithBlock),
            Definition { slice_size: Some(_), .. } => Err(OptionError::GaplessWithSlice),
            _ => Ok(()),
        }
    }

    fn check_source(&self) -> Result<(), OptionError> {
        if let Some(seconds) = self.reserve_ahead.filter(|ahead| !(0..=MAX_AHEAD).contains(ahead)) {
            return Err(OptionError::AheadOutOfRange(seconds));
        }
        let length = self.source.as_ref().map_or(0, String::len);
        if length > MAX_SOURCE {
            return Err(OptionError::SourceTooLong { length });
        }
        match self {
            Definition { source: None, reserve_ahead: Some(_), .. } => {
                Err(OptionError::AheadWithoutSource)
            }
            Definition { source: None, .. } => Ok(()),
            Definition { cycle: true, .. } => Err(OptionError::SourceCycles),
            Definition { ordered: true, .. } => Err(OptionError::SourceOrdered),
            Definition { gapless: true, .. } => Err(OptionError::SourceGapless),
            _ => Ok(()),
        }
    }
}
