//! Reports of all links, once or periodically.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::LabError;
use crate::lab::Lab;
use crate::link::{Direction, Link};
use crate::statistics::LinkReport;

impl Lab {
    /// Returns the statistics of all links so far, in the order of the file. Each reading has its own time.
    ///
    /// # Errors
    /// The forwarder has ended.
    pub fn reports(&self) -> Result<Vec<LinkReport>, LabError> {
        let report = |link: Link<'_>| -> Result<LinkReport, LabError> {
            let forward = link.statistics(Direction::Forward)?;
            let backward = link.statistics(Direction::Backward)?;
            Ok(LinkReport { link: link.name().to_owned(), forward, backward })
        };
        self.links().map(report).collect()
    }

    /// Passes the reports of all links to `see` at once and then at each `interval`, in the calling thread,
    /// until `stop` is set. A last report follows. A sample that would be late is left out. The times in the
    /// reports are those of the readings.
    ///
    /// # Errors
    /// The errors of [`Lab::reports`].
    pub fn watch(
        &self,
        interval: Duration,
        stop: &AtomicBool,
        mut see: impl FnMut(Vec<LinkReport>),
    ) -> Result<(), LabError> {
        /// The interval at which `stop` is checked.
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        let mut next = self.age();
        loop {
            see(self.reports()?);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            next = (next + interval).max(self.age());
            while let Some(left) = next.checked_sub(self.age()).filter(|left| !left.is_zero()) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(left.min(POLL_INTERVAL));
            }
        }
    }
}
