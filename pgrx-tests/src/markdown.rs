//! The code that the documents print, and the targets of their links.

use std::collections::BTreeSet;

/// The blocks of one kind in a document, in order.
pub fn blocks(text: &str, kind: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    let mut other = false;
    for line in text.lines() {
        let mark = line.trim_start().strip_prefix("```");
        match (mark, &mut block) {
            (Some(_), Some(_)) => blocks.extend(block.take()),
            (Some(_), None) if other => other = false,
            (Some(found), None) if found.trim() == kind => block = Some(String::new()),
            (Some(_), None) => other = true,
            (None, Some(block)) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(block.is_none(), "a block does not end");
    blocks
}

/// The targets of a document's links and images, as they are written, in order.
pub fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    targets.filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// The names under which links reach the headings of a document.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        // The second heading of the same words is reached by another name.
        let names = (1..).map(|count| format!("{name}-{count}"));
        let unused = [name.clone()].into_iter().chain(names).find(|name| !anchors.contains(name));
        anchors.extend(unused);
    }
    anchors
}

/// The lines that are in no block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut block = false;
    text.lines().filter(move |line| {
        let mark = line.trim_start().starts_with("```");
        block ^= mark;
        !block && !mark
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page: its `code`\n[x](a.md#b) and ![y](c.svg)\n```sh\n# no [heading](z)\n```\n\
                        ## See below\n## See below\n";

    #[test]
    fn links_and_headings_are_those_of_the_prose() {
        assert_eq!(links(PAGE), ["a.md#b", "c.svg"]);
        let expected = ["a-page-its-code", "see-below", "see-below-1"].map(str::to_owned);
        assert_eq!(anchors(PAGE), BTreeSet::from(expected));
    }
}
