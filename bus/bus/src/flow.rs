//! Flows: the objects of events, and the owners of the variables that are read and set.

use std::fmt;
use std::net::SocketAddr;

/// A source: one running instance of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A flow of a source: a connection, a session, a race. Its number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u64);

impl FlowId {
    /// Stands in the log for all flows of a source. No flow has this number.
    pub const ALL: FlowId = FlowId(u64::MAX);
}

/// A flow together with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceFlow {
    pub source: SourceId,
    /// The flow, among those of the source.
    pub flow: FlowId,
}

/// Prints `3:1f`: the source's number and, in hexadecimal, the flow's.
impl fmt::Display for SourceFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.source.0, self.flow.0)
    }
}

/// A text could not be parsed as the name of a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a flow: expected SOURCE:FLOW, for instance 3:1f")]
pub struct TargetError(pub String);

impl std::str::FromStr for SourceFlow {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<SourceFlow, TargetError> {
        let parts = text
            .split_once(':')
            .and_then(|(source, flow)| Some((source.parse().ok()?, u64::from_str_radix(flow, 16).ok()?)));
        let Some((source, flow)) = parts else {
            return Err(TargetError(text.to_owned()));
        };
        Ok(SourceFlow { source: SourceId(source), flow: FlowId(flow) })
    }
}

/// The description of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowInfo {
    /// The kind of flow within its provider: `conn`, `listener`, `path`.
    pub kind: String,
    /// The local address, if the flow has one.
    pub local: Option<SocketAddr>,
    /// The remote address, if the flow has one.
    pub remote: Option<SocketAddr>,
    /// Another name for people: an interface, a host's name.
    pub label: String,
    /// Further facts, by names of [`ATTRIBUTES`].
    pub attributes: Vec<(&'static str, String)>,
}

/// The attributes of a flow of another process, each present if it is known. They are the number of its
/// network namespace, the number of the interface that it is bound to, and the path of its control group. Of
/// its process they are the id and the command.
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
