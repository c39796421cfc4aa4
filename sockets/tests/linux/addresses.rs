//! Checks that addresses are free before a stack uses them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hawser_sockets::{Endpoint, OpenError};

use crate::testbed::{TestResult, Testbed, hawser_v4, linux_v4};

/// Returns the address that was in use, and its owner.
fn refused(opened: TestResult<Endpoint>) -> TestResult<(IpAddr, &'static str)> {
    match opened.map(drop).map_err(|error| error.downcast::<OpenError>()) {
        Err(Ok(error)) => match *error {
            OpenError::InUse { address, owner } => Ok((address, owner)),
            error => Err(error.into()),
        },
        Err(Err(error)) => Err(error),
        Ok(()) => Err("it was taken twice".into()),
    }
}

/// Two stacks would both answer, and serve each call twice.
pub(crate) fn a_device_has_an_address_once(stage: &Testbed) -> TestResult {
    let first = stage.endpoint_of("homa", &[])?;
    let again = refused(stage.endpoint_of("homa", &[]))?;
    assert_eq!(again, (hawser_v4(), "another process on this device"));
    // The next stack waits for one that is about to end.
    let ending = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(first);
    });
    let next = stage.endpoint_of("homa", &[]);
    ending.join().map_err(|_| "the first stack")?;
    next.map(drop)
}

pub(crate) fn an_address_of_the_kernel_is_not_taken(stage: &Testbed) -> TestResult {
    let Some(refusal) = at_the_far_end(stage, linux_v4()) else {
        return Ok(());
    };
    assert_eq!(refusal?, (linux_v4(), "the kernel of this network namespace"));
    Ok(())
}

/// RFC 5227, 2.1.1: the stack at the other end of the link answers.
pub(crate) fn an_address_of_a_neighbour_is_not_taken(stage: &Testbed) -> TestResult {
    let mut first = stage.endpoint_of("homa", &[])?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let driving = thread::spawn(move || {
        while !stopped.load(Ordering::Acquire) {
            while first.poll().is_ok_and(|more| more) {}
            let _ = first.wait(Some(Duration::from_millis(5)));
        }
    });
    let refusal = at_the_far_end(stage, hawser_v4());
    stop.store(true, Ordering::Release);
    driving.join().map_err(|_| "the first stack")?;
    if let Some(refusal) = refusal {
        assert_eq!(refusal?, (hawser_v4(), "another host on this link"));
    }
    Ok(())
}

/// Returns the refusal of an address at the other end of the pair of devices; `None` on a TUN device.
fn at_the_far_end(stage: &Testbed, address: IpAddr) -> Option<TestResult<(IpAddr, &'static str)>> {
    match stage.at_the_far_end("homa", &[], address) {
        Ok(None) => None,
        Ok(Some(endpoint)) => Some(refused(Ok(endpoint))),
        Err(error) => Some(refused(Err(error))),
    }
}
