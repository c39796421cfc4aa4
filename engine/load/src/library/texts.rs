//! The data of a library beside its code: the program's texts, as a section of the file.
//!
//! The section is read without loading the library, so that no code in it runs. Its content, with numbers as
//! little-endian `u32`:
//!
//! ```text
//! "hawser" 0 0   ABI   number of files   for each file: length of its path, of its text, path, text
//! ```
//!
//! The main file is the first.

use std::fmt::Write as _;

use hawser_emit_c::abi::ABI;
use hawser_ir::Module;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// The maximum number of bytes in one line of C.
const LINE: usize = 100;

/// The section's name.
const SECTION: &str = "hawser.texts";

/// The first bytes of the section.
const MAGIC: &[u8; 8] = b"hawser\0\0";

/// The maximum number of files of a program, which exceeds the compiler's own limit.
const MAX_FILES: u32 = 1 << 10;

/// A section could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextsError {
    /// The file is not a library for this kind of machine, or holds no program.
    Foreign,
    /// Another version of Hawser wrote the file.
    Stale,
}

/// Returns the C that exports the code as `hawser_library` and puts the texts into their section. It follows
/// the program's own C. `symbol` is the function that returns the program's table.
pub(super) fn exports(module: &Module, symbol: &str) -> String {
    format!(
        "
#line 1 \"hawser-library\"
/* What this library holds beside code: the program's texts, the main one first. */

__attribute__((section(\"{SECTION}\"), used)) static const char hawser_texts[] =
{};

typedef struct hw_library {{
    uint32_t abi;
    const hawser_program *(*program)(void);
}} hw_library;

__attribute__((visibility(\"default\"))) extern const hw_library hawser_library;
const hw_library hawser_library = {{HAWSER_ABI, {symbol}}};
",
        literal(&packed(&module.files))
    )
}

/// Returns the content of the section.
fn packed(files: &[(String, String)]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    out.extend(ABI.to_le_bytes());
    out.extend(number(files.len()));
    for (path, text) in files {
        for len in [path.len(), text.len()] {
            out.extend(number(len));
        }
        out.extend(path.as_bytes());
        out.extend(text.as_bytes());
    }
    out
}

/// Returns the path and text of each file in the bytes of a library; there is at least one. No code of the
/// file runs, and no length in it is trusted.
pub(super) fn texts_of(library: &[u8]) -> Result<Vec<(String, String)>, TextsError> {
    let file = ElfFile64::<object::Endianness>::parse(library).map_err(|_| TextsError::Foreign)?;
    let section = file.section_by_name(SECTION).ok_or(TextsError::Foreign)?;
    unpacked(section.data().map_err(|_| TextsError::Foreign)?)
}

fn unpacked(section: &[u8]) -> Result<Vec<(String, String)>, TextsError> {
    let rest = section.strip_prefix(MAGIC).ok_or(TextsError::Foreign)?;
    let (abi, rest) = number(rest).ok_or(TextsError::Foreign)?;
    if abi != ABI {
        return Err(TextsError::Stale);
    }
    files(rest).ok_or(TextsError::Foreign)
}

fn files(rest: &[u8]) -> Option<Vec<(String, String)>> {
    let (count, mut rest) = number(rest)?;
    if !(1..=MAX_FILES).contains(&count) {
        return None;
    }
    let mut out = Vec::new();
    for _ in 0..count {
        let (path_len, after) = number(rest)?;
        let (text_len, after) = number(after)?;
        let (path, after) = after.split_at_checked(path_len as usize)?;
        let (text, after) = after.split_at_checked(text_len as usize)?;
        out.push((
            String::from_utf8(path.to_vec()).ok()?,
            String::from_utf8(text.to_vec()).ok()?,
        ));
        rest = after;
    }
    Some(out)
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Returns the bytes as string literals of C, one for each line of text.
fn literal(bytes: &[u8]) -> String {
    let mut out = String::from("    \"");
    let mut line = 0;
    for &byte in bytes {
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
                // Escapes a question mark, because two of them begin a trigraph.
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
        assert_eq!(literal(b"a\"b\\c??/\n"), "    \"a\\\"b\\\\c\\?\\?/\\n\"");
        assert_eq!(literal("\u{e9}1".as_bytes()), "    \"\\303\\2511\"");
        assert_eq!(literal(b"one\ntwo"), "    \"one\\n\"\n    \"two\"");
        assert_eq!(literal(b""), "    \"\"");
        assert_eq!(literal("x".repeat(LINE + 1).as_bytes()).lines().count(), 2);
    }

    fn files() -> Vec<(String, String)> {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        vec![
            file("a.mtp", "import \"b.mtp\";\n"),
            file("b.mtp", ""),
            file("\u{e9}.mtp", "// \u{1F600}"),
        ]
    }

    #[test]
    fn packed_texts_are_unpacked_as_they_were() {
        assert_eq!(unpacked(&packed(&files())), Ok(files()));
    }

    /// Tries every prefix, and several changes of each byte. The result is an error or other texts, without a
    /// panic and without reading beyond the section.
    #[test]
    fn unpacking_damaged_sections_never_panics() {
        let whole = packed(&files());
        for len in 0..whole.len() {
            // The compiler may pad the section with zero bytes after the last text, but no byte may be
            // missing.
            assert!(unpacked(&whole[..len]).is_err(), "{len}");
        }
        for at in 0..whole.len() {
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                if let Ok(texts) = unpacked(&bytes) {
                    let held: usize = texts.iter().map(|(path, text)| path.len() + text.len()).sum();
                    assert!(held <= whole.len());
                }
            }
        }
        let mut stale = whole;
        stale[8] ^= 1;
        assert_eq!(unpacked(&stale), Err(TextsError::Stale));
    }

    /// Damages the ELF headers of a real file, which is this test's own executable.
    #[test]
    fn damaged_elf_files_are_refused() {
        let own = std::env::current_exe().and_then(std::fs::read).expect("it runs");
        assert_eq!(
            texts_of(&own),
            Err(TextsError::Foreign),
            "it is no library of ours"
        );
        let mut head = own[..4096.min(own.len())].to_vec();
        for at in 0..64 {
            for change in [1, 0x40, 0xff] {
                head[at] ^= change;
                assert_eq!(texts_of(&head), Err(TextsError::Foreign), "byte {at}");
                head[at] ^= change;
            }
        }
        assert_eq!(texts_of(b""), Err(TextsError::Foreign));
    }
}
