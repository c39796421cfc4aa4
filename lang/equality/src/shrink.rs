//! Makes a failing program smaller. It removes declarations, processors, blocks and statements as long as the
//! program checks and the sides still differ.

/// The maximum number of programs that are tried.
const TRIES: usize = 2000;

/// Returns the smallest text found. `fails` returns true if a text checks and the sides differ on it. Large
/// pieces are tried first.
pub fn shrink(text: &str, fails: &mut dyn FnMut(&str) -> bool) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut tries = TRIES;
    for min_lines in [20, 5, 1, 1] {
        let mut at = lines.len();
        while at > 0 && tries > 0 {
            at -= 1;
            let Some(end) = lines.get(at).and_then(|_| piece(&lines, at)) else {
                continue;
            };
            if end - at < min_lines {
                continue;
            }
            for shorter in without(&lines, at, end) {
                tries -= 1;
                if fails(&joined(&shorter)) {
                    lines = shorter;
                    break;
                }
                if tries == 0 {
                    break;
                }
            }
        }
    }
    joined(&lines)
}

/// Returns the lines without a piece: without it alone, and, for a function, also without its names in a
/// table of chains or in `deploy`.
fn without(lines: &[String], at: usize, end: usize) -> Vec<Vec<String>> {
    let alone = [&lines[..at], &lines[end..]].concat();
    let head = lines[at].split('(').next().unwrap_or_default();
    let name = head.rsplit(' ').next().unwrap_or_default();
    if lines[at].starts_with(' ') || !lines[at].contains(") {") || name.is_empty() {
        return vec![alone];
    }
    let named = |line: &String| {
        let (first, middle) = (format!("{{{name}, "), format!(", {name}, "));
        let (last, only) = (format!(", {name}}}"), format!("{{{name}}}"));
        line.replace(&only, "{}")
            .replace(&first, "{")
            .replace(&middle, ", ")
            .replace(&last, "}")
    };
    let registration = format!("register_ev_parser({name},");
    let unnamed = alone
        .iter()
        .filter(|line| !line.contains(&registration))
        .map(named)
        .collect();
    vec![unnamed]
}

/// Returns the end of the piece that begins at a line: the line alone, or its block with any `else`.
fn piece(lines: &[String], at: usize) -> Option<usize> {
    if lines[at].trim_start().starts_with('}') {
        return None;
    }
    let mut depth = 0i64;
    for (i, line) in lines.iter().enumerate().skip(at) {
        depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
        let goes_on = lines
            .get(i + 1)
            .is_some_and(|next| next.trim_start().starts_with("else"));
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
    fn lines_that_are_not_needed_are_removed() {
        let text = "a\nif (x) {\n    needed\n    other\n}\nelse {\n    b\n}\nlast\n";
        let shrunk = shrink(text, &mut |text| text.contains("needed"));
        assert_eq!(shrunk, "if (x) {\n    needed\n}\n");
    }

    #[test]
    fn shrinking_removes_a_processor_with_its_references() {
        let text = "void p(e ev) {\n    x;\n}\nd {\n    e -> {p, q};\n    f -> {q, p};\n}\n";
        let shrunk = shrink(text, &mut |text| text.contains("e -> ") && text.contains("f -> "));
        assert_eq!(shrunk, "d {\n    e -> {q};\n    f -> {q};\n}\n");
    }
}
