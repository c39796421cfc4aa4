//! What became of work.

use std::collections::VecDeque;
use std::fmt;

use hawser_ir::abi;

use crate::datagram::Destination;

/// Where work is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueue(pub(crate) u64);

/// How work ended, with the numbers of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// It is done.
    Success = 0,
    /// A message was longer than the memory that was posted for it.
    LocalLength = 1,
    /// The queue pair could not do it.
    LocalOperation = 2,
    /// The memory of this end is not registered, not so long, or not for this use.
    LocalProtection = 4,
    /// The queue pair had failed before.
    Flushed = 5,
    /// The peer's answer did not fit what was asked for.
    BadResponse = 7,
    /// The peer did not understand it, or had not enough memory posted.
    RemoteInvalidRequest = 9,
    /// The peer's memory is not registered, not so long, or not for this use.
    RemoteAccess = 10,
    /// The peer could not do it.
    RemoteOperation = 11,
    /// The peer did not answer.
    RetriesExceeded = 12,
    /// The peer had no memory posted for a message.
    ReceiverNotReady = 13,
}

impl Status {
    fn of(number: u8) -> Status {
        use Status::*;
        const ALL: [Status; 11] = [
            Success,
            LocalLength,
            LocalOperation,
            LocalProtection,
            Flushed,
            BadResponse,
            RemoteInvalidRequest,
            RemoteAccess,
            RemoteOperation,
            RetriesExceeded,
            ReceiverNotReady,
        ];
        let known = ALL.into_iter().find(|status| *status as u8 == number);
        known.unwrap_or(LocalOperation)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::LocalLength => "local length error",
            Status::LocalOperation => "local QP operation error",
            Status::LocalProtection => "local protection error",
            Status::Flushed => "work request flushed",
            Status::BadResponse => "bad response",
            Status::RemoteInvalidRequest => "remote invalid request",
            Status::RemoteAccess => "remote access error",
            Status::RemoteOperation => "remote operation error",
            Status::RetriesExceeded => "transport retry counter exceeded",
            Status::ReceiverNotReady => "RNR retry counter exceeded",
        })
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// A message was sent.
    Send,
    /// A datagram was sent.
    Datagram,
    /// The peer's memory was written.
    Write,
    /// The peer's memory was read.
    Read,
    /// Eight bytes of the peer were compared, and perhaps changed.
    CompareSwap,
    /// A number was added to eight bytes of the peer.
    FetchAdd,
    /// A message of the peer arrived.
    Receive,
    /// The peer has written with immediate data.
    ReceiveWrite,
}

/// A work request is over: `ibv_wc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The application's number of it.
    pub id: u64,
    /// The number of its queue pair.
    pub pair: u32,
    /// How it ended.
    pub status: Status,
    /// What was done.
    pub opcode: Opcode,
    /// Bytes that were sent, read or received.
    pub len: u64,
    /// Four bytes that came beside a message or write.
    pub immediate: Option<u32>,
    /// A key of this host that the peer's message has ended.
    pub invalidated: Option<u32>,
    /// The peer asked for an event.
    pub solicited: bool,
    /// Where a datagram came from. Others learn it from the 40 bytes before the message, which are none here.
    pub source: Option<Destination>,
}

/// What was done, of a notice of the program: a `WORK_…` constant.
pub(crate) fn code_of(words: &[u64; 4]) -> u32 {
    u32::from((words[1] >> 8) as u8)
}

/// Where a datagram came from, of a notice of the program.
pub(crate) fn source([high, _, low, pair]: [u64; 4]) -> Destination {
    let host = std::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
    Destination { host: host.to_canonical(), pair: pair as u32 }
}

impl WorkCompletion {
    /// From a notice of the program.
    pub(crate) fn of(pair: u32, words: [u64; 4]) -> WorkCompletion {
        let [id, outcome, len, value] = words;
        let flags = (outcome >> 16) as u32;
        let has = |flag: u32| flags & flag != 0;
        let opcode = match code_of(&words) {
            abi::WORK_SEND => Opcode::Send,
            abi::WORK_DATAGRAM => Opcode::Datagram,
            abi::WORK_WRITE => Opcode::Write,
            abi::WORK_READ => Opcode::Read,
            abi::WORK_COMPARE_SWAP => Opcode::CompareSwap,
            abi::WORK_FETCH_ADD => Opcode::FetchAdd,
            _ if has(abi::WORK_SIGNALED) => Opcode::ReceiveWrite,
            _ => Opcode::Receive,
        };
        WorkCompletion {
            id,
            pair,
            status: Status::of(outcome as u8),
            opcode,
            len,
            immediate: has(abi::WORK_IMMEDIATE).then_some(value as u32),
            invalidated: has(abi::WORK_INVALIDATE).then_some(value as u32),
            solicited: has(abi::WORK_SOLICITED),
            source: None,
        }
    }
}

/// The completions that wait to be polled.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    waiting: VecDeque<WorkCompletion>,
    /// An event is wanted; only for solicited and failed ones when the value is true.
    wants: Option<bool>,
    has_event: bool,
}

impl Completions {
    pub(crate) fn push(&mut self, completion: WorkCompletion) {
        let counts = |only: bool| !only || completion.solicited || completion.status != Status::Success;
        if self.wants.is_some_and(counts) {
            (self.wants, self.has_event) = (None, true);
        }
        self.waiting.push_back(completion);
    }

    pub(crate) fn poll(&mut self) -> Option<WorkCompletion> {
        self.waiting.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn want(&mut self, solicited_only: bool) {
        self.wants = Some(solicited_only);
    }

    pub(crate) fn take_event(&mut self) -> bool {
        std::mem::take(&mut self.has_event)
    }
}
