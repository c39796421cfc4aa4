//! The browser's story: Chromium downloads through the proxy, in a lab with two paths, over the transport
//! that the selection picks.
//!
//! * `demo_lab`: the lab, its switches and its processes; `setups`: the proxies
//! * `origin`: the web server, over TCP and over SCTP, and its content
//! * `client`: the client that downloads, a browser or curl
//! * `bridge`: the proxies' events, for the page and for the table
//! * `page`: `hawser demo --web`; `story`: `hawser demo --story browser`; `picture`: its page, as PNG

mod bridge;
mod client;
mod demo_lab;
mod origin;
mod page;
mod picture;
mod setups;
mod story;

pub(super) use client::require_client;
pub(super) use origin::run as origin;
pub(super) use page::run as page;
pub(super) use story::run as story;
