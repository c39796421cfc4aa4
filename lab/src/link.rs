//! A link of a running lab: something to change.

use crate::forward::{Cell, Statistics};
use crate::lab::Lab;
use crate::network;
use crate::spec::Rules;
use crate::{LabError, lab};

/// One of a link's two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first host of `between` to the second.
    Forward,
    /// From the second to the first.
    Backward,
}

/// A link.
#[derive(Clone, Copy)]
pub struct Link<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) number: usize,
}

impl Link<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lab.plan.links[self.number].name
    }

    /// Cuts it: both hosts see their interface lose its carrier, what is under way is lost.
    ///
    /// # Errors
    /// When the kernel alone carries it, or it does not obey.
    pub fn down(&self) -> Result<(), LabError> {
        self.set_up(false)
    }

    /// Mends it.
    ///
    /// # Errors
    /// As for [`Link::down`].
    pub fn up(&self) -> Result<(), LabError> {
        self.set_up(true)
    }

    fn set_up(&self, up: bool) -> Result<(), LabError> {
        let cell = self.cell()?;
        let mut netlink = lab::lock(&self.lab.core_netlink);
        network::set_near_ends(&mut netlink, self.number, up)?;
        let act = move |cell: &mut Cell, now| cell.set_up(now, up);
        self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped)
    }

    /// Loses everything in both directions without a sign, or no longer.
    ///
    /// # Errors
    /// As for [`Link::down`].
    pub fn silence(&self, on: bool) -> Result<(), LabError> {
        self.set_both(&Rules { silent: Some(on), ..Rules::default() })
    }

    /// New rules for both directions; what is not given stays.
    ///
    /// # Errors
    /// As for [`Link::set`].
    pub fn set_both(&self, rules: &Rules) -> Result<(), LabError> {
        self.set(Direction::Forward, rules)?;
        self.set(Direction::Backward, rules)
    }

    /// New rules for one direction; what is not given stays. They hold for what comes from now on.
    ///
    /// # Errors
    /// When the kernel alone carries the link and the rules are more than rate and queue; when a
    /// trace cannot be read.
    pub fn set(&self, direction: Direction, rules: &Rules) -> Result<(), LabError> {
        let direction = direction as usize;
        if self.lab.cells[self.number].is_none() && rules.suit_the_kernel() {
            return self.reshape(direction, rules);
        }
        let cell = self.cell()?;
        let change = lab::read_trace(rules)?;
        let act = move |cell: &mut Cell, _| cell.change(direction, &change);
        self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped)
    }

    /// Has the link's translator forget its mappings and take other ports, as one that was started
    /// anew. Without a translator nothing happens.
    ///
    /// # Errors
    /// When the kernel alone carries the link.
    pub fn rebind(&self) -> Result<(), LabError> {
        let cell = self.cell()?;
        self.lab.forwarder()?.order(cell, |cell: &mut Cell, _| cell.rebind()).ok_or(LabError::Stopped)
    }

    /// Changes the kernel's shaper.
    fn reshape(&self, direction: usize, rules: &Rules) -> Result<(), LabError> {
        let link = &self.lab.plan.links[self.number];
        let mut present = lab::lock(&self.lab.shapes);
        let rules_now = &mut present[self.number][direction];
        let was_shaped = network::is_shaped(rules_now);
        *rules_now = rules_now.overridden_by(rules);
        let end = &link.ends[direction];
        let mut netlink = lab::lock(&self.lab.stations[end.host].netlink);
        if was_shaped && !network::is_shaped(rules_now) {
            return Ok(netlink.unshape(&end.interface)?);
        }
        network::shape(&mut netlink, link, direction, rules_now)
    }

    /// What a direction has done.
    ///
    /// # Errors
    /// When the kernel alone carries the link.
    pub fn statistics(&self, direction: Direction) -> Result<Statistics, LabError> {
        let cell = self.cell()?;
        let direction = direction as usize;
        let act = move |cell: &mut Cell, _| cell.statistics(direction);
        self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped)
    }

    fn cell(&self) -> Result<usize, LabError> {
        self.lab.cells[self.number].ok_or_else(|| LabError::NotACell { link: self.name().to_owned() })
    }
}
