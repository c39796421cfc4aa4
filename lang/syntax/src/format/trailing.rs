//! Comments behind code. On neighbouring lines they stand in one column, if they fit.

use super::MAX_COLUMNS;
use super::layout::{Line, width_of_last_line};

/// Writes the lines as text.
pub(super) fn write(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut first = 0;
    while first < lines.len() {
        let more = lines[first + 1..]
            .iter()
            .take_while(|line| line.comment.is_some() && !line.blank)
            .count();
        let end = if lines[first].comment.is_some() {
            first + 1 + more
        } else {
            first + 1
        };
        write_group(&lines[first..end], &mut out);
        first = end;
    }
    out
}

fn write_group(lines: &[Line], out: &mut String) {
    let column = column(lines);
    for line in lines {
        if line.blank {
            out.push('\n');
        }
        out.push_str(&line.code);
        if let Some((comment, _)) = &line.comment {
            let spaces = column.map_or(GAP, |column| column - width_of_last_line(&line.code));
            out.extend(std::iter::repeat_n(' ', spaces));
            out.push_str(comment);
        }
        out.push('\n');
    }
}

/// The minimum number of spaces between code and a comment.
const GAP: usize = 2;

/// Returns the column for the comments of neighbouring lines. This is the author's column if there is one,
/// otherwise the first that is free in all lines. Returns `None` if lines would become too long.
fn column(lines: &[Line]) -> Option<usize> {
    let free = lines
        .iter()
        .map(|line| width_of_last_line(&line.code))
        .max()
        .unwrap_or(0)
        + GAP;
    let mut authors = lines
        .iter()
        .filter_map(|line| line.comment.as_ref().map(|(_, column)| *column));
    let first = authors.next()?;
    let wanted = if first >= free && authors.all(|column| column == first) {
        first
    } else {
        free
    };
    [wanted, free].into_iter().find(|column| fits(lines, *column))
}

fn fits(lines: &[Line], column: usize) -> bool {
    let comments = lines.iter().filter_map(|line| line.comment.as_ref());
    comments
        .into_iter()
        .all(|(comment, _)| column + comment.chars().count() <= MAX_COLUMNS)
}
