//! The tests of the command from outside, in one program: each links everything. Rates and delays are
//! measured in a program of their own, and so is what takes a user namespace.

mod capture;
mod dap;
mod debug;
mod demo;
mod dissector;
mod engines;
mod everybody;
mod exit_codes;
mod growth;
mod hostile;
mod interact;
mod kernel;
mod lab;
mod logs;
mod lsp;
mod mtp;
mod mutants;
mod neovim;
mod page;
mod picture;
mod place;
mod plain;
mod policy;
mod proxy;
mod python;
mod readme;
mod session;
mod steer;
mod step;
mod trace;
mod trace_hosts;
mod tun;
mod tutorial;
mod watch;
mod why;
