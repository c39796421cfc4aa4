//! "Did you mean": the known word nearest to an unknown one.

/// Returns the candidate nearest to `word` by edit distance (Damerau's, in which swapping two neighbours is
/// one step). It must be near enough to be a typing mistake: one step for up to four letters, otherwise a
/// third of the length. Words longer than 64 bytes have no neighbours.
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
        .filter_map(|candidate| Some((distance(word, candidate, limit)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

const MAX_LENGTH: usize = 64;

/// Returns the optimal string alignment distance over bytes, ignoring letter case, or `None` if it exceeds
/// the limit.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = |i: usize, j: usize| a[i].eq_ignore_ascii_case(&b[j]);
    let mut before_last = [0; MAX_LENGTH + 1];
    let mut last: [usize; MAX_LENGTH + 1] = std::array::from_fn(|j| j);
    let mut row = [0; MAX_LENGTH + 1];
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(!same(i - 1, j - 1));
            row[j] = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1) {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        // If two rows exceed the limit everywhere, all later rows do, too.
        if last[..=b.len()]
            .iter()
            .chain(&row[..=b.len()])
            .all(|distance| *distance > limit)
        {
            return None;
        }
        (before_last, last) = (last, row);
    }
    Some(last[b.len()]).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_and_rejects_distant_words() {
        let words = ["event", "enum", "extern", "deploy"];
        assert_eq!(nearest("evnet", words), Some("event"));
        assert_eq!(nearest("evnt", words), Some("event"));
        assert_eq!(nearest("Event", words), Some("event"));
        assert_eq!(nearest("dep", words), None);
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("", words), None);
    }
}
