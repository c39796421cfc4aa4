//! Texts of RFCs: their sections, and the requirements in them.
//!
//! The texts stay outside the repository, in the folder that `HAWSER_RFCS` names: an RFC as published
//! (`rfc9293.txt`), or as the source in Markdown of the published text (`rfc9000.md`).
//!
//! Invariant: white space is folded in every text, so that a quotation compares equal however its lines break.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// The environment variable that names the folder of the texts.
pub(crate) const FOLDER: &str = "HAWSER_RFCS";

/// The words that state a requirement (RFC 2119). MAY states none.
const KEYWORDS: [&str; 5] = ["MUST", "SHALL", "SHOULD", "REQUIRED", "RECOMMENDED"];
/// The beginnings of the labels by which RFC 9293 numbers its requirements.
const LABELS: [&str; 3] = ["MUST-", "SHLD-", "REC-"];

/// The texts that are at hand, by name (`RFC9293`).
pub(crate) type Library = BTreeMap<String, Rfc>;

/// An RFC.
#[derive(Debug, Default)]
pub(crate) struct Rfc {
    pub(crate) sections: Vec<Section>,
    pub(crate) requirements: Vec<Requirement>,
}

/// A section, without the sections within it.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// The number (`3.10.7.4`, `A.2`).
    pub(crate) number: String,
    pub(crate) text: String,
}

/// A sentence with a keyword of RFC 2119. In an RFC that numbers its requirements, only those with a number count.
#[derive(Debug)]
pub(crate) struct Requirement {
    /// The number that the RFC gives the requirement (`MUST-58`), or that of the section and the sentence in it.
    pub(crate) name: String,
    pub(crate) section: String,
    pub(crate) sentence: String,
    /// The places of the label or the keyword: the section, and the bytes of its text.
    pub(crate) places: Vec<(String, Range<usize>)>,
}

impl Rfc {
    /// Reads a published text. Its headings stand at the beginning of a line, unlike those of its contents.
    pub(crate) fn from_text(text: &str) -> Rfc {
        let heading = |line: &str| {
            let (number, title) = line.split_once(".  ")?;
            let number = number.strip_prefix("Appendix ").unwrap_or(number);
            (is_section(number) && !title.is_empty()).then(|| number.to_owned())
        };
        Rfc::from_lines(text.lines().map(|line| (line, heading(line))))
    }

    /// Reads a source in Markdown, and numbers its sections as the published text does. The sections behind
    /// `--- back` are appendices.
    fn from_markdown(text: &str) -> Rfc {
        let mut counts: Vec<u32> = Vec::new();
        let (mut begun, mut back, mut fenced) = (false, false, false);
        let lines = text.lines().map(move |line| {
            begun |= line == "--- middle";
            if line == "--- back" {
                (back, counts) = (true, Vec::new());
            }
            fenced ^= line.starts_with("~~~") || line.starts_with("```");
            let depth = line.bytes().take_while(|byte| *byte == b'#').count();
            if !begun || fenced || depth == 0 || !line[depth..].starts_with(' ') {
                return (line, None);
            }
            counts.resize(depth, 0);
            counts[depth - 1] += 1;
            let number = |(at, count): (usize, &u32)| match char::from_u32(64 + count) {
                Some(letter) if back && at == 0 => letter.to_string(),
                _ => count.to_string(),
            };
            let numbers: Vec<String> = counts.iter().enumerate().map(number).collect();
            (line, Some(numbers.join(".")))
        });
        Rfc::from_lines(lines)
    }

    /// Makes an RFC of lines, each with the number of the section that it opens, if it opens one.
    fn from_lines<'a>(lines: impl Iterator<Item = (&'a str, Option<String>)>) -> Rfc {
        let mut rfc = Rfc::default();
        // Paragraphs of the section, folded, so that no sentence reaches over the end of one.
        let mut raw: Vec<(String, Vec<String>)> = Vec::new();
        for (line, opens) in lines {
            if let Some(number) = opens {
                raw.push((number, vec![String::new()]));
            } else if let Some((_, paragraphs)) = raw.last_mut() {
                match (line.trim().is_empty(), paragraphs.last_mut()) {
                    (false, Some(paragraph)) => *paragraph += &format!("{line}\n"),
                    _ => paragraphs.push(String::new()),
                }
            }
        }
        for (number, paragraphs) in raw {
            let paragraphs: Vec<String> = paragraphs.iter().map(|paragraph| fold(paragraph)).collect();
            let mut text = String::new();
            for paragraph in paragraphs.iter().filter(|paragraph| !paragraph.is_empty()) {
                for sentence in sentences(paragraph) {
                    rfc.add_sentence(&number, sentence, text.len());
                    text += sentence;
                }
                text.push(' ');
            }
            let text = text.trim_end().to_owned();
            rfc.sections.push(Section { number, text });
        }
        if rfc.requirements.iter().any(Requirement::is_numbered) {
            rfc.requirements.retain(Requirement::is_numbered);
        }
        rfc
    }

    /// Adds the requirements of a sentence that begins at byte `from` of its section.
    fn add_sentence(&mut self, section: &str, sentence: &str, from: usize) {
        let labels = labels_in(sentence, "(");
        for (name, at) in &labels {
            let place = (section.to_owned(), from + at.start..from + at.end);
            match self.requirements.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.places.push(place),
                None => self.requirements.push(Requirement {
                    name: (*name).to_owned(),
                    section: section.to_owned(),
                    sentence: sentence.trim().to_owned(),
                    places: vec![place],
                }),
            }
        }
        if !labels.is_empty() {
            return;
        }
        let Some(at) = keyword(sentence) else { return };
        let earlier = self.requirements.iter().filter(|known| known.section == section);
        let name = format!("{section} #{}", earlier.count() + 1);
        let places = vec![(section.to_owned(), from + at.start..from + at.end)];
        let sentence = sentence.trim().to_owned();
        self.requirements
            .push(Requirement { name, section: section.to_owned(), sentence, places });
    }

    /// Returns a section.
    pub(crate) fn section(&self, number: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.number == number)
    }
}

impl Requirement {
    /// Returns whether the RFC itself numbers the requirement.
    fn is_numbered(&self) -> bool {
        LABELS.iter().any(|label| self.name.starts_with(label))
    }
}

impl Section {
    /// Returns the bytes of a folded quotation in the section.
    pub(crate) fn find(&self, quotation: &str) -> Option<Range<usize>> {
        let at = self.text.find(quotation)?;
        Some(at..at + quotation.len())
    }
}

/// Reads the texts of the folder that the environment names. Returns `None` if it names none.
pub(crate) fn library() -> Result<Option<Library>, String> {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return Ok(None);
    };
    let folder = Path::new(&folder);
    let at_fault = |error: std::io::Error| format!("{FOLDER}: {}: {error}", folder.display());
    let mut library = Library::new();
    for entry in std::fs::read_dir(folder).map_err(at_fault)? {
        let name = entry.map_err(at_fault)?.file_name();
        let name = name.to_string_lossy();
        let read = match name.rsplit_once('.') {
            Some((_, "txt")) => Rfc::from_text,
            Some((_, "md")) => Rfc::from_markdown,
            _ => continue,
        };
        let Some(number) = name.strip_prefix("rfc").and_then(|rest| rest.split('.').next()) else {
            continue;
        };
        let text = std::fs::read_to_string(folder.join(&*name)).map_err(at_fault)?;
        library.insert(format!("RFC{number}"), read(&text));
    }
    Ok(Some(library))
}

/// Folds white space, and drops it behind a hyphen at which a line was broken. The bars beside quoted paragraphs and
/// between the cells of tables count as white space.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::new();
    for word in text.split_whitespace().filter(|word| *word != "|") {
        let mut end = folded.chars().rev();
        let broken = end.next() == Some('-') && end.next().is_some_and(char::is_alphanumeric);
        if !folded.is_empty() && !broken {
            folded.push(' ');
        }
        folded += word;
    }
    folded
}

/// Returns whether a word has the form of a section's number: `3.10.7.4`, `A.2`, `B`.
pub(crate) fn is_section(word: &str) -> bool {
    let mut parts = word.split('.');
    let first = parts.next().unwrap_or_default();
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let letter = first.len() == 1 && first.bytes().all(|byte| byte.is_ascii_uppercase());
    (number(first) || letter) && parts.all(number)
}

/// Returns the labels of requirements in a text that follow `before`, with their bytes.
pub(crate) fn labels_in<'a>(text: &'a str, before: &str) -> Vec<(&'a str, Range<usize>)> {
    let mut found: Vec<(&str, Range<usize>)> = Vec::new();
    for label in LABELS {
        for (at, _) in text.match_indices(label) {
            let digits = text[at + label.len()..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            let end = at + label.len() + digits;
            if digits > 0 && text[..at].ends_with(before) {
                found.push((&text[at..end], at..end));
            }
        }
    }
    found.sort_by_key(|(_, at)| at.start);
    found
}

/// Splits a paragraph behind each `.` that a capital follows. The parts have all bytes of the paragraph.
fn sentences(paragraph: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in paragraph.match_indices(". ") {
        let next = paragraph[at + 2..].chars().next();
        if next.is_some_and(|next| next.is_uppercase()) {
            parts.push(&paragraph[from..at + 2]);
            from = at + 2;
        }
    }
    parts.push(&paragraph[from..]);
    parts
}

/// Returns the bytes of the first keyword of a sentence. Keywords in quotation marks or code are explained, not used.
fn keyword(sentence: &str) -> Option<Range<usize>> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '"' | '-' | '_' | '`' | '*');
    let places = KEYWORDS.iter().flat_map(|keyword| {
        sentence
            .match_indices(keyword)
            .map(|(at, _)| at..at + keyword.len())
    });
    places
        .filter(|at| !sentence[..at.start].ends_with(word) && !sentence[at.end..].starts_with(word))
        .min_by_key(|at| at.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERED: &str = "\
1.  Terms\n\n   \"MUST\" is a word.  A sentence with MUST and no number.\n
3.10.  Events\n\n   A peer MUST be probed (MUST-\n   35).  It SHOULD (SHLD-2)\n   wait.  It may not.\n
Appendix A.  Notes\n\nA.2.  More\n\n   It MUST (MUST-35) be.\n   | MUST-9 |\n";

    #[test]
    fn requirements_with_numbers_are_found_once_with_all_their_places() {
        let rfc = Rfc::from_text(NUMBERED);
        let numbers: Vec<&str> = rfc.sections.iter().map(|section| &*section.number).collect();
        assert_eq!(numbers, ["1", "3.10", "A", "A.2"]);
        let names: Vec<&str> = rfc.requirements.iter().map(|found| &*found.name).collect();
        assert_eq!(names, ["MUST-35", "SHLD-2"]);
        assert_eq!(rfc.requirements[0].sentence, "A peer MUST be probed (MUST-35).");
        assert_eq!(rfc.requirements[0].places.len(), 2);
        for (section, at) in rfc.requirements.iter().flat_map(|found| &found.places) {
            let text = &rfc.section(section).expect("known").text;
            assert!(
                labels_in(&text[at.clone()], "").len() == 1,
                "{}",
                &text[at.clone()]
            );
        }
    }

    #[test]
    fn sections_of_markdown_are_numbered_as_in_the_published_text() {
        let text = "---\ntitle: \"x\"\n---\n# Not this\n--- middle\n# One\nThe word \"MUST\".\n## Two {#two}\n\
                    A MUST do. B SHOULD NOT.\n~~~\n# code\n~~~\n# Three\n--- back\n# Four\n## Five\n";
        let rfc = Rfc::from_markdown(text);
        let numbers: Vec<&str> = rfc.sections.iter().map(|section| &*section.number).collect();
        assert_eq!(numbers, ["1", "1.1", "2", "A", "A.1"]);
        let names: Vec<&str> = rfc.requirements.iter().map(|found| &*found.name).collect();
        assert_eq!(names, ["1.1 #1", "1.1 #2"]);
    }

    #[test]
    fn words_broken_at_a_hyphen_are_joined() {
        assert_eq!(fold("two-\n  faced,  a - b"), "two-faced, a - b");
    }
}
