//! A session with the destination itself: its first stream, with others beside it, over every path that
//! there is.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_carrier_mtp::{MtpOptions, MtpStack};
use hawser_carrier_quic::QuicOptions;
use hawser_carrier_tcp::TcpOptions;

use crate::{About, AttemptError, Duplex, Features, Opening, SharedStreams, Streams, Transport};
use hawser_race::{Handshake, Security};
use hawser_resolve::Service;
use hawser_session_driver::{
    Candidate, ClientConfig, Config, Notice, PathCandidate, Priority, Session as Handle, SessionStream,
    Trust, TrustError, connect, scheduler,
};

use super::tls::security_of;

/// Paths of one session, each over an interface of its own.
const MAX_PATHS: usize = 8;

/// A session with a peer that speaks Hawser's protocol (ALPN `hawser/1`). With any other peer an attempt
/// fails.
#[derive(Clone)]
pub struct Session {
    tls: Arc<rustls::ClientConfig>,
    name: Arc<str>,
    security: Security,
    /// Interfaces that a path each is over; the system's choice alone if there are none.
    interfaces: Vec<String>,
    /// Paths but the first are kept for when it is lost.
    is_handover: bool,
    /// What it is called where it has but one path.
    interface: Option<String>,
    /// Stacks over which a path each is, where it has several.
    stacks: Vec<MtpStack>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Session { name, interfaces, .. } = self;
        f.debug_struct("Session")
            .field("name", name)
            .field("interfaces", interfaces)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// With peers that `trust` admits and that have this name, over one path.
    ///
    /// # Errors
    /// The certificates to be trusted cannot be read.
    pub fn new(trust: &Trust, name: &str) -> Result<Session, TrustError> {
        let (tls, security) = (trust.client(&[])?, security_of(trust));
        let (interfaces, name) = (Vec::new(), name.into());
        Ok(Session {
            tls,
            name,
            security,
            interfaces,
            is_handover: false,
            interface: None,
            stacks: Vec::new(),
        })
    }

    /// By this interface; any if there is none.
    #[must_use]
    pub fn by(self, interface: Option<String>) -> Session {
        Session { interface, ..self }
    }

    /// Over these interfaces at once, or one after the other (RFC 9622, 8.1.7: Handover).
    #[must_use]
    pub fn over(self, interfaces: &[String], is_handover: bool) -> Session {
        let interfaces = interfaces.iter().take(MAX_PATHS).cloned().collect();
        Session { interfaces, is_handover, ..self }
    }

    /// Where it has several paths, over these stacks as well.
    #[must_use]
    pub fn beside(self, stacks: &[MtpStack]) -> Session {
        Session { stacks: stacks.iter().take(MAX_PATHS).cloned().collect(), ..self }
    }

    fn has_several_paths(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Over each interface, TCP and, should that lead nowhere, QUIC.
    fn candidates(&self, peer: SocketAddr) -> Vec<(PathCandidate, Candidate)> {
        let interfaces: Vec<Option<String>> = match self.interfaces.is_empty() {
            true => vec![self.interface.clone()],
            false => self.interfaces.iter().cloned().map(Some).collect(),
        };
        let mut candidates = Vec::new();
        for (path, interface) in interfaces.into_iter().enumerate() {
            let candidate = Candidate { backup: self.is_handover && path > 0, ..Candidate::new(path as u32) };
            let tcp = TcpOptions { interface: interface.clone(), ..TcpOptions::default() };
            let quic = QuicOptions { interface, ..QuicOptions::default() };
            candidates.push((
                PathCandidate::Tcp { peer, local: None, options: tcp },
                candidate.clone(),
            ));
            candidates.push((
                PathCandidate::Quic { peer, local: None, options: quic },
                candidate,
            ));
        }
        let stacks = self.stacks.iter().filter(|_| self.has_several_paths());
        for (path, stack) in (candidates.len()..).zip(stacks) {
            let candidate = Candidate { backup: self.is_handover, ..Candidate::new(path as u32) };
            candidates.push((
                PathCandidate::Mtp { peer, stack: stack.clone(), options: MtpOptions::default() },
                candidate,
            ));
        }
        candidates
    }

    async fn connect(&self, peer: SocketAddr) -> Result<SessionDuplex, AttemptError> {
        let none = || AttemptError::from(io::Error::other("there is no scheduler of that name"));
        let session = connect(ClientConfig {
            session: Config::default(),
            name: None,
            scheduler: scheduler::by_name("ecf").ok_or_else(none)?,
            candidates: self.candidates(peer),
            tls: Some((Arc::clone(&self.tls), self.name.to_string())),
        })
        .map_err(io::Error::from)?;
        session.opened().await.map_err(io::Error::from)?;
        let stream = session.open().map_err(io::Error::from)?;
        Ok(SessionDuplex { stream, session })
    }
}

impl Transport for Session {
    fn to_address(&self, address: SocketAddr, service: Option<&Service>) -> Vec<crate::Candidate> {
        // A record lists what else is spoken there, and that is not it.
        if service.is_some_and(|service| service.no_default_alpn) {
            return Vec::new();
        }
        let connect = |transport: Arc<Session>, address| async move { transport.connect(address).await };
        // What it runs over is part of what it is: over several interfaces it stands and falls with them.
        let interface = match self.has_several_paths() {
            true => Some(self.interfaces.join("+")),
            false => self.interface.clone(),
        };
        let candidate = crate::Candidate::to_address(self, address, "session", interface.as_deref(), connect);
        vec![crate::Candidate { security: self.security, handshake: Handshake::Secure, ..candidate }]
    }

    fn features(&self) -> Features {
        Features {
            multipath: self.has_several_paths(),
            security: self.security,
            ..FEATURES
        }
    }
}

/// What a session's streams do.
const FEATURES: Features = Features {
    multistreaming: true,
    announces_itself: false,
    security: Security::Encrypted,
    ..Features::STREAM
};

/// A stream of a session, which lasts as long.
pub(crate) struct SessionDuplex {
    pub(crate) stream: SessionStream,
    pub(crate) session: Handle,
}

crate::delegate!(SessionDuplex, stream);

impl Duplex for SessionDuplex {
    fn abort(self: Box<Self>) {
        // One that is over cannot be given up.
        let _ = self.stream.reset(0);
    }

    fn about(&self) -> About {
        let paths = self.session.paths();
        let first = paths
            .iter()
            .find(|(_, path)| path.report.is_some())
            .map(|(_, path)| &path.description);
        About {
            transport: "session",
            local: first.map(|description| description.local),
            peer: first.map(|description| description.peer),
            protocol: None,
        }
    }

    fn features(&self) -> Features {
        Features { multipath: true, ..FEATURES }
    }

    fn streams(&self) -> Option<SharedStreams> {
        Some(Arc::new(SessionStreams { session: self.session.clone() }))
    }

    fn unacknowledged(&mut self) -> Option<u64> {
        Some(self.stream.unacknowledged())
    }

    fn prioritize(&self, priority: u64) {
        // A session has eight levels, of which 3 is the usual one; here that is 100 (RFC 9622, 8.1.2).
        let level = u8::try_from(priority.saturating_mul(3) / 100)
            .unwrap_or(u8::MAX)
            .min(7);
        // One that is over has no priority.
        let _ = self.stream.prioritize(Priority { level, incremental: true });
    }

    fn poll_write_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<usize>> {
        let mut taken = 0;
        while let Some(front) = queue.front_mut() {
            if front.is_empty() {
                queue.pop_front();
                continue;
            }
            match self.stream.poll_write_bytes(cx, front) {
                Poll::Ready(Ok(count)) => taken += count,
                Poll::Ready(Err(error)) if taken == 0 => return Poll::Ready(Err(error)),
                Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(taken))
    }
}

/// A session's streams.
struct SessionStreams {
    session: Handle,
}

impl Streams for SessionStreams {
    fn open(&self) -> Opening {
        let session = self.session.clone();
        Box::pin(async move {
            let stream = session.open()?;
            Ok(Box::new(SessionDuplex { stream, session }) as _)
        })
    }

    fn accept(&self) -> Opening {
        let session = self.session.clone();
        Box::pin(async move {
            let stream = session.accept().await?;
            Ok(Box::new(SessionDuplex { stream, session }) as _)
        })
    }

    fn next_change(&self) -> std::pin::Pin<Box<dyn Future<Output = Option<String>> + Send>> {
        let session = self.session.clone();
        Box::pin(async move {
            loop {
                match session.next_event().await? {
                    Notice::PathUp(carrier) => return Some(format!("path {carrier} is in use")),
                    Notice::PathSuspect(carrier) => return Some(format!("path {carrier} is suspected")),
                    Notice::PathLive(carrier) => return Some(format!("path {carrier} is in use again")),
                    Notice::PathLost { carrier, .. } => return Some(format!("path {carrier} is lost")),
                    _ => {}
                }
            }
        })
    }
}
