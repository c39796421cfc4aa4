//! Reads what programs declare for behaviour scripts (docs/scripts.md).

/// The `script.toml` of a program that comes with Hawser; nothing where it has none.
#[must_use]
pub fn script_table(name: &str) -> Option<&'static str> {
    match name {
        "tcp" => Some(include_str!("../../../transports/tcp/script.toml")),
        _ => None,
    }
}

/// Where a program that comes with Hawser departs from what scripts written elsewhere expect.
#[must_use]
pub fn departures(name: &str) -> Option<&'static str> {
    match name {
        "tcp" => Some(include_str!("../../../transports/tcp/scripts/departures.toml")),
        _ => None,
    }
}
