//! Opens a store that another holder had before.

use std::time::Duration;

use hawser_connect::knowledge::{Knowledge, KnowledgeError, Settings, StoreError};

/// Opens the store when its earlier holder has released it.
pub(super) async fn open(settings: &Settings) -> Knowledge {
    for _ in 0..500 {
        match Knowledge::open(settings.clone()).await {
            Err(KnowledgeError::Store(StoreError::InUse(_))) => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => return other.expect("it opens"),
        }
    }
    panic!("it is never let go");
}
