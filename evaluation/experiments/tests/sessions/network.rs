//! Networks of two paths.

use std::fmt::Write as _;

use hawser_experiments::Testbed;

use crate::TestResult;

/// One link from the client to the server.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) interface: &'static str,
    /// The rate, in Mbit/s.
    pub(crate) rate: u32,
    /// The one-way delay, in ms.
    pub(crate) delay: f64,
    /// The size of the queue, in bytes.
    pub(crate) queue: u64,
}

impl Link {
    /// Returns the round-trip time plus the time of a full queue, in seconds.
    pub(crate) fn round_trip_and_queue(&self) -> f64 {
        2.0 * self.delay / 1e3 + self.queue as f64 * 8.0 / (f64::from(self.rate) * 1e6)
    }
}

/// The two links of most tests: one near and fast, one far and slow.
pub(crate) const WIFI: Link = Link { name: "wifi", interface: "wlan0", rate: 40, delay: 5.0, queue: 100_000 };
pub(crate) const MOBILE: Link = Link {
    name: "mobile",
    interface: "wwan0",
    rate: 30,
    delay: 25.0,
    queue: 150_000,
};

/// Builds a client and a server with these links. `more` is added to the table of the first link.
pub(crate) fn stage(links: &[Link], more: &str) -> TestResult<Testbed> {
    let mut text = "seed = 11\nhost = [{ name = \"client\" }, { name = \"server\" }]\n".to_owned();
    for (number, link) in links.iter().enumerate() {
        let more = if number == 0 { more } else { "" };
        let Link { name, interface, rate, delay, queue } = link;
        write!(
            text,
            "[[link]]\nname = \"{name}\"\nbetween = [\"client\", \"server\"]\n\
             interfaces = [\"{interface}\", \"eth{number}\"]\nthrough = \"cell\"\n\
             both = {{ rate = \"{rate}Mbit/s\", queue = {queue}, delay = \"{}us\" }}\n{more}\n",
            (delay * 1e3).round()
        )?;
    }
    Testbed::from_toml(&text)
}
