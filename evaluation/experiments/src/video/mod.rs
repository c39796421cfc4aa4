//! A symbiotic application (as in Khan, Punnam and Zaghal, references 2 and 3): live video whose encoder
//! follows the signals of its own transport. It is compared with senders that do not.
//!
//! * `encoder`: frames of a target rate, in groups of pictures
//! * `live`: sender and receiver as simulated applications
//! * `scenario`: the bottleneck, and its changes over time
//! * `run`: one sender over it; `figures`: the drawings of all

mod encoder;
mod figures;
mod live;
mod run;
mod scenario;

pub(crate) use run::video;
