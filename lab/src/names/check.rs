//! Checks of the names in a file: their hosts exist, and their records fit into an answer.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::rr::{Name, RData};

use crate::plan::LabPlan;
use crate::spec::{Spec, SpecError, known_host};

use super::service;
use super::zone::{fits, parse_name};

/// Checks the names of a lab.
pub(crate) fn check(spec: &Spec, plan: &LabPlan) -> Result<(), SpecError> {
    let mut names = BTreeSet::new();
    for (i, name) in spec.names.iter().enumerate() {
        let at = |key: &str| format!("dns[{i}].{key}");
        let Some(read) = parse_name(&name.name).filter(|read| !read.is_root()) else {
            let error = SpecError::new(at("name"), format!("`{}` cannot be a name", name.name));
            return Err(error.with_hint("labels of 1 to 63 characters with dots between them"));
        };
        if !names.insert(read.clone()) {
            let message = format!("`{}` is already defined", name.name);
            return Err(SpecError::new(at("name"), message));
        }
        let mut addresses = Vec::new();
        for (j, address) in name.addresses.iter().enumerate() {
            match address.parse::<IpAddr>() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    let host = known_host(spec, address, at(&format!("addresses[{j}]")))?;
                    addresses.extend(&plan.hosts[host].known_by);
                }
            }
        }
        let (ipv4, ipv6) = addresses.into_iter().partition::<Vec<IpAddr>, _>(IpAddr::is_ipv4);
        if [ipv4, ipv6]
            .into_iter()
            .any(|all| !fits(&read, all.into_iter().map(RData::from).collect()))
        {
            let message = "the addresses do not fit into an answer of 512 bytes";
            return Err(SpecError::new(at("addresses"), message));
        }
        check_services(spec, plan, i, &read)?;
    }
    Ok(())
}

fn check_services(spec: &Spec, plan: &LabPlan, number: usize, read: &Name) -> Result<(), SpecError> {
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
        let Some(data) = service::record(service, plan) else {
            let error = SpecError::new(at(i, "target"), "no record can hold this target or protocol");
            return Err(error.with_hint("labels of at most 63 bytes, protocols of 1 to 255"));
        };
        all.push(data);
    }
    match fits(read, all) {
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
