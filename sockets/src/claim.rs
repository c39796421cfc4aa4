//! Checks that addresses are free before a stack uses them. No other process on this device, no kernel and no
//! other host of the link may have them.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hawser_engine::net::probe::AddressProbe;
use hawser_engine::wire::TxFrame;
use hawser_host::claim::{Claim, ClaimError, kernel_has};

use crate::device::Device;
use crate::error::OpenError;

/// The number of questions to the link; `ANSWER_TIME` is the wait for each answer. RFC 5227 has 3 of them 1
/// to 2 s apart, for links that need seconds to forward. On the links of a datacentre this would delay the
/// start of a server by 5 s (decision 108).
const QUESTIONS: u32 = 3;
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// The longest time for which an ending process may keep an address. `CLAIM_PAUSE` is the pause before the
/// address is claimed again.
const ENDING: Duration = Duration::from_secs(1);
const CLAIM_PAUSE: Duration = Duration::from_millis(20);
/// The longest sleep between two checks of the queues, only one of which can wake the thread.
const STEP: Duration = Duration::from_millis(5);
/// The maximum number of frames received at a time.
const BATCH: usize = 64;

/// Claims addresses on a device for this process. They are free again when the claims are dropped.
///
/// # Errors
/// Returns an error if another process of this network namespace, or the namespace's kernel, has one of them.
pub(crate) fn claim(device: &str, addresses: &[(IpAddr, u8)]) -> Result<Vec<Claim>, OpenError> {
    let claims = addresses.iter().map(|(address, _)| {
        if kernel_has(*address).map_err(|error| unknown(*address, &error))? {
            return Err(in_use(*address, "the kernel of this network namespace"));
        }
        claim_one(device, *address).map_err(|error| match error {
            ClaimError::Taken => in_use(*address, "another process on this device"),
            ClaimError::Io(error) => unknown(*address, &error),
        })
    });
    claims.collect()
}

/// Claims an address, and waits for its last owner to end, so that a restarted server finds its address free.
fn claim_one(device: &str, address: IpAddr) -> Result<Claim, ClaimError> {
    let began = Instant::now();
    loop {
        match Claim::new(device, address) {
            Err(ClaimError::Taken) if began.elapsed() < ENDING => std::thread::sleep(CLAIM_PAUSE),
            result => return result,
        }
    }
}

/// Asks the link whether another host has the addresses, and announces them.
///
/// # Errors
/// Returns an error if another host has one of them, or if the device failed.
pub(crate) fn probe(queues: &mut [Box<dyn Device>], addresses: &[(IpAddr, u8)]) -> Result<(), OpenError> {
    let addresses: Vec<IpAddr> = addresses.iter().map(|(address, _)| *address).collect();
    let Some(probe) = queues
        .first()
        .and_then(|queue| AddressProbe::new(&addresses, queue.caps()))
    else {
        return Ok(());
    };
    let failed =
        |error: io::Error| OpenError::Device(format!("cannot ask the link for its addresses: {error}"));
    for _ in 0..QUESTIONS {
        send(queues, &probe.questions()).map_err(failed)?;
        let asked = Instant::now();
        while let Some(left) = ANSWER_TIME.checked_sub(asked.elapsed()) {
            if let Some(address) = conflict(queues, &probe).map_err(failed)? {
                return Err(in_use(address, "another host on this link"));
            }
            if let Some(queue) = queues.first() {
                queue.wait(Some(left.min(STEP))).map_err(failed)?;
            }
        }
    }
    send(queues, &probe.announcements()).map_err(failed)
}

fn send(queues: &mut [Box<dyn Device>], frames: &[TxFrame]) -> io::Result<()> {
    queues.first_mut().map_or(Ok(0), |queue| queue.transmit(frames))?;
    Ok(())
}

/// Returns an address that the sender of a received frame claims. No stack exists yet for other frames.
fn conflict(queues: &mut [Box<dyn Device>], probe: &AddressProbe) -> io::Result<Option<IpAddr>> {
    for queue in queues {
        let count = queue.receive(BATCH)?;
        let found = (0..count).find_map(|i| probe.conflict(queue.frame(i).head));
        queue.release();
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn in_use(address: IpAddr, owner: &'static str) -> OpenError {
    OpenError::InUse { address, owner }
}

fn unknown(address: IpAddr, error: &io::Error) -> OpenError {
    OpenError::Device(format!("cannot learn whether {address} is free: {error}"))
}
