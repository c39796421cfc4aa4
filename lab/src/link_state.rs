//! The present state of links, and the listeners to its changes.

use std::time::Duration;

use crate::lab::Lab;
use crate::link::Direction;
use crate::plan::LinkPlan;
use crate::spec::Rules;

/// A kind of change of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkChange {
    /// The link came up.
    Up,
    /// The link went down.
    Down,
    /// A direction has these new rules. Absent rules stayed as they were.
    Rules(Direction, Box<Rules>),
    /// The translator dropped its mappings.
    Rebound,
}

/// A change that was made, by the timeline or by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEvent {
    /// The time since the lab came up.
    pub at: Duration,
    /// The index of the link in the file, from 0.
    pub link: usize,
    /// The change.
    pub what: LinkChange,
}

/// The present state of a link.
pub(crate) struct Present {
    pub(crate) rules: [Rules; 2],
    pub(crate) up: bool,
}

impl Present {
    pub(crate) fn new(link: &LinkPlan) -> Present {
        Present { rules: link.rules.clone(), up: true }
    }
}

/// A listener to changes, which is kept as long as it returns true.
pub(crate) type Listener = Box<dyn Fn(&LinkEvent) -> bool + Send>;

impl Lab {
    /// Calls `listener` after each change of a link from now on, in the thread that makes the change, until
    /// the listener returns false. The listener must not change links itself.
    pub fn on_change(&self, listener: impl Fn(&LinkEvent) -> bool + Send + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// Notes a change. The caller holds `changing`.
    pub(crate) fn note(&self, link: usize, what: LinkChange) {
        {
            let present = &mut self.present.lock()[link];
            match &what {
                LinkChange::Up => present.up = true,
                LinkChange::Down => present.up = false,
                LinkChange::Rules(direction, rules) => {
                    let there = &mut present.rules[*direction as usize];
                    *there = there.overridden_by(rules);
                    // A rate and a trace replace each other.
                    if rules.trace.is_some() {
                        there.rate = None;
                    } else if rules.rate.is_some() {
                        there.trace = None;
                    }
                }
                LinkChange::Rebound => {}
            }
        }
        let name = &self.plan.links[link].name;
        tracing::debug!(link = ?name, change = ?what, "a link has changed");
        let changed = LinkEvent { at: self.age(), link, what };
        self.listeners.lock().retain(|listener| listener(&changed));
    }
}
