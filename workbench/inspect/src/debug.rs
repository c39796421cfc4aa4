//! A debugger for transport programs: a run in the simulator, forwards and backwards, statement by statement.
//!
//! A run depends only on its scenario and its seed. The debugger therefore reaches an earlier place by
//! running again from the start. It keeps no history of a run, only its position before a statement of an
//! event.
//!
//! ```text
//! command ──▶ Debugger ──▶ Stop, views
//!               │
//!               ├─ player: the run, event by event; contexts: the hosts' contexts before the event
//!               ├─ the event itself, repeated by the interpreter up to the statement
//!               └─ breakpoint: where to stop; expression: what to print
//! ```
//!
//! * [`debugger`]: its position and its moves; [`stop`], [`changes`]: the description of a stop
//! * [`command`]: commands in the form in which users write them; [`answer`]: their answers
//! * [`breakpoint`], [`breakpoint_hits`]: the places where it stops by itself
//! * [`expression`], [`checked_expression`]: expressions in the language, evaluated at its position
//! * [`view`]: the visible state at its position; [`show`]: the same as text
//! * [`dap`]: the same for editors, by the Debug Adapter Protocol
//! * [`player`]: the run; [`contexts`]: the hosts' contexts; [`program`]: a host's program by names and lines
//!
//! Invariants: no I/O, no clock. The same commands give the same answers.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod breakpoint;
mod breakpoint_hits;
mod changes;
mod checked_expression;
mod command;
mod contexts;
pub mod dap;
mod debugger;
mod expression;
mod player;
mod program;
mod show;
mod stop;
mod view;

pub use crate::trace::TraceValue;
pub use answer::{Answer, ObeyError};
pub use breakpoint::{BreakCondition, BreakError, Breakpoint};
pub use checked_expression::PrintError;
pub use command::{Command, CommandError, HELP, Move, RunTarget};
pub use debugger::{DebugError, Debugger, DebuggerInput, Resolver};
pub use stop::{Reason, Stop, StopPosition, ValueChange};
pub use view::{ContextView, Flying, Frame, HostView, Scope, SourceLine, Variables};
