//! Hawser: a programmable transport system.
