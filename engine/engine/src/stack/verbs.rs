//! Registered memory, queue pairs, and work on them: the basis of a verbs interface.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hawser_ir::AppOp;
use hawser_ir::abi::Op;
use hawser_time::Instant;

use super::{RequestError, Stack};
use crate::chain::{Buffer, Cause};
use crate::state::{ANYBODY, Handle, MAX_PIECES, Region, Slice};
use crate::tables::op_index;

/// Work that is posted to a queue pair. Fields that a kind of work does not use are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkRequest {
    /// The application's number for the work, which its completion returns.
    pub id: u64,
    /// A `WORK_…` constant of [`hawser_ir::abi`].
    pub code: u32,
    /// Flags, `WORK_…` constants of [`hawser_ir::abi`].
    pub flags: u32,
    /// The number of bytes.
    pub len: u64,
    /// The key of this end's memory, and the address in it.
    pub local: (u32, u64),
    /// The key of the peer's memory, and the address in it; for a datagram, the key of the peer's pair.
    pub remote: (u32, u64),
    /// The destination of a datagram: a host and the number of its pair. Other work goes to the pair's peer.
    pub to: Option<(IpAddr, u32)>,
    /// The value to compare or to add; or immediate data.
    pub value: u64,
    /// The value that replaces the compared one.
    pub swap: u64,
}

impl Stack {
    /// Returns true if the program's connections accept work on registered memory.
    #[must_use]
    pub fn has_verbs(&self) -> bool {
        self.chains.tables.app[op_index(AppOp::Post)].is_some()
    }

    /// Returns the largest packet in bytes that the link takes.
    #[must_use]
    pub fn link_mtu(&self) -> u32 {
        self.interface.mtu()
    }

    /// Registers memory and returns its key for use by this end and its peers. Peers address the first byte
    /// by `base`. `access` has `ACCESS_…` flags of [`hawser_ir::abi`]. A queue pair uses only the memory of
    /// its own `domain`.
    ///
    /// # Errors
    /// Returns [`RequestError::Limit`] if [`Limits::regions`](crate::StackLimits::regions) regions are
    /// already registered.
    pub fn register(
        &mut self,
        region: Arc<Region>,
        domain: u32,
        access: u32,
        base: u64,
    ) -> Result<u32, RequestError> {
        let state = &mut self.chains.state;
        let key = state
            .regions
            .add((domain, access, base), region, state.limits.regions);
        key.ok_or(RequestError::Limit("regions"))
    }

    /// Registers pieces of registered memory as one, for work of this host only, and returns the key of the
    /// list. Its first byte is at address 0. Each access looks the regions of the pieces up again.
    ///
    /// # Errors
    /// Returns [`RequestError::Limit`] for more than [`MAX_PIECES`] pieces, and otherwise as
    /// [`Stack::register`].
    pub fn register_list(&mut self, domain: u32, pieces: &[Slice]) -> Result<u32, RequestError> {
        if pieces.len() > MAX_PIECES {
            return Err(RequestError::Limit("pieces of memory in a list"));
        }
        let state = &mut self.chains.state;
        let key = state.regions.add_list(domain, pieces, state.limits.regions);
        key.ok_or(RequestError::Limit("regions"))
    }

    /// Invalidates a key. Returns false if the key was not valid in this domain.
    pub fn deregister(&mut self, domain: u32, key: u32) -> bool {
        self.chains.state.regions.remove(domain, key)
    }

    /// Opens this end of a queue pair under a number that the caller chooses. Its packets leave from this UDP
    /// port; 0 stands for any free one. A pair without a peer has datagrams, each with its own destination.
    /// `options` are set before the first packet, as with [`Stack::connect_with`].
    ///
    /// # Errors
    /// See [`RequestError`]; no state remains.
    pub fn open_pair(
        &mut self,
        now: Instant,
        (number, port): (u32, u16),
        remote: Option<SocketAddr>,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let far = match remote {
            Some(remote) => self.route(ANYBODY.0, remote)?,
            None => (ANYBODY.0, ANYBODY, 0),
        };
        self.connect_as(now, u64::from(number), far, port, options)
    }

    /// Posts work. Returns false if the program has no room for more now; completions make room.
    ///
    /// # Errors
    /// See [`RequestError`]. Returns [`RequestError::Unsupported`] if the program's connections accept no
    /// work.
    pub fn post(&mut self, now: Instant, handle: Handle, work: &WorkRequest) -> Result<bool, RequestError> {
        let parser = self.chains.tables.app[op_index(AppOp::Post)];
        let parser = parser.ok_or(RequestError::Unsupported(AppOp::Post))?;
        let slot = self.context_of(handle)?;
        let mut op = self.op(slot);
        if let Some((host, pair)) = work.to {
            let (source, remote, path_mtu) = self.route(ANYBODY.0, SocketAddr::new(host, 0))?;
            op.sub = pair.into();
            op.path_mtu = path_mtu;
            (op.local_ip, op.remote_ip) = (source, remote.0);
        }
        let op = Op {
            arg: work.id,
            code: work.code,
            flags: work.flags,
            len: work.len,
            key: work.local.0,
            at: work.local.1,
            remote_key: work.remote.0,
            remote_at: work.remote.1,
            value: work.value,
            swap: work.swap,
            ..op
        };
        let cause = Cause { handle: Some(handle), ..Cause::application(Buffer::default()) };
        super::request::is_taken(self.run(now, AppOp::Post, parser, &op, &cause))
    }
}
