//! A walk over the instructions that a processor can issue, and over the values that may have been written to
//! a place before.
//!
//! It follows calls, and knows the target of each reference parameter. It ignores the order of statements and
//! conditions: every possible write counts.

use std::collections::HashSet;
use std::ops::Range;

use crate::facts::{Facts, PlaceAccess};
use crate::visit::{own_calls, reached};
use crate::{
    Arg, Base, FuncId, Instr, Layout, Module, Node, Place, Processor, Stmt, StmtKind, Ty, statements,
};

/// A region that lives longer than one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    /// The variables of the n-th function in the call stack.
    Frame(usize),
    /// A region of the chain: never [`Base::Local`] or [`Base::Ref`].
    Chain(Base),
}

/// A range of bytes in a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ByteRange {
    root: Root,
    range: Range<u64>,
    /// True if only some bytes of the range are meant: in a list, the element is not known.
    is_within: bool,
}

impl ByteRange {
    fn overlaps(&self, other: &ByteRange) -> bool {
        self.root == other.root && self.range.start < other.range.end && other.range.start < self.range.end
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns `len` bytes from the `from`-th on.
    pub(crate) fn part(&self, from: u64, len: u64) -> ByteRange {
        let start = self.range.start + from;
        let range = if self.is_within {
            self.range.clone()
        } else {
            start..start + len
        };
        ByteRange { range, ..*self }
    }
}

/// A function in the call stack, with the targets of its reference parameters.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    func: FuncId,
    refs: Vec<ByteRange>,
}

/// A value that was written to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenValue {
    /// A copy of bytes of this region of the chain.
    From(Base),
    /// A computed value.
    Made,
}

pub(crate) struct Walk<'m> {
    module: &'m Module,
    member_sizes: Vec<u32>,
    /// By function: true if it, or a function that it calls, issues instructions.
    issues: Vec<bool>,
}

impl<'m> Walk<'m> {
    pub(crate) fn over(module: &'m Module) -> Walk<'m> {
        let own: Vec<bool> = module.funcs.iter().map(|func| issues(&func.body)).collect();
        let of = |func| reached(module, func).iter().any(|func| own[func.0 as usize]);
        Walk {
            module,
            member_sizes: module.member_sizes(),
            issues: (0..module.funcs.len() as u32)
                .map(|func| of(FuncId(func)))
                .collect(),
        }
    }

    /// Visits each instruction that a processor can issue, with the statement and the calls that lead there.
    pub(crate) fn instructions(
        &self,
        processor: &Processor,
        visit: &mut dyn FnMut(&[Call], &'m Stmt, &'m Instr),
    ) {
        let refs = processor.args.iter().map(|place| self.bytes(&[], place));
        let call = Call { func: processor.func, refs: refs.collect() };
        self.visit(&mut vec![call], &mut HashSet::new(), visit);
    }

    fn visit(
        &self,
        calls: &mut Vec<Call>,
        seen: &mut HashSet<(FuncId, Vec<ByteRange>)>,
        visit: &mut dyn FnMut(&[Call], &'m Stmt, &'m Instr),
    ) {
        statements(self.body(calls), &mut |stmt| {
            if let StmtKind::Emit(instr) = &stmt.kind {
                visit(calls, stmt, instr);
            }
            own_calls(stmt, |func, args| {
                if !self.issues[func.0 as usize] {
                    return;
                }
                let call = self.call(calls, func, args);
                // A call without references to variables gives the same result from every place.
                let is_same = call.refs.iter().all(|bytes| matches!(bytes.root, Root::Chain(_)));
                if is_same && !seen.insert((func, call.refs.clone())) {
                    return;
                }
                calls.push(call);
                self.visit(calls, seen, visit);
                calls.pop();
            });
        });
    }

    /// Returns the values that may have been written to bytes of a variable in the call stack. For bytes of a
    /// region of the chain, it returns that region. An empty result means that they are as declared.
    pub(crate) fn put(&self, calls: &[Call], bytes: &ByteRange) -> Vec<WrittenValue> {
        let mut found = Vec::new();
        self.follow(calls, bytes, &mut HashSet::new(), &mut found);
        found
    }

    fn follow(
        &self,
        calls: &[Call],
        bytes: &ByteRange,
        seen: &mut HashSet<(Vec<FuncId>, ByteRange)>,
        found: &mut Vec<WrittenValue>,
    ) {
        match bytes.root {
            Root::Chain(base) => found.push(WrittenValue::From(base)),
            Root::Frame(depth) => {
                let mut calls = calls[..=depth].to_vec();
                let key = calls.iter().map(|call| call.func).collect();
                if seen.insert((key, bytes.clone())) {
                    self.writes(&mut calls, bytes, seen, found);
                }
            }
        }
    }

    /// Collects the writes of the innermost function, and of the functions to which it passes the bytes.
    fn writes(
        &self,
        calls: &mut Vec<Call>,
        bytes: &ByteRange,
        seen: &mut HashSet<(Vec<FuncId>, ByteRange)>,
        found: &mut Vec<WrittenValue>,
    ) {
        statements(self.body(calls), &mut |stmt| {
            let made = |place: &Place| self.bytes(calls, place).overlaps(bytes);
            match &stmt.kind {
                StmtKind::Copy(to, from) if made(to) => {
                    let (to, from) = (self.bytes(calls, to), self.bytes(calls, from));
                    let skipped = bytes.range.start.saturating_sub(to.range.start);
                    let len = bytes.len().min(to.len()).min(from.len());
                    self.follow(calls, &from.part(skipped, len), seen, found);
                }
                kind if targets(kind).into_iter().any(made) => found.push(WrittenValue::Made),
                _ => {}
            }
            own_calls(stmt, |func, args| {
                let call = self.call(calls, func, args);
                if call.refs.iter().any(|given| given.overlaps(bytes)) {
                    calls.push(call);
                    self.writes(calls, bytes, seen, found);
                    calls.pop();
                }
            });
        });
    }

    fn body(&self, calls: &[Call]) -> &'m [Stmt] {
        let func = calls.last().map(|call| call.func.0 as usize);
        func.map_or(&[], |func| &self.module.funcs[func].body)
    }

    fn call(&self, calls: &[Call], func: FuncId, args: &[Arg]) -> Call {
        let refs = args.iter().filter_map(|arg| match arg {
            Arg::Ref(place) => Some(self.bytes(calls, place)),
            Arg::Value(_) => None,
        });
        Call { func, refs: refs.collect() }
    }

    /// Returns the bytes of a place that the innermost function names.
    pub(crate) fn bytes(&self, calls: &[Call], place: &Place) -> ByteRange {
        let from = u64::from(place.offset);
        let len = match place.steps.first() {
            Some(step) => u64::from(step.header) + u64::from(step.cap) * u64::from(step.stride),
            None => self.size(&place.ty),
        };
        let own = |root| ByteRange { root, range: from..from + len, is_within: false };
        let bytes = match place.base {
            Base::Local => own(Root::Frame(calls.len().saturating_sub(1))),
            Base::Ref(n) => match calls.last().and_then(|call| call.refs.get(usize::from(n))) {
                Some(given) => given.part(from, len),
                None => own(Root::Chain(place.base)),
            },
            base => own(Root::Chain(base)),
        };
        ByteRange { is_within: bytes.is_within || !place.steps.is_empty(), ..bytes }
    }

    fn size(&self, ty: &Ty) -> u64 {
        let layout = Layout { structs: &self.module.structs, member_size: &self.member_sizes };
        layout.size(ty).into()
    }
}

fn issues(body: &[Stmt]) -> bool {
    let mut issues = false;
    statements(body, &mut |stmt| issues |= matches!(stmt.kind, StmtKind::Emit(_)));
    issues
}

/// Returns the places that a statement sets to a value other than a copy of another place or the initial
/// value of a variable.
fn targets(kind: &StmtKind) -> Vec<&Place> {
    struct Targets<'n>(Vec<&'n Place>);
    impl<'n> Facts<'n> for Targets<'n> {
        fn place(&mut self, place: &'n Place, access: PlaceAccess) {
            if access.writes() {
                self.0.push(place);
            }
        }
    }
    let mut targets = Targets(Vec::new());
    if !matches!(kind, StmtKind::Copy(..) | StmtKind::Init(_)) {
        kind.facts(&mut targets);
    }
    targets.0
}
