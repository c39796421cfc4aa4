//! Access to live sockets of other processes, by the iterator over sockets. It visits all sockets of the
//! calling thread's network namespace, so its cost grows with their number: a millisecond or more.

use std::io;
use std::time::Duration;

use crate::abi::{Operation, RawAdoption, RawRequest};
use crate::kernel::is_name;
use crate::{Kernel, KernelError, Missing};

/// A property of a socket that can be set from outside. It stays with the socket, as if its own process had
/// set it, without a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// The congestion control, by name.
    CongestionControl(String),
    /// The maximum congestion window, in segments.
    WindowClamp(u32),
    /// The smallest retransmission timeout, up to the kernel's own minimum (200 ms, usually).
    MinTimeout(Duration),
    /// The maximum pacing rate, in bytes per second.
    HighestPace(u32),
}

/// State of a flow that INET_DIAG does not report: sequence numbers, and other values with the kernel's full
/// precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketInternals {
    /// The oldest unacknowledged sequence number.
    pub snd_una: u32,
    /// The next sequence number to be sent for the first time.
    pub snd_nxt: u32,
    /// The peer's window, in bytes.
    pub snd_wnd: u32,
    /// The congestion window, in segments.
    pub cwnd_segments: u32,
    /// The slow start threshold, in segments.
    pub ssthresh_segments: u32,
    /// The maximum congestion window, in segments.
    pub clamp_segments: u32,
    /// The segment size, in bytes.
    pub smss: u32,
    /// The total number of segments marked as lost.
    pub lost_segments: u32,
    /// The pacing rate, in bytes per second.
    pub pacing_rate: u64,
}

/// The outcomes for a flow that is to get our congestion control, in the order of the enumeration in
/// `bpf/maps.bpf.h`. Its first value, for a flow that was not met, is omitted.
const ADOPTED: u32 = 1;
const HELD: u32 = 3;
const FINAL: u32 = 4;
/// The maximum number of flows that one visit to all sockets adopts.
const ADOPTIONS: usize = 1024;

/// `TCP_BPF_SNDCWND_CLAMP`, `TCP_BPF_RTO_MIN` (include/uapi/linux/bpf.h), `SO_MAX_PACING_RATE`.
const SNDCWND_CLAMP: u32 = 1002;
const RTO_MIN: u32 = 1004;
const MAX_PACING_RATE: u32 = 47;

impl Kernel {
    /// Gives a live flow our congestion control for the time of its leases, the first of which must come
    /// within a second. When no lease holds any more, the flow's earlier congestion control is restored. This
    /// process does so if it can, and otherwise the kernel at the flow's next ACK. The socket itself
    /// remembers the earlier one, so that a flow of a process that was killed gets it back. To keep ours, use
    /// [`Kernel::set`].
    ///
    /// # Errors
    /// [`KernelError::Held`] when another process holds the flow; [`KernelError::Final`] when the flow's
    /// congestion control could not be restored later. The flow is then unchanged. [`KernelError::NoFlow`],
    /// [`KernelError::Flow`], [`KernelError::Missing`].
    pub fn adopt(&mut self, flow: u64) -> Result<(), KernelError> {
        let mut adopted = self.adopt_all(&[flow])?;
        adopted.pop().unwrap_or(Err(KernelError::NoFlow(flow)))
    }

    /// Adopts several flows by one visit to all sockets. Returns the outcome for each.
    ///
    /// # Errors
    /// [`KernelError::Missing`], or when the sockets cannot be visited.
    pub fn adopt_all(&mut self, flows: &[u64]) -> Result<Vec<Result<(), KernelError>>, KernelError> {
        if self.congestion_control.is_none() {
            return Err(Missing::NoCongestionControl.into());
        }
        let mut all = Vec::with_capacity(flows.len());
        for some in flows.chunks(ADOPTIONS) {
            let outcomes = self.programs.adopt(some)?;
            all.extend(
                some.iter()
                    .zip(outcomes)
                    .map(|(flow, outcome)| adopted(*flow, outcome)),
            );
        }
        if self.adopted.len() + flows.len() > self.max_adopted {
            // Flows that are forgotten here are put back at their next ACK, or have ended.
            self.adopted.clear();
        }
        let ours = flows.iter().zip(&all).filter(|(_, adopted)| adopted.is_ok());
        self.adopted.extend(ours.map(|(flow, _)| *flow));
        Ok(all)
    }

    /// Gives back all adopted flows without a lease.
    pub(crate) fn put_back(&mut self) -> Result<(), KernelError> {
        self.ask(&numbered(Operation::PutBack, 0, 0)).map(drop)
    }

    /// Sets a property of a live socket.
    ///
    /// # Errors
    /// [`KernelError::Name`], [`KernelError::NoFlow`], [`KernelError::Flow`], [`KernelError::Missing`].
    pub fn set(&mut self, flow: u64, setting: &Setting) -> Result<(), KernelError> {
        let request = match setting {
            Setting::CongestionControl(name) => named(Operation::SetCongestionControl, name)?,
            Setting::WindowClamp(segments) => numbered(Operation::SetTcpOption, SNDCWND_CLAMP, *segments),
            Setting::MinTimeout(timeout) => {
                let micros = u32::try_from(timeout.as_micros()).unwrap_or(u32::MAX);
                numbered(Operation::SetTcpOption, RTO_MIN, micros)
            }
            Setting::HighestPace(rate) => numbered(Operation::SetSocketOption, MAX_PACING_RATE, *rate),
        };
        self.carry_out(flow, request).map(drop)
    }

    /// Reads the state of a flow.
    ///
    /// # Errors
    /// [`KernelError::NoFlow`], [`KernelError::Missing`].
    pub fn inspect(&mut self, flow: u64) -> Result<SocketInternals, KernelError> {
        let answer = self.carry_out(flow, numbered(Operation::Inspect, 0, 0))?.answer;
        Ok(SocketInternals {
            snd_una: answer.snd_una,
            snd_nxt: answer.snd_nxt,
            snd_wnd: answer.snd_wnd,
            cwnd_segments: answer.snd_cwnd,
            ssthresh_segments: answer.snd_ssthresh,
            clamp_segments: answer.snd_cwnd_clamp,
            smss: answer.mss,
            lost_segments: answer.lost,
            pacing_rate: answer.pacing_rate,
        })
    }

    /// Ends a flow at once: its process reads the error ECONNABORTED, and its peer receives a reset.
    ///
    /// # Errors
    /// [`KernelError::NoFlow`], [`KernelError::Flow`], [`KernelError::Missing`].
    pub fn end_flow(&mut self, flow: u64) -> Result<(), KernelError> {
        self.carry_out(flow, numbered(Operation::Destroy, 0, 0)).map(drop)
    }

    fn carry_out(&mut self, flow: u64, request: RawRequest) -> Result<RawRequest, KernelError> {
        carried_out(flow, self.ask(&RawRequest { flow, ..request })?)
    }

    fn ask(&mut self, request: &RawRequest) -> Result<RawRequest, KernelError> {
        self.programs.carry_out(request)
    }
}

/// Decodes the outcome for a flow that was to be adopted.
fn adopted(flow: u64, raw: RawAdoption) -> Result<(), KernelError> {
    let name = raw.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    match raw.outcome {
        ADOPTED => Ok(()),
        HELD => Err(KernelError::Held { flow, name }),
        FINAL => Err(KernelError::Final { flow, name }),
        _ if raw.error == 0 => Err(KernelError::NoFlow(flow)),
        _ => Err(KernelError::Flow { flow, error: io::Error::from_raw_os_error(raw.error.wrapping_neg()) }),
    }
}

/// Decodes the outcome of a request on one flow.
fn carried_out(flow: u64, done: RawRequest) -> Result<RawRequest, KernelError> {
    match (done.done, done.error) {
        (0, _) => Err(KernelError::NoFlow(flow)),
        (_, 0) => Ok(done),
        (_, error) => {
            Err(KernelError::Flow { flow, error: io::Error::from_raw_os_error(error.wrapping_neg()) })
        }
    }
}

fn named(operation: Operation, name: &str) -> Result<RawRequest, KernelError> {
    if !is_name(name) {
        return Err(KernelError::Name(name.to_owned()));
    }
    let mut request = numbered(operation, 0, 0);
    request.text[..name.len()].copy_from_slice(name.as_bytes());
    Ok(request)
}

fn numbered(operation: Operation, option: u32, number: u32) -> RawRequest {
    RawRequest {
        what: operation as u32,
        option,
        number: number.cast_signed(),
        ..RawRequest::default()
    }
}
