//! The pieces of a section of the document: text, tables and their cells.

use super::chart::short;
use super::results::Stat;

/// A section of the document.
pub struct Section {
    pub title: &'static str,
    pub text: String,
    pub tables: Vec<Table>,
    /// The name of a picture, and what it shows.
    pub picture: Option<(&'static str, &'static str)>,
}

/// A table in Markdown: the first column has words, the others numbers.
pub struct Table {
    pub(super) head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|&name| name.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row, unless nothing in it was measured.
    pub fn row(&mut self, label: &str, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = [label.to_owned()].into_iter().chain(cells).collect();
        if row[1..].iter().any(|cell| cell != "–") {
            self.rows.push(row);
        }
    }

    /// Whether a cell has a measured number.
    pub fn has_number(&self) -> bool {
        !self.rows.is_empty()
    }

    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---:".to_owned(); self.head.len() - 1];
        let rule: Vec<String> = ["---".to_owned()].into_iter().chain(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{}{rows}", line(&self.head), line(&rule))
    }
}

/// A value, or a dash if there is none.
pub fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), short)
}

/// A median. docs/benchmarks.tsv has the samples.
pub fn median(stat: Option<Stat>) -> String {
    cell(stat.map(|stat| stat.median))
}
