//! The fenced blocks of a page of the documentation.

/// A fenced block of a page.
pub(crate) struct Block {
    /// The line of its opening fence, counted from 1.
    pub(crate) line: usize,
    /// The info string after the fence.
    pub(crate) info: String,
    pub(crate) text: String,
}

/// Returns the fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (Some(block), Some(_)) => blocks.push(block),
            (None, Some(info)) => {
                open = Some(Block { line: index + 1, info: info.trim().to_owned(), text: String::new() });
            }
            (Some(mut block), None) => {
                block.text += line;
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn blocks_are_found_with_their_marks() {
    let found = blocks("x\n```mtp file=a.mtp\none\n```\n```\ntwo\n```\n");
    let found: Vec<_> = found
        .iter()
        .map(|b| (b.line, b.info.as_str(), b.text.as_str()))
        .collect();
    assert_eq!(found, [(2, "mtp file=a.mtp", "one\n"), (5, "", "two\n")]);
}
