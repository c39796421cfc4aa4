//! Attachments: more of a provider's own program, put there and taken off while it runs.
//!
//! What is attached is checked in the thread of who asks, which may take long; the provider's thread
//! is left the last step, between two of its own. An attachment is part of how the provider works, not
//! a lease: it stays when its subscriber goes, until somebody detaches or replaces it. The log has who
//! put it there and who took it off.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::audit::{Act, Origin};
use crate::bus::{Bus, Pending};
use crate::error::{BusError, Refusal};
use crate::flow::SourceId;
use crate::order::Order;
use crate::subscriber::Subscriber;

/// Bytes of a name.
const NAME: usize = 64;

/// What a provider's thread does in the end, in a form of its own.
pub type Step = Box<dyn Any + Send>;

/// What is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name, by which it is replaced and detached.
    pub name: String,
    /// Who attached it.
    pub who: String,
    /// Where its parts run: `cap after cc`.
    pub places: Vec<String>,
}

/// A change of what is attached to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Attaches a text, in place of what has the name.
    Attach {
        /// The name.
        name: &'a str,
        /// The text, in the provider's language.
        text: &'a str,
        /// Values of its params: `CAP=20000`.
        params: &'a [String],
        /// Who wants it.
        who: &'a str,
    },
    /// Takes one off.
    Detach {
        /// The name.
        name: &'a str,
        /// Why, where nobody asked for it; otherwise empty.
        why: &'a str,
    },
}

impl<'a> Change<'a> {
    /// The attachment's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        match self {
            Change::Attach { name, .. } | Change::Detach { name, .. } => name,
        }
    }

    /// What the log has of it.
    pub(crate) fn act(&self) -> Act {
        match self {
            Change::Attach { text, .. } => Act::attached(text),
            Change::Detach { why, .. } => Act::Detached((*why).to_owned()),
        }
    }
}

/// A provider to which something can be attached.
pub trait Attachable: Send + Sync {
    /// Checks a change of what is attached now, in the thread of who asks for it. What comes of it is
    /// taken to the provider's thread, for [`Source::next_step`](crate::Source::next_step); with it come warnings, empty where there are
    /// none.
    ///
    /// # Errors
    /// [`Refusal::Unable`], with what is wrong, and where.
    fn prepare(&self, change: Change<'_>) -> Result<(Step, String), Refusal>;

    /// What is attached now, in the order in which it was.
    fn attachments(&self) -> Vec<Attachment>;

    /// An assertion of the provider's program was false in the chain of an event, both by their numbers: what is
    /// attached and has to do with it is to be detached from `source`. It is called in the provider's thread, and
    /// may not wait.
    fn failed_assertion(&self, bus: &Bus, source: SourceId, event: u32, assertion: u32) {
        let _ = (bus, source, event, assertion);
    }
}

/// A change to be applied by a source.
pub(crate) struct Attaching {
    pub(crate) stepping: Stepping,
    pub(crate) step: Result<Step, Refusal>,
}

/// A change whose step the provider takes: its result goes to [`Source::stepped`](crate::Source::stepped).
pub struct Stepping {
    pub(crate) who: (Arc<str>, Origin),
    pub(crate) name: String,
    pub(crate) act: Act,
    pub(crate) reply: SyncSender<Result<String, Refusal>>,
    pub(crate) warnings: String,
}

impl std::fmt::Debug for Stepping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepping")
            .field("name", &self.name)
            .field("act", &self.act)
            .finish_non_exhaustive()
    }
}

impl Subscriber {
    /// Attaches a text to a source, in place of what has the name there, with values of its params (`CAP=20000`).
    /// It is checked here and now, in
    /// the calling thread; the source takes it between two events, and the answer comes then: warnings, or an
    /// empty text.
    ///
    /// # Errors
    /// When there is no such source, or the name is none. Whether the source takes it is in the answer.
    pub fn attach(
        &self,
        source: SourceId,
        name: &str,
        text: &str,
        params: &[String],
    ) -> Result<Pending<Result<String, Refusal>>, BusError> {
        self.change_attachments(source, Change::Attach { name, text, params, who: self.name() })
    }

    /// Takes an attachment off a source, whoever has put it there. The log has `why`, which is empty where a
    /// person or a program asks for it.
    ///
    /// # Errors
    /// As [`Subscriber::attach`].
    pub fn detach(
        &self,
        source: SourceId,
        name: &str,
        why: &str,
    ) -> Result<Pending<Result<String, Refusal>>, BusError> {
        self.change_attachments(source, Change::Detach { name, why })
    }

    /// What is attached to a source; nothing where nothing can be.
    ///
    /// # Errors
    /// When there is no such source.
    pub fn attachments(&self, source: SourceId) -> Result<Option<Vec<Attachment>>, BusError> {
        let (attachable, _) = self.bus().attachable(source)?;
        Ok(attachable.map(|attachable| attachable.attachments()))
    }

    fn change_attachments(
        &self,
        source: SourceId,
        change: Change<'_>,
    ) -> Result<Pending<Result<String, Refusal>>, BusError> {
        let name = change.name();
        if !is_name(name) {
            return Err(BusError::Name(name.chars().take(NAME).collect()));
        }
        let (attachable, provider) = self.bus().attachable(source)?;
        let may = self.rights().is_some_and(|rights| rights.attach);
        let step = match attachable {
            _ if !may => Err(Refusal::NotToAttach),
            None => Err(Refusal::NotAttachable(provider)),
            Some(attachable) => attachable.prepare(change),
        };
        let (step, warnings) = match step {
            Ok((step, warnings)) => (Ok(step), warnings),
            Err(refusal) => (Err(refusal), String::new()),
        };
        let (reply, answer) = sync_channel(1);
        let stepping = Stepping {
            who: (self.name().into(), self.origin),
            name: name.to_owned(),
            act: change.act(),
            reply,
            warnings,
        };
        let attaching = Attaching { stepping, step };
        self.bus().order(source, Order::Attach(Box::new(attaching)))?;
        Ok(Pending(answer))
    }
}

/// Whether something can be called so: 1 to 64 letters, digits, `-`, `_`, `.`.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME).contains(&name.len()) && name.chars().all(letter)
}
