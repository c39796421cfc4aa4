//! Providers of documents: what they know is JSON, not numbers, and is listed, put, deleted and watched
//! as a whole. What Hawser knows of networks is one.
//!
//! A document does not fit a signal's words, so that none goes through a ring: who watches takes texts.
//! The rights are the same: a provider's documents have a name like a variable's. Who may observe it
//! may list and watch them; who may modify it, with whatever bounds, may put and delete them.

use std::pin::Pin;

/// A provider of documents. Every text is JSON: what comes in is a client's and not to be trusted; what
/// goes out is one object.
pub trait Documents: Send + Sync {
    /// The name of which rights speak: `knowledge.nodes`.
    fn name(&self) -> &'static str;

    /// The documents that pass a filter, as the answer to who asks.
    ///
    /// # Errors
    /// What is wrong with the filter.
    fn list(&self, filter: &str) -> Result<String, Vec<Fault>>;

    /// Takes a document in, and answers.
    ///
    /// # Errors
    /// Everything that is wrong with it; then nothing has changed.
    fn put(&self, document: &str) -> Result<String, Vec<Fault>>;

    /// Deletes the document of this name, and answers.
    ///
    /// # Errors
    /// There is none, or it may not be deleted.
    fn delete(&self, name: &str) -> Result<String, Vec<Fault>>;

    /// Begins to report what becomes of documents that pass a filter.
    ///
    /// # Errors
    /// What is wrong with the filter.
    fn watch(&self, filter: &str) -> Result<Box<dyn Watch>, Vec<Fault>>;
}

/// What becomes of documents, from when it began. The provider never waits for it.
pub trait Watch: Send + Sync {
    /// The next event. The future may be dropped before it is ready: nothing is lost by that.
    fn next(&mut self) -> NextEvent<'_>;
}

/// The next event of a [`Watch`].
pub type NextEvent<'a> = Pin<Box<dyn Future<Output = Result<String, WatchEnd>> + Send + 'a>>;

/// Why a [`Watch`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// So many events were not taken in time.
    #[error("too slow: {0} events were missed; list again")]
    Missed(u64),
    /// The provider is gone.
    #[error("the provider is gone")]
    Gone,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in it; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right, where that is known.
    pub hint: Option<String>,
}
