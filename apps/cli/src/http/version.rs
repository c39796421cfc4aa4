//! The version of a file, and conditional requests on it (RFC 9110, 13).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH, IF_RANGE};

/// The entity tag of a file: its modification time, to the nanosecond, and its length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) String);

impl Version {
    pub(super) fn from_metadata(file: &Metadata) -> Version {
        let (seconds, nanoseconds, bytes) = (file.mtime(), file.mtime_nsec(), file.len());
        Version(format!("\"{seconds:x}-{nanoseconds:x}-{bytes:x}\""))
    }

    /// Returns the status of a failed precondition (RFC 9110, 13.2.2). Conditions on dates are ignored,
    /// because answers carry no dates.
    pub(super) fn precondition(&self, headers: &HeaderMap) -> Option<StatusCode> {
        if headers.contains_key(IF_MATCH) && !self.is_in(headers, &IF_MATCH, str::to_owned) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        let weak = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
        let is_known = self.is_in(headers, &IF_NONE_MATCH, weak);
        is_known.then_some(StatusCode::NOT_MODIFIED)
    }

    /// Returns whether a range applies to the client's version (RFC 9110, 13.1.5). If not, the answer is the
    /// whole file.
    pub(super) fn has_range(&self, headers: &HeaderMap) -> bool {
        let tag = headers.get(IF_RANGE);
        tag.is_none_or(|tag| tag.as_bytes() == self.0.as_bytes())
    }

    /// Returns whether a list of tags contains this one, or is `*`.
    fn is_in(&self, headers: &HeaderMap, name: &HeaderName, plain: impl Fn(&str) -> String) -> bool {
        let lists = headers.get_all(name).iter();
        lists
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .any(|tag| tag.trim() == "*" || plain(tag.trim()) == self.0)
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    /// The comparisons of RFC 9110, 8.8.3.2: strong for `If-Match` and `If-Range`, weak for `If-None-Match`.
    #[test]
    fn preconditions_compare_versions_as_rfc_9110_requires() {
        let version = Version("\"1-2-3\"".to_owned());
        let status = |name, value| {
            let status = version.precondition(&headers(name, value));
            status.map(|status| status.as_u16())
        };
        for (value, matching, none_matching) in [
            ("*", None, Some(304)),
            ("\"1-2-3\"", None, Some(304)),
            ("\"x\", \"1-2-3\"", None, Some(304)),
            ("W/\"1-2-3\"", Some(412), Some(304)),
            ("\"x\"", Some(412), None),
        ] {
            assert_eq!(status(IF_MATCH, value), matching, "If-Match: {value}");
            assert_eq!(
                status(IF_NONE_MATCH, value),
                none_matching,
                "If-None-Match: {value}"
            );
        }
        for (value, is_range) in [
            ("\"1-2-3\"", true),
            ("W/\"1-2-3\"", false),
            ("\"x\"", false),
            ("Mon, 30 Nov 2026 00:00:00 GMT", false),
        ] {
            assert_eq!(
                version.has_range(&headers(IF_RANGE, value)),
                is_range,
                "If-Range: {value}"
            );
        }
        assert!(version.has_range(&HeaderMap::new()));
    }
}
