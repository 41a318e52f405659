//! Some functions are replaced in this library: `src/error_path.rs` says why.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The linker of macOS cannot replace them, and macOS does not refuse memory.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("macos") {
        for function in ["CopyErrorData", "errstart", "abort"] {
            println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={function}");
        }
    }
}
