// The suite: included by `main.rs` for machine code, and by `../tcp_interp/main.rs` for the interpreter.

mod attacks;
mod bench;
mod close;
mod congestion;
mod listen;
mod open;
mod options;
mod path;
mod receive;
mod sack;
mod segment;
mod size;
mod timers;
mod transfer;
