//! Any text, and any byte of it: every query of an editor is answered without a panic, and every answer lies
//! within the text. The first two bytes choose the place.

pub(crate) fn fuzz(bytes: &[u8]) {
    if let [high, low, text @ ..] = bytes
        && let Ok(text) = std::str::from_utf8(text)
    {
        hawser_ide::hostile::ask(text, usize::from(u16::from_be_bytes([*high, *low])));
    }
}
