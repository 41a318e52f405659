//! The HINTs that the sources contain, as far as they name a call.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files whose texts with calls are no HINTs.
const OTHERS: [&str; 4] = [
    // The DETAIL of a NOTICE.
    "src/sql/column/adopt.rs",
    // A source that fails.
    "src/sql/node/restore_triggers.rs",
    // Pages and findings.
    "src/sql/report/lists.rs",
    "src/core/compare.rs",
];

/// A text of a HINT.
#[derive(Debug)]
pub struct Text {
    // Shown if the text has no case.
    #[allow(dead_code)]
    pub file: PathBuf,
    pub text: String,
}

impl Text {
    /// Whether a HINT has this text, with whatever stands for its fields.
    pub fn is_in(&self, hint: &str) -> bool {
        let mut rest = hint;
        let fields = |text: &str| text.replace("%L", "{}").replace("%s", "{}");
        fields(&self.text).split('{').enumerate().all(|(at, part)| {
            let part = if at == 0 { part } else { part.split_once('}').unwrap_or_default().1 };
            let found = rest.find(part);
            rest = found.map_or("", |from| &rest[from + part.len()..]);
            found.is_some()
        })
    }
}

/// The texts of HINTs that name one of these functions.
pub fn hints(functions: &BTreeSet<String>) -> Vec<Text> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut files, mut texts) = (Vec::new(), Vec::new());
    for folder in ["src", "sql"] {
        collect(&root.join(folder), &mut files);
    }
    for file in files {
        let name = file.strip_prefix(&root).expect("it is in there").to_path_buf();
        let content = fs::read_to_string(&file).expect("it can be read");
        let found = match file.extension().and_then(|extension| extension.to_str()) {
            _ if OTHERS.iter().any(|other| name == Path::new(other)) => continue,
            Some("rs") => of_rust(&content),
            Some("sql") => of_sql(&content),
            _ => continue,
        };
        let names_one = |text: &String| {
            let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            text.contains(' ') && words.any(|word| functions.contains(word))
        };
        let found = found.into_iter().filter(names_one);
        texts.extend(found.map(|text| Text { file: name.clone(), text }));
    }
    texts
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "target" {
            collect(&path, files);
        } else if path.is_file() && !name.starts_with("hilo--") {
            files.push(path);
        }
    }
}

/// The string literals of Rust that are neither messages nor DETAILs.
fn of_rust(content: &str) -> Vec<String> {
    let lines = content.lines().map(|line| line.split("// ").next().unwrap_or_default());
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n").replace("b'\"'", "").replace("'\"'", "");
    let (mut texts, mut rest) = (Vec::new(), code.as_str());
    while let Some(begin) = rest.find('"') {
        let (before, after) = (&rest[..begin], &rest[begin + 1..]);
        let mut text = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next() {
                Some((_, '\\')) => match letters.next() {
                    Some((_, '\n')) => {
                        let blanks = letters.as_str().len() - letters.as_str().trim_start().len();
                        letters.by_ref().take(blanks).for_each(drop);
                    }
                    Some((_, letter)) => text.push(letter),
                    None => break after.len(),
                },
                Some((at, '"')) => break at + 1,
                Some((_, letter)) => text.push(letter),
                None => break after.len(),
            }
        };
        if !["error(", "detail("].iter().any(|attribute| before.ends_with(attribute)) {
            texts.push(text);
        }
        rest = &after[end..];
    }
    texts
}

/// The string literals behind each HINT of SQL, or before it where it names a column.
fn of_sql(content: &str) -> Vec<String> {
    let behind = content.split("HINT = ").skip(1).map(|text| {
        let ends = [";", ", DETAIL", ", MESSAGE", ", ERRCODE"];
        let end = ends.iter().filter_map(|end| text.find(end)).min();
        &text[..end.unwrap_or(text.len())]
    });
    let before = content.split(" AS hint").map(|text| text.rsplit('\n').next().unwrap_or_default());
    let literals = behind.chain(before).map(|text| text.replace("''", "\u{1}"));
    let texts = literals.flat_map(|text| {
        let mut joined: Vec<String> = Vec::new();
        let parts: Vec<&str> = text.split('\'').collect();
        for at in (1..parts.len()).step_by(2) {
            match joined.last_mut() {
                // Literals with nothing between them are one.
                Some(last) if parts[at - 1].trim().is_empty() => last.push_str(parts[at]),
                _ => joined.push(parts[at].to_owned()),
            }
        }
        joined
    });
    texts.map(|text| text.replace('\u{1}', "'")).collect()
}
