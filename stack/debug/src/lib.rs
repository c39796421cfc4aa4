//! A debugger for transport programs: a run in the simulator, forwards and backwards, statement by statement.
//!
//! A run depends on its scenario and its seed alone. So an earlier place is reached by running again from the start,
//! and nothing has to be kept of a run but where its debugger stands: before a statement of an event.
//!
//! ```text
//! command ──▶ Debugger ──▶ Stop, views
//!               │
//!               ├─ player: the run, event by event; contexts: the hosts' contexts before the event
//!               ├─ the event itself, repeated by the interpreter up to the statement
//!               └─ breakpoint: where to stop; expression: what to print
//! ```
//!
//! * [`debugger`]: where it stands, and how it gets elsewhere; [`stop`], [`changes`]: what is said of that
//! * [`command`]: commands as people write them; [`answer`]: what they get
//! * [`breakpoint`], [`hits`]: where it stops by itself
//! * [`expression`], [`ready`]: expressions in the language, over the place where it stands
//! * [`view`]: what can be seen there; [`show`]: the same as text
//! * [`player`]: the run; [`contexts`]: what its hosts know; [`program`]: a host's program by names and lines
//!
//! Invariants: no I/O, no clock. Whoever gives the same commands gets the same answers.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod breakpoint;
mod changes;
mod command;
mod contexts;
mod debugger;
mod expression;
mod hits;
mod player;
mod program;
mod ready;
mod show;
mod stop;
mod view;

pub use answer::{Answer, ObeyError};
pub use breakpoint::{BreakError, Breakpoint, What};
pub use command::{Command, CommandError, HELP, Move, To};
pub use debugger::{Begin, DebugError, Debugger, Resolver};
pub use hawser_trace::Value;
pub use ready::PrintError;
pub use stop::{Changed, Place, Reason, Stop};
pub use view::{ContextView, Flying, Frame, HostView, Scope, SourceLine, Variables};
