//! Comments behind code. Those of a block stand in one column, if they fit. A block is a run of lines with the
//! same indentation and without blank lines.

use super::MAX_COLUMNS;
use super::layout::{Line, width_of_last_line};

/// The minimum number of spaces between code and a comment.
const GAP: usize = 2;

/// Writes the lines as text.
pub(super) fn write(lines: &[Line]) -> String {
    let mut out = String::new();
    for block in lines.chunk_by(|before, line| !line.blank && before.indent == line.indent) {
        let column = column(block);
        for line in block {
            if line.blank {
                out.push('\n');
            }
            out.push_str(&line.code);
            if let Some(comment) = &line.comment {
                let spaces = column.saturating_sub(width_of_last_line(&line.code)).max(GAP);
                out.extend(std::iter::repeat_n(' ', spaces));
                out.push_str(comment);
            }
            out.push('\n');
        }
    }
    out
}

/// Returns the column for the comments of a block. It is behind the widest line for which no comment in front
/// of it would end beyond [`MAX_COLUMNS`]; comments of wider lines stand directly behind their code.
fn column(block: &[Line]) -> usize {
    let commented = block
        .iter()
        .filter_map(|line| Some((width_of_last_line(&line.code), line.comment.as_ref()?)));
    let mut sizes: Vec<(usize, usize)> = commented
        .map(|(width, comment)| (width, comment.chars().count()))
        .collect();
    sizes.sort_unstable();
    let mut longest = 0;
    let columns = sizes.into_iter().map_while(|(width, comment)| {
        longest = longest.max(comment);
        (width + GAP + longest <= MAX_COLUMNS).then_some(width + GAP)
    });
    columns.last().unwrap_or(0)
}
