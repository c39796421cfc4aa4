//! Bulk transfers.

use hawser_time::Instant;
use serde::{Deserialize, Serialize};

use super::connection::{ConnectionScript, talk};
use super::{Checked, SmallerForms, Traffic, Volume, check_one_way};
use crate::app::bulk;
use crate::scenario::units::{DataSize, TimeSpan};
use crate::scenario::{FlowSpec, Scenario};

/// A bulk transfer, as fast as the transport accepts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkSpec {
    /// The number of bytes from client to server.
    #[serde(default)]
    pub bytes: DataSize,
    /// The number of bytes from server to client.
    #[serde(default)]
    pub back: DataSize,
}

impl Traffic for BulkSpec {
    fn check(&self, _: &Scenario, flow: &FlowSpec, path: &str) -> Checked {
        check_one_way(flow, path, self.back.0 > 0)
    }

    fn volume(&self) -> Volume {
        Volume { bytes: self.bytes.0, back: self.back.0, pause: TimeSpan(0) }
    }

    fn talk(&self, _: Instant, _: u64, _: &str) -> ConnectionScript {
        talk(|side| bulk::BulkEnd::new(side, self.bytes.0, self.back.0))
    }

    fn smaller(&self, forms: &mut SmallerForms<'_, BulkSpec>) {
        // Not every transport makes a connection without data.
        let min = u64::from(self.bytes.0 > 0);
        forms.lower(self.bytes.0, min, |bulk, bytes| bulk.bytes = DataSize(bytes));
        forms.lower(self.back.0, 0, |bulk, back| bulk.back = DataSize(back));
    }
}
