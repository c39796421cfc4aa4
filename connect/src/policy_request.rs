//! Adds a destination to a request for the policies.

use std::net::IpAddr;

use hawser_policy::property_names::{fact, key, number, text};
use hawser_policy::{Property, Request};

use super::Destination;

/// Restricts a request to a connection to this destination, so that knowledge about the destination applies.
pub fn towards(request: &Request, destination: &Destination) -> Request {
    let port = destination.port();
    let (whom, host) = match destination.host().parse::<IpAddr>() {
        Ok(address) => ("remote_ip", address.to_canonical().to_string()),
        Err(_) => ("remote_name", destination.host().to_owned()),
    };
    let endpoint = endpoint(&host, f64::from(port));
    let known = [
        (key(whom), fact(text(&host))),
        (key("port"), fact(number(port))),
        // The property is a preference, because rows do not have it.
        (key("remote_endpoint"), Property::new(text(endpoint))),
    ];
    let all = request.alternatives().iter().map(|alternative| {
        let mut alternative = alternative.clone();
        known
            .iter()
            .for_each(|(key, property)| alternative.set(*key, property.clone()));
        alternative
    });
    Request::any_of(all.collect())
}

/// Returns host and port as one text, by which candidates are distinguished. The rows of interfaces have
/// `remote_ip` without a value, which would match any host.
pub fn endpoint(host: &str, port: f64) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
