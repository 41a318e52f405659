//! What a sequence may be named.

/// The maximum length of a name, in bytes.
pub const MAX_LENGTH: usize = 255;

/// Why a name is refused. SQLSTATE 42602.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("name of a hilo sequence must not be empty")]
    Empty,
    #[error("name of a hilo sequence is too long")]
    TooLong { length: usize },
    #[error("name of a hilo sequence must not contain control characters")]
    Control { code: u32, position: usize },
}

impl NameError {
    pub fn detail(&self) -> Option<String> {
        match self {
            NameError::Empty => None,
            NameError::TooLong { length } => {
                Some(format!("The name has {length} bytes; at most {MAX_LENGTH} are allowed."))
            }
            NameError::Control { code, position } => {
                Some(format!("The character U+{code:04X} is at byte {}.", position + 1))
            }
        }
    }

    pub fn hint(&self) -> Option<String> {
        Some(format!("A name is any text of 1 to {MAX_LENGTH} bytes without control characters."))
    }
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
