//! Checks that the reference of a file's language names every key that its parser accepts.

/// Extracts the keys that a table may have from the parser's error about an unknown key.
pub(crate) fn keys_in(error: &str) -> Vec<String> {
    let known = error
        .split_once(": the keys are ")
        .or_else(|| error.split_once(": expected one of "));
    let (_, known) = known.unwrap_or_else(|| panic!("{error}"));
    let known = known.lines().next().unwrap_or_default();
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Checks that each key has a row in the tables of `text`.
pub(crate) fn assert_named(text: &str, table: &str, keys: &[String]) {
    assert!(keys.len() >= 2, "{table}: {keys:?}");
    for key in keys {
        let row = text.lines().any(|line| {
            line.starts_with('|')
                && line
                    .split('|')
                    .nth(1)
                    .is_some_and(|cell| cell.contains(&format!("`{key}`")))
        });
        assert!(row, "the reference has no row for `{key}` of {table}");
    }
}
