//! The names in scope where C is being printed: a function's parameters, variables and setting.

use hawser_ir::{Base, ContextId, FuncId, Place, Ty};

use crate::names::ScopeNames;
use crate::writer::Writer;

/// The binding of a reference parameter, as far as the callee depends on it. Parameters that are never
/// written through are always [`ParamBinding::Plain`], because a missing object then reads as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ParamBinding {
    /// An object that exists.
    Plain,
    /// The context that the chain creates, or a part of it.
    Fresh,
    /// The context that the chain would have created if there had been a slot: a null pointer.
    Unmade,
    /// An object that may be missing: a null pointer reads as zero and ignores writes.
    Maybe,
    /// A parser's input: writes are ignored.
    View,
}

/// The keyed context that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FoundContext {
    /// Unknown here, or irrelevant to the function.
    Any,
    Nothing,
    Context(ContextId),
}

/// The slot for a new context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ContextSlot {
    /// Irrelevant to the function.
    Any,
    Present(ContextId),
    Absent,
}

/// A function of the program in one setting. Each becomes a C function of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Instance {
    pub(crate) func: FuncId,
    pub(crate) refs: Vec<ParamBinding>,
    pub(crate) found: FoundContext,
    pub(crate) slot: ContextSlot,
}

/// A C expression for an object in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectExpr {
    /// An lvalue.
    Object(String),
    /// A pointer, ready to be followed by `->`.
    Pointer(String),
}

impl ObjectExpr {
    pub(crate) fn lvalue(&self) -> String {
        match self {
            ObjectExpr::Object(text) => text.clone(),
            ObjectExpr::Pointer(text) => format!("*{text}"),
        }
    }

    pub(crate) fn address(&self) -> String {
        match self {
            ObjectExpr::Object(text) => match text.strip_prefix('*') {
                Some(pointer) => pointer.to_owned(),
                None => format!("&{text}"),
            },
            ObjectExpr::Pointer(text) => text.clone(),
        }
    }

    pub(crate) fn member(&self, field: &str) -> ObjectExpr {
        match self {
            ObjectExpr::Object(text) => ObjectExpr::Object(format!("{text}.{field}")),
            ObjectExpr::Pointer(text) => ObjectExpr::Object(format!("{text}->{field}")),
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

impl ParamBinding {
    /// True if the pointer may be null.
    pub(crate) fn may_be_null(self) -> bool {
        match self {
            ParamBinding::Maybe | ParamBinding::Unmade => true,
            ParamBinding::Plain | ParamBinding::Fresh | ParamBinding::View => false,
        }
    }

    /// True if it is in the context that the chain creates.
    pub(crate) fn is_fresh(self) -> bool {
        match self {
            ParamBinding::Fresh | ParamBinding::Unmade => true,
            ParamBinding::Plain | ParamBinding::Maybe | ParamBinding::View => false,
        }
    }
}

/// A reference parameter.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) name: String,
    /// The pointer to read through if the object may be missing; it then points to zeros.
    pub(crate) seen: String,
    pub(crate) ty: Ty,
    pub(crate) kind: ParamBinding,
}

/// The way in which a function ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// `return;` or `return value;`
    Plain,
    /// It returns whether the run has ended; a value is stored in `*result`.
    Halting,
}

/// The output for the C being printed, and the names in scope.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) out: Writer,
    pub(crate) names: ScopeNames,
    pub(crate) refs: Vec<Reference>,
    /// The variables, in order of their offsets.
    pub(crate) locals: Vec<Local>,
    pub(crate) found: FoundContext,
    pub(crate) slot: ContextSlot,
    pub(crate) ending: Ending,
    /// The type that the function returns.
    pub(crate) ret: Option<Ty>,
    /// The object of [`hawser_ir::Base::Event`], if its type is known.
    pub(crate) event: Option<(ObjectExpr, Ty)>,
    /// The object of [`hawser_ir::Base::Keyed`], if it is available.
    pub(crate) keyed: Option<(ObjectExpr, Ty)>,
    /// The object of [`hawser_ir::Base::Scratch`], if it is available.
    pub(crate) scratch: Option<(ObjectExpr, Ty)>,
    /// The object of [`hawser_ir::Base::Fresh`], if it is available.
    pub(crate) fresh: Option<(ObjectExpr, Ty)>,
    /// The object of [`hawser_ir::Base::Blueprint`]: in wire expressions the blueprint itself, in
    /// segmentation rules that of the previous packet.
    pub(crate) blueprint: Option<(ObjectExpr, Ty)>,
    /// An lvalue for the `hw_facts` of the current packet. Without it, wire facts describe the parser's
    /// cursor.
    pub(crate) facts: Option<String>,
    /// The array of the running segmentation rule's arguments.
    pub(crate) rule_args: Option<String>,
    /// The code at the beginning of the function that copies arguments to the frame.
    pub(crate) arguments: Vec<String>,
    /// The place of each variable's declaration, from [`crate::locals`].
    pub(crate) plan: crate::locals::LocalsPlan,
    /// The index of the variable that is a pointer to its event's place in the output.
    pub(crate) in_place: Option<usize>,
    /// The indices of the variables that are pointers to their images' places in packet records.
    pub(crate) images: Vec<usize>,
    /// Options that were looked up once: the list's offset in the frame, the tag, and the pointer that holds
    /// the result.
    pub(crate) options: Vec<(u32, u32, String)>,
    /// The part of the frame that an extracted header fills and no other code writes to.
    pub(crate) header: Option<std::ops::Range<u32>>,
    /// True if all views exist, because a parser's source provides all that the parser takes.
    pub(crate) views: bool,
    /// The function of the program that is being printed.
    pub(crate) body: Option<FuncId>,
    /// The line that was marked last: file and number.
    pub(crate) mark: Option<(u32, u32)>,
}

impl Scope {
    /// Creates a scope without parameters and variables.
    pub(crate) fn new() -> Scope {
        Scope {
            out: Writer::default(),
            names: ScopeNames::default(),
            refs: Vec::new(),
            locals: Vec::new(),
            found: FoundContext::Any,
            slot: ContextSlot::Any,
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
            plan: crate::locals::LocalsPlan::default(),
            in_place: None,
            images: Vec::new(),
            options: Vec::new(),
            header: None,
            views: false,
            body: None,
            mark: None,
        }
    }

    /// Keeps a value in a variable of its own, so that later code does not change it.
    pub(crate) fn keep(&mut self, ty: &str, value: &str) -> String {
        let name = self.names.take("t");
        self.out.line(&format!("const {ty} {name} = {value};"));
        name
    }

    /// Ends the run from inside a function.
    pub(crate) fn halt(&mut self) {
        self.out.line("return true;");
    }

    /// True if a place of type `bool` is known to hold zero or one, and no other byte.
    pub(crate) fn is_clean(&self, place: &Place) -> bool {
        let holds = |header: &std::ops::Range<u32>| header.contains(&place.offset);
        place.base == Base::Local && place.steps.is_empty() && self.header.as_ref().is_some_and(holds)
    }

    /// Returns the pointer to an option of the list at a place, if it has been looked up.
    pub(crate) fn known_option(&self, list: &Place, tag: u32) -> Option<&str> {
        let known = |(at, of, _): &&(u32, u32, String)| (*at, *of) == (list.offset, tag);
        let found = self
            .options
            .iter()
            .filter(|_| list.base == Base::Local)
            .find(known);
        found.map(|(_, _, name)| name.as_str())
    }

    /// Returns the expression for a variable.
    pub(crate) fn local_at(&self, offset: u32) -> Option<(ObjectExpr, Ty)> {
        let index = self.index_of(offset)?;
        let Local { name, ty, .. } = self.locals[index].clone();
        let elsewhere = self.in_place == Some(index) || self.images.contains(&index);
        Some((
            if elsewhere {
                ObjectExpr::Pointer(name)
            } else {
                ObjectExpr::Object(name)
            },
            ty,
        ))
    }

    /// Returns the index of the variable that contains an offset of the frame. Variables are in order of
    /// their offsets.
    pub(crate) fn index_of(&self, offset: u32) -> Option<usize> {
        let begun = self.locals.partition_point(|l| l.offset <= offset);
        let at = self.locals[begun.checked_sub(1)?].offset;
        // Variables of size zero begin at the same offset as the next one.
        let first = self.locals[..begun].partition_point(|l| l.offset < at);
        (first..begun).find(|&index| self.locals[index].holds(offset))
    }

    /// Returns the variable that contains an offset of the frame.
    pub(crate) fn local(&self, offset: u32) -> Option<&Local> {
        self.index_of(offset).map(|index| &self.locals[index])
    }
}
