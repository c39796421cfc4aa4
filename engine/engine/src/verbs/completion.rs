//! The completion of work.

use std::collections::VecDeque;
use std::fmt;

use hawser_ir::abi;

use crate::verbs::datagram::Destination;

/// A queue to which completed work is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueue(pub(crate) u64);

/// The status of completed work, with the numbers of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The work was done.
    Success = 0,
    /// A message was longer than the memory that was posted for it.
    LocalLength = 1,
    /// The queue pair could not do the work.
    LocalOperation = 2,
    /// The memory of this end is not registered, too short, or not for this use.
    LocalProtection = 4,
    /// The queue pair had failed before.
    Flushed = 5,
    /// The peer's answer did not match the request.
    BadResponse = 7,
    /// The peer did not understand the request, or had too little memory posted.
    RemoteInvalidRequest = 9,
    /// The peer's memory is not registered, too short, or not for this use.
    RemoteAccess = 10,
    /// The peer could not do the work.
    RemoteOperation = 11,
    /// The peer did not answer.
    RetriesExceeded = 12,
    /// The peer had no memory posted for a message.
    ReceiverNotReady = 13,
}

impl Status {
    fn from_number(number: u8) -> Status {
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

/// The kind of the completed work.
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
    /// The peer wrote with immediate data.
    ReceiveWrite,
}

/// A completed work request: `ibv_wc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The application's number for the work.
    pub id: u64,
    /// The number of its queue pair.
    pub pair: u32,
    /// The status of the work.
    pub status: Status,
    /// The kind of the work.
    pub opcode: Opcode,
    /// The number of bytes sent, read or received.
    pub len: u64,
    /// The four bytes that accompanied a message or write.
    pub immediate: Option<u32>,
    /// The key of this host that the peer's message has invalidated.
    pub invalidated: Option<u32>,
    /// True if the peer asked for an event.
    pub solicited: bool,
    /// The source of a datagram. Other implementations report it in the 40 bytes before the message, which do
    /// not exist here.
    pub source: Option<Destination>,
}

/// Returns the kind of work in a notice of the program: a `WORK_…` constant.
pub(crate) fn code_of(words: &[u64; 4]) -> u32 {
    u32::from((words[1] >> 8) as u8)
}

/// Returns the source of a datagram from a notice of the program.
pub(crate) fn source([high, _, low, pair]: [u64; 4]) -> Destination {
    let host = std::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
    Destination { host: host.to_canonical(), pair: pair as u32 }
}

impl WorkCompletion {
    /// Creates a completion from a notice of the program.
    pub(crate) fn from_words(pair: u32, words: [u64; 4]) -> WorkCompletion {
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
            status: Status::from_number(outcome as u8),
            opcode,
            len,
            immediate: has(abi::WORK_IMMEDIATE).then_some(value as u32),
            invalidated: has(abi::WORK_INVALIDATE).then_some(value as u32),
            solicited: has(abi::WORK_SOLICITED),
            source: None,
        }
    }
}

/// The completions of a queue that wait to be polled.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    waiting: VecDeque<WorkCompletion>,
    /// The requested event, if there is one; true if it is wanted only for solicited and failed completions.
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
