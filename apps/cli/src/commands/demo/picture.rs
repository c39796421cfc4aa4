//! Draws figures over time as rows of block characters, in steps of an eighth of the maximum.

use std::time::Duration;

const MARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a row of marks, the highest of which stands for `max`.
pub(super) fn marks(values: &[f64], max: f64) -> String {
    let mark = |value: &f64| MARKS[(value / max * 8.0).round().clamp(0.0, 8.0) as usize];
    if max > 0.0 {
        values.iter().map(mark).collect()
    } else {
        " ".repeat(values.len())
    }
}

/// Draws a scale in seconds for rows that begin after `indent` columns.
pub(super) fn axis(count: usize, mark: Duration, indent: usize) -> String {
    let per_second = (1.0 / mark.as_secs_f64()).round() as usize;
    let seconds: String = (0..=count / per_second)
        .map(|second| format!("{second:<per_second$}"))
        .collect();
    format!("{:indent$}{}s", "", seconds.trim_end())
}

/// Prints named rows, each with its own scale, whose maximum stands at the end of the row.
pub(super) fn rows(rows: &[(&str, Vec<f64>, &str)], mark: Duration) {
    const INDENT: usize = 12;
    println!();
    for (name, values, unit) in rows {
        let max = values.iter().copied().fold(0.0, f64::max);
        println!("{name:INDENT$}{} up to {max:.0} {unit}", marks(values, max));
    }
    let count = rows.iter().map(|(_, values, _)| values.len()).max().unwrap_or(0);
    println!("{}", axis(count, mark, INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_uses_a_block_per_eighth_of_its_maximum() {
        assert_eq!(marks(&[0.0, 1.0, 4.0, 8.0, 9.0], 8.0), " ▁▄██");
        assert_eq!(marks(&[0.0], 0.0), " ");
        assert_eq!(axis(16, Duration::from_millis(125), 2), "  0       1       2s");
    }
}
