//! The place where each chain of a program runs.

use crate::visit::reached;
use crate::{
    Chain, ContextId, EventId, Granularity, Instr, Module, Parser, ParserInput, Precondition, StmtKind,
    statements,
};

use crate::capabilities::cause::{causes, given};
use crate::capabilities::document::Capabilities;
use crate::capabilities::offer::{Instruction, Offer};
use crate::capabilities::packet::{goes_to_the_peer, may_carry_payload, obstacles};
use crate::capabilities::reason::{Reason, Reasons};
use crate::capabilities::walk::{Call, Walk};

/// The place where a chain runs while the stack's thread sleeps. A thread that is awake runs all chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the kernel; no instruction of the chain wakes the stack's thread.
    Kernel,
    /// In the kernel; some of its instructions, or some of its frames, are left to the stack's thread.
    Both,
    /// In the stack's thread.
    User,
}

impl Placement {
    /// Returns the name that tables use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Placement::Kernel => "kernel",
            Placement::Both => "both",
            Placement::User => "user",
        }
    }
}

/// The placement of an event's chain, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The event that the chain handles.
    pub event: EventId,
    /// The place where the chain runs.
    pub placement: Placement,
    /// The reasons, at least one. For [`Placement::User`], they are all reasons that keep the chain there.
    /// Otherwise, they are the answers in the kernel, then the work that is left to the stack's thread.
    pub reasons: Vec<Reason>,
}

/// Returns the placements of a program's chains on a target, by event.
#[must_use]
pub fn placements(module: &Module, capabilities: &Capabilities) -> Vec<Placed> {
    let walk = Walk::over(module);
    let events = (0..module.chains.len() as u32).map(EventId);
    let place = |event| match &capabilities.kernel {
        Some(offer) => {
            let placing = Placing { module, walk: &walk, offer };
            placing.place(event)
        }
        None => Placed {
            event,
            placement: Placement::User,
            reasons: vec![Reason {
                text: "the target runs every chain in the stack's thread".to_owned(),
                spans: Vec::new(),
            }],
        },
    };
    events.map(place).collect()
}

struct Placing<'a, 'm> {
    module: &'m Module,
    walk: &'a Walk<'m>,
    offer: &'a Offer,
}

impl<'m> Placing<'_, 'm> {
    fn place(&self, event: EventId) -> Placed {
        let chain = &self.module.chains[event.0 as usize];
        let mut reasons = Reasons::default();
        if self.comes_by_packets(event, &mut reasons) {
            self.limits(chain, &mut reasons);
            self.externs(chain, &mut reasons);
        }
        let placement = if reasons.is_empty() {
            self.left(chain, &mut reasons)
        } else {
            Placement::User
        };
        Placed { event, placement, reasons: reasons.into_vec() }
    }

    /// Returns true if whole packets cause the event. Packets that the kernel cannot handle are added to the
    /// reasons.
    fn comes_by_packets(&self, event: EventId, reasons: &mut Reasons) -> bool {
        let parsers = self.module.parsers.iter();
        let parsers = parsers.filter(|parser| given(self.module, parser, event).is_some());
        let is_offered = |parser: &&Parser| self.offer.sources.contains(&parser.source.into());
        let (offered, others): (Vec<&Parser>, Vec<&Parser>) = parsers.partition(is_offered);
        let whole = others
            .into_iter()
            .filter(|parser| matches!(parser.source, ParserInput::Ip(_) | ParserInput::Udp(_)));
        let parsers = if offered.is_empty() {
            for (cause, span) in causes(self.module, event) {
                reasons.add(format!("it comes from {cause}"), span);
            }
            if reasons.is_empty() {
                reasons.add("no event leads to it".to_owned(), None);
            }
            whole.collect()
        } else {
            offered
        };
        if !self.offer.crc {
            parsers.iter().for_each(|parser| self.crc(parser, reasons));
        }
        !parsers.is_empty()
    }

    fn crc(&self, parser: &Parser, reasons: &mut Reasons) {
        for func in reached(self.module, parser.func) {
            statements(&self.module.funcs[func.0 as usize].body, &mut |stmt| {
                let StmtKind::Extract { blueprint, .. } = &stmt.kind else {
                    return;
                };
                let blueprint = &self.module.blueprints[blueprint.0 as usize];
                if blueprint.crc().is_some() {
                    let text = format!("the payload is checked, by the CRC-32 of `{}`", blueprint.name);
                    reasons.add(text, Some(stmt.span));
                }
            });
        }
    }

    fn limits(&self, chain: &Chain, reasons: &mut Reasons) {
        let limits = &self.offer.limits;
        let types = self.module.contexts.len() as u64;
        let largest = self
            .keyed(chain)
            .map(|context| self.module.context_size(context) as u64);
        for (what, value, limit) in [
            ("steps", chain.bounds.steps, limits.steps),
            (
                "bytes of records",
                chain.bounds.record_bytes.into(),
                limits.record_bytes,
            ),
            (
                "bytes of a context",
                largest.max().unwrap_or(0),
                limits.context_bytes,
            ),
            ("types of contexts", types, limits.context_types),
        ] {
            if let Some(limit) = limit.filter(|limit| value > *limit) {
                reasons.add(format!("it takes up to {value} {what}, more than {limit}"), None);
            }
        }
    }

    /// Returns the types of contexts on which a chain's processors run.
    fn keyed(&self, chain: &Chain) -> impl Iterator<Item = ContextId> {
        let contexts = (0..self.module.contexts.len() as u32).map(ContextId);
        let is_keyed = |id: &ContextId| {
            self.module.contexts[id.0 as usize].granularity != Granularity::Global
                && chain
                    .processors
                    .iter()
                    .any(|p| p.when == Precondition::Always || p.when == Precondition::Found(*id))
        };
        contexts.filter(is_keyed)
    }

    fn externs(&self, chain: &Chain, reasons: &mut Reasons) {
        self.instructions(chain, &mut |_, stmt, instr| {
            if let Instr::Extern { callee, .. } = instr {
                let name = &self.module.externs[callee.0 as usize].name;
                if !self.offer.externs.contains(name) {
                    reasons.add(format!("it calls the extern `{name}`"), Some(stmt.span));
                }
            }
        });
    }

    /// Visits the instructions of all its processors.
    fn instructions(&self, chain: &Chain, visit: &mut dyn FnMut(&[Call], &'m crate::Stmt, &'m Instr)) {
        let processors = chain.processors.iter();
        processors.for_each(|processor| self.walk.instructions(processor, visit));
    }

    /// Returns the placement of a chain that runs in the kernel. The reasons are its answers there, and the
    /// work that is left to the stack's thread.
    fn left(&self, chain: &Chain, reasons: &mut Reasons) -> Placement {
        let (mut answers, mut left) = (Reasons::default(), Reasons::default());
        self.instructions(
            chain,
            &mut |calls, stmt, instr| match Instruction::from_instr(instr) {
                Some(_) if matches!(instr, Instr::PktGen { .. }) => {
                    let mut found = obstacles(self.module, instr, self.offer);
                    let name = self.blueprint(instr);
                    if !goes_to_the_peer(self.walk, calls, instr) {
                        found.push(format!("`{name}` may go to another host than the frame's sender"));
                    }
                    let is_payload =
                        !self.offer.payload && may_carry_payload(self.module, self.walk, calls, instr);
                    if found.is_empty() {
                        let unless = if is_payload {
                            ", unless it carries payload"
                        } else {
                            ""
                        };
                        answers.add(
                            format!("`{name}` goes back to the frame's sender{unless}"),
                            Some(stmt.span),
                        );
                    }
                    if is_payload {
                        found.push(format!("`{name}` may carry payload"));
                    }
                    found.into_iter().for_each(|text| left.add(text, Some(stmt.span)));
                }
                Some(instruction) if !self.offer.instructions.contains(&instruction) => {
                    let name = instruction.name();
                    left.add(
                        format!("`{name}` is carried out by the stack's thread"),
                        Some(stmt.span),
                    );
                }
                Some(_) | None => {}
            },
        );
        if !answers.is_empty() && chain.bounds.packets > 1 {
            let text = format!(
                "of up to {} packets one goes back in the frame's place",
                chain.bounds.packets
            );
            left.add(text, None);
        }
        let placement = if left.is_empty() {
            Placement::Kernel
        } else {
            Placement::Both
        };
        for reason in answers.into_vec().into_iter().chain(left.into_vec()) {
            reasons.add(reason.text, reason.spans);
        }
        if reasons.is_empty() {
            reasons.add("it changes contexts and timers alone".to_owned(), None);
        }
        placement
    }

    fn blueprint(&self, instr: &Instr) -> &'m str {
        match instr {
            Instr::PktGen { blueprint, .. } => &self.module.blueprints[blueprint.0 as usize].name,
            _ => "",
        }
    }
}
