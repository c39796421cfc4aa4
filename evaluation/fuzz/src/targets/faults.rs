//! Any text as a document of TOML and of JSON, parsed into several types. It is parsed, or rejected with a
//! fault whose place lies within the text.

use std::collections::BTreeMap;

use hawser_documents::Fault;

/// These types together contain every form of a value.
type Numbers = BTreeMap<String, Vec<u16>>;
type Tuples = BTreeMap<String, (i8, Option<bool>, [f64; 2])>;
type Texts = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(hawser_documents::json_bytes::<Numbers>(data).is_err());
        return;
    };
    let faults = [
        hawser_documents::toml::<Numbers>(text).err(),
        hawser_documents::toml::<Tuples>(text).err(),
        hawser_documents::toml::<Texts>(text).err(),
        hawser_documents::json::<Numbers>(text).err(),
        hawser_documents::json::<Tuples>(text).err(),
        hawser_documents::json::<Texts>(text).err(),
    ];
    faults.into_iter().flatten().for_each(|fault| check(&fault, text));
}

fn check(fault: &Fault, text: &str) {
    assert!(!fault.message.is_empty());
    if let Some(place) = fault.place {
        let lines = text.matches('\n').count() + 1;
        assert!((1..=lines).contains(&place.line), "{fault}");
        assert!((1..=text.len() + 1).contains(&place.column), "{fault}");
    }
}
