//! Hawser: a programmable transport system.
//!
//! This crate contains no machinery: it re-exports the other crates under one name. Each group of crates is a
//! feature; the default is `stack`.
//!
//! | feature | modules | purpose |
//! |---|---|---|
//! | `stack` (default) | [`Endpoint`], [`Network`], [`Stream`], [`Listener`], [`MessageSocket`], [`host`], [`programs`], [`lang`] | a transport written in MTP as a socket over a device of this machine |
//! | `sim` | [`runs`], [`testkit`], [`trace`], [`lang::capabilities`], faults in front of devices | the same in virtual time and under behaviour scripts; what each target offers to programs |
//! | `verbs` | [`verbs`] | memory of other processes, with libibverbs's names |
//! | `xdp` | [`host::DeviceSpec::Xdp`] | the same on an interface by AF_XDP |
//! | `dpdk` | [`host::DeviceSpec::Dpdk`] | the same on a port of DPDK |
//! | `ide` | [`lang::ide`] | answers to an editor's questions about programs |
//! | `session` | [`session`], [`race`] | one session over several transports and interfaces at once |
//! | `codes` | `session::Code`, `session::CodeGate` | one-time codes, which decide who may use a session |
//! | `connect` | [`connect`] | a connection by the transport that wins the race, also in the terms of RFC 9622 ([`connect::taps`]) |
//! | `interact` | [`interact`] | subscribe to running transports, probe them, modify them |
//! | `ebpf` | `interact` with Linux's own TCP loaded into the kernel | the same for the kernel's TCP |
//! | `lab` | [`lab`] | emulated networks of this machine, to run and test in |
//!
//! # Where to begin
//!
//! **Write a transport**, and use it as a socket over a device of its own (`stack`):
//!
//! ```no_run
//! use hawser::Network;
//! use hawser::host::{self, StackSetup};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let setup = StackSetup::new("tun:hawser0".parse()?, host::parse_address("10.9.0.2/24")?);
//! let program = hawser::programs::resolve("my-transport.mtp", &[])?;
//! let network = Network::start(host::open(program, &setup)?)?;
//! let stream = network.connect("10.9.0.1:7".parse()?).await?; // AsyncRead + AsyncWrite
//! # Ok(())
//! # }
//! ```
//!
//! **Join paths**: one session over every transport and interface of a document (`session`):
//!
//! ```no_run
//! # #[cfg(feature = "session")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser::session::{document::Document, open};
//!
//! let (session, warnings) = open(&Document::new("server.example:4433")?).await?;
//! let stream = session.open()?; // survives the loss of any path
//! # Ok(())
//! # }
//! ```
//!
//! **Choose a path**: a connection by the transport that wins the race (`connect`):
//!
//! ```no_run
//! # #[cfg(feature = "connect")]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser::connect::{Racer, Request};
//!
//! let connected = Racer::open().await?.connect(Request::to("www.example.org:443".parse()?)).await?;
//! println!("{} won after {:?}", connected.candidate, connected.took);
//! # Ok(())
//! # }
//! ```
//!
//! **Watch and steer** the transports of another process that runs with `--interact` (`interact`):
//!
//! ```no_run
//! # #[cfg(feature = "interact")]
//! # fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser::interact::{Client, usual_socket};
//!
//! let socket = usual_socket().ok_or("this user has no folder for sockets")?;
//! let mut client = Client::connect(&socket, "watcher", 1)?;
//! let flows = client.ask(&serde_json::json!({ "flows": {} }))?;
//! println!("{flows}");
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(feature = "sim")]
pub mod trace;

/// The features that need more than a C compiler, each with whether this build has it.
pub const FEATURES: [(&str, bool); 3] = [
    ("ebpf", cfg!(feature = "ebpf")),
    ("xdp", cfg!(feature = "xdp")),
    ("dpdk", cfg!(feature = "dpdk")),
];

#[cfg(feature = "connect")]
#[doc(inline)]
pub use hawser_connect as connect;
#[cfg(feature = "lab")]
#[doc(inline)]
pub use hawser_lab as lab;
#[cfg(feature = "stack")]
#[doc(inline)]
pub use hawser_load::programs;
#[cfg(feature = "session")]
#[doc(inline)]
pub use hawser_race as race;
#[cfg(feature = "sim")]
#[doc(inline)]
pub use hawser_runs as runs;
#[cfg(feature = "session")]
#[doc(inline)]
pub use hawser_session as session;
#[cfg(feature = "verbs")]
#[doc(inline)]
pub use hawser_sockets::verbs;
#[cfg(feature = "stack")]
#[doc(inline)]
pub use hawser_sockets::{
    Accepted, Connection, Device, Direction, Endpoint, Handle, Keepalive, Listener, MessageError,
    MessageOptions, MessageSocket, Network, OpenError, Options, RecvStream, Request, SendStream, StateReader,
    Stream, host, messages, options,
};
#[cfg(feature = "sim")]
#[doc(inline)]
pub use hawser_testkit as testkit;
#[doc(inline)]
pub use hawser_time as time;

/// The MTP language: check, format, explain.
#[cfg(feature = "stack")]
pub mod lang {
    pub use hawser_driver::{
        Compilation, Disk, Loader, attach, attached_places, compile, explain, explain_offload, is_library,
        library, render, render_json,
    };
    #[cfg(feature = "ide")]
    #[doc(inline)]
    pub use hawser_ide as ide;
    #[cfg(feature = "sim")]
    pub use hawser_ide::dissector::{Unsupported, dissector};
    #[cfg(feature = "sim")]
    #[doc(inline)]
    pub use hawser_ir::capabilities;
    pub use hawser_syntax::{Diagnostic, OneLine, Printable, SourceMap, format};
}

/// The interactive layer: subscribe to running transports, receive signals, probe, modify (iTCP).
#[cfg(feature = "interact")]
pub mod interact {
    #[doc(inline)]
    pub use hawser_bus::twares;
    #[cfg(feature = "stack")]
    #[doc(inline)]
    pub use hawser_engine::schema as program_schema;
    #[cfg(feature = "lab")]
    pub use hawser_lab::provider::with_links;
    #[doc(inline)]
    pub use hawser_linux::provider as kernel;
    #[doc(inline)]
    pub use hawser_socket::*;
}
