// The suite: included by `main.rs` for machine code, and by `../tcp_interp/main.rs` for the interpreter.

mod attacks;
mod bench;
mod bottleneck;
mod close;
mod congestion;
mod cubic;
mod ecn;
mod fastopen;
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
mod signals;
mod size;
mod spurious;
mod stage;
mod states;
mod super_segments;
mod timers;
mod transfer;
