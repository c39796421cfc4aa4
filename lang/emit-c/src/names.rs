//! Identifiers: the program's own names, wherever C permits them.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Words that may not be used as names: C's own, and those that generated code and the runtime use.
const RESERVED: &[&str] = &[
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "asm",
    "typeof",
    "bool",
    "true",
    "false",
    "size_t",
    "ptrdiff_t",
    "wchar_t",
    "offsetof",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "linux",
    "unix",
    "i386",
    "near",
    "far",
    "run",
    "result",
    "main",
];

/// The names that are taken in one scope of C.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeNames {
    taken: HashSet<String>,
    /// By name: the number last appended to it, so that a free variant of a frequent name is found at once.
    numbers: HashMap<String, u32>,
}

impl ScopeNames {
    /// Creates a scope in which these names are taken.
    pub(crate) fn without(taken: &[&str]) -> ScopeNames {
        ScopeNames {
            taken: taken.iter().map(ToString::to_string).collect(),
            numbers: HashMap::new(),
        }
    }

    /// Takes a name that is free in this scope, as close to the wanted one as C permits.
    pub(crate) fn take(&mut self, wanted: &str) -> String {
        let base = identifier(wanted);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let number = self.numbers.entry(base.clone()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{base}_{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Returns a name as an identifier that has no meaning in C, the runtime or generated code.
pub(crate) fn identifier(wanted: &str) -> String {
    let mut name: String = wanted
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let ours = [
        "hw_", "HW_", "mtp_", "hawser", "pad_", "UINT", "INT", "SIZE_MAX", "NULL", "__",
    ];
    if !starts_well || ours.iter().any(|prefix| name.starts_with(prefix)) {
        name.insert_str(0, "x_");
    }
    if RESERVED.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// Formats a text as a C string literal. All characters except printable ASCII are escaped. The question mark
/// is escaped too, because two of them begin a trigraph: `??/` is a backslash in C11.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | b'?' => {
                out.push('\\');
                out.push(byte.into());
            }
            b' '..=b'~' => out.push(byte.into()),
            // Three digits, so that a following digit is not read as part of the escape.
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

/// Returns a text in a form that is safe in a C comment: printable ASCII without comment marks and trigraphs.
/// Backslashes, which could join the next line, are replaced.
pub(crate) fn comment(text: &str) -> String {
    let printable = |c: char| {
        if matches!(c, ' '..='~') && c != '\\' {
            c
        } else {
            '_'
        }
    };
    let text: String = text
        .chars()
        .map(|c| if c == '\n' || c == '\r' { ' ' } else { printable(c) })
        .collect();
    text.replace("*/", "* /")
        .replace("/*", "/ *")
        .replace("??", "? ?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_kept_unless_c_forbids_them() {
        for (wanted, name) in [
            ("snd_una", "snd_una"),
            ("int", "int_"),
            ("coalesce TCPBP", "coalesce_TCPBP"),
            ("hw_run", "x_hw_run"),
            ("_x", "x__x"),
            ("2nd", "x_2nd"),
        ] {
            assert_eq!(identifier(wanted), name);
        }
    }

    #[test]
    fn each_taken_name_is_unique() {
        let mut names = ScopeNames::default();
        assert_eq!(
            ["x", "x", "x_2", "x"].map(|n| names.take(n)),
            ["x", "x_2", "x_2_2", "x_3"]
        );
    }

    #[test]
    fn texts_cannot_leave_their_quotes() {
        assert_eq!(literal("a\"b\\c\nd"), r#""a\"b\\c\012d""#);
        assert_eq!(literal("a??/"), r#""a\?\?/""#);
        assert_eq!(
            literal("\r\0\u{e9}1\u{202e}"),
            r#""\015\000\303\2511\342\200\256""#
        );
        assert_eq!(comment("a */ b"), "a * / b");
        assert_eq!(comment("a??/\nb\\\u{202e}"), "a? ?/ b__");
    }
}
