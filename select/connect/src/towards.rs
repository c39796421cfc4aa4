//! What a destination adds to a request for the policies.

use std::net::IpAddr;

use hawser_policy::words::{fact, key, number, text};
use hawser_policy::{Property, Request};

use super::Destination;

/// A request for a connection to this destination: what was learnt of it counts then.
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
        // A preference: rows do not name it.
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

/// Host and port as one text, by which candidates are told apart: the rows of interfaces name
/// `remote_ip` without a value, which would match any.
pub fn endpoint(host: &str, port: f64) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
