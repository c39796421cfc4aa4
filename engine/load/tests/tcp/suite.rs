// The suite, included by `main.rs` for machine code and by `../tcp_interp/main.rs` for the interpreter.

mod attach;
mod attachments;
mod attacks;
mod bench;
mod bottleneck;
mod close;
mod congestion;
mod cubic;
mod fastopen;
mod leases;
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
mod testbed;
mod super_segments;
mod transfer;
