//! A page that shows what a network and the connections over it do while they do it, with switches that
//! change it; in the manner of NEAT's Happy BlueBox.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use hawser_dashboard::{Controls, Dashboard, Feed, Path, Plan, Switch};
//!
//! struct Network;
//! impl Controls for Network {
//!     fn switch(&self, id: &str, on: bool) -> Result<(), String> {
//!         Err(format!("{id} cannot be set to {on}"))
//!     }
//! }
//!
//! let feed = Feed::new(Plan {
//!     title: "Two paths".into(),
//!     paths: vec![Path { id: "a".into(), name: "Path A".into(), mbit_per_second: 10.0 }],
//!     switches: vec![Switch::new("sctp", "SCTP", "UDP port 9899", true)],
//!     ..Plan::default()
//! });
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let page = Dashboard::new(listener, feed.clone(), Arc::new(Network))?;
//! println!("{}", page.url());
//! feed.sample(&[9.4]);
//! page.serve(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Feed`]: what is shown: samples of paths, races, candidates, downloads, switches
//! * [`Controls`]: what the page's switches and buttons do
//! * [`Dashboard`]: the server of the page: loopback alone, for who knows the token
//! * [`browser`]: a browser under remote control, for demonstrations and tests
//!
//! The page itself is in `page/`: HTML, CSS and scripts as they are, no build step; plots are by uPlot.
//!
//! Invariants: nothing is served beyond this host, or without the token in the address, or to a page of
//! another origin. What a feed keeps is bounded, and so are readers that do not read: they are given the
//! whole state anew.

#![forbid(unsafe_code)]

pub mod browser;
mod feed;
mod server;

pub use feed::{Candidate, Controls, Download, DownloadState, Feed, Path, Plan, Setup, Switch};
pub use server::{Dashboard, DashboardError};
