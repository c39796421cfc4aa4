//! An entry point for a fuzzer to the code that reads documents from outside. It has no other use.

use crate::document::{self, Format, property_json};
use crate::{Cib, NameTable, Options, Pib, rank};

/// Reads bytes as documents. The first byte selects the format. The rest is policies, nodes and a request
/// with a line of `%` between them. Readable documents are ranked, with and without reasons, and each result
/// is read as a request again.
///
/// # Panics
/// An invariant does not hold.
pub fn documents(data: &[u8]) {
    let [how, data @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let format = if how & 1 == 0 { Format::Json } else { Format::Toml };
    let mut parts = text.splitn(3, "\n%\n");
    let mut part = || parts.next().unwrap_or("{}");
    let mut names = NameTable::default();
    let (mut pib, mut cib) = (Pib::default(), Cib::default());
    match document::policies(part(), format, "p", None, &mut names) {
        Ok(read) => read.value.into_iter().for_each(|policy| drop(pib.insert(policy))),
        Err(diagnostics) => assert!((1..=crate::limits::DIAGNOSTICS).contains(&diagnostics.len())),
    }
    if let Ok(read) = document::nodes(part(), format, "n", &mut names) {
        read.value
            .into_iter()
            .for_each(|node| drop(cib.insert(node, 0.0)));
    }
    let Ok(request) = document::request(part(), format, &mut names) else {
        return;
    };
    let Ok(rows) = cib.rows(f64::from(*how)) else {
        return;
    };
    let reported = Options { explain: true, ..Options::default() };
    let plain = rank(&request.value, &pib, &rows, &names, &Options::default());
    let reported = rank(&request.value, &pib, &rows, &names, &reported);
    let (Ok(plain), Ok(reported)) = (&plain, &reported) else {
        assert_eq!(plain.err(), reported.err(), "reasons change nothing");
        return;
    };
    assert!(plain.candidates.len() <= Options::default().candidates);
    assert_eq!(plain.candidates.len(), reported.candidates.len());
    for (one, other) in plain.candidates.iter().zip(&reported.candidates) {
        assert_eq!(one.properties, other.properties, "reasons change nothing");
        let written = one
            .properties
            .iter()
            .map(|(key, property)| (names.text(key).to_owned(), property_json(property)));
        let written = serde_json::Value::Object(written.collect()).to_string();
        // A name that the reader does not know may look like a misspelling of a socket option's name, whose
        // number is known.
        if let Ok(again) = document::request(&written, Format::Json, &mut names) {
            assert_eq!(again.value.alternatives()[0], one.properties, "{written}");
        }
    }
}
