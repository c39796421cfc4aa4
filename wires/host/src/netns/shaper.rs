//! The kernel's token bucket (`tc-tbf(8)`): a rate, and a queue before it.

use crate::netlink::Request;

use super::{NamespaceError, Netlink};

/// The root of an interface's queueing disciplines (TC_H_ROOT).
const ROOT: u32 = u32::MAX;
/// The discipline's handle, 1:0.
const HANDLE: u32 = 0x1_0000;
/// TCA_KIND and TCA_OPTIONS of <linux/rtnetlink.h>.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// TCA_TBF_PARMS, TCA_TBF_RATE64 and TCA_TBF_BURST of <linux/pkt_sched.h>.
const PARAMETERS: u16 = 1;
const RATE_64: u16 = 4;
const BURST: u16 = 6;
/// TC_LINKLAYER_ETHERNET: the rate counts bytes, not cells of a table.
const ETHERNET: u8 = 1;

/// The sending rate of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperRate {
    /// The rate in bytes per second, including Ethernet headers.
    pub bytes_per_second: u64,
    /// The number of bytes that may leave at once after a pause; at least the longest frame.
    pub burst: u32,
    /// The maximum number of bytes that wait.
    pub queue: u32,
}

impl Netlink {
    /// Limits the sending rate of an interface. A further call changes the limit.
    ///
    /// # Errors
    /// Fails if there is no such interface, if the kernel lacks the token bucket, or if it is not permitted.
    pub fn shape(&mut self, name: &str, shape: ShaperRate) -> Result<(), NamespaceError> {
        let mut set = || {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
            let mut request = Request::new(libc::RTM_NEWQDISC, flags);
            request.put(&[0; 4]);
            request.put(&self.index(name)?.to_ne_bytes());
            request.put(&HANDLE.to_ne_bytes());
            request.put(&ROOT.to_ne_bytes());
            request.put(&[0; 4]);
            request.string(KIND, "tbf");
            let options = request.open(OPTIONS);
            request.attribute(PARAMETERS, &parameters(shape));
            request.attribute(RATE_64, &shape.bytes_per_second.to_ne_bytes());
            request.attribute(BURST, &shape.burst.to_ne_bytes());
            request.close(options);
            self.socket.request(request)
        };
        set().map_err(NamespaceError::new(format!(
            "shape {name} by the kernel's token bucket (sch_tbf)"
        )))
    }

    /// Removes the limit.
    ///
    /// # Errors
    /// Fails if there is no such interface, if it has no limit, or if it is not permitted.
    pub fn unshape(&mut self, name: &str) -> Result<(), NamespaceError> {
        let mut unset = || {
            let mut request = Request::new(libc::RTM_DELQDISC, 0);
            request.put(&[0; 4]);
            request.put(&self.index(name)?.to_ne_bytes());
            request.put(&HANDLE.to_ne_bytes());
            request.put(&ROOT.to_ne_bytes());
            request.put(&[0; 4]);
            self.socket.request(request)
        };
        unset().map_err(NamespaceError::new(format!("take the shape of {name} away")))
    }
}

/// Returns a `struct tc_tbf_qopt`.
fn parameters(shape: ShaperRate) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[1] = ETHERNET;
    let rate = u32::try_from(shape.bytes_per_second).unwrap_or(u32::MAX);
    bytes[8..12].copy_from_slice(&rate.to_ne_bytes());
    bytes[24..28].copy_from_slice(&shape.queue.to_ne_bytes());
    bytes
}
