//! TCP's behaviour, as RFCs and formulas have it: a stack in virtual time against a peer that the
//! test plays by hand, and two stacks over a bad link.

mod attacks;
mod bench;
mod close;
mod congestion;
mod cubic;
mod ecn;
mod listen;
mod long_stream;
mod open;
mod options;
mod path;
mod rack;
mod receive;
mod recovery;
mod sack;
mod segment;
mod size;
mod spurious;
mod states;
mod timers;
mod transfer;
