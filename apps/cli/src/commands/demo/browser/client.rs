//! The downloading client: Chromium, timed by its own clock, or curl if Chromium is missing.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser_dashboard::browser::{Browser, Download, Options, command, program};

use super::bridge::Bridge;
use super::demo_lab::{DemoLab, SERVER};
use super::origin::{CHECK, content};
use super::setups::SETUPS;
use crate::exit::{Exit, Outcome};

/// The maximum time of a download; 64 MiB over one path take 60 s.
const LIMIT: Duration = Duration::from_secs(180);
/// The interval at which the client checks whether a download is still wanted, and whether curl has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// A client that makes one download at a time.
pub(super) struct Client<'p> {
    place: &'p DemoLab,
    bridge: &'p Bridge,
    browser: Option<Browser>,
    /// Set when no further downloads are wanted.
    stop: &'p AtomicBool,
}

/// A download in progress.
pub(super) struct RunningDownload {
    setup: usize,
    mib: u32,
    /// The number of requests of the setup's proxy before this one.
    before: u64,
    begun: DownloadStart,
}

enum DownloadStart {
    Browser(Download),
    Curl(Child, Instant),
}

/// A complete download with the expected content.
pub(super) struct CompleteDownload {
    /// The winner of its race.
    pub(super) transport: String,
    pub(super) seconds: f64,
}

/// Fails if neither a browser nor curl is available.
pub(in super::super) fn require_client() -> Outcome {
    if program().is_some() {
        Ok(())
    } else {
        super::super::linux::require_curl()
    }
}

impl<'p> Client<'p> {
    /// Starts Chromium if it is installed, and uses curl otherwise. The browser ends with this thread.
    pub(super) fn start(
        place: &'p DemoLab,
        bridge: &'p Bridge,
        stop: &'p AtomicBool,
    ) -> Result<Client<'p>, Exit> {
        require_client()?;
        let Some(command) = command(|program| place.on_client(program))? else {
            return Ok(Client { place, bridge, browser: None, stop });
        };
        let browser = Browser::launch(command, &Options::default());
        Ok(Client {
            place,
            bridge,
            browser: Some(browser.map_err(Exit::environment)?),
            stop,
        })
    }

    pub(super) fn name(&self) -> &'static str {
        if self.browser.is_some() {
            "Chromium"
        } else {
            "curl"
        }
    }

    /// Starts a download through a setup's proxy, over a connection of its own.
    pub(super) fn begin(&mut self, setup: usize, mib: u32) -> Result<RunningDownload, String> {
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, SETUPS[setup].port));
        let url = format!("http://{SERVER}/{mib}");
        let Some(browser) = &mut self.browser else {
            let before = self.bridge.requests(setup);
            let mut curl = self
                .place
                .on_client("curl".as_ref())
                .map_err(|exit| exit.to_string())?;
            curl.args([
                "-sS",
                "--fail",
                "--noproxy",
                "",
                "--proxy",
                &format!("socks5h://{proxy}"),
                "--max-time",
            ]);
            curl.arg(LIMIT.as_secs().to_string())
                .arg("-o")
                .arg(self.place.directory().join("got"))
                .arg(url);
            let child = curl
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?;
            return Ok(RunningDownload {
                setup,
                mib,
                before,
                begun: DownloadStart::Curl(child, Instant::now()),
            });
        };
        let begin = |browser: &mut Browser| {
            browser.turn_to(proxy)?;
            // A page of this server may fetch from the server.
            browser.navigate(&format!("http://{SERVER}/"))?;
            let before = self.bridge.requests(setup);
            Ok((before, browser.begin_fetch(&url, LIMIT)?))
        };
        let begun: Result<_, hawser_dashboard::browser::BrowserError> = begin(browser);
        let (before, transfer) = begun.map_err(|error| error.to_string())?;
        Ok(RunningDownload { setup, mib, before, begun: DownloadStart::Browser(transfer) })
    }

    /// Waits for the end of a download.
    pub(super) fn finish(&mut self, running: RunningDownload) -> Result<CompleteDownload, String> {
        let bytes = u64::from(running.mib) << 20;
        let seconds = match (running.begun, &mut self.browser) {
            (DownloadStart::Browser(transfer), Some(browser)) => {
                while !browser
                    .has_ended(&transfer, POLL_INTERVAL)
                    .map_err(|error| error.to_string())?
                {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err("no client waits for the download any more".to_owned());
                    }
                }
                let fetched = browser
                    .finish_fetch(&transfer, CHECK)
                    .map_err(|error| error.to_string())?;
                if fetched.bytes != bytes || fetched.verdict != true {
                    return Err(format!(
                        "the {} bytes received differ from the file",
                        fetched.bytes
                    ));
                }
                fetched.time.as_secs_f64()
            }
            (DownloadStart::Curl(mut child, begin), _) => {
                while child.try_wait().map_err(|error| error.to_string())?.is_none() {
                    if self.stop.load(Ordering::Relaxed) {
                        let _ = child.kill();
                    }
                    std::thread::sleep(PAUSE);
                }
                let output = child.wait_with_output().map_err(|error| error.to_string())?;
                let seconds = begin.elapsed().as_secs_f64();
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
                }
                let file = self.place.directory().join("got");
                let got = std::fs::read(&file).map_err(|error| error.to_string())?;
                let _ = std::fs::remove_file(file);
                if got != content(0, bytes) {
                    return Err(format!("the {} bytes received differ from the file", got.len()));
                }
                seconds
            }
            (DownloadStart::Browser(_), None) => return Err("the browser has ended".to_owned()),
        };
        let transport = self.bridge.won_after(running.setup, running.before);
        Ok(CompleteDownload { transport: transport.unwrap_or_else(|| "?".to_owned()), seconds })
    }

    /// Starts a download and waits for its end.
    pub(super) fn download(&mut self, setup: usize, mib: u32) -> Result<CompleteDownload, String> {
        let running = self.begin(setup, mib)?;
        self.finish(running)
    }
}
