//! A proxy in front of the race: one port that speaks SOCKS5 (RFC 1928, 1929), HTTP CONNECT and plain HTTP
//! (RFC 9110, 9112), told apart by the first byte.
//!
//! A client is answered when the race for its destination is over, so that the answer is correct. The
//! [`Transport`](hawser::connect::Transport)s in the [`Settings`] decide which transports carry the data; no
//! code here depends on a particular one.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser::connect::Racer;
//! use hawser_proxy::{Proxy, Settings};
//!
//! let proxy = Proxy::bind(Racer::open().await?, Settings::default()).await?;
//! println!("listening on {:?}", proxy.addresses());
//! proxy.serve(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Proxy`]: listens, accepts, stops; `connection`: the state of a client; `serve`: detects the protocol
//!   of a client
//! * `socks`: a client of SOCKS5; `http`: a client of HTTP
//! * `answer`: maps failures to the codes of both
//! * `relay`: copies bytes in both directions, with half-closes and resets
//! * [`Credential`]: the credential of the users
//! * [`ProxyEvent`]: events for logs
//!
//! Invariants: memory, connections and the time for a request's head are bounded by [`ProxyLimits`]. No
//! client gets a success before the race is won. Listening beyond this host requires a credential.

#![forbid(unsafe_code)]

mod answer;
mod connection;
mod credential;
mod event;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod http;
mod relay;
mod serve;
mod server;
mod settings;
mod socks;

pub use credential::{BadCredential, Credential};
pub use event::{Protocol, ProxyEvent, ProxyEventContent, ServerEvent};
pub use server::{BindError, Proxy};
pub use settings::{Choice, Learner, Observer, ProxyLimits, Settings};
