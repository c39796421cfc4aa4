//! A symbiotic application (as in Khan, Punnam and Zaghal, references 2 and 3): live video whose encoder follows the
//! signals of its own transport, beside senders that do not.
//!
//! * `encoder`: frames of a target rate, in groups of pictures
//! * `live`: sender and receiver as simulated applications
//! * `scenario`: the bottleneck, and what happens to it
//! * `run`: one sender over it; `figures`: what is drawn of all

mod encoder;
mod figures;
mod live;
mod run;
mod scenario;

pub(crate) use run::video;
