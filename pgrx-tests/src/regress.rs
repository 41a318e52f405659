//! PGXS's regression and isolation test runners, on one of our clusters.

use std::fs::{self, File};
use std::path::Path;

use crate::cluster::Cluster;
use crate::server::SERVER;

/// The two kinds of cases with expected output.
#[derive(Clone, Copy, Debug)]
pub enum Cases {
    /// `sql/*.sql`, one session each.
    Regress,
    /// `specs/*.spec`, several sessions whose steps interleave in the order that the case gives.
    Isolation,
}

impl Cluster {
    /// Runs all the cases in `folder`, in the order of their names, in their own database with hilo
    /// in it. Fails the test with the difference from `expected`. With `UPDATE_EXPECT=1` in the
    /// environment the output becomes the expected output.
    #[track_caller]
    pub fn run_cases(&self, kind: Cases, folder: &Path) {
        let (runner, cases, extension) = match kind {
            Cases::Regress => ("test/regress/pg_regress", "sql", "sql"),
            Cases::Isolation => ("test/isolation/pg_isolation_regress", "specs", "spec"),
        };
        let names = stems(&folder.join(cases), extension);
        assert!(!names.is_empty(), "no cases in {}", folder.display());
        let output_directory = self.file(cases);
        fs::create_dir(&output_directory).expect("cannot create the directory for results");

        let expected = |name: &String| folder.join("expected").join(format!("{name}.out"));
        let update = std::env::var_os("UPDATE_EXPECT").is_some();
        if update {
            // The runners stop if one is missing.
            for name in &names {
                let file = File::options().append(true).create(true).open(expected(name));
                file.expect("cannot create the expected output");
            }
        }

        let mut command = SERVER.test_runner(runner);
        command
            .arg("--host")
            .arg(self.socket_directory())
            .args(["--port=5432", "--user=postgres", "--load-extension=hilo"])
            .arg(format!("--dbname=hilo_{cases}"))
            .arg("--inputdir")
            .arg(folder)
            .arg("--outputdir")
            .arg(&output_directory)
            .args(&names);
        let output = command.output().expect("cannot start PGXS's test runner");
        if output.status.success() {
            return;
        }
        if update {
            for name in &names {
                let result = output_directory.join("results").join(format!("{name}.out"));
                fs::copy(result, expected(name))
                    .unwrap_or_else(|error| panic!("no result of {name}: {error}"));
            }
            return;
        }
        let differences = fs::read_to_string(output_directory.join("regression.diffs"));
        panic!(
            "{kind:?}: {}\n{}{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            differences.unwrap_or_default()
        );
    }
}

/// The names of the files in `directory` with `extension`, without it, sorted.
fn stems(directory: &Path, extension: &str) -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()))
        .map(|entry| entry.expect("cannot read an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    stems.sort();
    stems
}
