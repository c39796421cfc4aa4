//! Makes a failing program smaller: leaves out statements, blocks, processors and declarations as
//! long as the program checks and the sides still differ.

/// The most programs that are tried.
const TRIES: usize = 400;

/// The smallest text found; `fails` tells whether a text checks and the sides differ on it.
pub fn shrink(text: &str, fails: &mut dyn FnMut(&str) -> bool) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut tries = TRIES;
    loop {
        let before = lines.len();
        let mut at = lines.len();
        while at > 0 && tries > 0 {
            at -= 1;
            let end = piece(&lines, at);
            let Some(end) = end else { continue };
            let shorter: Vec<String> = [&lines[..at], &lines[end..]].concat();
            tries -= 1;
            if fails(&joined(&shorter)) {
                lines = shorter;
                at = at.min(lines.len());
            }
        }
        if lines.len() == before || tries == 0 {
            return joined(&lines);
        }
    }
}

/// Where the piece that begins at a line ends: the line alone, or its block, with any `else`.
fn piece(lines: &[String], at: usize) -> Option<usize> {
    if lines[at].trim_start().starts_with('}') {
        return None;
    }
    let mut depth = 0i64;
    for (i, line) in lines.iter().enumerate().skip(at) {
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
        let goes_on = lines.get(i + 1).is_some_and(|next| next.trim_start().starts_with("else"));
        if depth <= 0 && !goes_on {
            return (depth == 0).then_some(i + 1);
        }
    }
    None
}

fn joined(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_goes() {
        let text = "a\nif (x) {\n    needed\n    other\n}\nelse {\n    b\n}\nlast\n";
        let shrunk = shrink(text, &mut |text| text.contains("needed"));
        assert_eq!(shrunk, "if (x) {\n    needed\n}\nelse {\n}\n");
    }
}
