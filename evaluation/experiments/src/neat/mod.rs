//! The measurements of NEAT (Weinrank et al., *A NEAT Way to Browse the Web*, ANRW 2017), and of the study on
//! the cost of happy eyeballs that it cites.

mod caching;
mod download;

pub(crate) use caching::caching;
pub(crate) use download::download;
pub(crate) use download::serve;
