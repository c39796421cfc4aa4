//! The fuzz targets, one module each.

pub(crate) mod diag;
pub(crate) mod documents;
pub(crate) mod faults;
pub(crate) mod file;
pub(crate) mod frames;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod ide;
pub(crate) mod interact;
pub(crate) mod library;
pub(crate) mod names;
pub(crate) mod packets;
pub(crate) mod policy;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod race;
pub(crate) mod recording;
pub(crate) mod rights;
pub(crate) mod scripts;
pub(crate) mod sctp;
pub(crate) mod session;
pub(crate) mod session_documents;
pub(crate) mod steps;
pub(crate) mod translator;
