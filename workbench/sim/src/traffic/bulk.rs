//! Bulk transfers.

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::connection::{Talk, talk};
use super::{Checked, SmallerForms, Traffic, Volume, check_one_way};
use crate::app::bulk;
use crate::scenario::units::{Bytes, Span};
use crate::scenario::{Flow, Scenario};

/// A bulk transfer, as fast as the transport accepts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// The number of bytes from client to server.
    #[serde(default)]
    pub bytes: Bytes,
    /// The number of bytes from server to client.
    #[serde(default)]
    pub back: Bytes,
}

impl Traffic for Bulk {
    fn check(&self, _: &Scenario, flow: &Flow, path: &str) -> Checked {
        check_one_way(flow, path, self.back.0 > 0)
    }

    fn volume(&self) -> Volume {
        Volume { bytes: self.bytes.0, back: self.back.0, pause: Span(0) }
    }

    fn talk(&self, _: Instant, _: u64, _: &str) -> Talk {
        talk(|side| bulk::Bulk::new(side, self.bytes.0, self.back.0))
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, Bulk>) {
        // Not every transport makes a connection without data.
        let min = u64::from(self.bytes.0 > 0);
        forms.lower(self.bytes.0, min, |bulk, bytes| bulk.bytes = Bytes(bytes));
        forms.lower(self.back.0, 0, |bulk, back| bulk.back = Bytes(back));
    }
}
