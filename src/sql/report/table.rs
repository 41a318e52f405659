//! Tables of the report. On a narrow screen each row becomes a block, in which every cell says its column.

use hilo_core::figures::grouped;
use hilo_core::html::Html;

/// As many rows as a table shows.
pub const MOST: usize = 200;

/// A column: its heading, and whether numbers stand in it.
pub struct Heading(pub &'static str, pub bool);

pub struct Table {
    pub class: &'static str,
    pub caption: String,
    pub headings: &'static [Heading],
}

impl Table {
    /// Writes the table. `cells` writes the cells of each row, by [`Cells::next`].
    pub fn write<T>(&self, html: &mut Html, rows: &[T], mut cells: impl FnMut(&mut Cells, &T)) {
        html.element("table", &[("class", self.class)], |html| {
            html.line("caption", &[], &self.caption);
            html.element("thead", &[], |html| {
                html.element("tr", &[], |html| {
                    for Heading(heading, number) in self.headings {
                        let class = if *number { "number" } else { "" };
                        html.line("th", &[("scope", "col"), ("class", class)], heading);
                    }
                });
            });
            html.element("tbody", &[], |html| {
                for row in rows {
                    html.element("tr", &[], |html| {
                        cells(&mut Cells { html, headings: self.headings, at: 0 }, row);
                    });
                }
            });
        });
    }
}

/// The cells of a row, from left to right.
pub struct Cells<'a> {
    html: &'a mut Html,
    headings: &'static [Heading],
    at: usize,
}

impl Cells<'_> {
    /// Writes the next cell. The first one is the heading of the row.
    pub fn next(&mut self, content: impl FnOnce(&mut Html)) {
        let Heading(heading, number) = &self.headings[self.at];
        let class = if *number { "number" } else { "" };
        match self.at {
            0 => self.html.element("th", &[("scope", "row")], content),
            _ => self.html.element("td", &[("data-label", heading), ("class", class)], content),
        }
        self.at += 1;
    }

    /// The same with a text.
    pub fn text(&mut self, text: &str) {
        self.next(|html| html.text(text));
    }

    /// The same with a name of somebody else's, or a dash if there is none.
    pub fn foreign(&mut self, text: Option<&str>) {
        self.next(|html| match text {
            Some(text) => html.foreign(text),
            None => dash(html),
        });
    }

    /// The same with a whole number.
    pub fn count(&mut self, count: i64) {
        self.text(&grouped(&count.to_string()));
    }
}

/// What stands where there is nothing to say.
pub fn dash(html: &mut Html) {
    html.line("span", &[("class", "none")], "\u{2013}");
}

/// A smaller line below a figure.
pub fn small(html: &mut Html, text: &str) {
    html.line("small", &[], text);
}

/// What becomes of the rows beyond the last that is shown, if there are any.
pub fn more(html: &mut Html, count: i64, what: &str) {
    let more = count - MOST as i64;
    if more > 0 {
        html.line(
            "p",
            &[("class", "more")],
            &format!("{} more {what}", grouped(&more.to_string())),
        );
    }
}
