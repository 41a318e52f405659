//! A sequence in a document: its options, and who may do what with it.

use serde::{Deserialize, Serialize};

use crate::grants::Grant;
use crate::node_numbers::Numbering;
use crate::options::{DataType, Options, each_option};

macro_rules! entry {
    ($($(#[doc = $about:literal])* $(#[bounds $bounds:tt])? $option:ident: $type:ty,)+) => {
        /// A sequence in a document.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct Entry {
            /// 1 to 255 bytes without control characters. Case matters.
            #[cfg_attr(
                feature = "schema",
                schemars(length(min = 1, max = 255), regex(pattern = r"^[^\u0000-\u001f\u007f]+$"))
            )]
            #[serde(skip_serializing_if = "String::is_empty")]
            pub name: String,
            $($(#[doc = $about])*
            $(#[cfg_attr(feature = "schema", schemars $bounds)])?
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $option: Option<$type>,)+
            /// The column with which the sequence is dropped: schema.table.column, each quoted as
            /// in SQL. Default: none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub owned_by: Option<String>,
            /// The role that owns the sequence. Default: the current role for a new sequence;
            /// unchanged for one that exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub owner: Option<String>,
            /// All that is granted, each grantee once. Default: what a new sequence has; unchanged
            /// for one that exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub privileges: Option<Vec<Grant>>,
            /// Which numbers the nodes serve. A new sequence is numbered like this. So is one that
            /// this server has not served under its present node id, unless replication brings its
            /// positions. Any other must be. Default: as hilo_create numbers it; unchecked for one
            /// that exists.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub numbering: Option<Numbering>,
            /// Whether a source brings the values. Only a summary says so, to everybody who may
            /// read the sequence; hilo_apply refuses such a sequence without its source.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub fed: Option<bool>,
        }

        impl Entry {
            /// A sequence with these options.
            pub fn new(name: String, options: Options) -> Entry {
                let Options { $($option),+ } = options;
                Entry { name, $($option,)+ ..Entry::default() }
            }

            pub fn is_fed(&self) -> bool {
                self.fed == Some(true)
            }

            pub fn options(&self) -> Options {
                Options { $($option: self.$option.clone(),)+ }
            }
        }
    };
}

each_option!(entry);
