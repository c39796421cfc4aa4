//! The tests of this crate as its users see it, in one program: each links everything.

mod both;
mod calls;
mod datagrams;
mod delivery;
mod documents;
mod fabric;
mod falls;
mod found;
mod framed;
mod limits;
mod overhear;
mod pauses;
mod planted;
mod programs;
mod shares;
mod sharing;
mod streams;
mod super_segments;
mod switches;
mod works;
