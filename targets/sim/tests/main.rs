//! The tests of this crate as its users see it, in one program: each links everything.

mod both;
mod calls;
mod datagrams;
mod delivery;
mod documents;
mod fabric;
mod falls;
mod found;
mod framed;
mod limits;
mod overhear;
mod pauses;
mod planted;
mod programs;
mod shares;
mod sharing;
mod streams;
mod super_segments;
mod switches;
mod works;

/// An error without the column of its place: hawser-documents tests places.
fn by_line(error: &str) -> String {
    match error.split_once(", column ") {
        Some((line, rest)) => format!("{line}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => error.to_owned(),
    }
}
