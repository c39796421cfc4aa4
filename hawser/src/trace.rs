//! Traces of a program's events, with lines of its source.

pub use hawser_inspect::trace::{
    Connection, EventCallback, Filter, Flows, OutputFormat, Packet, Print, Printed, Recorder, SentPacket,
    TraceValue, TracedEvent, Unsupported,
};
use hawser_sockets::{Endpoint, Network};

/// Shows the effect of each event on a network from now on. Its times count from now.
///
/// # Errors
/// When the program has a construct that the interpreter does not support yet.
pub fn observe(network: &Network, host: &str, show: EventCallback) -> Result<(), Unsupported> {
    network.with_stack(|now, stack| Recorder::new(now, Filter::default(), show).observe(host, stack))
}

/// Shows the effect of each event on an endpoint that is polled.
///
/// # Errors
/// When the program has a construct that the interpreter does not support yet.
pub fn observe_endpoint(endpoint: &mut Endpoint, host: &str, show: EventCallback) -> Result<(), Unsupported> {
    endpoint.with_stack(|now, stack| Recorder::new(now, Filter::default(), show).observe(host, stack))
}
