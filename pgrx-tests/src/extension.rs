//! The extension's objects, and versions of it that tests make up.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use postgres::Client;

use crate::client::ClientExt;
use crate::server::SERVER;

/// One line for each property of each object of the extension in this database.
pub fn objects(client: &mut Client) -> BTreeSet<String> {
    client.all::<String>(include_str!("extension.sql")).into_iter().collect()
}

/// Fails the test, with the properties that only one of them has, unless both are equal.
#[track_caller]
pub fn assert_equal_objects(expected: &BTreeSet<String>, found: &BTreeSet<String>) {
    let lacks = expected.difference(found).map(|line| format!("- {line}\n"));
    let has = found.difference(expected).map(|line| format!("+ {line}\n"));
    let difference: String = lacks.chain(has).collect();
    assert!(difference.is_empty(), "- is missing, + is too much:\n{difference}");
    assert!(expected.len() > 100, "only {} properties were compared", expected.len());
}

/// Whether hilo_lite is tested in hilo's place: HILO_SERVER is lite.
pub(crate) fn is_lite() -> bool {
    std::env::var_os("HILO_SERVER").is_some_and(|server| server == "lite")
}

/// Creates what is tested in a schema of this database.
pub(crate) fn create_extension(client: &mut Client, schema: &str) {
    match is_lite() {
        true => create_lite(client, schema),
        false => client.run(&format!("CREATE EXTENSION hilo SCHEMA {schema}")),
    }
}

/// Creates hilo_lite, and what only tests need of it. The server must be a copy.
pub fn create_lite(client: &mut Client, schema: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lite");
    for file in ["hilo_lite.control", "hilo_lite--1.0.0.sql"] {
        let text = fs::read_to_string(folder.join(file)).expect("hilo_lite");
        install_script(file, &text);
    }
    client.run(&format!("CREATE EXTENSION hilo_lite SCHEMA {schema}"));
    client.run(&format!("SET search_path = {schema}"));
    client.run(include_str!("lite.sql"));
    client.run("RESET search_path");
}

/// The version under test.
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// A version whose objects are those of the version under test, which [`install_older`] installs.
pub const OLDER: &str = "0.9.0";

/// Makes `CREATE EXTENSION hilo VERSION '0.9.0'` create the objects of an older version, which
/// `ALTER EXTENSION hilo UPDATE` updates. The server must be a copy.
pub fn install_older() {
    let scripts = SERVER.share_directory().join("extension");
    let script = fs::read_to_string(scripts.join(format!("hilo--{CURRENT}.sql")));
    let script = script.expect("the extension's script");
    install_script(&format!("hilo--{OLDER}.sql"), &script);
    // As any update does, it makes a function of the library.
    let from = script.find("CREATE FUNCTION @extschema@.hilo_lastval(").expect("a C function");
    let function = script[from..].split_inclusive(';').next().unwrap_or_default();
    let update = function.replacen("CREATE", "CREATE OR REPLACE", 1);
    install_script(&format!("hilo--{OLDER}--{CURRENT}.sql"), &update);
}

/// Puts a script into the test server's directory of extension scripts. The server must be a copy.
pub fn install_script(name: &str, sql: &str) {
    install(&SERVER.share_directory().join("extension"), name, sql.as_bytes());
}

/// Puts a copy of hilo's library into the test server's directory of libraries, in which `text` stands in the place of what
/// begins with `mark`. The server must be a copy.
pub fn install_library(name: &str, mark: &str, text: &str) {
    let directory = SERVER.library_directory();
    let mut library = fs::read(directory.join("hilo.so")).expect("cannot read the library");
    let at = library.windows(mark.len()).position(|bytes| bytes == mark.as_bytes());
    let at = at.expect("the library has the mark") + mark.len();
    library[at..at + text.len()].copy_from_slice(text.as_bytes());
    install(&directory, name, &library);
}

fn install(directory: &Path, name: &str, contents: &[u8]) {
    let place = directory.join(name);
    fs::create_dir_all(place.parent().expect("a directory")).expect("cannot make the directory");
    // Other tests may be reading it, or writing the same.
    let written = place.with_extension(fastrand::u64(..).to_string());
    fs::write(&written, contents).expect("cannot write into the server's directory");
    fs::rename(&written, place).expect("cannot put the file into its place");
}
