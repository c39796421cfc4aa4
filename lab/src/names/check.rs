//! Checks of the names in a file: their hosts exist, and their records fit into an answer.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::plan::Plan;
use crate::spec::{Spec, SpecError, known_host};

use super::service;
use super::zone::{addresses_fit, services_fit};

/// Checks the names of a lab.
pub(crate) fn check(spec: &Spec, plan: &Plan) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for (i, name) in spec.names.iter().enumerate() {
        let at = |key: &str| format!("dns[{i}].{key}");
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.is_ascii();
        let text = name.name.trim_end_matches('.');
        if text.len() > 253 || !text.split('.').all(is_label) {
            let error = SpecError::new(at("name"), format!("`{}` cannot be a name", name.name));
            return Err(error.with_hint("labels of 1 to 63 characters with dots between them"));
        }
        if !names.insert(text.to_ascii_lowercase()) {
            return Err(SpecError::new(at("name"), format!("`{text}` is already defined")));
        }
        let mut counts = [0, 0];
        for (j, address) in name.addresses.iter().enumerate() {
            let found = match address.parse::<IpAddr>() {
                Ok(address) => vec![address],
                Err(_) => {
                    let host = known_host(spec, address, at(&format!("addresses[{j}]")))?;
                    plan.hosts[host].known_by.clone()
                }
            };
            found
                .iter()
                .for_each(|address| counts[usize::from(address.is_ipv6())] += 1);
        }
        if !addresses_fit(text, counts[0], 4) || !addresses_fit(text, counts[1], 16) {
            let message = "the addresses do not fit into an answer of 512 bytes";
            return Err(SpecError::new(at("addresses"), message));
        }
        check_services(spec, plan, i)?;
    }
    Ok(())
}

fn check_services(spec: &Spec, plan: &Plan, number: usize) -> Result<(), SpecError> {
    let name = &spec.names[number];
    let at = |i: usize, key: &str| format!("dns[{number}].services[{i}].{key}");
    let mut all = Vec::new();
    for (i, service) in name.services.iter().enumerate() {
        for (j, hint) in service.hints.iter().enumerate() {
            if hint.parse::<IpAddr>().is_err() {
                known_host(spec, hint, at(i, &format!("hints[{j}]")))?;
            }
        }
        if service.mandatory.is_some_and(|key| key <= service::IPV6_HINT) {
            let message = "a number of 6 or below; the record has other keys for these parameters";
            return Err(SpecError::new(at(i, "mandatory"), message));
        }
        let Some(data) = service::data(service, plan) else {
            let error = SpecError::new(at(i, "target"), "no record can hold this target or protocol");
            return Err(error.with_hint("labels of at most 63 bytes, protocols of 1 to 255"));
        };
        all.push(data);
    }
    match services_fit(&name.name, &all) {
        true => Ok(()),
        false => {
            let path = format!("dns[{number}].services");
            Err(SpecError::new(
                path,
                "the services do not fit into an answer of 512 bytes",
            ))
        }
    }
}
