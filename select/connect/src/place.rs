//! Where a candidate leaves this machine.

use hawser_race::Family;

/// What a candidate of a transport is kept to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The interface to leave by; any where there is none.
    pub interface: Option<String>,
    /// The family of addresses; either where there is none.
    pub family: Option<Family>,
}
