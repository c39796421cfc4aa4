//! The hosts at an end of a flow: one, or several.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The maximum number of hosts in a range.
const RANGE_MAX: u64 = 1000;

/// The largest number of a host in a range.
const NUMBER_MAX: u64 = u32::MAX as u64;

/// One host by its name, or a list or a range of hosts. A flow is opened from each of them, or to each of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSelector(Vec<String>);

impl HostSelector {
    /// Returns the names, at least one.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Returns the first name.
    #[must_use]
    pub fn first(&self) -> &String {
        &self.0[0]
    }

    /// Creates a list of hosts, or returns `None` if it is empty.
    #[must_use]
    pub fn several(names: Vec<String>) -> Option<HostSelector> {
        (!names.is_empty()).then_some(HostSelector(names))
    }
}

/// Expands a name with a range into the names that it stands for, both ends included: `h[0-2]` is `h0`, `h1`,
/// `h2`. Other names stand for themselves.
fn expand(name: &str) -> Result<Vec<String>, String> {
    let Some((prefix, range)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else {
        return Ok(vec![name.to_owned()]);
    };
    let bounds = range.split_once('-').and_then(|(first, last)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond 64 bits exceeds every limit.
        let number = |text: &str| is_number(text).then(|| text.parse::<u64>().unwrap_or(u64::MAX));
        Some((number(first)?, number(last)?))
    });
    let Some((first, last)) = bounds.filter(|(first, last)| first <= last) else {
        return Err(format!(
            "`{name}` is not a range of hosts: write a range like h[0-15]"
        ));
    };
    if last - first >= RANGE_MAX || last > NUMBER_MAX {
        return Err(format!(
            "`{name}` is more than the limit: a range has at most {RANGE_MAX} hosts, of numbers up to {NUMBER_MAX}"
        ));
    }
    Ok((first..=last).map(|number| format!("{prefix}{number}")).collect())
}

impl From<&str> for HostSelector {
    fn from(name: &str) -> HostSelector {
        HostSelector(vec![name.to_owned()])
    }
}

impl From<String> for HostSelector {
    fn from(name: String) -> HostSelector {
        HostSelector(vec![name])
    }
}

/// Compares with a single host.
impl PartialEq<str> for HostSelector {
    fn eq(&self, name: &str) -> bool {
        self.0 == [name]
    }
}

impl PartialEq<&str> for HostSelector {
    fn eq(&self, name: &&str) -> bool {
        self.0 == [*name]
    }
}

impl fmt::Display for HostSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Serialize for HostSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [name] => serializer.serialize_str(name),
            names => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for HostSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostSelector, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = HostSelector;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a host, or a list of names")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<HostSelector, E> {
                expand(name).map(HostSelector).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<HostSelector, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = names.next_element::<String>()? {
                    all.extend(expand(&name).map_err(de::Error::custom)?);
                }
                HostSelector::several(all).ok_or_else(|| de::Error::custom("the list contains no host"))
            }
        }

        deserializer.deserialize_any(Names)
    }
}
