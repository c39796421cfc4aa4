//! Flows: what events are about, and whose variables are read and set.

use std::fmt;
use std::net::SocketAddr;

/// A source: one running instance of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A flow of a source: a connection, a session, a race. Never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u64);

impl FlowId {
    /// In the log: what concerns all of a source's flows. No flow is called so.
    pub const ALL: FlowId = FlowId(u64::MAX);
}

/// A flow of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Whose it is.
    pub source: SourceId,
    /// The flow, among those of the source.
    pub flow: FlowId,
}

/// `3:1f`: the source's number and, in hexadecimal, the flow's.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.source.0, self.flow.0)
    }
}

/// A text that names no flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no flow: expected SOURCE:FLOW, for instance 3:1f")]
pub struct TargetError(pub String);

impl std::str::FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let parts = text
            .split_once(':')
            .and_then(|(source, flow)| Some((source.parse().ok()?, u64::from_str_radix(flow, 16).ok()?)));
        let Some((source, flow)) = parts else {
            return Err(TargetError(text.to_owned()));
        };
        Ok(Target { source: SourceId(source), flow: FlowId(flow) })
    }
}

/// What is known of a flow beside its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowInfo {
    /// What it is among its provider's: `conn`, `listener`, `path`.
    pub kind: String,
    /// This end, where it has one.
    pub local: Option<SocketAddr>,
    /// The other end, where it has one.
    pub remote: Option<SocketAddr>,
    /// What else a person knows it by: an interface, a host's name.
    pub label: String,
    /// What else is known of it, by names of [`ATTRIBUTES`].
    pub attributes: Vec<(&'static str, String)>,
}

/// Facts of a flow of another process, each if it is known: the number of its network namespace, the number of the interface
/// that it is bound to, the number and the command of the process, the path of its control group.
pub const ATTRIBUTES: [&str; 5] = ["namespace", "interface", "pid", "command", "cgroup"];

impl fmt::Display for FlowInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        match (self.local, self.remote) {
            (Some(local), Some(remote)) => write!(f, " {local} > {remote}")?,
            (Some(local), None) => write!(f, " {local}")?,
            (None, Some(remote)) => write!(f, " > {remote}")?,
            (None, None) => {}
        }
        if self.label.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.label)
        }
    }
}
