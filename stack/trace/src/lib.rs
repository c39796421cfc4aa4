//! What each event of a run did, by the names and lines of the program: the processors that ran, the fields that
//! changed, the instructions with the line of each, and what the engine did with them.
//!
//! A running program notes none of this. It is pure: given the same event and the same memory it does the same
//! again. So a [`Tracer`] lets the interpreter repeat each event on the memory as it was before, watched
//! statement by statement. That serves every engine, and costs nothing when nobody traces.
//!
//! * [`event`]: what is said of an event
//! * [`recorder`]: observes the stacks of a run
//! * [`printer`]: prints what events did, on threads of its own
//! * [`host`]: a host of a run, and what it sent
//! * [`kept`]: what the engine shows of an event, kept
//! * [`last`]: the last events of a run
//! * [`tracer`]: from what the engine shows to that
//! * [`filter`]: which events are wanted
//! * [`fields`]: a structure's fields by name, each at its place
//! * [`value`]: bytes as values
//! * [`digits`]: numbers as decimal digits
//! * [`instruction`]: records by the names of the language
//! * [`line`]: lines of JSON
//! * [`name`]: names, each kept once
//! * [`packet`]: packets by the program's own headers
//! * [`source`]: places in the source
//! * [`show`]: an event as text

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod digits;
mod event;
mod fields;
mod filter;
mod host;
mod instruction;
mod kept;
mod last;
mod line;
mod name;
mod packet;
mod printer;
mod recorder;
mod show;
mod source;
mod tracer;
mod value;

pub use hawser_interp::Unsupported;

pub use event::{Change, Context, Count, Event, Instruction, Processor, Show};
pub use fields::{Leaf, leaves};
pub use filter::{Connection, Filter, Flows, Packet};
pub use kept::Kept;
pub use last::LastEvents;
pub use name::Name;
pub use packet::{Decoded, Sent};
pub use printer::{Form, Print, Printed};
pub use recorder::Recorder;
pub use source::{Line, Lines};
pub use tracer::{Tracer, context, has_field};
pub use value::{Reader, Value};
