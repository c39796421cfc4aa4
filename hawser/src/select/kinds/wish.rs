//! The kinds that serve a wish: which there are is known here, and to nobody above.

use std::io;
use std::sync::Arc;

use super::Tcp;
use crate::select::Kind;
use crate::session::Trust;

/// What is wished of candidates for one connection.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The name that the peer's certificate must have.
    pub name: String,
    /// Whom to trust; none: no protection at all.
    pub trust: Option<Trust>,
    /// Application protocols to agree on (RFC 7301), best first.
    pub protocols: Vec<String>,
    /// Whether kinds that use several paths are of use.
    pub is_multipath: bool,
    /// Whether kinds without several streams are of no use.
    pub is_multistreamed: bool,
    /// How several paths are used: `Handover`, `Interactive`, `Aggregate` (RFC 9622, 8.1.7).
    pub policy: &'static str,
    /// The interface to leave by; none where the system chooses.
    pub interface: Option<String>,
    /// Interfaces that several paths may leave by; with none the system chooses one.
    pub interfaces: Vec<String>,
}

/// The kinds that give what is wished, those first that should win ties. What each gives is told by its
/// [`Kind::features`].
///
/// # Errors
/// The certificates of those to be trusted cannot be read.
pub fn wished(wish: &Wish) -> io::Result<Vec<Arc<dyn Kind>>> {
    let Wish { interface, .. } = wish;
    let tcp = |is_multipath| -> Arc<dyn Kind> {
        Arc::new(Tcp { is_multipath, interface: interface.clone(), priority: 0 })
    };
    Ok(vec![tcp(false), tcp(true)])
}
