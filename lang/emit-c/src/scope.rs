//! What is in sight where C is being printed: a function's parameters, variables and setting.

use hawser_ir::{Base, ContextId, FuncId, Place, Ty};

use crate::names::Names;
use crate::writer::Writer;

/// What a reference parameter is bound to, as far as the callee has to know. Parameters that nothing
/// is written through are always [`Kind::Plain`]: what is absent then reads as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Something that is there.
    Plain,
    /// The context that the chain creates, or a part of it.
    Fresh,
    /// The context that the chain would have created, had there been a slot: a null pointer.
    Unmade,
    /// Perhaps nothing: a null pointer reads as zero and ignores writes.
    Maybe,
    /// A parser's input: writes are ignored.
    View,
}

/// Which keyed context was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Found {
    /// Unknown here, or of no interest to the function.
    Any,
    Nothing,
    Context(ContextId),
}

/// The slot for a new context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    /// Of no interest to the function.
    Any,
    Present(ContextId),
    Absent,
}

/// A function of the program in one setting: each becomes a C function of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Instance {
    pub(crate) func: FuncId,
    pub(crate) refs: Vec<Kind>,
    pub(crate) found: Found,
    pub(crate) slot: Slot,
}

/// An expression of C that leads to something in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// An lvalue.
    Object(String),
    /// A pointer, ready to be followed by `->`.
    Pointer(String),
}

impl At {
    pub(crate) fn lvalue(&self) -> String {
        match self {
            At::Object(text) => text.clone(),
            At::Pointer(text) => format!("*{text}"),
        }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            At::Object(text) => match text.strip_prefix('*') {
                Some(pointer) => pointer.to_owned(),
                None => format!("&{text}"),
            },
            At::Pointer(text) => text.clone(),
        }
    }

    pub(crate) fn member(&self, field: &str) -> At {
        match self {
            At::Object(text) => At::Object(format!("{text}.{field}")),
            At::Pointer(text) => At::Object(format!("{text}->{field}")),
        }
    }
}

/// A variable of a function.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) offset: u32,
    pub(crate) size: u32,
}

impl Local {
    fn holds(&self, offset: u32) -> bool {
        self.offset <= offset && offset < self.offset + self.size.max(1)
    }
}

impl Kind {
    /// Whether the pointer may be null.
    pub(crate) fn may_be_null(self) -> bool {
        match self {
            Kind::Maybe | Kind::Unmade => true,
            Kind::Plain | Kind::Fresh | Kind::View => false,
        }
    }

    /// Whether it is in the context that the chain creates.
    pub(crate) fn is_fresh(self) -> bool {
        match self {
            Kind::Fresh | Kind::Unmade => true,
            Kind::Plain | Kind::Maybe | Kind::View => false,
        }
    }
}

/// A reference parameter.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) name: String,
    /// The pointer to read through where it may be nothing: to zeros then.
    pub(crate) seen: String,
    pub(crate) ty: Ty,
    pub(crate) kind: Kind,
}

/// How a function ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// `return;` or `return value;`
    Plain,
    /// It returns whether the run has ended; a value goes to `*result`.
    Halting,
}

/// What C is being printed into, and what is in sight there.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) out: Writer,
    pub(crate) names: Names,
    pub(crate) refs: Vec<Reference>,
    /// In order of their offsets.
    pub(crate) locals: Vec<Local>,
    pub(crate) found: Found,
    pub(crate) slot: Slot,
    pub(crate) ending: Ending,
    /// What the function returns.
    pub(crate) ret: Option<Ty>,
    /// What [`hawser_ir::Base::Event`] is, where its type is known.
    pub(crate) event: Option<(At, Ty)>,
    /// What [`hawser_ir::Base::Keyed`] is, where it is at hand.
    pub(crate) keyed: Option<(At, Ty)>,
    /// What [`hawser_ir::Base::Scratch`] is, where it is at hand.
    pub(crate) scratch: Option<(At, Ty)>,
    /// What [`hawser_ir::Base::Fresh`] is, where it is at hand.
    pub(crate) fresh: Option<(At, Ty)>,
    /// What [`hawser_ir::Base::Blueprint`] is: in wire expressions the blueprint itself, in
    /// segmentation rules that of the previous packet.
    pub(crate) blueprint: Option<(At, Ty)>,
    /// The `hw_facts` of the packet at hand: an lvalue. Without them, wire facts speak of the parser's
    /// cursor.
    pub(crate) facts: Option<String>,
    /// The running segmentation rule's arguments: an array.
    pub(crate) rule_args: Option<String>,
    /// What the function begins with: arguments that go to the frame.
    pub(crate) arguments: Vec<String>,
    /// Where each variable is declared, by [`crate::locals`].
    pub(crate) plan: crate::locals::Plan,
    /// The variable that is a pointer to where its event goes: its index.
    pub(crate) in_place: Option<usize>,
    /// The variables that are pointers to where their packets' images go: their indices.
    pub(crate) images: Vec<usize>,
    /// Options that were looked up once: the list's offset in the frame, the tag, and the pointer that
    /// keeps what was found.
    pub(crate) options: Vec<(u32, u32, String)>,
    /// The part of the frame that a header which was taken apart fills, and nothing else writes to.
    pub(crate) header: Option<std::ops::Range<u32>>,
    /// Views are all there: a parser's source gives as many as the parser takes.
    pub(crate) views: bool,
    /// The function of the program that is printed.
    pub(crate) body: Option<FuncId>,
    /// The line that was marked last: file and number.
    pub(crate) mark: Option<(u32, u32)>,
}

impl Scope {
    /// A scope without parameters and variables.
    pub(crate) fn new() -> Scope {
        Scope {
            out: Writer::default(),
            names: Names::default(),
            refs: Vec::new(),
            locals: Vec::new(),
            found: Found::Any,
            slot: Slot::Any,
            ending: Ending::Plain,
            ret: None,
            event: None,
            keyed: None,
            scratch: None,
            fresh: None,
            blueprint: None,
            facts: None,
            rule_args: None,
            arguments: Vec::new(),
            plan: crate::locals::Plan::default(),
            in_place: None,
            images: Vec::new(),
            options: Vec::new(),
            header: None,
            views: false,
            body: None,
            mark: None,
        }
    }

    /// Keeps a value in a variable of its own, so that it stays what it is.
    pub(crate) fn keep(&mut self, ty: &str, value: &str) -> String {
        let name = self.names.take("t");
        self.out.line(&format!("const {ty} {name} = {value};"));
        name
    }

    /// Ends the run from inside a function.
    pub(crate) fn halt(&mut self) {
        self.out.line("return true;");
    }

    /// Whether a place is known to hold zero or one where it is a `bool`, and no other byte.
    pub(crate) fn is_clean(&self, place: &Place) -> bool {
        let holds = |header: &std::ops::Range<u32>| header.contains(&place.offset);
        place.base == Base::Local && place.steps.is_empty() && self.header.as_ref().is_some_and(holds)
    }

    /// The pointer that keeps the option of a list that starts at a place.
    pub(crate) fn known_option(&self, list: &Place, tag: u32) -> Option<&str> {
        let known = |(at, of, _): &&(u32, u32, String)| (*at, *of) == (list.offset, tag);
        let found = self
            .options
            .iter()
            .filter(|_| list.base == Base::Local)
            .find(known);
        found.map(|(_, _, name)| name.as_str())
    }

    /// Where a variable is.
    pub(crate) fn local_at(&self, offset: u32) -> Option<(At, Ty)> {
        let index = self.index_of(offset)?;
        let Local { name, ty, .. } = self.locals[index].clone();
        let elsewhere = self.in_place == Some(index) || self.images.contains(&index);
        Some((
            if elsewhere {
                At::Pointer(name)
            } else {
                At::Object(name)
            },
            ty,
        ))
    }

    /// Where among the variables, which are in the order of their offsets, the one is that holds an
    /// offset of the frame.
    pub(crate) fn index_of(&self, offset: u32) -> Option<usize> {
        let begun = self.locals.partition_point(|l| l.offset <= offset);
        let at = self.locals[begun.checked_sub(1)?].offset;
        // Where one takes no bytes, several begin at one offset.
        let first = self.locals[..begun].partition_point(|l| l.offset < at);
        (first..begun).find(|&index| self.locals[index].holds(offset))
    }

    /// The variable that holds an offset of the frame.
    pub(crate) fn local(&self, offset: u32) -> Option<&Local> {
        self.index_of(offset).map(|index| &self.locals[index])
    }
}
