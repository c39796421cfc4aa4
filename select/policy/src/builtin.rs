//! Built-in profiles and policies.
//!
//! The profiles define the meaning of abstract properties. A policy for each transport states its
//! characteristics as immutable, so that a demand that it cannot fulfil rejects it. They are policies rather
//! than rows of the CIB, because a row has to state every immutable property of a request in advance. They
//! are ordinary documents, in `select/policy/shipped/`. The values of `transport` are `TCP`, `TLS/TCP`,
//! `MPTCP`, `TLS/MPTCP`, `QUIC`, `SCTP/UDP`, `mtp-tcp`, `mtp-quic-lite`, `session`; `reliable` means any of
//! them that fits.

use crate::document::{self, Diagnostic, Format};
use crate::limits::Limit;
use crate::names::NameTable;
use crate::pib::{Pib, PolicyStage};

/// Every document: its name, its kind, and its text (TOML).
pub const DOCUMENTS: &[(&str, PolicyStage, &str)] = &[
    (
        "defaults",
        PolicyStage::Profile,
        include_str!("../shipped/defaults.profile.toml"),
    ),
    (
        "low_latency",
        PolicyStage::Profile,
        include_str!("../shipped/low_latency.profile.toml"),
    ),
    (
        "reliable",
        PolicyStage::Profile,
        include_str!("../shipped/reliable.profile.toml"),
    ),
    (
        "tcp",
        PolicyStage::Policy,
        include_str!("../shipped/tcp.policy.toml"),
    ),
    (
        "tls_tcp",
        PolicyStage::Policy,
        include_str!("../shipped/tls_tcp.policy.toml"),
    ),
    (
        "mptcp",
        PolicyStage::Policy,
        include_str!("../shipped/mptcp.policy.toml"),
    ),
    (
        "mptcp_plain",
        PolicyStage::Policy,
        include_str!("../shipped/mptcp_plain.policy.toml"),
    ),
    (
        "tls_mptcp",
        PolicyStage::Policy,
        include_str!("../shipped/tls_mptcp.policy.toml"),
    ),
    (
        "quic",
        PolicyStage::Policy,
        include_str!("../shipped/quic.policy.toml"),
    ),
    (
        "sctp_udp",
        PolicyStage::Policy,
        include_str!("../shipped/sctp_udp.policy.toml"),
    ),
    (
        "program",
        PolicyStage::Policy,
        include_str!("../shipped/program.policy.toml"),
    ),
    (
        "session",
        PolicyStage::Policy,
        include_str!("../shipped/session.policy.toml"),
    ),
    (
        "metered",
        PolicyStage::Policy,
        include_str!("../shipped/metered.policy.toml"),
    ),
];

/// The built-in documents could not be read. This happens only if `names` are full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShippedError {
    /// A document is invalid.
    #[error("{0}: {1}")]
    Document(&'static str, Diagnostic),
    /// A limit was exceeded.
    #[error(transparent)]
    Limit(#[from] Limit),
}

/// Returns the PIB of the built-in documents.
///
/// # Errors
/// There is no room for its names.
pub fn pib(names: &mut NameTable) -> Result<Pib, ShippedError> {
    let mut pib = Pib::default();
    for (name, kind, text) in DOCUMENTS {
        let read = document::policies(text, Format::Toml, name, Some(*kind), names);
        let read = read.map_err(|diagnostics| {
            let unsaid = Diagnostic {
                path: String::new(),
                message: "the document is wrong".into(),
                hint: None,
            };
            ShippedError::Document(name, diagnostics.into_iter().next().unwrap_or(unsaid))
        })?;
        for policy in read.value {
            pib.insert(policy)?;
        }
    }
    Ok(pib)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::keys;
    use crate::rank::{Options, Ranking, rank};
    use crate::{Rows, Scalar, Value};

    fn ranked(request: &str) -> (Ranking, NameTable) {
        let mut names = NameTable::default();
        let pib = pib(&mut names).expect("what is shipped is right");
        let request = document::request(request, Format::Json, &mut names)
            .expect("a request")
            .value;
        (
            rank(&request, &pib, &Rows::default(), &names, &Options::default()).expect("few"),
            names,
        )
    }

    fn transports(request: &str) -> Vec<String> {
        let (ranking, _) = ranked(request);
        let transport = |candidate: &crate::Candidate| match candidate.properties.find(keys::TRANSPORT) {
            Some(crate::Property { value: Value::One(Scalar::Text(text)), .. }) => text.to_string(),
            other => panic!("{other:?}"),
        };
        ranking.candidates.iter().map(transport).collect()
    }

    #[test]
    fn shipped_documents_parse_without_warnings() {
        let mut names = NameTable::default();
        for (name, kind, text) in DOCUMENTS {
            let read = document::policies(text, Format::Toml, name, Some(*kind), &mut names);
            let read = read.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics:?}"));
            assert_eq!(read.warnings, [], "{name}");
            assert!(read.value.iter().all(|policy| &*policy.uid == *name), "{name}");
        }
    }

    #[test]
    fn an_empty_request_matches_every_transport() {
        let all = [
            "session",
            "QUIC",
            "TLS/MPTCP",
            "TLS/TCP",
            "SCTP/UDP",
            "MPTCP",
            "TCP",
            "mtp-tcp",
            "mtp-quic-lite",
        ];
        assert_eq!(transports("{}"), all);
    }

    #[test]
    fn requirements_keep_only_transports_that_meet_them() {
        let rows = [
            (
                r#"{ "security": { "value": true, "precedence": 2 } }"#,
                &["session", "QUIC", "TLS/MPTCP", "TLS/TCP"][..],
            ),
            (
                r#"{ "multihoming": { "value": true, "precedence": 2 } }"#,
                &["session", "TLS/MPTCP", "SCTP/UDP", "MPTCP"],
            ),
            (
                r#"{ "multistreaming": { "value": true, "precedence": 2 }, "security": { "value": true, "precedence": 2 } }"#,
                &["session", "QUIC"],
            ),
            (
                r#"{ "transport_type": { "value": "message", "precedence": 2 } }"#,
                &["SCTP/UDP"],
            ),
            (
                r#"{ "seamless_handover": { "value": true, "precedence": 2 }, "transport": { "value": "TCP", "precedence": 2 } }"#,
                &[],
            ),
        ];
        for (request, expected) in rows {
            assert_eq!(transports(request), expected, "{request}");
        }
    }

    /// A preference takes precedence over the order of transports, and candidates that do not fulfil it come
    /// last.
    #[test]
    fn a_preference_moves_transports_up() {
        let transports = transports(
            r#"{ "multihoming": { "value": true, "score": 1 }, "security": { "value": false, "score": 1 } }"#,
        );
        assert_eq!(transports[..2], ["SCTP/UDP", "MPTCP"]);
        assert_eq!(transports.len(), 9);
    }
}
