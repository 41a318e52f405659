//! The samples of a run, by name. A file of them is enough to write the document again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// The median of some samples, and their spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Stat {
    /// The median and the quartiles; none if there are no samples.
    pub fn of(samples: &[f64]) -> Option<Stat> {
        if samples.is_empty() {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |fraction: f64| {
            let place = fraction * (sorted.len() - 1) as f64;
            let (low, part) = (place.floor() as usize, place.fract());
            sorted[low] * (1.0 - part) + sorted[(low + 1).min(sorted.len() - 1)] * part
        };
        Some(Stat { median: at(0.5), low: at(0.25), high: at(0.75) })
    }

    /// In another unit.
    pub fn times(self, factor: f64) -> Stat {
        Stat { median: self.median * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// Samples and remarks, by name.
#[derive(Default)]
pub struct Results {
    samples: BTreeMap<String, Vec<f64>>,
    words: BTreeMap<String, String>,
    /// When samples that a section has asked for were measured, if they are from a later run than
    /// the others.
    later: Mutex<BTreeSet<String>>,
}

/// A remark about when samples were measured begins with this. Their group follows.
const LATER: &str = "later ";

/// Samples are measured together if the first two parts of their names are the same.
fn group(name: &str) -> &str {
    name.match_indices('/').nth(1).map_or(name, |(at, _)| &name[..at])
}

impl Results {
    pub fn push(&mut self, name: impl Into<String>, value: f64) {
        self.samples.entry(name.into()).or_default().push(value);
    }

    pub fn say(&mut self, name: &str, words: impl Into<String>) {
        self.words.insert(name.to_owned(), words.into());
    }

    pub fn samples(&self, name: &str) -> &[f64] {
        if let Some(when) = self.words.get(&format!("{LATER}{}", group(name))) {
            self.later.lock().expect("none panics").insert(when.clone());
        }
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn words(&self, name: &str) -> &str {
        self.words.get(name).map_or("?", String::as_str)
    }

    pub fn stat(&self, name: &str) -> Option<Stat> {
        Stat::of(self.samples(name))
    }

    pub fn median(&self, name: &str) -> Option<f64> {
        self.stat(name).map(|stat| stat.median)
    }

    /// The ratio of two medians.
    pub fn ratio(&self, one: &str, other: &str) -> Option<f64> {
        Some(self.median(one)? / self.median(other)?)
    }

    pub fn sum(&self, name: &str) -> Option<f64> {
        let samples = self.samples(name);
        (!samples.is_empty()).then(|| samples.iter().sum())
    }

    pub fn max(&self, name: &str) -> Option<f64> {
        self.samples(name).iter().copied().reduce(f64::max)
    }

    /// How much more `name` has than `floor`, round by round. Both were measured in the same
    /// rounds, so what slows a whole round down has no effect.
    pub fn over(&self, name: &str, floor: &str) -> Option<Stat> {
        let pairs = self.samples(name).iter().zip(self.samples(floor));
        Stat::of(&pairs.map(|(value, floor)| value - floor).collect::<Vec<_>>())
    }

    /// When the samples that were asked for since the last call were measured, if that was later
    /// than all others.
    pub fn take_later(&self) -> Option<String> {
        let when = std::mem::take(&mut *self.later.lock().expect("none panics"));
        let when: Vec<String> = when.into_iter().collect();
        (!when.is_empty()).then(|| when.join("; "))
    }

    /// Puts the samples of a later run, which measured less, in the place of the earlier ones.
    pub fn add_later(&mut self, run: Results) {
        let said = |name: &str| run.words(name).to_owned();
        let when = format!(
            "{} with hilo {} on {}, {} cores",
            said("date"),
            said("hilo"),
            said("processor"),
            said("cores")
        );
        for (name, samples) in run.samples {
            self.words.insert(format!("{LATER}{}", group(&name)), when.clone());
            self.samples.insert(name, samples);
        }
    }

    /// Writes everything as lines of a name, a tab, and values or words.
    pub fn save(&self, file: &Path) {
        let mut text = String::new();
        for (name, words) in &self.words {
            text += &format!("{name}\t\"{words}\n");
        }
        for (name, samples) in &self.samples {
            let values: Vec<String> = samples.iter().map(f64::to_string).collect();
            text += &format!("{name}\t{}\n", values.join(" "));
        }
        write(file, &text);
    }

    /// Reads what [`Results::save`] wrote.
    pub fn load(file: &Path) -> Results {
        let text = fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        let mut results = Results::default();
        for line in text.lines() {
            let (name, rest) = line.split_once('\t').expect("a line is a name, a tab and values");
            match rest.strip_prefix('"') {
                Some(words) => results.say(name, words),
                None => rest
                    .split(' ')
                    .for_each(|value| results.push(name, value.parse().expect("a number"))),
            }
        }
        results
    }
}

/// Writes a file, and the directory that it is in.
pub fn write(file: &Path, text: &str) {
    let folder = file.parent().expect("a file is in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, text))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let stat = Stat::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((stat.low, stat.median, stat.high), (1.75, 2.5, 3.25));
        assert_eq!(Stat::of(&[]), None);
    }

    #[test]
    fn what_was_measured_later_says_so() {
        let mut results = Results::default();
        results.push("many/hilo/1", 1.0);
        results.push("call/hilo", 2.0);
        let mut run = Results::default();
        run.push("many/hilo/1", 3.0);
        run.say("date", "a day");
        results.add_later(run);
        assert_eq!(results.samples("call/hilo"), [2.0]);
        assert_eq!(results.take_later(), None);
        assert_eq!(results.samples("many/hilo/1"), [3.0]);
        assert!(results.take_later().is_some_and(|when| when.starts_with("a day with hilo")));
        assert_eq!(results.take_later(), None);
    }

    #[test]
    fn what_was_saved_is_read_again() {
        let mut results = Results::default();
        results.push("a/b", 1.5);
        results.push("a/b", 0.1 + 0.2);
        results.say("machine", "two cores");
        let file = std::env::temp_dir().join(format!("results-{}.tsv", std::process::id()));
        results.save(&file);
        let read = Results::load(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(read.samples("a/b"), [1.5, 0.1 + 0.2]);
        assert_eq!(read.words("machine"), "two cores");
    }
}
