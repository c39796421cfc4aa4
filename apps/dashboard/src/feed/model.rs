//! The input of a feed. The page gets it as JSON with the same names.

use serde::Serialize;

/// The static content of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    pub about: String,
    /// The paths whose throughput is shown.
    pub paths: Vec<Path>,
    /// The available switches.
    pub switches: Vec<Switch>,
    /// The setups that a download can use; empty if no downloads are offered.
    pub setups: Vec<Setup>,
    /// The sizes of downloads, in MiB.
    pub sizes_mib: Vec<u32>,
    /// Lines that explain how to take part from outside of the page.
    pub hints: Vec<String>,
}

/// A path whose throughput is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// The id in requests and events.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The capacity, in Mbit/s.
    pub mbit_per_second: f64,
}

/// A switch that admits or blocks traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// The id in requests and events.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// A description of the effect.
    pub about: String,
    /// The state: true if the traffic is admitted.
    pub on: bool,
}

impl Switch {
    #[must_use]
    pub fn new(id: &str, name: &str, about: &str, on: bool) -> Switch {
        Switch { id: id.to_owned(), name: name.to_owned(), about: about.to_owned(), on }
    }
}

/// A choice of transports for a download.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// The id in requests and events.
    pub id: String,
    /// The name for people.
    pub name: String,
}

/// The rates of the paths at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// The time since the feed began, in seconds.
    pub(super) at: f64,
    /// The rates in Mbit/s, in the order of the paths.
    pub(super) rates: Vec<f64>,
}

/// A candidate for a request. Its position in the list is its rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// A description: the transport, the destination, and the interface.
    pub name: String,
    /// The scores of the requested properties and of the others; `None` if no policy ranked it.
    pub score: Option<(f64, f64)>,
    /// The reasons for and against it: properties, remembered outcomes, and its result.
    pub why: Vec<String>,
    /// Set for the candidate in use.
    pub chosen: bool,
}

/// A download.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Download {
    pub id: u64,
    /// The name of the requested setup.
    pub setup: String,
    /// The transport that carried it, once known.
    pub transport: Option<String>,
    /// The program that downloads: a browser or curl.
    pub by: String,
    /// The size, in bytes.
    pub bytes: u64,
    pub state: DownloadState,
    /// The duration, in seconds.
    pub seconds: Option<f64>,
    /// The reason for the failure, if it failed.
    pub error: Option<String>,
}

/// The state of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DownloadState {
    /// The download is in progress.
    Running,
    /// The download is complete, and its content is correct.
    Done,
    /// The download was interrupted, or its content is wrong.
    Failed,
}

impl Download {
    /// Creates a download that has just begun.
    #[must_use]
    pub fn begun(id: u64, setup: &str, bytes: u64) -> Download {
        Download {
            id,
            setup: setup.to_owned(),
            transport: None,
            by: String::new(),
            bytes,
            state: DownloadState::Running,
            seconds: None,
            error: None,
        }
    }
}

/// The actions of a page's switches and buttons. The calls may block.
pub trait Controls: Send + Sync {
    /// Admits or blocks traffic. The implementation reports the change to the feed
    /// ([`super::Feed::switched`]).
    ///
    /// # Errors
    /// Fails with the reason as text.
    fn switch(&self, id: &str, on: bool) -> Result<(), String>;

    /// Starts a download of `mib` MiB with one of the plan's setups, and returns at once.
    ///
    /// # Errors
    /// Fails with the reason as text.
    fn download(&self, setup: &str, mib: u32) -> Result<(), String> {
        let _ = (setup, mib);
        Err("this server offers no downloads".to_owned())
    }
}
