//! The measurements of NEAT (seed 001), and of the study on the cost of happy eyeballs that it cites.

mod caching;
mod download;

pub(crate) use caching::caching;
pub(crate) use download::download;
pub use download::serve;
