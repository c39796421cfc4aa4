//! The verbs of an endpoint: registered memory and queue pairs over a program that has them.
//!
//! What is posted leaves with the next [`Endpoint::poll`], which also brings completions. On tokio:
//! [`Network::verbs`](crate::Network::verbs) and [`Network::completion`](crate::Network::completion).

mod asynchronous;
mod wakers;

use std::net::IpAddr;

use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;
use hawser_verbs::Device;
pub use hawser_verbs::{
    Access, CompletionQueue, Connection, Datagrams, Destination, MAX_INLINE, MAX_PIECES, MemoryRegion,
    Opcode, Operation, ProtectionDomain, QueuePair, QueuePairConfig, QueuePairState, Region, Remote,
    SendRequest, Slice, Slices, Status, VerbsError, WorkCompletion,
};

use crate::Endpoint;
pub(crate) use wakers::CompletionWakers;

/// The verbs of an endpoint: see [`hawser_verbs::Device`], whose calls these are.
pub struct Verbs<'a> {
    device: &'a mut Device,
    stack: &'a mut Stack,
    /// What is posted leaves before the device is asked for packets.
    wrote: &'a mut Option<Instant>,
    /// Read only for what needs the time: who spins polls its queue again and again.
    clock: &'a mut dyn crate::Device,
    /// Set where tasks that wait for completions have to look again.
    has_news: &'a mut bool,
}

impl Endpoint {
    /// Takes a notice; false when it is not about a queue pair.
    pub(crate) fn note_pair(&mut self, handle: Handle, notice: &Notice) -> bool {
        let device = self.verbs.as_mut();
        let is_about_pair = device.is_some_and(|device| device.notice(handle, notice));
        self.has_pair_news |= is_about_pair;
        is_about_pair
    }

    /// Its verbs.
    ///
    /// # Errors
    /// [`VerbsError::Unsupported`] when its program takes no work on registered memory.
    pub fn verbs(&mut self) -> Result<Verbs<'_>, VerbsError> {
        if self.verbs.is_none() {
            // Pairs of a process that begins anew have other numbers.
            let seed = (self.device.now().as_nanos() / 1000) as u32;
            self.verbs = Some(Device::new(&self.stack, seed)?);
        }
        let device = self.verbs.as_mut().ok_or(VerbsError::Unsupported)?;
        Ok(Verbs {
            device,
            stack: &mut self.stack,
            wrote: &mut self.wrote,
            clock: &mut *self.device,
            has_news: &mut self.has_pair_news,
        })
    }
}

impl Verbs<'_> {
    /// The time of a request. What was posted before leaves at the latest one's: see [`Endpoint::request_time`].
    fn now(&mut self) -> Instant {
        let now = self.clock.now();
        *self.wrote = self.wrote.map(|_| now);
        now
    }

    /// A new protection domain: `ibv_alloc_pd`.
    pub fn protection_domain(&mut self) -> ProtectionDomain {
        self.device.protection_domain()
    }

    /// Registers `len` bytes, all zero: `ibv_reg_mr`.
    ///
    /// # Errors
    /// [`VerbsError::Stack`] when too much is registered.
    pub fn register(
        &mut self,
        domain: ProtectionDomain,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, VerbsError> {
        self.device.register(self.stack, domain, len, access)
    }

    /// Ends a region's key: `ibv_dereg_mr`.
    pub fn deregister(&mut self, region: &MemoryRegion) {
        self.device.deregister(self.stack, region);
    }

    /// A new completion queue: `ibv_create_cq`.
    pub fn completion_queue(&mut self) -> CompletionQueue {
        self.device.completion_queue()
    }

    /// Ends a completion queue, with what waits there: `ibv_destroy_cq`. Tasks that wait for its completions get
    /// [`VerbsError::Gone`].
    ///
    /// # Errors
    /// [`VerbsError::InUse`] as long as a queue pair reports there; [`VerbsError::Gone`].
    pub fn destroy_queue(&mut self, queue: CompletionQueue) -> Result<(), VerbsError> {
        *self.has_news = true;
        self.device.destroy_queue(queue)
    }

    /// A new queue pair in the state RESET: `ibv_create_qp`.
    pub fn queue_pair(&mut self, config: QueuePairConfig) -> QueuePair {
        self.device.queue_pair(config)
    }

    /// Where a queue pair is in its life.
    #[must_use]
    pub fn state(&self, pair: QueuePair) -> Option<QueuePairState> {
        self.device.state(pair)
    }

    /// RESET becomes INIT.
    ///
    /// # Errors
    /// [`VerbsError::State`], [`VerbsError::Gone`].
    pub fn to_init(&mut self, pair: QueuePair) -> Result<(), VerbsError> {
        self.device.to_init(pair)
    }

    /// The value of an observable variable of a queue pair's connection; none before RTR, or without such a
    /// variable.
    #[must_use]
    pub fn observe(&self, pair: QueuePair, field: &str) -> Option<u64> {
        self.stack.observe(self.device.handle(pair)?, field)
    }

    /// Checks that the link takes packets with so much payload to a host of this family.
    ///
    /// # Errors
    /// [`VerbsError::Mtu`].
    pub fn check_mtu(&self, payload: u32, host: IpAddr) -> Result<(), VerbsError> {
        Device::check_mtu(self.stack, payload, host)
    }

    /// From INIT to RTS: the pair answers its peer and may send. Both ends do it before either sends.
    ///
    /// # Errors
    /// [`VerbsError::State`], [`VerbsError::Gone`], [`VerbsError::Stack`].
    pub fn connect(&mut self, pair: QueuePair, connection: &Connection) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.connect(self.stack, now, pair, connection)
    }

    /// From INIT to RTS without a peer: the pair sends and takes unreliable datagrams.
    ///
    /// # Errors
    /// [`VerbsError::State`], [`VerbsError::Gone`], [`VerbsError::Stack`].
    pub fn open_datagrams(&mut self, pair: QueuePair, datagrams: &Datagrams) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.open_datagrams(self.stack, now, pair, datagrams)
    }

    /// A pair whose datagram could not be sent (SQE) sends again.
    ///
    /// # Errors
    /// [`VerbsError::State`], [`VerbsError::Gone`], [`VerbsError::Stack`].
    pub fn to_ready_to_send(&mut self, pair: QueuePair) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.to_ready_to_send(self.stack, now, pair)
    }

    /// Posts work: `ibv_post_send`.
    ///
    /// # Errors
    /// [`VerbsError::Full`] until completions make room; see [`Device::post_send`].
    pub fn post_send(&mut self, pair: QueuePair, request: &SendRequest) -> Result<(), VerbsError> {
        let now = self.now();
        *self.wrote = Some(now);
        self.device.post_send(self.stack, now, pair, request)
    }

    /// Posts memory for one message: `ibv_post_recv`.
    ///
    /// # Errors
    /// [`VerbsError::Full`] until completions make room; see [`Device::post_receive`].
    pub fn post_receive(
        &mut self,
        pair: QueuePair,
        id: u64,
        local: impl Into<Slices>,
    ) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.post_receive(self.stack, now, pair, id, local)
    }

    /// The oldest completion that was not taken yet: `ibv_poll_cq`.
    pub fn poll(&mut self, queue: CompletionQueue) -> Option<WorkCompletion> {
        self.device.poll(queue)
    }

    /// How many completions of a queue were not taken yet.
    ///
    /// # Errors
    /// [`VerbsError::Gone`] when the queue is not one of this endpoint.
    pub fn waiting(&self, queue: CompletionQueue) -> Result<usize, VerbsError> {
        self.device.waiting(queue)
    }

    /// Asks for one event with the next completion, or the next that is solicited or failed: `ibv_req_notify_cq`.
    pub fn request_event(&mut self, queue: CompletionQueue, solicited_only: bool) {
        self.device.request_event(queue, solicited_only);
    }

    /// Whether the event that was asked for has come: `ibv_get_cq_event`.
    pub fn take_event(&mut self, queue: CompletionQueue) -> bool {
        self.device.take_event(queue)
    }

    /// Ends a queue pair: `ibv_destroy_qp`.
    pub fn destroy(&mut self, pair: QueuePair) {
        let now = self.now();
        self.device.destroy(self.stack, now, pair);
    }
}
