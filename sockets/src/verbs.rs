//! The verbs of an endpoint: registered memory and queue pairs over a program that supports them.
//!
//! Posted work leaves with the next [`Endpoint::poll`], which also brings completions. The equivalents on
//! tokio are [`Network::verbs`](crate::Network::verbs) and
//! [`Network::completion`](crate::Network::completion).

mod asynchronous;
mod wakers;

use std::net::IpAddr;

use hawser_engine::verbs::Device;
pub use hawser_engine::verbs::{
    Access, CompletionQueue, ConnectionAttributes, Datagrams, Destination, MAX_INLINE, MAX_PIECES,
    MemoryRegion, Opcode, ProtectionDomain, QueuePair, QueuePairConfig, QueuePairState, Region, Remote,
    SendRequest, Slice, Slices, Status, VerbsError, WorkCompletion, WorkOperation,
};
use hawser_engine::{Handle, Notice, Stack};
use hawser_time::Instant;

use crate::Endpoint;
pub(crate) use wakers::CompletionWakers;

/// The verbs of an endpoint: see [`hawser_engine::verbs::Device`], whose calls these are.
pub struct Verbs<'a> {
    device: &'a mut Device,
    stack: &'a mut Stack,
    /// The time of posted work, which leaves before the device is asked for packets.
    wrote: &'a mut Option<Instant>,
    /// The clock, read only if a call needs the time, because a spinning caller polls its queue again and
    /// again.
    clock: &'a mut dyn crate::Device,
    /// Set when tasks that wait for completions have to check again.
    has_news: &'a mut bool,
}

impl Endpoint {
    /// Handles a notice; returns false if it does not concern a queue pair.
    pub(crate) fn note_pair(&mut self, handle: Handle, notice: &Notice) -> bool {
        let device = self.verbs.as_mut();
        let is_about_pair = device.is_some_and(|device| device.notice(handle, notice));
        self.has_pair_news |= is_about_pair;
        is_about_pair
    }

    /// Returns the verbs of the endpoint.
    ///
    /// # Errors
    /// Returns [`VerbsError::Unsupported`] if its program accepts no work on registered memory.
    pub fn verbs(&mut self) -> Result<Verbs<'_>, VerbsError> {
        if self.verbs.is_none() {
            // The pairs of a restarted process have different numbers.
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
    /// Returns the time of a request. Work posted before leaves at the latest request's time: see
    /// [`Endpoint::request_time`].
    fn now(&mut self) -> Instant {
        let now = self.clock.now();
        *self.wrote = self.wrote.map(|_| now);
        now
    }

    /// Creates a protection domain: `ibv_alloc_pd`.
    pub fn protection_domain(&mut self) -> ProtectionDomain {
        self.device.protection_domain()
    }

    /// Registers `len` bytes, all zero: `ibv_reg_mr`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Stack`] if too many regions are registered.
    pub fn register(
        &mut self,
        domain: ProtectionDomain,
        len: usize,
        access: Access,
    ) -> Result<MemoryRegion, VerbsError> {
        self.device.register(self.stack, domain, len, access)
    }

    /// Invalidates a region's key: `ibv_dereg_mr`.
    pub fn deregister(&mut self, region: &MemoryRegion) {
        self.device.deregister(self.stack, region);
    }

    /// Creates a completion queue: `ibv_create_cq`.
    pub fn completion_queue(&mut self) -> CompletionQueue {
        self.device.completion_queue()
    }

    /// Destroys a completion queue with its waiting completions: `ibv_destroy_cq`. Tasks that wait for its
    /// completions get [`VerbsError::Gone`].
    ///
    /// # Errors
    /// Returns [`VerbsError::InUse`] while a queue pair reports to it, or [`VerbsError::Gone`].
    pub fn destroy_queue(&mut self, queue: CompletionQueue) -> Result<(), VerbsError> {
        *self.has_news = true;
        self.device.destroy_queue(queue)
    }

    /// Creates a queue pair in the state RESET: `ibv_create_qp`.
    pub fn queue_pair(&mut self, config: QueuePairConfig) -> QueuePair {
        self.device.queue_pair(config)
    }

    /// Returns the state of a queue pair.
    #[must_use]
    pub fn state(&self, pair: QueuePair) -> Option<QueuePairState> {
        self.device.state(pair)
    }

    /// Changes RESET to INIT.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`] or [`VerbsError::Gone`].
    pub fn to_init(&mut self, pair: QueuePair) -> Result<(), VerbsError> {
        self.device.to_init(pair)
    }

    /// Returns the value of an observable variable of a queue pair's connection; `None` before RTR, or if
    /// there is no such variable.
    #[must_use]
    pub fn observe(&self, pair: QueuePair, field: &str) -> Option<u64> {
        self.stack.observe(self.device.handle(pair)?, field)
    }

    /// Checks that the link takes packets with `payload` bytes to a host of this family.
    ///
    /// # Errors
    /// Returns [`VerbsError::Mtu`].
    pub fn check_mtu(&self, payload: u32, host: IpAddr) -> Result<(), VerbsError> {
        Device::check_mtu(self.stack, payload, host)
    }

    /// Changes INIT to RTS: the pair answers its peer and may send. Both ends do this before either sends.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn connect(&mut self, pair: QueuePair, connection: &ConnectionAttributes) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.connect(self.stack, now, pair, connection)
    }

    /// Changes INIT to RTS without a peer: the pair sends and accepts unreliable datagrams.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn open_datagrams(&mut self, pair: QueuePair, datagrams: &Datagrams) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.open_datagrams(self.stack, now, pair, datagrams)
    }

    /// Lets a pair whose datagram could not be sent (SQE) send again.
    ///
    /// # Errors
    /// Returns [`VerbsError::State`], [`VerbsError::Gone`] or [`VerbsError::Stack`].
    pub fn to_ready_to_send(&mut self, pair: QueuePair) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.to_ready_to_send(self.stack, now, pair)
    }

    /// Posts work: `ibv_post_send`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Full`] until completions make room; see [`Device::post_send`].
    pub fn post_send(&mut self, pair: QueuePair, request: &SendRequest) -> Result<(), VerbsError> {
        let now = self.now();
        *self.wrote = Some(now);
        self.device.post_send(self.stack, now, pair, request)
    }

    /// Posts memory for one message: `ibv_post_recv`.
    ///
    /// # Errors
    /// Returns [`VerbsError::Full`] until completions make room; see [`Device::post_receive`].
    pub fn post_receive(
        &mut self,
        pair: QueuePair,
        id: u64,
        local: impl Into<Slices>,
    ) -> Result<(), VerbsError> {
        let now = self.now();
        self.device.post_receive(self.stack, now, pair, id, local)
    }

    /// Takes the oldest completion of a queue: `ibv_poll_cq`.
    pub fn poll(&mut self, queue: CompletionQueue) -> Option<WorkCompletion> {
        self.device.poll(queue)
    }

    /// Returns the number of completions of a queue that have not been taken yet.
    ///
    /// # Errors
    /// Returns [`VerbsError::Gone`] if the queue does not belong to this endpoint.
    pub fn waiting(&self, queue: CompletionQueue) -> Result<usize, VerbsError> {
        self.device.waiting(queue)
    }

    /// Asks for one event with the next completion, or only with the next one that is solicited or failed:
    /// `ibv_req_notify_cq`.
    pub fn request_event(&mut self, queue: CompletionQueue, solicited_only: bool) {
        self.device.request_event(queue, solicited_only);
    }

    /// Returns true if the requested event has come, and takes it: `ibv_get_cq_event`.
    pub fn take_event(&mut self, queue: CompletionQueue) -> bool {
        self.device.take_event(queue)
    }

    /// Destroys a queue pair: `ibv_destroy_qp`.
    pub fn destroy(&mut self, pair: QueuePair) {
        let now = self.now();
        self.device.destroy(self.stack, now, pair);
    }
}
