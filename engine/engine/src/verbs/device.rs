//! The verbs device of one stack: the objects of its applications, and the distribution of the stack's
//! notices to their queues.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::{ByHandle, ByNumber, Handle, Notice, Region, RequestError, Slice, Stack, WorkRequest};
use hawser_ir::abi;
use hawser_time::Instant;

use crate::verbs::VerbsError;
use crate::verbs::completion::{CompletionQueue, Completions, WorkCompletion, code_of, source};
use crate::verbs::datagram::Datagrams;
use crate::verbs::memory::{Access, MemoryRegion, ProtectionDomain};
use crate::verbs::pair::{
    ConnectionAttributes, DeviceQueuePair, MAX_INLINE, QueuePair, QueuePairConfig, QueuePairState,
    SendRequest,
};
use crate::verbs::pieces::{Lists, Slices};

/// The maximum number of posted work requests.
const WORKS: usize = 128;
/// The number of places for inline bytes: one more than the posted work requests.
const PLACES: u64 = WORKS as u64 + 1;
/// The maximum number of completions that wait to be polled from a queue. Beyond it, work that would be
/// reported there is not posted.
const COMPLETIONS: usize = 16_384;
/// The maximum number of posted receives.
const RECEIVES: usize = 256;
/// The size in bytes of the headers behind IP's, and of the trailer, for a write of one packet with immediate
/// data: UDP, BTH, RETH, ImmDt and the invariant CRC. No other packet with payload has more.
const HEADERS: u32 = 8 + 12 + 16 + 4 + 4;
/// The UDP port of RoCEv2.
const PORT: u16 = 4791;

/// The verbs of one stack.
#[derive(Debug)]
pub struct Device {
    domains: u32,
    /// The number of the last queue pair: 24 bits, with an arbitrary start.
    numbers: u32,
    pairs: BTreeMap<QueuePair, DeviceQueuePair>,
    by_handle: ByHandle<QueuePair>,
    queues: ByNumber<Completions>,
    /// The number of the last completion queue.
    last_queue: u64,
}

impl Device {
    /// Creates the device of a stack that has no other user of verbs. Numbers of queue pairs begin behind
    /// `seed`, so that a restarted process uses different ones.
    ///
    /// # Errors
    /// Returns [`VerbsError::Unsupported`].
    pub fn new(stack: &Stack, seed: u32) -> Result<Device, VerbsError> {
        let device = Device {
            domains: 0,
            numbers: seed,
            pairs: BTreeMap::new(),
            by_handle: ByHandle::default(),
            queues: ByNumber::default(),
            last_queue: 0,
        };
        stack.has_verbs().then_some(device).ok_or(VerbsError::Unsupported)
    }

    /// Creates a protection domain: `ibv_alloc_pd`.
    pub fn protection_domain(&mut self) -> ProtectionDomain {
        self.domains += 1;
        ProtectionDomain(self.domains)
    }

    /// Registers `len` bytes, all zero: `ibv_reg_mr`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Stack`] if too many regions are registered.
    pub fn register(
        &mut self,
        stack: &mut Stack,
        domain: ProtectionDomain,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, VerbsError> {
        let region = Region::new(len);
        let key = stack.register(region.clone(), domain.0, access.0, 0)?;
        Ok(MemoryRegion { domain, key, region })
    }

    /// Invalidates a region's key: `ibv_dereg_mr`. Peers that use it get an error, and work in progress
    /// writes no more to the region.
    pub fn deregister(&mut self, stack: &mut Stack, region: &MemoryRegion) {
        stack.deregister(region.domain.0, region.key);
    }

    /// Creates a completion queue: `ibv_create_cq`.
    pub fn completion_queue(&mut self) -> CompletionQueue {
        self.last_queue += 1;
        self.queues.insert(self.last_queue, Completions::default());
        CompletionQueue(self.last_queue)
    }

    /// Destroys a completion queue with its waiting completions: `ibv_destroy_cq`.
    ///
    /// # Errors
    /// Returns [`VerbsError::InUse`] while a queue pair reports to it, or [`VerbsError::Gone`].
    pub fn destroy_queue(&mut self, queue: CompletionQueue) -> Result<(), VerbsError> {
        let uses =
            |pair: &DeviceQueuePair| [pair.config.send_queue, pair.config.receive_queue].contains(&queue);
        if self.pairs.values().any(uses) {
            return Err(VerbsError::InUse);
        }
        let queue = self.queues.remove(&queue.0);
        queue.map(drop).ok_or(VerbsError::Gone("completion queue"))
    }

    /// Returns the number of completion queues that have not been destroyed.
    #[must_use]
    pub fn completion_queues(&self) -> usize {
        self.queues.len()
    }

    /// Creates a queue pair in the state RESET: `ibv_create_qp`.
    pub fn queue_pair(&mut self, config: QueuePairConfig) -> QueuePair {
        loop {
            // 0 and 1 are reserved for InfiniBand's management.
            self.numbers = (self.numbers.wrapping_add(1) & 0xff_ffff).max(2);
            let pair = QueuePair(self.numbers);
            if self.pairs.contains_key(&pair) {
                continue;
            }
            let state = DeviceQueuePair {
                config,
                sends: Lists::new(config.domain, WORKS),
                receives: Lists::new(config.domain, RECEIVES),
                state: QueuePairState::Reset,
                handle: None,
                sending: Vec::new(),
                source: None,
                early: Vec::new(),
                inline: None,
                inlined: 0,
            };
            self.pairs.insert(pair, state);
            return pair;
        }
    }

    /// Returns the state of a queue pair.
    #[must_use]
    pub fn state(&self, pair: QueuePair) -> Option<QueuePairState> {
        Some(self.pairs.get(&pair)?.state)
    }

    /// Returns the connection of a queue pair in its stack, from RTR on, for observing it.
    #[must_use]
    pub fn handle(&self, pair: QueuePair) -> Option<Handle> {
        self.pairs.get(&pair)?.handle
    }

    fn pair(&mut self, pair: QueuePair) -> Result<&mut DeviceQueuePair, VerbsError> {
        self.pairs.get_mut(&pair).ok_or(VerbsError::Gone("queue pair"))
    }

    /// Changes RESET to INIT: memory may be posted.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`] or [`VerbsError::Gone`].
    pub fn to_init(&mut self, pair: QueuePair) -> Result<(), VerbsError> {
        let there = self.pair(pair)?;
        expect(there, QueuePairState::Reset, "become INIT")?;
        there.state = QueuePairState::Init;
        Ok(())
    }

    /// Changes INIT to RTR: the pair answers its peer.
    ///
    /// # Errors
    /// Returns [`VerbsError::Mtu`], [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn to_ready_to_receive(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        connection: &ConnectionAttributes,
    ) -> Result<(), VerbsError> {
        Device::check_mtu(stack, connection.mtu, connection.remote)?;
        let remote = SocketAddr::new(connection.remote, PORT);
        let options = connection.receiving();
        self.receive(stack, now, pair, Some(remote), [&options, &connection.sending()])
    }

    /// Checks that the link takes packets with `payload` bytes to a host of this family. Larger packets would
    /// be lost each time, and the pair would fail after its retries.
    ///
    /// # Errors
    /// Returns [`VerbsError::Mtu`].
    pub fn check_mtu(stack: &Stack, payload: u32, host: IpAddr) -> Result<(), VerbsError> {
        let link = stack.link_mtu();
        let ip = if host.is_ipv4() { 20 } else { 40 };
        if payload.saturating_add(ip + HEADERS) > link {
            return Err(VerbsError::Mtu { payload, link });
        }
        Ok(())
    }

    /// Changes INIT to RTS: the pair sends datagrams to pairs of its kind on any host, and accepts theirs
    /// (UD).
    ///
    /// # Errors
    /// Returns [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn open_datagrams(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        datagrams: &Datagrams,
    ) -> Result<(), VerbsError> {
        let options = [
            (abi::OPT_PAIR_MTU, datagrams.mtu.into()),
            (abi::OPT_PAIR_DATAGRAMS, datagrams.key.into()),
        ];
        let sending = [(abi::OPT_PAIR_FIRST, datagrams.first_packet.into())];
        self.receive(stack, now, pair, None, [&options, &sending])?;
        self.to_ready_to_send(stack, now, pair)
    }

    /// Changes INIT to RTR, with or without a peer. The program's options are given in two parts: those
    /// before it receives, and those before it sends.
    fn receive(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        remote: Option<SocketAddr>,
        [options, sending]: [&[(u32, u64)]; 2],
    ) -> Result<(), VerbsError> {
        let there = self.pair(pair)?;
        expect(there, QueuePairState::Init, "become RTR")?;
        let domain = (abi::OPT_PAIR_DOMAIN, there.config.domain.0.into());
        let options: Vec<_> = options.iter().copied().chain([domain]).collect();
        let handle = stack.open_pair(now, (pair.0, 0), remote, &options)?;
        there.handle = Some(handle);
        there.sending = sending.to_vec();
        there.state = QueuePairState::ReadyToReceive;
        for work in std::mem::take(&mut there.early) {
            stack.post(now, handle, &work)?;
        }
        self.by_handle.insert(handle, pair);
        Ok(())
    }

    /// Changes RTR to RTS: the pair may send. Also changes SQE to RTS, after which datagrams are sent again.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn to_ready_to_send(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
    ) -> Result<(), VerbsError> {
        let there = self.pair(pair)?;
        if there.state != QueuePairState::SendQueueError {
            expect(there, QueuePairState::ReadyToReceive, "become RTS")?;
        }
        let handle = there.handle.ok_or(VerbsError::Gone("queue pair"))?;
        for &(option, value) in &there.sending {
            stack.set_option(now, handle, option, value)?;
        }
        there.state = QueuePairState::ReadyToSend;
        Ok(())
    }

    /// Changes INIT to RTS at once.
    ///
    /// # Errors
    /// As [`Device::to_ready_to_receive`].
    pub fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        connection: &ConnectionAttributes,
    ) -> Result<(), VerbsError> {
        self.to_ready_to_receive(stack, now, pair, connection)?;
        self.to_ready_to_send(stack, now, pair)
    }

    /// Posts work: `ibv_post_send`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Full`] until completions make room or, for datagrams, until packets have left.
    /// Otherwise returns [`VerbsError::TooLong`], [`VerbsError::State`] before RTS, [`VerbsError::Gone`] or
    /// [`VerbsError::Stack`].
    pub fn post_send(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        request: &SendRequest,
    ) -> Result<(), VerbsError> {
        let queue = self.pair(pair)?.config.send_queue;
        self.has_room(queue)?;
        let there = self.pair(pair)?;
        use QueuePairState::{Error, ReadyToSend, SendQueueError};
        let (ReadyToSend | SendQueueError | Error, Some(handle)) = (there.state, there.handle) else {
            return Err(VerbsError::State { state: there.state, what: "send" });
        };
        let local = match &request.inline {
            Some(bytes) => there.put_inline(stack, bytes)?.into(),
            None => there.sends.join(stack, &request.local)?,
        };
        let mut work = request.work(local.slice);
        if there.config.signal_all {
            work.flags |= abi::WORK_SIGNALED;
        }
        let posted = post(stack, now, handle, &work);
        there.sends.note(stack, &local, posted.is_ok());
        there.inlined += u64::from(posted.is_ok() && request.inline.is_some());
        posted
    }

    /// Posts memory for one message of the peer, or for one write with immediate data: `ibv_post_recv`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Full`], [`VerbsError::State`] before INIT, [`VerbsError::Gone`] or
    /// [`VerbsError::Stack`].
    pub fn post_receive(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        pair: QueuePair,
        id: u64,
        local: impl Into<Slices>,
    ) -> Result<(), VerbsError> {
        let queue = self.pair(pair)?.config.receive_queue;
        self.has_room(queue)?;
        let there = self.pair(pair)?;
        if there.state == QueuePairState::Reset {
            return Err(VerbsError::State { state: there.state, what: "receive" });
        }
        let local = there.receives.join(stack, &local.into())?;
        let work = WorkRequest {
            id,
            code: abi::WORK_RECEIVE,
            len: local.slice.len,
            local: (local.slice.key, local.slice.at),
            ..WorkRequest::default()
        };
        let posted = match there.handle {
            Some(handle) => post(stack, now, handle, &work),
            None if there.early.len() < RECEIVES => {
                there.early.push(work);
                Ok(())
            }
            None => Err(VerbsError::Full),
        };
        there.receives.note(stack, &local, posted.is_ok());
        posted
    }

    fn has_room(&self, queue: CompletionQueue) -> Result<(), VerbsError> {
        match self.queues.get(&queue.0) {
            Some(queue) if queue.len() >= COMPLETIONS => Err(VerbsError::Full),
            _ => Ok(()),
        }
    }

    /// Takes the oldest completion of a queue: `ibv_poll_cq`.
    pub fn poll(&mut self, queue: CompletionQueue) -> Option<WorkCompletion> {
        self.queues.get_mut(&queue.0)?.poll()
    }

    /// Returns the number of completions of a queue that have not been taken yet.
    ///
    /// # Errors
    /// Returns [`VerbsError::Gone`] if the queue does not belong to this device.
    pub fn waiting(&self, queue: CompletionQueue) -> Result<usize, VerbsError> {
        let queue = self.queues.get(&queue.0);
        Ok(queue.ok_or(VerbsError::Gone("completion queue"))?.len())
    }

    /// Asks for one event with the next completion, or only with the next one that its peer solicited or that
    /// failed: `ibv_req_notify_cq`.
    pub fn request_event(&mut self, queue: CompletionQueue, solicited_only: bool) {
        if let Some(queue) = self.queues.get_mut(&queue.0) {
            queue.want(solicited_only);
        }
    }

    /// Returns true if the requested event has come, and takes it: `ibv_get_cq_event`.
    pub fn take_event(&mut self, queue: CompletionQueue) -> bool {
        self.queues.get_mut(&queue.0).is_some_and(Completions::take_event)
    }

    /// Destroys a queue pair: `ibv_destroy_qp`. Posted work is not reported any more.
    pub fn destroy(&mut self, stack: &mut Stack, now: Instant, pair: QueuePair) {
        let Some(there) = self.pairs.remove(&pair) else {
            return;
        };
        there.sends.end(stack);
        there.receives.end(stack);
        if let Some(region) = there.inline {
            stack.deregister(region.domain.0, region.key);
        }
        if let Some(handle) = there.handle {
            self.by_handle.remove(&handle);
            stack.finish(now, handle);
        }
    }

    /// Handles a notice of the stack; returns false if it does not concern a queue pair of this device.
    pub fn notice(&mut self, handle: Handle, notice: &Notice) -> bool {
        let Some(pair) = self.by_handle.get(&handle).copied() else {
            return false;
        };
        let Some(there) = self.pairs.get_mut(&pair) else {
            return false;
        };
        match notice {
            Notice::Message(words) if code_of(words) == abi::WORK_SOURCE => {
                there.source = Some(source(*words))
            }
            Notice::Message(words) => {
                let mut completion = WorkCompletion::from_words(pair.0, *words);
                if completion.opcode == crate::verbs::Opcode::Receive {
                    completion.source = there.source.take();
                }
                if completion.status != crate::verbs::Status::Success {
                    there.state = match completion.opcode {
                        crate::verbs::Opcode::Datagram if there.state != QueuePairState::Error => {
                            QueuePairState::SendQueueError
                        }
                        _ => QueuePairState::Error,
                    };
                }
                let queue = match completion.opcode {
                    crate::verbs::Opcode::Receive | crate::verbs::Opcode::ReceiveWrite => {
                        there.config.receive_queue
                    }
                    _ => there.config.send_queue,
                };
                if let Some(queue) = self.queues.get_mut(&queue.0) {
                    queue.push(completion);
                }
            }
            Notice::Closed | Notice::Failed(_) => there.state = QueuePairState::Error,
            _ => {}
        }
        true
    }
}

impl DeviceQueuePair {
    /// Stores bytes for the program until the work is done. The next place is always free, because there is
    /// one more than the posted work requests.
    fn put_inline(&mut self, stack: &mut Stack, bytes: &[u8]) -> Result<Slice, VerbsError> {
        if bytes.len() > MAX_INLINE {
            return Err(VerbsError::TooLong {
                len: bytes.len() as u64,
                limit: MAX_INLINE as u64,
                what: "inline work",
            });
        }
        let region = match &self.inline {
            Some(region) => region,
            None => {
                let region = Region::new(PLACES as usize * MAX_INLINE);
                let key = stack.register(region.clone(), self.config.domain.0, 0, 0)?;
                self.inline
                    .insert(MemoryRegion { domain: self.config.domain, key, region })
            }
        };
        let at = self.inlined % PLACES * MAX_INLINE as u64;
        region.write(at as usize, bytes);
        Ok(region.slice(at, bytes.len() as u64))
    }
}

fn expect(pair: &DeviceQueuePair, state: QueuePairState, what: &'static str) -> Result<(), VerbsError> {
    if pair.state == state {
        Ok(())
    } else {
        Err(VerbsError::State { state: pair.state, what })
    }
}

fn post(stack: &mut Stack, now: Instant, handle: Handle, work: &WorkRequest) -> Result<(), VerbsError> {
    match stack.post(now, handle, work) {
        Ok(true) => Ok(()),
        Ok(false) => Err(VerbsError::Full),
        Err(RequestError::NotConnected) => Err(VerbsError::Gone("queue pair")),
        Err(error) => Err(error.into()),
    }
}
