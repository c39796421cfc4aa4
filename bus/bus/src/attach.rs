//! Attachments: additions to a provider's own program, which are made and removed while it runs.
//!
//! An attachment is checked in the caller's thread, because that may take long. The provider's thread only
//! takes the last step, between two events. An attachment is part of the provider's behaviour, not a lease:
//! it stays when its subscriber leaves, until it is detached or replaced. The log records which subscriber
//! attached it and which one detached it.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::audit::{AuditAction, RequestOrigin};
use crate::bus::{Bus, PendingAnswer};
use crate::error::{BusError, Refusal};
use crate::flow::SourceId;
use crate::order::SourceOrder;
use crate::subscriber::Subscriber;

/// The maximum length of a name, in bytes.
const NAME: usize = 64;

/// The last step of a change, which the provider's thread carries out; its type is the provider's own.
pub type Step = Box<dyn Any + Send>;

/// An attachment of a running provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The name by which it is replaced and detached.
    pub name: String,
    /// The name of the subscriber that attached it.
    pub who: String,
    /// The places in which its parts run: `cap after cc`.
    pub places: Vec<String>,
}

/// A change of a provider's attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentChange<'a> {
    /// Attaches a text, and replaces an attachment of the same name.
    Attach {
        name: &'a str,
        /// The text, in the provider's language.
        text: &'a str,
        /// Values of its parameters: `CAP=20000`.
        params: &'a [String],
        /// The name of the subscriber that requests it.
        who: &'a str,
    },
    /// Removes an attachment.
    Detach {
        name: &'a str,
        /// The reason, if no subscriber requested it; otherwise empty.
        why: &'a str,
    },
}

impl<'a> AttachmentChange<'a> {
    /// Returns the attachment's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        match self {
            AttachmentChange::Attach { name, .. } | AttachmentChange::Detach { name, .. } => name,
        }
    }

    /// Returns the change as the log records it.
    pub(crate) fn act(&self) -> AuditAction {
        match self {
            AttachmentChange::Attach { text, .. } => AuditAction::attached(text),
            AttachmentChange::Detach { why, .. } => AuditAction::Detached((*why).to_owned()),
        }
    }
}

/// A provider that takes attachments.
pub trait Attachable: Send + Sync {
    /// Checks a change of attachments, in the caller's thread. The step goes to the provider's thread, for
    /// [`Source::next_step`](crate::Source::next_step). The text holds warnings, and is empty if there are
    /// none.
    ///
    /// # Errors
    /// [`Refusal::Unable`], with the faults and their places.
    fn prepare(&self, change: AttachmentChange<'_>) -> Result<(Step, String), Refusal>;

    /// Returns the present attachments, in the order in which they were attached.
    fn attachments(&self) -> Vec<Attachment>;

    /// Reports that an assertion of the provider's program was false in the chain of an event, both given by
    /// their numbers. The implementation detaches the attachments that are involved from `source`. It is
    /// called in the provider's thread, and must not block.
    fn failed_assertion(&self, bus: &Bus, source: SourceId, event: u32, assertion: u32) {
        let _ = (bus, source, event, assertion);
    }
}

/// A change to be applied by a source.
pub(crate) struct Attaching {
    pub(crate) stepping: Stepping,
    pub(crate) step: Result<Step, Refusal>,
}

/// A change whose step the provider carries out. Its result goes to
/// [`Source::stepped`](crate::Source::stepped).
pub struct Stepping {
    pub(crate) who: (Arc<str>, RequestOrigin),
    pub(crate) name: String,
    pub(crate) act: AuditAction,
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
    /// Attaches a text to a source, with values of its parameters (`CAP=20000`), and replaces an attachment
    /// of the same name. The text is checked now, in the calling thread. The source applies it between two
    /// events and then answers with warnings, or with an empty text.
    ///
    /// # Errors
    /// When there is no such source, or the name is not valid. A refusal by the source is in the answer
    /// instead.
    pub fn attach(
        &self,
        source: SourceId,
        name: &str,
        text: &str,
        params: &[String],
    ) -> Result<PendingAnswer<Result<String, Refusal>>, BusError> {
        self.change_attachments(
            source,
            AttachmentChange::Attach { name, text, params, who: self.name() },
        )
    }

    /// Removes an attachment from a source, whichever subscriber made it. The log records `why`, which is
    /// empty if a person or a program requests the removal.
    ///
    /// # Errors
    /// As [`Subscriber::attach`].
    pub fn detach(
        &self,
        source: SourceId,
        name: &str,
        why: &str,
    ) -> Result<PendingAnswer<Result<String, Refusal>>, BusError> {
        self.change_attachments(source, AttachmentChange::Detach { name, why })
    }

    /// Returns the attachments of a source; `None` if the source takes none.
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
        change: AttachmentChange<'_>,
    ) -> Result<PendingAnswer<Result<String, Refusal>>, BusError> {
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
        self.bus()
            .order(source, SourceOrder::Attach(Box::new(attaching)))?;
        Ok(PendingAnswer(answer))
    }
}

/// Returns whether a name is valid for an attachment: 1 to 64 letters, digits, `-`, `_`, `.`.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME).contains(&name.len()) && name.chars().all(letter)
}
