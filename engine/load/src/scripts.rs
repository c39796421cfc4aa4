//! Reads what programs declare for behaviour scripts (docs/scripts.md).

/// Returns the `script.toml` of a program that comes with Hawser, if it has one.
#[must_use]
pub fn script_table(name: &str) -> Option<&'static str> {
    match name {
        "tcp" => Some(include_str!("../../../transports/tcp/script.toml")),
        _ => None,
    }
}

/// Returns the file that lists a built-in program's departures from the expectations of scripts written
/// elsewhere.
#[must_use]
pub fn departures(name: &str) -> Option<&'static str> {
    match name {
        "tcp" => Some(include_str!("../../../transports/tcp/scripts/departures.toml")),
        _ => None,
    }
}
