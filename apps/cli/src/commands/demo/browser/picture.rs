//! A picture of the story's page, as a browser shows it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hawser_dashboard::browser::{Browser, BrowserError, Options, command};
use hawser_dashboard::{Controls, Dashboard, Feed};

use super::demo_lab::DemoLab;
use crate::exit::{Exit, Outcome};

/// The size of the browser's window, in CSS pixels.
const SIZE: (u32, u32) = (1360, 900);
/// The time in which the page must show the content of the feed.
const SHOWN_IN: Duration = Duration::from_secs(10);

/// The controls of a page that is only photographed: its switches are not used.
struct Picture;

impl Controls for Picture {
    fn switch(&self, _: &str, _: bool) -> Result<(), String> {
        Err("the story has the switches".to_owned())
    }
}

/// Takes the picture and writes it to `file`.
pub(super) fn take(place: &DemoLab, feed: &Feed, file: &Path) -> Outcome {
    let command = command(|program| place.on_client(program))?
        .ok_or_else(|| Exit::environment("a picture needs a browser: apt-get install chromium"))?;
    // The page listens on the client, because the browser runs there.
    let client = place.lab.host("client").map_err(Exit::environment)?;
    let listener = client
        .run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .map_err(Exit::environment)?;
    let listener = listener.map_err(Exit::environment)?;
    let page = Dashboard::new(listener, feed.clone(), Arc::new(Picture)).map_err(Exit::environment)?;
    let url = page.url();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.map_err(Exit::environment)?;
    runtime.spawn(page.serve(std::future::pending()));
    let options = Options { size: SIZE, ..Options::default() };
    let shown = |command| -> Result<Vec<u8>, BrowserError> {
        let mut browser = Browser::launch(command, &options)?;
        browser.navigate(&url)?;
        browser.wait_until("document.querySelector('.lane') !== null", SHOWN_IN)?;
        browser.screenshot()
    };
    let png = shown(command).map_err(Exit::environment)?;
    runtime.shutdown_background();
    std::fs::write(file, png).map_err(|error| Exit::environment(format!("{}: {error}", file.display())))
}
