//! The local interface and address family of a candidate.

use hawser_race::Family;

/// The restrictions on a transport's candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalConstraint {
    /// The local interface; `None` for any.
    pub interface: Option<String>,
    /// The address family; `None` for either.
    pub family: Option<Family>,
}
