//! The transport programs that come with Hawser, and what puts a program behind the engine.
