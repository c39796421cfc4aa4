//! The browser on top: Chromium downloads through the proxy, in a lab with two paths, over whatever
//! transport the selection picks.
//!
//! * `place`: the lab, its switches, and who runs in it; `setups`: what proxies there are
//! * `origin`: the web server, over TCP and over SCTP, and its content
//! * `client`: who downloads: a browser, or curl
//! * `bridge`: what the proxies report, for the page and for the table
//! * `page`: `hawser demo --web`; `story`: `hawser demo --story browser`; `picture`: its page, as PNG

mod bridge;
mod client;
mod origin;
mod page;
mod picture;
mod place;
mod setups;
mod story;

pub(super) use client::require_client;
pub(super) use origin::run as origin;
pub(super) use page::run as page;
pub(super) use story::run as story;
