//! Positions as editors count them: lines from 0, and UTF-16 code units within a line.

/// The lines of a text.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    /// The offset of each line's first byte.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a text. A line ends with `\n`, `\r\n` or `\r`.
    #[must_use]
    pub fn new(text: &'a str) -> Lines<'a> {
        let bytes = text.as_bytes();
        let ends =
            |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let starts = std::iter::once(0)
            .chain((0..bytes.len()).filter(ends).map(|at| at + 1))
            .collect();
        Lines { text, starts }
    }

    /// Returns the byte at a position. A position outside of the text or of its line is moved to the end.
    #[must_use]
    pub fn byte(&self, line: u32, unit: u32) -> usize {
        let Some(start) = self.starts.get(line as usize).copied() else {
            return self.text.len();
        };
        let next = self.starts.get(line as usize + 1).copied();
        let line = &self.text[start..next.unwrap_or(self.text.len())];
        let line = line.trim_end_matches(['\r', '\n']);
        let mut units = 0;
        for (at, character) in line.char_indices() {
            if units >= unit {
                return start + at;
            }
            units += character.len_utf16() as u32;
        }
        start + line.len()
    }

    /// Returns the line and the unit of a byte. A byte within a character counts as the character's first.
    #[must_use]
    pub fn position(&self, byte: usize) -> (u32, u32) {
        let byte = byte.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= byte) - 1;
        let before = self.text[self.starts[line]..]
            .char_indices()
            .take_while(|(at, character)| self.starts[line] + at + character.len_utf8() <= byte);
        let units: usize = before.map(|(_, character)| character.len_utf16()).sum();
        (line as u32, units as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn positions_count_utf_16_units() {
        // `é` has one UTF-16 unit and two bytes, `𝄞` two units and four bytes.
        let lines = Lines::new("é𝄞x\r\nb");
        assert_eq!(lines.byte(0, 1), 2);
        assert_eq!(lines.byte(0, 3), 6);
        assert_eq!(lines.position(6), (0, 3));
        assert_eq!(lines.byte(1, 1), 10);
        assert_eq!(lines.position(9), (1, 0));
    }

    #[test]
    fn positions_outside_the_text_are_clamped() {
        let lines = Lines::new("ab\ncd");
        assert_eq!(lines.byte(0, 99), 2);
        assert_eq!(lines.byte(9, 0), 5);
        assert_eq!(lines.position(99), (1, 2));
        assert_eq!(Lines::new("").position(0), (0, 0));
    }

    #[test]
    fn a_byte_within_a_character_maps_to_its_start() {
        assert_eq!(Lines::new("a𝄞b").position(3), (0, 1));
        assert_eq!(Lines::new("a𝄞b").byte(0, 2), 5);
    }
}
