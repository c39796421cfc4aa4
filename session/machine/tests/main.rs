//! This crate's tests through its public interface. They are one program, because each program links
//! everything.

mod balancer;
mod hostile;
mod schedulers;
mod sim;
mod unreachable;
