//! Into live sockets of other processes, by the iterator over sockets. It visits all of the calling
//! thread's network namespace, so its cost grows with their number: a millisecond or more.

use std::io;
use std::time::Duration;

use crate::abi::{Operation, RawAdoption, RawRequest};
use crate::kernel::is_name;
use crate::{Kernel, KernelError, Missing};

/// What a socket can be set to from outside. It stays with the socket, as if its own process had set it:
/// there is no lease on it, and nothing takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// The congestion control, by name.
    CongestionControl(String),
    /// The maximum number of segments that the congestion window may have.
    WindowClamp(u32),
    /// The smallest retransmission timeout, up to the kernel's own minimum (200 ms, usually).
    MinTimeout(Duration),
    /// The highest pace, bytes per second.
    HighestPace(u32),
}

/// What INET_DIAG does not report of a flow: sequence numbers, and figures as exact as the kernel has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The oldest sequence number that is not acknowledged.
    pub snd_una: u32,
    /// The next sequence number to be sent for the first time.
    pub snd_nxt: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// The congestion window, segments.
    pub cwnd_segments: u32,
    /// The slow start threshold, segments.
    pub ssthresh_segments: u32,
    /// The maximum number of segments that the window may have.
    pub clamp_segments: u32,
    /// The segment size, bytes.
    pub smss: u32,
    /// Segments that were ever marked as lost.
    pub lost_segments: u32,
    /// The pace, bytes per second.
    pub pacing_rate: u64,
}

/// The outcomes for a flow that is to get our congestion control: the order of the enumeration in
/// `bpf/maps.bpf.h`, behind a flow that was not met.
const ADOPTED: u32 = 1;
const HELD: u32 = 3;
const FINAL: u32 = 4;
/// The most flows that one visit to all sockets adopts.
const ADOPTIONS: usize = 1024;

/// `TCP_BPF_SNDCWND_CLAMP`, `TCP_BPF_RTO_MIN` (include/uapi/linux/bpf.h), `SO_MAX_PACING_RATE`.
const SNDCWND_CLAMP: u32 = 1002;
const RTO_MIN: u32 = 1004;
const MAX_PACING_RATE: u32 = 47;

impl Kernel {
    /// Gives a live flow our congestion control for its leases: the first is to come within a second. When
    /// none holds any more, the one that ran the flow before is put back, by this process where it can, and
    /// otherwise in the kernel at the flow's next ACK. The socket itself remembers which one that was, so that a flow
    /// of a process that was killed gets back its own. To keep ours, [`Kernel::set`] it.
    ///
    /// # Errors
    /// [`KernelError::Held`] when another process has the flow; [`KernelError::Final`] when the one that runs it could
    /// not be put back; nothing is changed then. [`KernelError::NoFlow`], [`KernelError::Flow`],
    /// [`KernelError::Missing`].
    pub fn adopt(&mut self, flow: u64) -> Result<(), KernelError> {
        let mut adopted = self.adopt_all(&[flow])?;
        adopted.pop().unwrap_or(Err(KernelError::NoFlow(flow)))
    }

    /// The same for several flows, by one visit to all sockets: what became of each.
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
            // Those that are forgotten here are put back at their next ACK, or have ended.
            self.adopted.clear();
        }
        let ours = flows.iter().zip(&all).filter(|(_, adopted)| adopted.is_ok());
        self.adopted.extend(ours.map(|(flow, _)| *flow));
        Ok(all)
    }

    /// Gives back what was adopted, of all flows of which nothing is leased any more.
    pub(crate) fn put_back(&mut self) -> Result<(), KernelError> {
        self.ask(&numbered(Operation::PutBack, 0, 0)).map(drop)
    }

    /// Sets something of a live socket.
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
    pub fn inspect(&mut self, flow: u64) -> Result<Inside, KernelError> {
        let answer = self.carry_out(flow, numbered(Operation::Inspect, 0, 0))?.answer;
        Ok(Inside {
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

    /// Ends a flow at once: its process reads the error ECONNABORTED, its peer a reset.
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

/// The outcome for a flow that was to be adopted.
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

/// What came of a request on one flow.
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
