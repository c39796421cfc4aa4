//! Linux's own TCP, unpatched: watched, probed and steered by eBPF, under the names that Hawser's own
//! transports use.
//!
//! * *subscribe*: [`Kernel::subscribe`] takes a [`FlowEvent`] and a [`Filter`]. The filters run in the
//!   kernel, and [`Kernel::poll`] delivers [`EventRecord`]s from a ring, with losses counted.
//! * *probe*: [`Diagnostics`] asks the kernel for flows and their [`FlowState`], by INET_DIAG, which takes no
//!   privilege and no eBPF.
//! * *modify*: [`Kernel::modify`] gives a flow a window, a threshold or a pacing rate under a lease. It takes
//!   effect at the flow's next ACK. When the lease is over, the flow's own congestion controller continues,
//!   even if this process has died.
//! * *reach*: [`Kernel::adopt`], [`Kernel::set`], [`Kernel::end_flow`] act on live sockets of other
//!   processes.
//!
//! ```no_run
//! use std::time::Duration;
//! use hawser_linux::{Diagnostics, FlowEvent, Filter, Kernel, Options, Variable};
//!
//! # fn main() -> Result<(), hawser_linux::KernelError> {
//! let mut kernel = Kernel::load(&Options::default())?; // the only step that takes privilege
//! let every_10_ms = Filter { interval: Duration::from_millis(10), ..Filter::default() };
//! kernel.subscribe(FlowEvent::Acked, every_10_ms)?;
//! let mut diagnostics = Diagnostics::open()?;
//! for flow in diagnostics.flows()? {
//!     kernel.adopt(flow.cookie)?;
//!     kernel.modify(flow.cookie, Variable::Cwnd, 100_000, Duration::from_secs(1))?;
//! }
//! kernel.poll(None, |record| println!("{record:?}"))?;
//! # Ok(())
//! # }
//! ```
//!
//! * `event`, `filter`: the events, and the filters of subscriptions
//! * `capability`: the capabilities of this machine's kernel, and the reasons why others are missing
//! * `kernel`: [`Kernel`]; `subscriptions`, `leases`, `socket_iterator`: its parts
//! * `diag`: [`Diagnostics`], [`TcpFlow`], [`FlowState`]
//! * [`provider`]: all of this on the bus
//! * `programs`: loading and attaching; `abi`: the layouts shared with `bpf/`; `hook`: the hooks of the
//!   programs
//!
//! Invariants: after the [`Kernel`] is dropped, only sockets that our congestion control runs are affected.
//! They keep it, under its own congestion controller, until they end. Every table has a stated limit.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Without eBPF, the parts that only the programs need have no caller.
#![cfg_attr(not(feature = "ebpf"), allow(dead_code))]

mod abi;
mod capability;
mod diag;
mod error;
mod event;
mod filter;
mod hook;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod kernel;
mod leases;
mod options;
#[cfg_attr(not(feature = "ebpf"), path = "programs/absent.rs")]
mod programs;
pub mod provider;
mod socket_iterator;
mod subscriptions;

pub use abi::SUBSCRIPTIONS;
pub use capability::{Capability, CapabilitySubject};
pub use diag::{Diagnostics, FlowState, Owners, Process, TcpFlow, own_namespace};
pub use error::{KernelError, Missing};
pub use event::{EventRecord, FIELDS, FlowEvent};
pub use filter::{Filter, SubscriptionId};
pub use kernel::Kernel;
pub use leases::{LeaseCounts, MAX_LEASE, Variable};
pub use options::Options;
pub use socket_iterator::{Setting, SocketInternals};
