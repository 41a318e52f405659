//! Makes names and other texts of users safe to show: characters that are invisible, or change the
//! order of others, are named. maud escapes HTML.

/// Names each character that would not show, or that would change the order of others, by its code
/// point.
pub fn visible(text: &str) -> String {
    replace(text, is_hidden, |hidden| format!("[U+{hidden:04X}]"))
}

/// A page in ASCII, which means the same in every encoding.
pub fn ascii(page: &str) -> String {
    replace(page, |found| !found.is_ascii(), |other| format!("&#{other};"))
}

fn replace(text: &str, is_meant: fn(char) -> bool, by: fn(u32) -> String) -> String {
    let mut replaced = String::with_capacity(text.len());
    for found in text.chars() {
        match is_meant(found) {
            true => replaced += &by(found.into()),
            false => replaced.push(found),
        }
    }
    replaced
}

/// Whether a character is a control, a mark of direction, a separator, a tag, or no character at
/// all.
fn is_hidden(found: char) -> bool {
    let code = found as u32;
    found.is_control()
        || matches!(code, 0xAD | 0x61C | 0x180E | 0x200B | 0x200E | 0x200F | 0xFEFF)
        || matches!(code, 0x2028..=0x202E | 0x2060..=0x206F | 0xFDD0..=0xFDEF)
        || matches!(code, 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
        || code & 0xFFFE == 0xFFFE
}
