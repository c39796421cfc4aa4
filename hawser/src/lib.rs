//! Hawser: a programmable transport system.
//!
//! This crate assembles the rooms of the house; applications speak to it alone.
//!
//! * [`Endpoint`]: connections of a transport program over a device, polled by the caller
//! * [`Network`], [`Stream`], [`Listener`]: the same on a tokio runtime, as
//!   `AsyncRead + AsyncWrite`
//! * [`Options`], [`Keepalive`]: what an application may choose for a connection
//! * [`host`]: devices of this machine: TUN, Ethernet interfaces, faults in front of them
//! * [`sim`]: scenarios in the simulator
//! * [`lab`]: emulated networks of this machine, to run and test in
//! * [`programs`]: transport programs by name or by file
//! * [`policy`]: which transports serve a request, in what order
//! * [`interact`]: subscribe to what runs, probe it, modify it
//! * [`knowledge`]: what is known of networks, paths and peers, and who finds it out
//! * [`session`]: one session over several transports and interfaces at once
//! * [`places`]: places of unauthenticated peers, with a share for each network
//! * [`gateway`]: connections by way of a session's far end
//! * [`race`], [`resolve`]: which candidate for a connection is tried when; names to addresses
//! * [`select`]: a connection to a destination, by whichever way wins the race
//! * [`taps`]: the same in the words of RFC 9622: Preconnections, Connections, Messages
//! * [`script`]: behaviour scripts in packetdrill's syntax
//! * [`lang`]: the MTP language: check, format, explain

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod gateway;
pub mod interact;
pub mod knowledge;
pub mod lab;
pub mod lang;
pub mod local;
pub mod places;
pub mod policy;
pub mod programs;
pub mod script;
pub mod select;
pub mod session;
pub mod sim;
pub mod taps;

pub use hawser_net::{
    Device, Endpoint, Handle, Keepalive, Listener, Network, OpenError, Options, Probe, Stream, host, options,
};
pub use hawser_race as race;
pub use hawser_resolve as resolve;
