//! The changes of links over time.

use std::time::{Duration, Instant};

use hawser_sim::scenario::OperationalState;

use crate::LabError;
use crate::lab::Lab;
use crate::link::Direction;
use crate::spec::{Rules, ScheduledChange, Spec};

/// One change of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineEntry {
    /// The time from the start.
    pub time: Duration,
    /// The change at that time.
    pub change: ScheduledChange,
}

/// Returns all changes of a file, in the order of time.
pub(crate) fn entries(spec: &Spec) -> Result<Vec<TimelineEntry>, LabError> {
    let entry =
        |at: &ScheduledChange| TimelineEntry { time: Duration::from_nanos(at.time.0), change: at.clone() };
    let mut entries: Vec<TimelineEntry> = spec.at.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.time);
    Ok(entries)
}

impl Lab {
    /// Makes one change now.
    ///
    /// # Errors
    /// The errors of the methods of [`crate::Link`].
    pub fn apply(&self, change: &ScheduledChange) -> Result<(), LabError> {
        let link = self.link(&change.link)?;
        for (direction, own) in [
            (Direction::Forward, &change.forward),
            (Direction::Backward, &change.backward),
        ] {
            let rules = change.both.overridden_by(own);
            if rules != Rules::default() {
                link.set(direction, &rules)?;
            }
        }
        match change.state {
            Some(OperationalState::Up) => link.up()?,
            Some(OperationalState::Down) => link.down()?,
            None => {}
        }
        if change.rebind {
            link.rebind()?;
        }
        Ok(())
    }

    /// Plays the file's timeline from now on, in the calling thread, until it is over or `stop` is set. Calls
    /// `on_change` with each change after it was made.
    ///
    /// # Errors
    /// The first change that failed.
    pub fn play(
        &self,
        stop: &std::sync::atomic::AtomicBool,
        mut on_change: impl FnMut(&TimelineEntry),
    ) -> Result<(), LabError> {
        /// The interval at which `stop` is checked.
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        let start = Instant::now();
        for entry in self.timeline() {
            while let Some(left) = entry
                .time
                .checked_sub(start.elapsed())
                .filter(|left| !left.is_zero())
            {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(left.min(POLL_INTERVAL));
            }
            self.apply(&entry.change)?;
            on_change(entry);
        }
        Ok(())
    }
}
