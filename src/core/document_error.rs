//! Why a document of sequences is refused.

/// Why a document is refused, and at which field, such as `sequences[3].slice_size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    pub what: String,
    /// `.`: the document itself
    pub path: String,
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for DocumentError {}

pub(crate) const OUT_OF_MEMORY: &str = "out of memory";

impl DocumentError {
    /// Whether it is not the document's fault.
    pub fn is_out_of_memory(&self) -> bool {
        self.what == OUT_OF_MEMORY
    }
}
