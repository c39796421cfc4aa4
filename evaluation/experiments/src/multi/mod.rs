//! The experiments of MULTI (Hätönen, Rao and Tarkoma, *Programmable Session Layer MULTI-Connectivity*) on
//! links like those of its testbed (its Figures 3 and 4).

mod aggregate;
mod baseline;
mod network;
mod three;
mod wsp;

pub(crate) use aggregate::{aggregate, switch};
pub(crate) use baseline::baseline;
pub(crate) use three::three;
pub(crate) use wsp::wsp;
