//! A page that shows the live activity of a network and its connections, with switches that change the
//! network; in the manner of NEAT's Happy BlueBox.
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
//! * [`Feed`]: the content: samples of paths, races, candidates, downloads, switches
//! * [`Controls`]: the actions of the page's switches and buttons
//! * [`Dashboard`]: the server of the page, on loopback only and protected by a token
//! * [`browser`]: a browser under remote control, for demonstrations and tests
//!
//! The page itself is in `page/`: plain HTML, CSS and scripts, without a build step. Plots are drawn by
//! uPlot.
//!
//! Invariants: no request is served from beyond this host, without the token in the address, or from a page
//! of another origin. The content of a feed is bounded. A reader that lags behind gets the whole state again.

#![forbid(unsafe_code)]

pub mod browser;
mod feed;
mod server;

pub use feed::{Candidate, Controls, Download, DownloadState, Feed, Path, Plan, Setup, Switch};
pub use server::{Dashboard, DashboardError};
