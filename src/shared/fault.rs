//! Why the last reservation for a slot failed, for the sessions that wait.

use hilo_core::numbers::Timestamp;

use crate::errors::FaultKind;

/// The last failed reservation.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Fault {
    pub sqlstate: i32,
    pub kind: FaultKind,
    len: u32,
    text: [u8; 240],
    /// In microseconds since 2000; 0: there was none.
    pub at: Timestamp,
}

impl Default for Fault {
    fn default() -> Fault {
        Fault { sqlstate: 0, kind: FaultKind::Other, len: 0, text: [0; 240], at: Timestamp(0) }
    }
}

impl Fault {
    pub fn new(sqlstate: i32, kind: FaultKind, message: &str, at: Timestamp) -> Fault {
        let mut end = message.len().min(240);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let mut text = [0; 240];
        text[..end].copy_from_slice(&message.as_bytes()[..end]);
        Fault { sqlstate, kind, len: end as u32, text, at }
    }

    pub fn message(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len as usize]).unwrap_or_default()
    }
}
