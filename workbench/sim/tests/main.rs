//! The tests of this crate through its public interface. They are one program, because each test program
//! links everything.

mod calls;
mod datagrams;
mod documents;
mod fabric;
mod falls;
mod found;
mod framed;
mod limits;
mod overhear;
mod pauses;
mod programs;
mod shares;
mod sharing;
mod streams;
mod super_segments;
mod switches;
mod works;

/// Returns an error without the column of its place; the tests of hawser-documents cover places.
fn by_line(error: &str) -> String {
    match error.split_once(", column ") {
        Some((line, rest)) => format!("{line}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => error.to_owned(),
    }
}
