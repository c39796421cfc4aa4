//! Patterns over names: `tcp.acked`, `tcp.*`, `*.path.?ost`.

use std::fmt;

/// A name, or a pattern over names: `*` matches any characters, dots included, `?` matches one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Makes a pattern from its text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Pattern {
        Pattern(text.into())
    }

    /// Returns whether the pattern has no wildcards and so matches one name alone.
    #[must_use]
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Returns the text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern matches a name. Takes at most as many steps as the product of both
    /// lengths.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        // The position of the last star, and the end of the characters that it currently matches.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == b'?' || *c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => {
                    let Some((at, reach)) = star else { return false };
                    star = Some((at, reach + 1));
                    p = at + 1;
                    n = reach + 1;
                }
            }
        }
        pattern[p..].iter().all(|c| *c == b'*')
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Pattern {
        Pattern::new(text)
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Pattern {
        Pattern(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, want) in [
            ("tcp.acked", "tcp.acked", true),
            ("tcp.acked", "tcp.ack", false),
            ("tcp.*", "tcp.acked", true),
            ("tcp.*", "tcp.", true),
            ("tcp.*", "kernel.tcp.acked", false),
            ("*.acked", "kernel.tcp.acked", true),
            ("*ack*ed", "tcp.ackacked", true),
            ("tcp.?cked", "tcp.acked", true),
            ("tcp.?cked", "tcp.cked", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a**b", "ab", true),
            ("a*b*c", "axbxbxd", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_with_many_stars_matches_quickly() {
        let name = "a".repeat(2000);
        assert!(!Pattern::new("*a".repeat(200) + "b").matches(&name));
    }
}
