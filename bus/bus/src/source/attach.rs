//! Changes of the attachments of a source's provider.

use hawser_time::Instant;

use super::Source;
use crate::attach::{Attaching, AttachmentChange, Step, Stepping};
use crate::audit::{AuditAction, RequestOrigin};
use crate::error::Refusal;
use crate::flow::FlowId;

/// The maximum number of steps queued for a provider.
const STEPS: usize = 16;
/// The maximum length of a reason in the log, in bytes.
const REASON: usize = 200;

impl Source {
    /// Takes a change that was checked, or the reason why it was refused.
    pub(super) fn change_attachments(&mut self, now: Instant, attaching: Attaching) {
        let Attaching { stepping, step } = attaching;
        match step {
            Ok(step) if self.steps.len() < STEPS => self.steps.push_back((stepping, step)),
            Ok(_) => self.stepped(now, stepping, Err(Refusal::Busy(STEPS))),
            Err(refusal) => self.stepped(now, stepping, Err(refusal)),
        }
    }

    /// Handles a false assertion of the provider's program: the attachments that are involved are removed.
    pub fn failed_assertion(&self, event: u32, assertion: u32) {
        if let Some(attachable) = &self.attachable {
            attachable.failed_assertion(&self.bus, self.id, event, assertion);
        }
    }

    /// Returns the next change of attachments, which the provider takes after [`Source::poll`].
    pub fn next_step(&mut self) -> Option<(Stepping, Step)> {
        self.steps.pop_front()
    }

    /// Records the result of a change in the log, and answers its subscriber.
    pub fn stepped(&mut self, now: Instant, stepping: Stepping, result: Result<(), Refusal>) {
        let Stepping { who, name, act, reply, warnings } = stepping;
        let act = match &result {
            Ok(()) => act,
            Err(refusal) => AuditAction::Refused(brief(&refusal.to_string())),
        };
        self.enter(now, &who, FlowId::ALL, name, 0, act);
        // The subscriber may read the log as soon as it has the answer.
        self.share_audit(now);
        let _ = reply.try_send(result.map(|()| warnings));
    }

    /// Logs a change that the provider has made by itself, in the name of `who`.
    pub fn note_change(&mut self, now: Instant, who: &str, change: AttachmentChange<'_>) {
        self.enter(
            now,
            &(who.into(), RequestOrigin::default()),
            FlowId::ALL,
            change.name().to_owned(),
            0,
            change.act(),
        );
    }
}

/// Joins the first lines of a reason into one.
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
