//! Carriers over transports written in MTP, with TLS 1.3 or without.
//!
//! * [`MtpStack`]: a transport program on a device, where such carriers begin and end
//! * [`MtpStack::connect`], [`MtpListener`]: how to get an [`MtpCarrier`]
//! * [`MtpOptions`]: what a connection is asked for
//!
//! Invariant: as with the kernel's TCP, a carrier takes no more than
//! [`MtpOptions::not_sent`] bytes that no packet has had yet, so that an urgent segment overtakes nothing
//! but those.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod stack;

pub use carrier::MtpCarrier;
pub use stack::{MtpIncoming, MtpListener, MtpOptions, MtpStack, SOCKETS};
