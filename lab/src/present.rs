//! What links do at present, and who is notified when that changes.

use std::time::Duration;

use crate::lab::Lab;
use crate::link::Direction;
use crate::plan::LinkPlan;
use crate::spec::Rules;

/// What was changed of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It was mended.
    Up,
    /// It was cut.
    Down,
    /// A direction has new rules, which are these; what they do not give stayed as it was.
    Rules(Direction, Box<Rules>),
    /// Its translator has forgotten its mappings.
    Rebound,
}

/// A change that was made, by the timeline or by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// When, since the lab came up.
    pub at: Duration,
    /// The link's place in the file, from 0.
    pub link: usize,
    /// What changed.
    pub what: What,
}

/// What a link does at present.
pub(crate) struct Present {
    pub(crate) rules: [Rules; 2],
    pub(crate) up: bool,
}

impl Present {
    pub(crate) fn new(link: &LinkPlan) -> Present {
        Present { rules: link.rules.clone(), up: true }
    }
}

/// Who is notified, for as long as it answers true.
pub(crate) type Listener = Box<dyn Fn(&Changed) -> bool + Send>;

impl Lab {
    /// Reports each change of a link from now on, in the thread that makes it, after it was made, until
    /// the listener answers false. It does not change links itself.
    pub fn on_change(&self, listener: impl Fn(&Changed) -> bool + Send + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// A change was made, by who holds `changing`.
    pub(crate) fn note(&self, link: usize, what: What) {
        {
            let present = &mut self.present.lock()[link];
            match &what {
                What::Up => present.up = true,
                What::Down => present.up = false,
                What::Rules(direction, rules) => {
                    let there = &mut present.rules[*direction as usize];
                    *there = there.overridden_by(rules);
                    // One stands in for the other.
                    if rules.trace.is_some() {
                        there.rate = None;
                    } else if rules.rate.is_some() {
                        there.trace = None;
                    }
                }
                What::Rebound => {}
            }
        }
        let name = &self.plan.links[link].name;
        tracing::debug!(link = ?name, change = ?what, "a link has changed");
        let changed = Changed { at: self.age(), link, what };
        self.listeners.lock().retain(|listener| listener(&changed));
    }
}
