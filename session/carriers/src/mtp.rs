//! Carriers over transports written in MTP, with or without TLS 1.3.
//!
//! * [`MtpStack`]: a transport program on a device, where such carriers begin and end
//! * [`MtpStack::connect`], [`MtpListener`]: open an [`MtpCarrier`]
//! * [`MtpOptions`]: the options of a connection
//!
//! Invariant: as with the kernel's TCP, a carrier takes at most [`MtpOptions::not_sent`] bytes that are not
//! in a packet yet. An urgent segment waits for no more than those.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod stack;

pub use carrier::MtpCarrier;
pub use stack::{MtpIncoming, MtpListener, MtpOptions, MtpStack, SOCKETS};
