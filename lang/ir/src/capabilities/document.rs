//! The offer of a target, from its file in `targets/`.

use serde::Deserialize;

use crate::capabilities::offer::Offer;

/// The targets by name, with their files.
const TARGETS: [(&str, &str); 4] = [
    // A port of DPDK is just another wire: the stack above it is the same as on the host's devices.
    ("dpdk", include_str!("../../targets/host.toml")),
    ("host", include_str!("../../targets/host.toml")),
    ("sim", include_str!("../../targets/sim.toml")),
    ("xdp", include_str!("../../targets/xdp.toml")),
];

/// The offer of a target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// The offer to a program: the abilities of its stack, regardless of where chains run.
    pub stack: Offer,
    /// The offer to chains that run in the kernel while the stack's thread sleeps; `None` if the stack's
    /// thread runs all chains.
    pub kernel: Option<Offer>,
}

/// Capabilities could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilitiesError {
    /// No target has this name.
    #[error("unknown target `{name}`: the targets are {}", Capabilities::targets().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The text does not describe capabilities.
    #[error("invalid capabilities: {0}")]
    Text(#[from] hawser_documents::Fault),
}

impl Capabilities {
    /// Returns the names of all targets.
    pub fn targets() -> impl Iterator<Item = &'static str> {
        TARGETS.iter().map(|(name, _)| *name)
    }

    /// Returns the capabilities of a target.
    ///
    /// # Errors
    /// Returns [`CapabilitiesError::Unknown`] if no target has this name.
    pub fn for_target(target: &str) -> Result<Capabilities, CapabilitiesError> {
        let found = TARGETS.iter().find(|(name, _)| *name == target);
        let (_, text) = found.ok_or_else(|| CapabilitiesError::Unknown { name: target.to_owned() })?;
        Capabilities::read(text)
    }

    /// Reads capabilities from a TOML text.
    ///
    /// # Errors
    /// Returns [`CapabilitiesError::Text`] if the text is not valid TOML, or contains a name that no
    /// instruction, source, queue or limit has.
    pub fn read(text: &str) -> Result<Capabilities, CapabilitiesError> {
        Ok(hawser_documents::toml(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_declares_its_capabilities() {
        for target in Capabilities::targets() {
            let read = Capabilities::for_target(target);
            assert!(read.is_ok(), "{target}: {read:?}");
        }
        let error = Capabilities::for_target("tofino").expect_err("there is none");
        assert_eq!(
            error.to_string(),
            "unknown target `tofino`: the targets are dpdk, host, sim, xdp"
        );
    }

    #[test]
    fn an_unknown_instruction_or_limit_is_refused() {
        let text = |instruction: &str, limit: &str| {
            format!(
                "[stack]\nsources = []\ninstructions = [\"{instruction}\"]\nexterns = []\nqueues = []\n\
                 payload = true\ncrc = true\n[stack.limits]\n{limit} = 1\n"
            )
        };
        assert!(Capabilities::read(&text("pkt_gen", "steps")).is_ok());
        for (instruction, limit) in [("pkt_generate", "steps"), ("pkt_gen", "stpes")] {
            let read = Capabilities::read(&text(instruction, limit));
            assert!(matches!(read, Err(CapabilitiesError::Text(_))), "{read:?}");
        }
    }
}
