//! A script whose comments say what its statements return: `SELECT hilo_nextval('orders');   -- 1`.
//!
//! The text between `--` and a colon or the end of the line is what psql prints, or `ERROR` and an
//! SQLSTATE. There is `, ` between columns and between rows. It has no spaces but these; all other
//! comments are prose.

use crate::cluster::Cluster;
use crate::server::run;

impl Cluster {
    /// Runs `script` in `database`; the first statement that does not return what its comment says fails the test. Returns
    /// how many comments say something.
    #[track_caller]
    pub fn run_as_printed(&self, database: &str, script: &str) -> usize {
        self.run_as_printed_by("postgres", database, script)
    }

    /// Runs the script as another role.
    #[track_caller]
    pub fn run_as_printed_by(&self, role: &str, database: &str, script: &str) -> usize {
        let file = self.file("printed.sql");
        let (marked, expected) = mark(script);
        std::fs::write(&file, marked).expect("cannot write the script");
        let mut psql = self.tool("psql", database);
        psql.env("PGUSER", role);
        psql.args(["-X", "-q", "-A", "-t", "-F", ", ", "-v", "ON_ERROR_STOP=1", "--file"]);
        let printed = run(psql.arg(file));
        let results: Vec<String> = printed.split(BEGIN).skip(1).map(result).collect();
        assert_eq!(results.len(), expected.len(), "{printed}");
        for ((line, expected), result) in expected.iter().zip(results) {
            assert_eq!(*expected, result, "{line}");
        }
        expected.len()
    }
}

const BEGIN: &str = "\u{1}begin";
const END: &str = "\u{1}end";

/// The script with marks around each statement that is to be compared, and those statements with what they return.
fn mark(script: &str) -> (String, Vec<(&str, &str)>) {
    let mut marked: Vec<String> = Vec::new();
    let mut expected = Vec::new();
    let mut statement = 0;
    let mut quoted = false;
    for line in script.lines() {
        quoted ^= line.matches("$$").count() % 2 == 1;
        let code = line.split("--").next().unwrap_or_default().trim_end();
        marked.push(line.to_owned());
        if quoted || !(code.is_empty() || code.ends_with(';') || code.contains('\\')) {
            continue;
        }
        if let (true, Some(promise)) = (code.ends_with(';'), promise(line)) {
            expected.push((line, promise));
            let fails = promise.starts_with("ERROR ");
            let stop = if fails { "\\set ON_ERROR_STOP 0\n" } else { "" };
            marked.insert(statement, format!("{stop}\\echo {BEGIN}"));
            marked.push(format!("\\echo {END} :SQLSTATE\n\\set ON_ERROR_STOP 1"));
        }
        statement = marked.len();
    }
    (marked.join("\n") + "\n", expected)
}

/// The result of a statement according to the comment of its line.
fn promise(line: &str) -> Option<&str> {
    let comment = line.rsplit_once("-- ")?.1;
    let said = comment.split(": ").next()?.trim();
    let words = said.strip_prefix("ERROR ").unwrap_or(said);
    let prose = words.split(", ").any(|word| word.is_empty() || word.contains(' '));
    (!prose).then_some(said)
}

/// The result of a statement, from the text after its first mark.
fn result(printed: &str) -> String {
    let (rows, end) = printed.split_once(END).expect("the statement ends");
    let state = end.lines().next().unwrap_or_default().trim();
    match state {
        "00000" => rows.trim().lines().collect::<Vec<_>>().join(", "),
        _ => format!("ERROR {state}"),
    }
}

#[cfg(test)]
mod tests {
    use super::promise;

    #[test]
    fn results_are_told_from_prose() {
        assert_eq!(promise("SELECT 1, 2;   -- 1, 2"), Some("1, 2"));
        assert_eq!(promise("SELECT f();  -- 700: the rest"), Some("700"));
        assert_eq!(promise("SELECT lastval();  -- ERROR 55000: core's"), Some("ERROR 55000"));
        assert_eq!(promise("SELECT f();  -- for a bulk load"), None);
        assert_eq!(promise("SELECT f();"), None);
    }
}
