//! The whole pipeline: files in, a checked program or diagnostics out.
