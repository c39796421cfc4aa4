//! What a library holds beside code: the program's texts, written as C.

use std::fmt::Write as _;

use hawser_ir::Module;

/// The most bytes that stand in one line of C.
const LINE: usize = 100;

/// What is exported, as `super::open` reads it.
const TYPES: &str = "
#line 1 \"hawser-library\"
/* What this library holds beside code: the program's texts, the main one first. */

typedef struct hw_text {
    const char *path;
    uint64_t path_len;
    const char *text;
    uint64_t text_len;
} hw_text;

typedef struct hw_library {
    uint32_t abi;
    uint32_t texts;
    const hw_text *text;
    const hawser_program *(*program)(void);
} hw_library;

";

/// The C that exports texts and code as `hawser_library`; it stands behind the program's own.
/// `symbol` is the function that gives the program's table.
pub(super) fn exports(module: &Module, symbol: &str) -> String {
    let mut out = String::from(TYPES);
    for (i, (path, text)) in module.files.iter().enumerate() {
        let _ = write!(out, "static const char hawser_path_{i}[] =\n{};\n", literal(path));
        let _ = write!(out, "static const char hawser_text_{i}[] =\n{};\n", literal(text));
    }
    out.push_str("static const hw_text hawser_texts[] = {\n");
    for (i, (path, text)) in module.files.iter().enumerate() {
        let (path, text) = (path.len(), text.len());
        let _ = writeln!(out, "    {{hawser_path_{i}, {path}, hawser_text_{i}, {text}}},");
    }
    let _ = write!(
        out,
        "}};\n\n__attribute__((visibility(\"default\"))) extern const hw_library hawser_library;\n\
         const hw_library hawser_library = {{HAWSER_ABI, {}, hawser_texts, {symbol}}};\n",
        module.files.len()
    );
    out
}

/// A text as string literals of C, one per line of it.
fn literal(text: &str) -> String {
    let mut out = String::from("    \"");
    let mut line = 0;
    for byte in text.bytes() {
        if line >= LINE {
            out.push_str("\"\n    \"");
            line = 0;
        }
        line += 1;
        match byte {
            b'\n' => {
                out.push_str("\\n");
                line = LINE;
            }
            b'"' | b'\\' | b'?' => {
                // A question mark, because two of them begin a trigraph.
                out.push('\\');
                out.push(byte.into());
            }
            b' '..=b'~' => out.push(byte.into()),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_literals_of_c() {
        assert_eq!(literal("a\"b\\c??/\n"), "    \"a\\\"b\\\\c\\?\\?/\\n\"");
        assert_eq!(literal("\u{e9}1"), "    \"\\303\\2511\"");
        assert_eq!(literal("one\ntwo"), "    \"one\\n\"\n    \"two\"");
        assert_eq!(literal(""), "    \"\"");
        assert_eq!(literal(&"x".repeat(LINE + 1)).lines().count(), 2);
    }
}
