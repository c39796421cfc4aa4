//! Describes the effects of each event of a run by the names and lines of the program. They are the
//! processors that ran, the changed fields, the instructions with their lines, and the engine's response to
//! them.
//!
//! A running program does not record this. It is pure: the same event on the same memory has the same
//! effects. A [`Tracer`] therefore lets the interpreter repeat each event on its original memory, observed
//! statement by statement. This works for every engine and costs nothing without a trace.
//!
//! * [`event`]: the description of an event
//! * [`recorder`]: observes the stacks of a run
//! * [`printer`]: prints the effects of events, on its own threads
//! * [`host`]: a host of a run, and the packets that it sent
//! * [`event_copy`]: copies of the events that the engine shows
//! * [`recent_events`]: the last events of a run
//! * [`tracer`]: turns a shown event into its description
//! * [`filter`]: selects the wanted events
//! * [`fields`]: a structure's fields by name, each with its place
//! * [`value`]: bytes as values
//! * [`digits`]: numbers as decimal digits
//! * [`instruction`]: records by the names of the language
//! * [`line`]: lines of JSON
//! * [`shared_names`]: shared names
//! * [`packet`]: packets by the program's own headers
//! * [`source`]: places in the source
//! * [`show`]: an event as text

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod digits;
mod event;
mod event_copy;
mod fields;
mod filter;
mod host;
mod instruction;
mod line;
mod packet;
mod printer;
mod recent_events;
mod recorder;
mod shared_names;
mod show;
mod source;
mod tracer;
mod value;

pub use hawser_interp::Unsupported;

pub use event::{
    Context, CounterChange, EventCallback, FieldChange, Processor, TracedEvent, TracedInstruction,
};
pub use event_copy::EventCopy;
pub use fields::{Leaf, leaves};
pub use filter::{Connection, Filter, Flows, Packet};
pub use packet::{Decoded, SentPacket};
pub use printer::{OutputFormat, Print, Printed};
pub use recent_events::LastEvents;
pub use recorder::Recorder;
pub use shared_names::SharedName;
pub use source::{ProgramLine, ProgramLines};
pub use tracer::{Tracer, context, has_field};
pub use value::{Reader, TraceValue};
