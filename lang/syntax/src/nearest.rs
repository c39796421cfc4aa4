//! "Did you mean": the known word nearest to one that is not known.

/// The candidate nearest to `word` by edit distance (Damerau's, with neighbours swapped as one
/// step), if it is near enough to be a slip: one step for up to four letters, otherwise a third
/// of the length. Words longer than 64 bytes have no neighbours.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_LENGTH {
        return None;
    }
    let limit = if word.len() <= 4 { 1 } else { word.len() / 3 };
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word && candidate.len() <= MAX_LENGTH)
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= limit)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

const MAX_LENGTH: usize = 64;

/// Optimal string alignment over bytes, letter case ignored.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_far() {
        let words = ["event", "enum", "extern", "deploy"];
        assert_eq!(nearest("evnet", words), Some("event"));
        assert_eq!(nearest("evnt", words), Some("event"));
        assert_eq!(nearest("Event", words), Some("event"));
        assert_eq!(nearest("dep", words), None);
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("", words), None);
    }
}
