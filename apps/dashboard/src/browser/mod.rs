//! A browser under remote control: Chromium without a window, by the Chrome DevTools Protocol.
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
//! * [`Browser`]: one browser with one page; `pipe`: the messages between it and us
//! * [`Transfer`], [`Fetched`]: a download, timed as the browser sees it
//!
//! Invariants: every wait has a limit. A browser has a profile of its own, thrown away with it, and asks
//! nobody for anything but what the page asks for. When the value is dropped the browser's whole process
//! group is killed.

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
use hawser_temporary::Folder;
use serde_json::{Value, json};

use pipe::Pipe;

pub use fetch::{Fetched, Transfer};

/// How long an answer may take; pages that download have limits of their own.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Events that are kept for whoever asks for them later; older ones are forgotten.
const REMEMBERED: usize = 4096;
/// Names that Chromium is installed by.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Runs a program as a user without privileges, in a user namespace (unshare of util-linux 2.38).
const UNSHARE: [&str; 4] = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];

/// Flags of every browser. `/dev/shm` may be too small; the rest is for quiet: nothing is updated, measured, synchronised or asked for.
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
    // Names are the proxy's matter; without one there are no names at all.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// Why a browser did not carry out a command.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// It cannot be started.
    #[error("the browser cannot be started: {0}")]
    Start(#[from] io::Error),
    /// It has gone.
    #[error("the browser has ended")]
    Ended,
    /// It did not answer in time.
    #[error("the browser did not answer in time")]
    Late,
    /// It refuses a call.
    #[error("the browser refuses {method}: {why}")]
    Refused {
        /// Which call.
        method: String,
        /// In its words.
        why: String,
    },
    /// What the page threw.
    #[error("the page threw {0}")]
    Threw(String),
    /// A download broke off.
    #[error("{url}: {why}")]
    Failed {
        /// Of what.
        url: String,
        /// In its words.
        why: String,
    },
}

/// How a browser is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The SOCKS5 proxy that everything goes through, this host included; none: directly.
    pub proxy: Option<SocketAddr>,
    /// The page's size, in CSS pixels.
    pub size: (u32, u32),
    /// Whether the page sees that dark colours are preferred.
    pub dark: bool,
}

impl Default for Options {
    /// Without a proxy, 1280 by 800, light.
    fn default() -> Options {
        Options { proxy: None, size: (1280, 800), dark: false }
    }
}

/// The command that starts Chromium, in its sandbox where it can have one, or none where it is not
/// installed. `on` makes a command of a program, to be run wherever the browser is to be.
///
/// # Errors
/// What `on` refuses.
pub fn command<E>(on: impl FnOnce(&Path) -> Result<Command, E>) -> Result<Option<Command>, E> {
    let Some(chromium) = program() else {
        return Ok(None);
    };
    if !rustix::process::geteuid().is_root() {
        return on(&chromium).map(Some);
    }
    // To root, in a namespace of its own too, Chromium gives no sandbox: it becomes somebody else.
    if has_sandbox() {
        let mut command = on(Path::new(UNSHARE[0]))?;
        command.args(&UNSHARE[1..]).arg(chromium);
        return Ok(Some(command));
    }
    let mut command = on(&chromium)?;
    command.arg("--no-sandbox");
    Ok(Some(command))
}

/// Whether root may become somebody else in a user namespace, and make another one there.
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

/// Where Chromium is, if it is installed; [`command`] starts it.
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
    /// The page's session.
    session: String,
    /// The context that the page is in, if it is not the browser's own.
    context: Option<String>,
    options: Options,
    /// Events that nobody has waited for yet.
    events: VecDeque<Value>,
    /// What the page complained of.
    complaints: Vec<String>,
    process: Process,
}

/// The browser's processes and its profile.
struct Process {
    child: Child,
    /// Goes when the processes have ended.
    _profile: Folder,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It leads a group of its own, by its own number.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser by `command`, which names the program and may have prepared where it runs. Where
    /// that is killed with the thread that starts it, this is the thread.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub fn launch(mut command: Command, options: &Options) -> Result<Browser, BrowserError> {
        let profile = Folder::new()?;
        let (width, height) = options.size;
        command
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()));
        command.arg(format!("--window-size={width},{height}"));
        if let Some(proxy) = options.proxy {
            // Loopback addresses go there too.
            command
                .arg(format!("--proxy-server=socks5://{proxy}"))
                .arg("--proxy-bypass-list=<-loopback>");
        }
        command.arg("about:blank");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Whatever it leaves behind goes with its profile.
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            command.env(variable, &*profile);
        }
        let (their_input, to) = io::pipe()?;
        let (from, their_output) = io::pipe()?;
        let child = {
            // Chromium reads calls from descriptor 3 and answers on 4.
            let mappings = vec![
                FdMapping { parent_fd: their_input.into(), child_fd: 3 },
                FdMapping { parent_fd: their_output.into(), child_fd: 4 },
            ];
            command
                .process_group(0)
                .fd_mappings(mappings)
                .map_err(io::Error::other)?;
            let child = command.spawn();
            // It holds our copies of the browser's ends, which keep the pipes open.
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

    /// Closes the page and shows an empty one that goes through another proxy and shares nothing with
    /// those before it: no connection, nothing that was kept.
    ///
    /// # Errors
    /// As for [`Browser::call`].
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
        // Bodies are the page's matter: nothing of them is kept for us.
        self.call(
            "Network.enable",
            json!({ "maxTotalBufferSize": 1, "maxResourceBufferSize": 1 }),
        )?;
        self.resize(options.size, false)?;
        let scheme = if options.dark { "dark" } else { "light" };
        self.prefer(scheme)
    }

    /// The browser's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Sets for the page which colours are preferred: `light` or `dark`.
    ///
    /// # Errors
    /// As for [`Browser::call`].
    pub fn prefer(&mut self, scheme: &str) -> Result<(), BrowserError> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))
            .map(drop)
    }

    /// Gives the page another size, in CSS pixels, and the manners of a phone or not.
    ///
    /// # Errors
    /// As for [`Browser::call`].
    pub fn resize(&mut self, (width, height): (u32, u32), is_mobile: bool) -> Result<(), BrowserError> {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_mobile });
        self.call("Emulation.setDeviceMetricsOverride", params).map(drop)
    }

    /// Goes to a page and waits until it is loaded.
    ///
    /// # Errors
    /// It cannot be reached, or not in time.
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

    /// What a script comes to; a promise is waited for.
    ///
    /// # Errors
    /// What it throws.
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

    /// Waits until a script comes to something true.
    ///
    /// # Errors
    /// What it throws, or that it does not become true in time.
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

    /// The page as a PNG, down to its end.
    ///
    /// # Errors
    /// As for [`Browser::call`].
    pub fn screenshot(&mut self) -> Result<Vec<u8>, BrowserError> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", params)?;
        let data = answer["data"].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|error| BrowserError::Start(io::Error::other(error)))
    }

    /// What the page's scripts complained of so far: errors, and what its policy refused.
    #[must_use]
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// A call about the page.
    ///
    /// # Errors
    /// What the browser refuses, or that it has gone.
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

    /// The first event that `is_it`, of those that came or will.
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
        // A download reports every piece; only its beginning and its end are of use.
        if event["method"] == "Network.dataReceived" {
            return;
        }
        if self.events.len() == REMEMBERED {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
