//! A session with the destination itself: its first stream, with others beside it, over every available path.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_carriers::mtp::{MtpOptions, MtpStack};
use hawser_carriers::quic::QuicOptions;
use hawser_carriers::tcp::TcpOptions;

use crate::{About, AttemptError, Duplex, Features, Opening, SharedStreams, Streams, Transport};
use hawser_race::resolve::ServiceRecord;
use hawser_race::{Handshake, Security};
use hawser_session::{
    Candidate, ClientConfig, Config, Notice, PathCandidate, Priority, Session as Handle, SessionError,
    SessionStream, Trust, TrustError, connect, scheduler,
};

use super::tls::security_of;

/// The maximum number of paths of one session, each over a different interface.
const MAX_PATHS: usize = 8;

/// A session with a peer that speaks Hawser's protocol (ALPN `hawser/1`). With any other peer an attempt
/// fails.
#[derive(Clone)]
pub struct Session {
    tls: Arc<rustls::ClientConfig>,
    name: Arc<str>,
    security: Security,
    /// The interfaces, each with a path; if empty, the system chooses one.
    interfaces: Vec<String>,
    /// True if paths other than the first are used only after it is lost.
    is_handover: bool,
    /// The name in descriptions if it has a single path.
    interface: Option<String>,
    /// Stacks that each carry a further path, if it has several.
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
    /// Makes a session over one path, with peers that `trust` admits and that have this name.
    ///
    /// # Errors
    /// When the certificates to be trusted cannot be read.
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

    /// Restricts it to this interface; `None` allows any.
    #[must_use]
    pub fn by(self, interface: Option<String>) -> Session {
        Session { interface, ..self }
    }

    /// Uses these interfaces at once, or one after the other (RFC 9622, 8.1.7: Handover).
    #[must_use]
    pub fn over(self, interfaces: &[String], is_handover: bool) -> Session {
        let interfaces = interfaces.iter().take(MAX_PATHS).cloned().collect();
        Session { interfaces, is_handover, ..self }
    }

    /// If it has several paths, also uses these stacks.
    #[must_use]
    pub fn beside(self, stacks: &[MtpStack]) -> Session {
        Session { stacks: stacks.iter().take(MAX_PATHS).cloned().collect(), ..self }
    }

    fn has_several_paths(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Makes candidates over each interface: TCP, and QUIC in case that fails.
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
        let none = || AttemptError::from(io::Error::other("the scheduler does not exist"));
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
    fn to_address(&self, address: SocketAddr, service: Option<&ServiceRecord>) -> Vec<crate::Candidate> {
        // The record excludes the default protocol, and it cannot list a session.
        if service.is_some_and(|service| service.no_default_alpn) {
            return Vec::new();
        }
        let connect = |transport: Arc<Session>, address| async move { transport.connect(address).await };
        // The interfaces are part of its identity: over several interfaces it succeeds or fails with them.
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

/// The features of a session's streams.
const FEATURES: Features = Features {
    multistreaming: true,
    announces_itself: false,
    security: Security::Encrypted,
    ..Features::STREAM
};

/// A stream of a session, which keeps the session alive.
pub(crate) struct SessionDuplex {
    pub(crate) stream: SessionStream,
    pub(crate) session: Handle,
}

crate::delegate!(SessionDuplex, stream);

impl Duplex for SessionDuplex {
    fn abort(self: Box<Self>) {
        // A stream that has ended cannot be reset.
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
        // A session has eight levels with 3 as the default; here the default is 100 (RFC 9622, 8.1.2).
        let level = u8::try_from(priority.saturating_mul(3) / 100)
            .unwrap_or(u8::MAX)
            .min(7);
        // A stream that has ended has no priority.
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

/// Opens a stream of a session. The stream keeps the session alive, and yields the session's other streams.
///
/// # Errors
/// The session has ended.
pub fn session_stream(session: Handle) -> Result<Box<dyn Duplex>, SessionError> {
    let stream = session.open()?;
    Ok(Box::new(SessionDuplex { stream, session }))
}

/// A session's streams.
struct SessionStreams {
    session: Handle,
}

impl Streams for SessionStreams {
    fn open(&self) -> Opening {
        let session = self.session.clone();
        Box::pin(async move { Ok(session_stream(session)?) })
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
