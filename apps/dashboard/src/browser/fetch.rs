//! Downloads, timed by the browser's own clock from the request to the last byte, including the time that the
//! proxy needs in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Browser, BrowserError};

/// A download in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    url: String,
    /// The browser's id of the request.
    request: String,
    /// The page's index of the content.
    number: u64,
    until: Instant,
    began_at: BrowserTime,
}

impl Download {
    fn is_end(&self, event: &Value) -> bool {
        let is_end =
            event["method"] == "Network.loadingFinished" || event["method"] == "Network.loadingFailed";
        is_end && event["params"]["requestId"] == self.request.as_str()
    }
}

/// A time of the browser's clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BrowserTime(u64);

impl BrowserTime {
    fn from_event(event: &Value) -> BrowserTime {
        BrowserTime((event["params"]["timestamp"].as_f64().unwrap_or_default() * 1e6) as u64)
    }
}

/// A complete download.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The length of its body, in bytes.
    pub bytes: u64,
    /// The time from `Network.requestWillBeSent` to `Network.loadingFinished`.
    pub time: Duration,
    /// The result of the check of its content.
    pub verdict: Value,
}

impl Fetched {
    /// Returns the rate of the body, in Mbit/s.
    #[must_use]
    pub fn mbit_per_second(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.time.as_secs_f64().max(1e-9)
    }
}

impl Browser {
    /// Starts a download from the current page, which must have the same origin or be allowed to.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Browser::call`].
    pub fn begin_fetch(&mut self, url: &str, limit: Duration) -> Result<Download, BrowserError> {
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
        Ok(Download {
            url: url.to_owned(),
            request,
            number,
            until,
            began_at: BrowserTime::from_event(&began),
        })
    }

    /// Returns whether a download has ended, successfully or not. It waits for at most `within`.
    ///
    /// # Errors
    /// Fails if the browser has gone, or the download's own time limit is over.
    pub fn has_ended(&mut self, transfer: &Download, within: Duration) -> Result<bool, BrowserError> {
        let until = transfer.until.min(Instant::now() + within);
        match self.wait_for(until, |event| transfer.is_end(event)) {
            Ok(end) => {
                // The event is put back for `finish_fetch`.
                self.events.push_front(end);
                Ok(true)
            }
            Err(BrowserError::Late) if Instant::now() < transfer.until => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the end of a download. `check` is a JavaScript function that gets the content as an
    /// `ArrayBuffer` and returns the verdict.
    ///
    /// # Errors
    /// Fails if the download was interrupted or is not complete in time.
    pub fn finish_fetch(&mut self, transfer: &Download, check: &str) -> Result<Fetched, BrowserError> {
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
        let micros = BrowserTime::from_event(&end)
            .0
            .saturating_sub(transfer.began_at.0);
        Ok(Fetched {
            bytes: result["bytes"].as_u64().unwrap_or_default(),
            time: Duration::from_micros(micros),
            verdict: result["verdict"].take(),
        })
    }
}
