//! Writes HTML, and SVG within it. Text gets in through one door, which escapes it: the rest takes only what the program's
//! own source says (`&'static str`). The result is ASCII, so it means the same in every encoding.

/// A page, or a part of one, being written.
#[derive(Debug, Default)]
pub struct Html {
    text: String,
    full: bool,
}

/// The name and the value of an attribute.
pub type Attribute<'a> = (&'static str, &'a str);

impl Html {
    pub fn new() -> Html {
        Html::default()
    }

    /// Markup of the program's own.
    pub fn markup(&mut self, markup: &'static str) {
        self.push(markup);
    }

    /// Text of any origin. Characters that do not show, or that change the order of others, appear as their code points.
    pub fn text(&mut self, text: &str) {
        let mut plain = 0;
        for (at, found) in text.char_indices() {
            if found.is_ascii_graphic() && !matches!(found, '&' | '<' | '>' | '"' | '\'')
                || found == ' '
            {
                continue;
            }
            self.push(&text[plain..at]);
            plain = at + found.len_utf8();
            match is_hidden(found) {
                true => self.push(&format!("[U+{:04X}]", found as u32)),
                false => self.push(&format!("&#{};", found as u32)),
            }
        }
        self.push(&text[plain..]);
    }

    /// An element with attributes, and what `content` writes into it.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: &[Attribute],
        content: impl FnOnce(&mut Html),
    ) {
        self.open(name, attributes);
        content(self);
        self.push("</");
        self.push(name);
        self.push(">");
    }

    /// An element that holds a text.
    pub fn line(&mut self, name: &'static str, attributes: &[Attribute], text: &str) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// A name or message of somebody else's: its direction does not reach what stands around it.
    pub fn foreign(&mut self, text: &str) {
        self.line("bdi", &[], text);
    }

    /// The start of an element; all of an element that holds nothing, such as `meta`.
    pub fn open(&mut self, name: &'static str, attributes: &[Attribute]) {
        self.push("<");
        self.push(name);
        for (name, value) in attributes {
            self.push(" ");
            self.push(name);
            self.push("=\"");
            self.text(value);
            self.push("\"");
        }
        self.push(">");
    }

    /// All that was written; `None` if there was not enough memory for it.
    pub fn finish(self) -> Option<String> {
        (!self.full).then_some(self.text)
    }

    fn push(&mut self, text: &str) {
        self.full |= self.text.try_reserve(text.len()).is_err();
        if !self.full {
            self.text.push_str(text);
        }
    }
}

/// Whether a reader would not see a character, or would see others in another order because of it: controls, marks of
/// direction, separators, tags, and what is no character.
fn is_hidden(found: char) -> bool {
    let code = found as u32;
    found.is_control()
        || matches!(code, 0xAD | 0x61C | 0x180E | 0x200B | 0x200E | 0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF)
        || matches!(code, 0xFDD0..=0xFDEF | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
        || code & 0xFFFE == 0xFFFE
}
