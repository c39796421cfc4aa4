//! The texts in a library that `hawser build` made, parsed from its ELF section. Any bytes are rejected, or
//! contain the texts that are read from them.
//!
//! The first byte selects the form of the rest: a whole file, the section of a valid file, the bytes after
//! that section's header, or changes to a valid file.

use hawser_emit_c::abi::ABI;
use hawser_load::texts_in_library;

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    let file = match what % 4 {
        0 => data.to_vec(),
        1 => elf(data),
        2 => elf(&[&head()[..], data].concat()),
        _ => changed(data),
    };
    let Some(texts) = texts_in_library(&file) else {
        return;
    };
    assert!(!texts.is_empty());
    let held: usize = texts.iter().map(|(path, text)| path.len() + text.len()).sum();
    assert!(held <= file.len(), "{held} bytes of a file of {}", file.len());
}

/// Returns the first bytes of a valid section.
fn head() -> Vec<u8> {
    [&b"hawser\0\0"[..], &ABI.to_le_bytes()].concat()
}

/// Returns a valid file with some bytes overwritten. Each three bytes of input are an offset and a new value.
fn changed(data: &[u8]) -> Vec<u8> {
    let mut section = head();
    // The number of files, then the lengths of the path and the text.
    [1u32, 5, 3]
        .iter()
        .for_each(|number| section.extend(number.to_le_bytes()));
    section.extend(b"a.mtp// \n");
    let mut file = elf(&section);
    assert!(texts_in_library(&file).is_some(), "it was right before");
    for change in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len();
        file[at] = change[2];
    }
    file
}

/// Returns a file with this section: ELF header, section headers (null, names, texts), names, texts.
fn elf(texts: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.shstrtab\0hawser.texts\0";
    const HEADER: u64 = 64;
    const SECTION: u64 = 64;
    let names_at = HEADER + 3 * SECTION;
    let texts_at = names_at + NAMES.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A shared object for x86-64.
    [3u16, 62]
        .iter()
        .for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    // Entry, program headers, section headers.
    [0, 0, HEADER]
        .iter()
        .for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    // Sizes and numbers of headers; the section with the names.
    [64u16, 0, 0, 64, 3, 1]
        .iter()
        .for_each(|number| file.extend(number.to_le_bytes()));
    for (name, kind, at, len) in [
        (0u32, 0u32, 0, 0),
        (1, 3, names_at, NAMES.len() as u64),
        (11, 1, texts_at, texts.len() as u64),
    ] {
        [name, kind]
            .iter()
            .for_each(|number| file.extend(number.to_le_bytes()));
        [0u64, 0, at, len]
            .iter()
            .for_each(|number| file.extend(number.to_le_bytes()));
        [0u32, 0]
            .iter()
            .for_each(|number| file.extend(number.to_le_bytes()));
        [1u64, 0]
            .iter()
            .for_each(|number| file.extend(number.to_le_bytes()));
    }
    [&file[..], NAMES, texts].concat()
}
