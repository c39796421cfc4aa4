//! A link of a running lab, which can be changed.

use hawser_time::Instant;

use crate::forward::Cell;
use crate::lab::Lab;
use crate::link_state::LinkChange;
use crate::network;
use crate::spec::Rules;
use crate::statistics::Statistics;
use crate::{LabError, lab};

/// One of a link's two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first host of `between` to the second.
    Forward,
    /// From the second host of `between` to the first.
    Backward,
}

/// A link of a running lab.
#[derive(Clone, Copy)]
pub struct Link<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) number: usize,
}

impl Link<'_> {
    /// Returns the name of the link.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lab.plan.links[self.number].name
    }

    /// Takes the link down: both hosts see that their interface loses its carrier, and frames in flight are
    /// lost.
    ///
    /// # Errors
    /// The kernel alone carries the link, or rejected the change.
    pub fn down(&self) -> Result<(), LabError> {
        self.set_up(false)
    }

    /// Brings the link up.
    ///
    /// # Errors
    /// The errors of [`Link::down`].
    pub fn up(&self) -> Result<(), LabError> {
        self.set_up(true)
    }

    fn set_up(&self, up: bool) -> Result<(), LabError> {
        let _changing = self.lab.changing.lock();
        self.carry(up)?;
        self.lab
            .note(self.number, if up { LinkChange::Up } else { LinkChange::Down });
        Ok(())
    }

    fn carry(&self, up: bool) -> Result<(), LabError> {
        let cell = self.cell()?;
        let mut netlink = self.lab.core_netlink.lock();
        let act = move |cell: &mut Cell, now| cell.set_up(now, up);
        let carry = || self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped);
        // A host that sees its carrier return may send at once, and the cell has to carry that frame.
        if up {
            carry()?;
            return network::set_near_ends(&mut netlink, self.number, up);
        }
        network::set_near_ends(&mut netlink, self.number, up)?;
        carry()
    }

    /// Makes the link lose all frames in both directions silently, or ends that.
    ///
    /// # Errors
    /// The errors of [`Link::down`].
    pub fn silence(&self, on: bool) -> Result<(), LabError> {
        self.set_both(&Rules { silent: Some(on), ..Rules::default() })
    }

    /// Sets rules for both directions. Absent rules stay as they are.
    ///
    /// # Errors
    /// The errors of [`Link::set`].
    pub fn set_both(&self, rules: &Rules) -> Result<(), LabError> {
        self.set(Direction::Forward, rules)?;
        self.set(Direction::Backward, rules)
    }

    /// Sets rules for one direction. Absent rules stay as they are. The rules apply to frames that come from
    /// now on.
    ///
    /// # Errors
    /// The kernel alone carries the link and the rules contain more than rate and queue, or a trace could not
    /// be read.
    pub fn set(&self, direction: Direction, rules: &Rules) -> Result<(), LabError> {
        let number = direction as usize;
        let _changing = self.lab.changing.lock();
        if self.lab.cells[self.number].is_none() && rules.suit_the_kernel() {
            self.reshape(number, rules)?;
        } else {
            let cell = self.cell()?;
            let change = lab::read_trace(rules)?;
            let act = move |cell: &mut Cell, now| cell.change(now, number, &change);
            self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped)?;
        }
        self.lab
            .note(self.number, LinkChange::Rules(direction, Box::new(rules.clone())));
        Ok(())
    }

    /// Returns the present rules of a direction: the file's rules with all later changes.
    #[must_use]
    pub fn rules(&self, direction: Direction) -> Rules {
        self.lab.present.lock()[self.number].rules[direction as usize].clone()
    }

    /// Returns whether the link is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.lab.present.lock()[self.number].up
    }

    /// Makes the link's translator drop its mappings and use other ports, as after a restart. A link without
    /// a translator does not change.
    ///
    /// # Errors
    /// The kernel alone carries the link.
    pub fn rebind(&self) -> Result<(), LabError> {
        let cell = self.cell()?;
        let _changing = self.lab.changing.lock();
        self.lab
            .forwarder()?
            .order(cell, |cell: &mut Cell, _| cell.rebind())
            .ok_or(LabError::Stopped)?;
        self.lab.note(self.number, LinkChange::Rebound);
        Ok(())
    }

    /// Changes the kernel's shaper.
    fn reshape(&self, direction: usize, rules: &Rules) -> Result<(), LabError> {
        let link = &self.lab.plan.links[self.number];
        let mut shapers = self.lab.shapers.lock();
        let mut netlink = self.lab.stations[link.ends[direction].host].netlink.lock();
        shapers[self.number][direction].change(&mut netlink, link, direction, rules)
    }

    /// Returns the statistics of a direction. If the kernel carries the link without a rate, a super-segment
    /// counts as one frame.
    ///
    /// # Errors
    /// The forwarder has ended, or the kernel does not answer.
    pub fn statistics(&self, direction: Direction) -> Result<Statistics, LabError> {
        let direction = direction as usize;
        let start = self.lab.start;
        let Some(cell) = self.lab.cells[self.number] else {
            let end = &self.lab.plan.links[self.number].ends[direction];
            let shapers = self.lab.shapers.lock();
            let mut netlink = self.lab.stations[end.host].netlink.lock();
            let at = self.lab.age();
            let found = shapers[self.number][direction].statistics(&mut netlink, &end.interface)?;
            return Ok(Statistics { at, ..found });
        };
        let act = move |cell: &mut Cell, now: Instant| Statistics {
            at: now - start,
            ..cell.statistics(direction, now)
        };
        self.lab.forwarder()?.order(cell, act).ok_or(LabError::Stopped)
    }

    fn cell(&self) -> Result<usize, LabError> {
        self.lab.cells[self.number].ok_or_else(|| LabError::NotACell { link: self.name().to_owned() })
    }
}
