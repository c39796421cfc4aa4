//! Attachments: more of a provider's own program, put there and taken off while it runs.
//!
//! What is attached is checked in the thread of who asks, which may take long; the provider's thread
//! is left the last step, between two of its own. An attachment is part of how the provider works, not
//! a lease: it stays when its subscriber goes, until somebody detaches or replaces it. The log has who
//! put it there and who took it off.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::Nanos;
use crate::audit::{Act, Origin};
use crate::bus::{Bus, Pending};
use crate::error::{BusError, Refusal};
use crate::flow::{FlowId, SourceId};
use crate::order::Order;
use crate::source::Source;
use crate::subscriber::Subscriber;

/// Steps that wait for a provider.
const STEPS: usize = 16;
/// Bytes of a reason in the log.
const REASON: usize = 200;
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
    fn act(&self) -> Act {
        match self {
            Change::Attach { text, .. } => Act::attached(text),
            Change::Detach { why, .. } => Act::Detached((*why).to_owned()),
        }
    }
}

/// A provider to which something can be attached.
pub trait Attachable: Send + Sync {
    /// Checks a change of what is attached now, in the thread of who asks for it. What comes of it is
    /// taken to the provider's thread, for [`Source::next_step`]; with it come warnings, empty where there are
    /// none.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn prepare(&self, change: Change<'_>) -> Result<(Step, String), String>;

    /// What is attached now, in the order in which it was.
    fn attachments(&self) -> Vec<Attachment>;

    /// An assertion of the provider's program was false in the chain of an event, both by their numbers: what is
    /// attached and has to do with it is to be detached from `source`. It is called in the provider's thread, and
    /// may not wait.
    fn failed_assertion(&self, bus: &Bus, source: SourceId, event: u32, assertion: u32) {
        let _ = (bus, source, event, assertion);
    }
}

/// A change on its way to a source.
pub(crate) struct Attaching {
    pub(crate) who: (Arc<str>, Origin),
    pub(crate) name: String,
    pub(crate) act: Act,
    pub(crate) step: Result<Step, Refusal>,
    pub(crate) reply: SyncSender<Result<String, Refusal>>,
    pub(crate) warnings: String,
}

/// A change whose step the provider takes: its result goes to [`Source::stepped`].
pub struct Stepping {
    who: (Arc<str>, Origin),
    name: String,
    act: Act,
    reply: SyncSender<Result<String, Refusal>>,
    warnings: String,
}

impl std::fmt::Debug for Stepping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepping")
            .field("name", &self.name)
            .field("act", &self.act)
            .finish_non_exhaustive()
    }
}

/// Steps that wait.
pub(crate) type Steps = VecDeque<(Stepping, Step)>;

impl Source {
    /// Takes a change that was checked, or the reason why it was refused.
    pub(crate) fn change_attachments(&mut self, now: Nanos, attaching: Attaching) {
        let Attaching {
            who,
            name,
            act,
            step,
            reply,
            warnings,
        } = attaching;
        let stepping = Stepping {
            who,
            name,
            act,
            reply,
            warnings,
        };
        match step {
            Ok(step) if self.steps.len() < STEPS => self.steps.push_back((stepping, step)),
            Ok(_) => {
                let why = format!("{STEPS} changes wait to be attached already");
                self.finish(now, stepping, Err(Refusal::Unable(why)));
            }
            Err(refusal) => self.finish(now, stepping, Err(refusal)),
        }
    }

    /// An assertion of the provider's program was false: attachments that have to do with it go.
    pub fn failed_assertion(&self, event: u32, assertion: u32) {
        if let Some(attachable) = &self.attachable {
            attachable.failed_assertion(&self.bus, self.id(), event, assertion);
        }
    }

    /// The next change of what is attached, for the provider to take after [`Source::poll`].
    pub fn next_step(&mut self) -> Option<(Stepping, Step)> {
        self.steps.pop_front()
    }

    /// What came of a change: it is written into the log, and its subscriber is answered.
    pub fn stepped(&mut self, now: Nanos, stepping: Stepping, result: Result<(), String>) {
        self.finish(now, stepping, result.map_err(Refusal::Unable));
    }

    /// Writes into the log a change that the provider has made by itself, in the name of `who`.
    pub fn note_change(&mut self, now: Nanos, who: &str, change: Change<'_>) {
        self.enter(
            now,
            &(who.into(), Origin::default()),
            FlowId::ALL,
            change.name().to_owned(),
            0,
            change.act(),
        );
    }

    fn finish(&mut self, now: Nanos, stepping: Stepping, result: Result<(), Refusal>) {
        let Stepping {
            who,
            name,
            act,
            reply,
            warnings,
        } = stepping;
        let act = match &result {
            Ok(()) => act,
            Err(refusal) => Act::Refused(brief(&refusal.to_string())),
        };
        self.enter(now, &who, FlowId::ALL, name, 0, act);
        // Who is answered may read the log at once.
        self.share_audit(now);
        let _ = reply.try_send(result.map(|()| warnings));
    }
}

/// The first lines of a reason, as one.
fn brief(reason: &str) -> String {
    let words = reason.split_whitespace();
    let mut out = String::new();
    for word in words {
        if out.len() + word.len() >= REASON {
            out.push('…');
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
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
        self.change_attachments(
            source,
            Change::Attach {
                name,
                text,
                params,
                who: self.name(),
            },
        )
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
            None => Err(Refusal::Unable(format!("nothing can be attached to {provider}"))),
            Some(attachable) => attachable.prepare(change).map_err(Refusal::Unable),
        };
        let (step, warnings) = match step {
            Ok((step, warnings)) => (Ok(step), warnings),
            Err(refusal) => (Err(refusal), String::new()),
        };
        let (reply, answer) = sync_channel(1);
        let attaching = Attaching {
            who: (self.name().into(), self.origin),
            name: name.to_owned(),
            act: change.act(),
            step,
            reply,
            warnings,
        };
        self.bus().order(source, Order::Attach(Box::new(attaching)))?;
        Ok(Pending(answer))
    }
}

/// Whether something can be called so: 1 to 64 letters, digits, `-`, `_`, `.`.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME).contains(&name.len()) && name.chars().all(letter)
}
