//! The rules for a sequence's name.

use crate::error_table;

/// The maximum length of a name, in bytes.
pub const MAX_LENGTH: usize = 255;

error_table! {
    /// Why a name is refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum NameError {
        #[error("name of a hilo sequence must not be empty")]
        #[hint("{FORM}")]
        Empty,
        #[error("name of a hilo sequence is too long")]
        #[detail("The name has {length} bytes; at most {MAX_LENGTH} are allowed.")]
        #[hint("{FORM}")]
        TooLong { length: usize },
        #[error("name of a hilo sequence must not contain control characters")]
        #[detail("{}", control_detail(*code, *position))]
        #[hint("{FORM}")]
        Control { code: u32, position: usize },
    }
}

const FORM: &str = "A name is any text of 1 to 255 bytes without control characters.";

/// Where a control character stands in a text, `position` bytes from its beginning.
pub(crate) fn control_detail(code: u32, position: usize) -> String {
    format!("The character U+{code:04X} is at byte {}.", position + 1)
}

/// Checks a name in the server's encoding: 1 to 255 bytes, no C0 control, no DEL, and no C1 control
/// as UTF-8 writes it.
pub fn validate(bytes: &[u8]) -> Result<(), NameError> {
    if bytes.is_empty() {
        return Err(NameError::Empty);
    }
    if bytes.len() > MAX_LENGTH {
        return Err(NameError::TooLong { length: bytes.len() });
    }
    match control(bytes) {
        Some((position, code)) => Err(NameError::Control { code, position }),
        None => Ok(()),
    }
}

/// The names that count on from this one if it ends in a number: after `tenant-9`, `tenant-10` and
/// so on. A number that begins with 0 keeps its width as far as it can.
pub fn successors(name: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    /// Any number of so many digits has a successor.
    const MOST_DIGITS: usize = 18;
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (prefix, digits) = name.split_at(name.len() - digits.min(MOST_DIGITS));
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    let width = if digits.first() == Some(&b'0') { digits.len() } else { 0 };
    number
        .into_iter()
        .flat_map(|number| number + 1..)
        .map(move |next| [prefix, format!("{next:0width$}").as_bytes()].concat())
}

/// The position and the code point of the first control character.
pub(crate) fn control(bytes: &[u8]) -> Option<(usize, u32)> {
    for (position, &byte) in bytes.iter().enumerate() {
        if byte < 0x20 || byte == 0x7f {
            return Some((position, byte as u32));
        }
        // 0xC2 is only ever a first byte, so the pair cannot straddle two characters.
        if let (0xc2, Some(&next @ 0x80..=0x9f)) = (byte, bytes.get(position + 1)) {
            return Some((position, next as u32));
        }
    }
    None
}
