//! Comments behind code: those on neighbouring lines stand in one column, where they fit.

use super::MAX_COLUMNS;
use super::layout::Line;

/// The lines as text.
pub(super) fn write(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut first = 0;
    while first < lines.len() {
        let more = lines[first + 1..].iter().take_while(|line| line.comment.is_some() && !line.blank).count();
        let end = if lines[first].comment.is_some() { first + 1 + more } else { first + 1 };
        write_group(&lines[first..end], &mut out);
        first = end;
    }
    out
}

fn write_group(lines: &[Line], out: &mut String) {
    let width = |line: &Line| line.code.rsplit('\n').next().unwrap_or_default().chars().count();
    let column = lines.iter().map(width).max().unwrap_or(0) + 2;
    let fits = lines.iter().all(|line| {
        column + line.comment.as_ref().map_or(0, |comment| comment.chars().count()) <= MAX_COLUMNS
    });
    for line in lines {
        if line.blank {
            out.push('\n');
        }
        out.push_str(&line.code);
        if let Some(comment) = &line.comment {
            let spaces = if fits { column - width(line) } else { 2 };
            out.extend(std::iter::repeat_n(' ', spaces));
            out.push_str(comment);
        }
        out.push('\n');
    }
}
