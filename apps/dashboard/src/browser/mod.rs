//! A browser under remote control: headless Chromium, through the Chrome DevTools Protocol.
//!
//! ```no_run
//! # fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_dashboard::browser::{Browser, Options, command};
//!
//! let here = |program: &std::path::Path| Ok::<_, std::io::Error>(std::process::Command::new(program));
//! let command = command(here)?.ok_or("there is no Chromium")?;
//! let mut browser = Browser::launch(command, &Options::default())?;
//! browser.navigate("http://127.0.0.1:8000/")?;
//! std::fs::write("page.png", browser.screenshot()?)?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Browser`]: one browser with one page; `pipe`: the messages to and from it
//! * [`Download`], [`Fetched`]: a download, timed by the browser
//!
//! Invariants: every wait has a limit. A browser has a temporary profile of its own, and makes no requests
//! except those of the page. Dropping the value kills the browser's whole process group.

mod fetch;
mod pipe;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use command_fds::{CommandFdExt, FdMapping};
use hawser_documents::temporary::Folder;
use serde_json::{Value, json};

use pipe::Pipe;

pub use fetch::{Download, Fetched};

/// The maximum time for an answer. Downloads have limits of their own.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of stored events. The oldest are forgotten.
const REMEMBERED: usize = 4096;
/// The names of Chromium's executable.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Runs a program as an unprivileged user in a user namespace (unshare of util-linux 2.38).
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];

/// The flags of every browser. `/dev/shm` may be too small. The other flags suppress background activity:
/// updates, metrics, synchronisation and prompts.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--password-store=basic",
    "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication,DialMediaRouteProvider",
    // The proxy resolves names. Without a proxy, no names are resolved.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The browser could not be started.
    #[error("cannot start the browser: {0}")]
    Start(#[from] io::Error),
    /// The browser has ended.
    #[error("the browser has ended")]
    Ended,
    /// The browser did not answer in time.
    #[error("the browser did not answer in time")]
    Late,
    /// The browser refused a call.
    #[error("the browser refused {method}: {why}")]
    Refused {
        /// The method of the call.
        method: String,
        /// The browser's message.
        why: String,
    },
    /// The page threw an exception.
    #[error("the page threw {0}")]
    Threw(String),
    /// A download was interrupted.
    #[error("{url}: {why}")]
    Failed {
        /// The URL of the download.
        url: String,
        /// The browser's message.
        why: String,
    },
}

/// The options of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The SOCKS5 proxy for all connections, including those to this host. `None` means direct connections.
    pub proxy: Option<SocketAddr>,
    /// The size of the page, in CSS pixels.
    pub size: (u32, u32),
    /// Show a preference for dark colours to the page.
    pub dark: bool,
}

impl Default for Options {
    /// No proxy, 1280 by 800, light.
    fn default() -> Options {
        Options { proxy: None, size: (1280, 800), dark: false }
    }
}

/// Returns the command that starts Chromium, sandboxed if possible, or `None` if it is not installed. `on`
/// prepares the command of a program for the place where the browser should run.
///
/// # Errors
/// Fails with the error of `on`.
pub fn command<E>(on: impl FnOnce(&Path) -> Result<Command, E>) -> Result<Option<Command>, E> {
    let Some(chromium) = program() else {
        return Ok(None);
    };
    if !rustix::process::geteuid().is_root() {
        return on(&chromium).map(Some);
    }
    // Chromium has no sandbox for root, even in a namespace of its own, so it runs as another user.
    if has_sandbox() {
        let mut command = on(Path::new(UNSHARE[0]))?;
        command.args(&UNSHARE[1..]).arg(chromium);
        return Ok(Some(command));
    }
    let mut command = on(&chromium)?;
    command.arg("--no-sandbox");
    Ok(Some(command))
}

/// Returns whether root can become another user in a user namespace, and create a further one there.
fn has_sandbox() -> bool {
    let mut probe = Command::new(UNSHARE[0]);
    probe.args(&UNSHARE[1..]).args(["unshare", "--user", "true"]);
    let status = probe
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Returns the path of Chromium, if it is installed. [`command`] starts it.
#[must_use]
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = NAMES
        .iter()
        .flat_map(|name| places.iter().map(move |place| place.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// A browser with one page. See the [module](self).
pub struct Browser {
    pipe: Pipe,
    /// The id of the page's DevTools session.
    session: String,
    /// The id of the page's browser context, unless it is the default one.
    context: Option<String>,
    options: Options,
    /// Events that no call has waited for yet.
    events: VecDeque<Value>,
    /// Errors reported by the page.
    complaints: Vec<String>,
    process: Process,
}

/// The browser's processes and its profile.
struct Process {
    child: Child,
    /// Removed when the processes have ended.
    _profile: Folder,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child leads a process group of its own, whose id is its own.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser with `command`, which names the program and may define where it runs. If the
    /// command's process dies with the thread that starts it, that is the calling thread.
    ///
    /// # Errors
    /// Fails if the browser cannot be started or does not answer.
    pub fn launch(mut command: Command, options: &Options) -> Result<Browser, BrowserError> {
        let profile = Folder::new()?;
        let (width, height) = options.size;
        command
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()));
        command.arg(format!("--window-size={width},{height}"));
        if let Some(proxy) = options.proxy {
            // Connections to loopback addresses use the proxy, too.
            command
                .arg(format!("--proxy-server=socks5://{proxy}"))
                .arg("--proxy-bypass-list=<-loopback>");
        }
        command.arg("about:blank");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Leftover files are removed with the profile.
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            command.env(variable, &*profile);
        }
        let (their_input, to) = io::pipe()?;
        let (from, their_output) = io::pipe()?;
        let child = {
            // Chromium reads calls from descriptor 3 and answers on descriptor 4.
            let mappings = vec![
                FdMapping { parent_fd: their_input.into(), child_fd: 3 },
                FdMapping { parent_fd: their_output.into(), child_fd: 4 },
            ];
            command
                .process_group(0)
                .fd_mappings(mappings)
                .map_err(io::Error::other)?;
            let child = command.spawn();
            // The command holds copies of the browser's ends, which would keep the pipes open.
            drop(command);
            child?
        };
        let process = Process { child, _profile: profile };
        let pipe = Pipe::new(to, from)?;
        let (events, complaints) = (VecDeque::new(), Vec::new());
        let (session, context, options) = (String::new(), None, options.clone());
        let mut browser = Browser { pipe, session, context, options, events, complaints, process };
        browser.open_page()?;
        Ok(browser)
    }

    /// Closes the page and opens an empty one with another proxy. The new page shares no connections and no
    /// stored data with earlier ones.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Browser::call`].
    pub fn turn_to(&mut self, proxy: SocketAddr) -> Result<(), BrowserError> {
        if let Some(context) = self.context.take() {
            self.ask(
                None,
                "Target.disposeBrowserContext",
                json!({ "browserContextId": context }),
            )?;
        }
        let proxy = json!({ "proxyServer": format!("socks5://{proxy}"), "proxyBypassList": "<-loopback>" });
        let context = self.ask(None, "Target.createBrowserContext", proxy)?;
        self.context = context["browserContextId"].as_str().map(str::to_owned);
        self.events.clear();
        self.open_page()
    }

    fn open_page(&mut self) -> Result<(), BrowserError> {
        let options = self.options.clone();
        let mut page = json!({ "url": "about:blank" });
        if let Some(context) = &self.context {
            page["browserContextId"] = context.as_str().into();
        }
        let target = self.ask(None, "Target.createTarget", page)?;
        let params = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.ask(None, "Target.attachToTarget", params)?;
        self.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}))?;
        }
        // Only the page needs bodies, so the browser stores none for us.
        self.call(
            "Network.enable",
            json!({ "maxTotalBufferSize": 1, "maxResourceBufferSize": 1 }),
        )?;
        self.resize(options.size, false)?;
        let scheme = if options.dark { "dark" } else { "light" };
        self.prefer(scheme)
    }

    /// Returns the process id of the browser.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Sets the preferred colour scheme of the page: `light` or `dark`.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Browser::call`].
    pub fn prefer(&mut self, scheme: &str) -> Result<(), BrowserError> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))
            .map(drop)
    }

    /// Resizes the page, in CSS pixels, and selects whether it behaves as on a phone.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Browser::call`].
    pub fn resize(&mut self, (width, height): (u32, u32), is_mobile: bool) -> Result<(), BrowserError> {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile });
        self.call("Emulation.setDeviceMetricsOverride", params).map(drop)
    }

    /// Navigates to a page and waits until it is loaded.
    ///
    /// # Errors
    /// Fails if the page cannot be reached, or not in time.
    pub fn navigate(&mut self, url: &str) -> Result<(), BrowserError> {
        self.events
            .retain(|event| event["method"] != "Page.loadEventFired");
        let answer = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = answer["errorText"].as_str() {
            return Err(BrowserError::Failed { url: url.to_owned(), why: why.to_owned() });
        }
        let until = Instant::now() + TIMEOUT;
        self.wait_for(until, |event| event["method"] == "Page.loadEventFired")
            .map(drop)
    }

    /// Evaluates a script and returns its result. A promise is awaited.
    ///
    /// # Errors
    /// Fails if the script throws.
    pub fn evaluate(&mut self, script: &str) -> Result<Value, BrowserError> {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].clone()),
            Some(details) => {
                let thrown = details["exception"]["description"]
                    .as_str()
                    .or(details["text"].as_str());
                Err(BrowserError::Threw(thrown.unwrap_or("something").to_owned()))
            }
        }
    }

    /// Waits until a script returns a true value.
    ///
    /// # Errors
    /// Fails if the script throws, or does not become true in time.
    pub fn wait_until(&mut self, script: &str, limit: Duration) -> Result<(), BrowserError> {
        let until = Instant::now() + limit;
        let is_true = |value: Value| !matches!(value, Value::Null | Value::Bool(false));
        while !is_true(self.evaluate(script)?) {
            if Instant::now() > until {
                return Err(BrowserError::Late);
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(())
    }

    /// Returns a PNG of the whole page.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Browser::call`].
    pub fn screenshot(&mut self) -> Result<Vec<u8>, BrowserError> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", params)?;
        let data = answer["data"].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|error| BrowserError::Start(io::Error::other(error)))
    }

    /// Returns the errors of the page so far, including requests that its policy refused.
    #[must_use]
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Makes a call about the page.
    ///
    /// # Errors
    /// Fails if the browser refuses the call or has gone.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        let session = self.session.clone();
        self.ask(Some(&session), method, params)
    }

    fn ask(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value, BrowserError> {
        let number = self.pipe.send(session, method, params)?;
        let until = Instant::now() + TIMEOUT;
        loop {
            let mut message = self.pipe.next(until)?;
            if message["id"] != number {
                self.keep(message);
                continue;
            }
            return match message["error"]["message"].as_str() {
                None => Ok(message["result"].take()),
                Some(why) => Err(BrowserError::Refused { method: method.to_owned(), why: why.to_owned() }),
            };
        }
    }

    /// Returns the first event that satisfies `is_it`, among stored and future ones.
    fn wait_for(&mut self, until: Instant, is_it: impl Fn(&Value) -> bool) -> Result<Value, BrowserError> {
        loop {
            if let Some(event) = self
                .events
                .iter()
                .position(&is_it)
                .and_then(|at| self.events.remove(at))
            {
                return Ok(event);
            }
            let message = self.pipe.next(until)?;
            self.keep(message);
        }
    }

    fn keep(&mut self, event: Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                let details = &params["exceptionDetails"];
                details["exception"]["description"]
                    .as_str()
                    .or(details["text"].as_str())
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => params["entry"]["text"].as_str(),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => params["args"][0]["value"]
                .as_str()
                .or(params["args"][0]["description"].as_str()),
            _ => None,
        };
        if let Some(complaint) = complaint.filter(|_| self.complaints.len() < REMEMBERED) {
            self.complaints.push(complaint.to_owned());
        }
        // A download reports every piece; only its start and its end are useful.
        if event["method"] == "Network.dataReceived" {
            return;
        }
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
