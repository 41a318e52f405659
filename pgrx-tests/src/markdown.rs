//! What the documents print.

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
