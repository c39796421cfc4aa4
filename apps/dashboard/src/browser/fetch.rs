//! Downloads, timed as the browser sees them: from the moment that the request is made to the one at
//! which all has come, with whatever the proxy needs in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Browser, BrowserError};

/// A download under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    url: String,
    /// The browser's name for it.
    request: String,
    /// The page's, for what has come.
    number: u64,
    until: Instant,
    began_at: Moment,
}

impl Transfer {
    fn is_end(&self, event: &Value) -> bool {
        let is_end =
            event["method"] == "Network.loadingFinished" || event["method"] == "Network.loadingFailed";
        is_end && event["params"]["requestId"] == self.request.as_str()
    }
}

/// The browser's clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment(u64);

impl Moment {
    fn of(event: &Value) -> Moment {
        Moment((event["params"]["timestamp"].as_f64().unwrap_or_default() * 1e6) as u64)
    }
}

/// A download that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// Bytes of its body.
    pub bytes: u64,
    /// From `Network.requestWillBeSent` to `Network.loadingFinished`.
    pub time: Duration,
    /// What the script made of its content.
    pub verdict: Value,
}

impl Fetched {
    /// Bits of the body per second, in millions.
    #[must_use]
    pub fn mbit_per_second(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.time.as_secs_f64().max(1e-9)
    }
}

impl Browser {
    /// Begins a download from the page that is shown, which has to be of the same origin or allowed to.
    ///
    /// # Errors
    /// As for [`Browser::call`].
    pub fn begin_fetch(&mut self, url: &str, limit: Duration) -> Result<Transfer, BrowserError> {
        let until = Instant::now() + limit;
        let script = format!(
            "(() => {{ const all = globalThis.hawserFetched ??= []; \
             const all_of_it = fetch({}, {{ cache: 'no-store' }}).then(answer => answer.arrayBuffer()); \
             all_of_it.catch(() => {{}}); return all.push(all_of_it) - 1; }})()",
            json!(url)
        );
        let number = self.evaluate(&script)?.as_u64().unwrap_or_default();
        let is_it = |event: &Value| {
            event["method"] == "Network.requestWillBeSent" && event["params"]["request"]["url"] == url
        };
        let began = self.wait_for(until, is_it)?;
        let request = began["params"]["requestId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        Ok(Transfer {
            url: url.to_owned(),
            request,
            number,
            until,
            began_at: Moment::of(&began),
        })
    }

    /// Whether a download has ended, well or not, waiting for that no longer than this.
    ///
    /// # Errors
    /// The browser has gone, or the download's own time is over.
    pub fn has_ended(&mut self, transfer: &Transfer, within: Duration) -> Result<bool, BrowserError> {
        let until = transfer.until.min(Instant::now() + within);
        match self.wait_for(until, |event| transfer.is_end(event)) {
            Ok(end) => {
                // It is for who asks how it ended.
                self.events.push_front(end);
                Ok(true)
            }
            Err(BrowserError::Late) if Instant::now() < transfer.until => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for a download's end. `check` is a script's function that is given the content as an
    /// `ArrayBuffer`; what it returns is the verdict.
    ///
    /// # Errors
    /// It broke off, or is not complete in time.
    pub fn finish_fetch(&mut self, transfer: &Transfer, check: &str) -> Result<Fetched, BrowserError> {
        let end = self.wait_for(transfer.until, |event| transfer.is_end(event))?;
        if end["method"] == "Network.loadingFailed" {
            let why = end["params"]["errorText"]
                .as_str()
                .unwrap_or("it broke off")
                .to_owned();
            return Err(BrowserError::Failed { url: transfer.url.clone(), why });
        }
        let number = transfer.number;
        let script = format!(
            "(async () => {{ const content = await hawserFetched[{number}]; hawserFetched[{number}] = null; \
             return {{ bytes: content.byteLength, verdict: await ({check})(content) }}; }})()"
        );
        let mut result = self.evaluate(&script)?;
        let micros = Moment::of(&end).0.saturating_sub(transfer.began_at.0);
        Ok(Fetched {
            bytes: result["bytes"].as_u64().unwrap_or_default(),
            time: Duration::from_micros(micros),
            verdict: result["verdict"].take(),
        })
    }
}
