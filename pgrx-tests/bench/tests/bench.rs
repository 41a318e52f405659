//! `make bench` works: a short run measures everything, and what it writes is complete.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The page has every section with numbers in it, every target is judged, and every picture is
/// drawn and linked. The page is the same when it is written again from the samples.
#[test]
fn a_quick_run_is_complete() {
    let output = std::env::temp_dir().join(format!("hilo-bench-{}", std::process::id()));
    let bench = |again: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        let run =
            command.env("QUICK", "1").env("AGAIN", again).env("BENCH_OUTPUT", &output).output();
        let run = run.expect("the benchmark starts");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{errors}");
        fs::read_to_string(output.join("docs/benchmarks.md")).expect("the page is written")
    };
    let page = bench("");
    for wrong in ["not measured", "NaN", "inf", "| ? |"] {
        assert!(!page.contains(wrong), "{wrong:?} stands in\n{page}");
    }
    let empty = |line: &&str| {
        line.starts_with('|') && line.trim_matches('|').split('|').skip(1).all(|cell| cell == " – ")
    };
    let empty: Vec<&str> = page.lines().filter(empty).collect();
    assert!(empty.is_empty(), "rows without a number: {empty:#?}");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(sections.len() >= 14, "{page}");
    for section in sections {
        assert!(section.contains("| ---: |"), "no table in {section}");
    }
    assert_eq!(page, bench("1"), "written again it differs");
    let readme = fs::read_to_string(output.join("README.md")).expect("the README is written");
    assert!(readme.contains("| hilo, ordered |"), "{readme}");
    for (text, folder) in [(&page, output.join("docs")), (&readme, output.clone())] {
        let pictures = links(text);
        assert!(pictures.len() >= 2, "no pictures");
        for picture in pictures {
            let drawn = fs::read_to_string(Path::new(&folder).join(picture)).expect("it is drawn");
            assert!(drawn.contains("<rect") || drawn.contains("<polyline"), "{picture} is empty");
        }
    }
    fs::remove_dir_all(&output).expect("it can be removed");
}

/// The charts that a page shows.
fn links(page: &str) -> Vec<&str> {
    let image = |line: &'_ str| -> Option<std::ops::Range<usize>> {
        let start = line.strip_prefix("![")?.find("](")? + 4;
        Some(start..line.len() - 1)
    };
    let shown = page.lines().filter_map(|line| image(line).map(|range| &line[range]));
    shown.filter(|picture| picture.ends_with(".svg")).collect()
}
