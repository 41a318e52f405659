//! Text keys: a template over `{name}`, `{server}`, `{value}` and `{value:0N}`.
//!
//! For one sequence on one server everything except the value is fixed text, so a key has exactly
//! one value. Between servers this must hold too, whatever their prefixes are;
//! [`KeyFormat::check_prefix`] refuses the prefixes with which it would not.
//!
//! It works on bytes, because every encoding that a server can have keeps ASCII to itself.

use crate::error_table;
use crate::name::{control, control_detail};

/// The format of a sequence that has none of its own.
pub const DEFAULT: &str = "{name}/{server}{value}";
/// The maximum length of a format, in bytes.
pub const MAX_LENGTH: usize = 255;
/// The most digits that `{value:0N}` can pad to.
pub const MAX_WIDTH: u8 = 19;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Name,
    Server,
}

/// A parsed format: what precedes the value, its width and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFormat {
    before: Vec<Part>,
    /// 0: as many digits as it needs; otherwise at least this many characters, filled with zeros
    width: u8,
    behind: Vec<Part>,
}

error_table! {
    /// Why a format is refused. Positions are in bytes from 0.
    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum KeyFormatError {
        #[error("key_format is too long")]
        #[detail("The key_format has {length} bytes; at most {MAX_LENGTH} are allowed.")]
        #[hint("{FORM}")]
        TooLong { length: usize },
        #[error("key_format has no {{value}}")]
        #[detail("All values would have the same key.")]
        #[hint("{FORM}")]
        NoValue,
        #[error("key_format has more than one {{value}}")]
        #[detail("Two values could have the same key.")]
        #[hint("{FORM}")]
        SeveralValues,
        #[error("key_format has more than one {{server}}")]
        #[detail("Two values could have the same key.")]
        #[hint("{FORM}")]
        SeveralServers,
        #[error("key_format has an unknown placeholder \"{{{0}}}\"")]
        #[hint("{FORM}")]
        Unknown(name: String),
        #[error("width of {{value:0{0}}} in key_format must be between 1 and {MAX_WIDTH}")]
        #[hint("{FORM}")]
        Width(width: String),
        #[error("key_format has an unbalanced \"{brace}\"")]
        #[detail("The brace is at byte {}.", position + 1)]
        #[hint("Write {{{{ or }}}} for a brace in the key.")]
        Unbalanced { brace: char, position: usize },
        #[error("key_format must not contain control characters")]
        #[detail("{}", control_detail(*code, *position))]
        #[hint("{FORM}")]
        Control { code: u32, position: usize },
    }
}

const FORM: &str = "A key_format is text with {value} or {value:0N} once, {server} at most once, \
                    and optionally {name}; the default is \"{name}/{server}{value}\".";

error_table! {
    /// Why a format does not allow a server prefix.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum PrefixError {
        #[error("server prefix must not contain control characters")]
        #[detail("{}", control_detail(*code, *position))]
        Control { code: u32, position: usize },
        #[error("server prefix must not end with \"{0}\" where only digits or dashes separate it \
                 from the value")]
        #[detail("Prefix \"A{end}\" with value 1 and prefix \"A\" with value {end}1 could give \
                  the same key.", end = if *last == '-' { '-' } else { '1' })]
        #[hint("{SEPARATE}")]
        End(last: char),
        #[error("server prefix must not begin with \"{0}\" where only digits separate it from the \
                 value")]
        #[detail("Value 1 with prefix \"1A\" and value 11 with prefix \"A\" could give the same \
                  key.")]
        #[hint("{SEPARATE}")]
        Begin(first: char),
    }
}

const SEPARATE: &str = "Separate the prefix from the value with a character such as \"/\".";

/// Why a text is not a key of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyReadError {
    #[error("key does not begin as the keys of this sequence do")]
    Begin,
    #[error("key does not end as the keys of this sequence do")]
    End,
    #[error("key has no number where the keys of this sequence have one")]
    NotANumber,
    #[error("number in the key is out of range")]
    OutOfRange,
    #[error("number in the key is not written as in the keys of this sequence")]
    NotCanonical,
}

impl Default for KeyFormat {
    /// [`DEFAULT`]
    fn default() -> Self {
        KeyFormat {
            before: vec![Part::Name, Part::Literal(b"/".to_vec()), Part::Server],
            width: 0,
            behind: Vec::new(),
        }
    }
}

impl KeyFormat {
    /// Parses a template; `{{` and `}}` each stand for one brace.
    pub fn parse(format: &str) -> Result<KeyFormat, KeyFormatError> {
        if format.len() > MAX_LENGTH {
            return Err(KeyFormatError::TooLong { length: format.len() });
        }
        if let Some((position, code)) = control(format.as_bytes()) {
            return Err(KeyFormatError::Control { code, position });
        }
        let mut parts = Vec::new();
        let mut before = None;
        let mut width = 0;
        let mut servers = 0;
        let mut rest = format;
        while let Some(first) = rest.chars().next() {
            let position = format.len() - rest.len();
            if rest.starts_with("{{") || rest.starts_with("}}") {
                literal(&mut parts, &rest.as_bytes()[..1]);
                rest = &rest[2..];
            } else if first == '{' {
                let end =
                    rest.find('}').ok_or(KeyFormatError::Unbalanced { brace: '{', position })?;
                match &rest[1..end] {
                    "name" => parts.push(Part::Name),
                    "server" => {
                        parts.push(Part::Server);
                        servers += 1;
                    }
                    inside => {
                        width = value_width(inside)?;
                        if before.replace(core::mem::take(&mut parts)).is_some() {
                            return Err(KeyFormatError::SeveralValues);
                        }
                    }
                }
                rest = &rest[end + 1..];
            } else if first == '}' {
                return Err(KeyFormatError::Unbalanced { brace: '}', position });
            } else {
                let end = rest.find(['{', '}']).unwrap_or(rest.len());
                literal(&mut parts, &rest.as_bytes()[..end]);
                rest = &rest[end..];
            }
        }
        if servers > 1 {
            return Err(KeyFormatError::SeveralServers);
        }
        let before = before.ok_or(KeyFormatError::NoValue)?;
        Ok(KeyFormat { before, width, behind: parts })
    }

    /// Whether the server's prefix is part of the key.
    pub fn has_server(&self) -> bool {
        self.before.iter().chain(&self.behind).any(|part| *part == Part::Server)
    }

    /// Checks that the keys of the sequence `name` with this prefix differ from those with any
    /// other prefix that passes. No value lies below `min_value`.
    ///
    /// Let R be the text between the prefix s and the value v. If `s R v = s' R v'` with v ≠ v',
    /// one number is a part of the other. If neither has a sign, R has only digits (its last other
    /// character would have two places), and the longer prefix ends with a digit. If one has a
    /// sign, R has only digits and dashes, and the longer prefix ends with one of them. That is a
    /// dash if R has only dashes. Where the prefix follows the value, a sign cannot be mistaken: R
    /// has only digits, and the longer prefix begins with one.
    pub fn check_prefix(
        &self,
        name: &[u8],
        prefix: &[u8],
        min_value: i64,
    ) -> Result<(), PrefixError> {
        let negative = min_value < 0;
        if let Some((position, code)) = control(prefix) {
            return Err(PrefixError::Control { code, position });
        }
        if let (Some(gap), Some(&end)) = (gap(self.before.iter().rev(), name), prefix.last()) {
            let digits = gap.iter().all(u8::is_ascii_digit);
            let dashes = gap.iter().all(|byte| *byte == b'-');
            let number = gap.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
            let by_digit = digits || negative && number && !dashes;
            let by_dash = negative && number;
            if by_digit && end.is_ascii_digit() || by_dash && end == b'-' {
                return Err(PrefixError::End(end as char));
            }
        }
        match (gap(self.behind.iter(), name), prefix.first()) {
            (Some(gap), Some(begin))
                if begin.is_ascii_digit() && gap.iter().all(u8::is_ascii_digit) =>
            {
                Err(PrefixError::Begin(*begin as char))
            }
            _ => Ok(()),
        }
    }

    /// The format with a name and a prefix filled in.
    pub fn frame(&self, name: &[u8], server: &[u8]) -> Frame {
        let text = |parts: &[Part]| {
            parts.iter().flat_map(|part| part.text(name, server)).copied().collect()
        };
        Frame { before: text(&self.before), width: self.width, behind: text(&self.behind) }
    }
}

/// A format with a name and a prefix filled in: all of a key except its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    before: Vec<u8>,
    width: u8,
    behind: Vec<u8>,
}

impl Frame {
    /// The key of `value`, in three parts to be joined in this order. Allocates nothing.
    #[inline]
    pub fn key<'a>(&'a self, value: i64, buffer: &'a mut [u8; 20]) -> [&'a [u8]; 3] {
        [&self.before, self.number(value, buffer), &self.behind]
    }

    /// The value of a key: the exact inverse of [`key`](Self::key). It does not read what `key`
    /// would not have written (`+1`, `01`).
    pub fn read(&self, key: &[u8]) -> Result<i64, KeyReadError> {
        let rest = key.strip_prefix(&*self.before).ok_or(KeyReadError::Begin)?;
        let rest = rest.strip_suffix(&*self.behind).ok_or(KeyReadError::End)?;
        let value = parse_number(rest)?;
        if self.number(value, &mut [0; 20]) == rest {
            Ok(value)
        } else {
            Err(KeyReadError::NotCanonical)
        }
    }

    /// `value` in decimal, filled with zeros after the sign up to the width.
    fn number<'a>(&self, value: i64, buffer: &'a mut [u8; 20]) -> &'a [u8] {
        let mut at = buffer.len();
        let mut rest = value.unsigned_abs();
        loop {
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let sign = usize::from(value < 0);
        while buffer.len() - at + sign < self.width as usize {
            at -= 1;
            buffer[at] = b'0';
        }
        if value < 0 {
            at -= 1;
            buffer[at] = b'-';
        }
        &buffer[at..]
    }
}

impl Part {
    fn text<'a>(&'a self, name: &'a [u8], server: &'a [u8]) -> &'a [u8] {
        match self {
            Part::Literal(text) => text,
            Part::Name => name,
            Part::Server => server,
        }
    }
}

fn literal(parts: &mut Vec<Part>, text: &[u8]) {
    match parts.last_mut() {
        Some(Part::Literal(before)) => before.extend_from_slice(text),
        _ => parts.push(Part::Literal(text.to_vec())),
    }
}

/// The width of `value` (0) or `value:0N` (N).
fn value_width(inside: &str) -> Result<u8, KeyFormatError> {
    if inside == "value" {
        return Ok(0);
    }
    let Some(width) = inside.strip_prefix("value:0") else {
        return Err(KeyFormatError::Unknown(inside.into()));
    };
    match width.parse() {
        Ok(number @ 1..=MAX_WIDTH) if !width.starts_with(['+', '0']) => Ok(number),
        _ => Err(KeyFormatError::Width(width.into())),
    }
}

/// The text between the value and the server's prefix, as a set of bytes, read from the value on.
/// None: there is no prefix in that direction.
fn gap<'a>(parts: impl Iterator<Item = &'a Part>, name: &'a [u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Server => return Some(text),
            _ => text.extend_from_slice(part.text(name, b"")),
        }
    }
    None
}

fn parse_number(text: &[u8]) -> Result<i64, KeyReadError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(KeyReadError::NotANumber);
    }
    let text = core::str::from_utf8(text).map_err(|_| KeyReadError::NotANumber)?;
    text.parse().map_err(|_| KeyReadError::OutOfRange)
}
