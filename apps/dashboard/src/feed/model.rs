//! What is given to a feed; the page gets it as JSON with the same names.

use serde::Serialize;

/// What a page is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Its heading.
    pub title: String,
    /// A sentence below it.
    pub about: String,
    /// The paths whose throughput is shown.
    pub paths: Vec<Path>,
    /// What can be switched.
    pub switches: Vec<Switch>,
    /// What a download can go over; empty where no downloads are offered.
    pub setups: Vec<Setup>,
    /// The sizes that it can have, in MiB.
    pub sizes_mib: Vec<u32>,
    /// Lines on how to take part from outside of the page.
    pub hints: Vec<String>,
}

/// A path whose throughput is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// What it is called between the two of us.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it can carry, in millions of bits per second.
    pub mbit_per_second: f64,
}

/// Something that can be admitted or blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// What it is called between the two of us.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Whether it is admitted.
    pub on: bool,
}

impl Switch {
    /// A switch.
    #[must_use]
    pub fn new(id: &str, name: &str, about: &str, on: bool) -> Switch {
        Switch { id: id.to_owned(), name: name.to_owned(), about: about.to_owned(), on }
    }
}

/// What a download can go over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// What it is called between the two of us.
    pub id: String,
    /// What people call it.
    pub name: String,
}

/// What each path carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// Seconds since the feed began.
    pub(super) at: f64,
    /// In millions of bits per second, in the order of the paths.
    pub(super) rates: Vec<f64>,
}

/// A candidate for a request, with its place in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// What it is: a transport, to where, over what.
    pub name: String,
    /// The score of the properties that were asked for, and of the others; none where no policy ranked
    /// it.
    pub score: Option<(f64, f64)>,
    /// What speaks for it or against it: properties, what is remembered of it, what became of it.
    pub why: Vec<String>,
    /// Whether it is the one that is used.
    pub chosen: bool,
}

/// A download.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Download {
    /// Its number.
    pub id: u64,
    /// The name of the setup that was asked for.
    pub setup: String,
    /// What it went over, once that is known.
    pub transport: Option<String>,
    /// Who downloads: a browser, curl.
    pub by: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// How it stands.
    pub state: DownloadState,
    /// How long it took.
    pub seconds: Option<f64>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// How a download stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DownloadState {
    /// It is under way.
    Running,
    /// It is complete, and its content as it should be.
    Done,
    /// It broke off, or its content is not what it should be.
    Failed,
}

impl Download {
    /// One that begins.
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

/// What a page's switches and buttons do. The calls may block.
pub trait Controls: Send + Sync {
    /// Admits or blocks something. Who obeys notifies the feed ([`super::Feed::switched`]).
    ///
    /// # Errors
    /// Why it cannot be, in words.
    fn switch(&self, id: &str, on: bool) -> Result<(), String>;

    /// Begins a download of so many MiB over one of the plan's setups, and returns at once.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    fn download(&self, setup: &str, mib: u32) -> Result<(), String> {
        let _ = (setup, mib);
        Err("nothing can be downloaded here".to_owned())
    }
}
