//! Providers of documents. Their state is JSON instead of numbers, and it is listed, put, deleted and watched
//! as whole documents. Hawser's knowledge of networks is such a provider.
//!
//! A document does not fit into a signal's words, so documents do not go through a ring: a watcher receives
//! texts. The rights work in the same way, because a provider's documents have a name like a variable's. A
//! subscriber that may observe the name may list and watch the documents. A subscriber that may modify it,
//! with whatever bounds, may put and delete them.

use std::pin::Pin;

/// A provider of documents. Every text is JSON. Incoming texts come from clients and are not trusted; an
/// outgoing text is one object.
pub trait Documents: Send + Sync {
    /// Returns the name that rights refer to, such as `knowledge.nodes`.
    fn name(&self) -> &'static str;

    /// Returns the documents that pass a filter.
    ///
    /// # Errors
    /// The faults of the filter.
    fn list(&self, filter: &str) -> Result<String, Vec<Fault>>;

    /// Stores a document, and answers.
    ///
    /// # Errors
    /// All faults of the document; the stored documents are then unchanged.
    fn put(&self, document: &str) -> Result<String, Vec<Fault>>;

    /// Deletes the document of this name, and answers.
    ///
    /// # Errors
    /// When there is no such document, or it may not be deleted.
    fn delete(&self, name: &str) -> Result<String, Vec<Fault>>;

    /// Begins to report changes of documents that pass a filter.
    ///
    /// # Errors
    /// The faults of the filter.
    fn watch(&self, filter: &str) -> Result<Box<dyn DocumentWatch>, Vec<Fault>>;
}

/// Changes of documents since the watch began. The provider never waits for the watcher.
pub trait DocumentWatch: Send + Sync {
    /// Returns the next event. The future may be dropped before it is ready, without losing an event.
    fn next(&mut self) -> NextEvent<'_>;
}

/// The next event of a [`DocumentWatch`].
pub type NextEvent<'a> = Pin<Box<dyn Future<Output = Result<String, WatchEnd>> + Send + 'a>>;

/// The reasons for which a [`DocumentWatch`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The watcher was too slow, and this many events were missed.
    #[error("{0} events were missed because the reader was too slow; list the flows again")]
    Missed(u64),
    /// The provider is gone.
    #[error("the provider has ended")]
    Gone,
}

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the faulty part; empty for the whole request.
    pub path: String,
    /// The description of the fault.
    pub message: String,
    /// A correction, if one is known.
    pub hint: Option<String>,
}
