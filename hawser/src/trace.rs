//! What each event of a program did, with lines of its source.

use hawser_net::{Endpoint, Network};
pub use hawser_trace::{
    Connection, Event, Filter, Flows, Form, Packet, Print, Printed, Recorder, Sent, Show, Unsupported, Value,
};

/// Shows what each event on a network does from now on. Its times count from now.
///
/// # Errors
/// A construct of the program that the interpreter does not run yet.
pub fn observe(network: &Network, host: &str, show: Show) -> Result<(), Unsupported> {
    network.with_stack(|now, stack| Recorder::new(now, Filter::default(), show).observe(host, stack))
}

/// The same for an endpoint that is polled.
///
/// # Errors
/// A construct of the program that the interpreter does not run yet.
pub fn observe_endpoint(endpoint: &mut Endpoint, host: &str, show: Show) -> Result<(), Unsupported> {
    endpoint.with_stack(|now, stack| Recorder::new(now, Filter::default(), show).observe(host, stack))
}
