//! The facts of a node: a kind of statement, expression, instruction, operand and so on.
//!
//! The macro `nodes` declares an enum of nodes. Each node states its facts behind its fields, in the words of
//! [`Facts`]: operands in the order of evaluation, work, and effects. Visitors, bounds, checks and coverage
//! are made from these facts. A new node is therefore declared here once; only the passes that translate
//! programs have an arm for each node.

use crate::abi::UnitRec;
use crate::body::{Arg, Expr, IdPart, Place, Stmt, Uid};
use crate::module::{BlueprintId, EventId, FuncId, SignalId};
use crate::ty::Ty;

/// The use that is made of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceAccess {
    /// Its value is used.
    Read,
    /// It is set, or a container in it is changed.
    Write,
    /// It is read, and a part of it is set. This is the case for the header of an event that is raised.
    Update,
    /// It is passed by reference; the callee decides what happens to it.
    Reference,
}

impl PlaceAccess {
    /// True if the value is used by the node itself.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, PlaceAccess::Read | PlaceAccess::Update)
    }

    /// True if the value is changed by the node itself.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, PlaceAccess::Write | PlaceAccess::Update)
    }
}

/// Work beyond the one step that each node takes.
#[derive(Clone, Copy, Debug)]
pub enum Work<'n> {
    /// All bytes of a value are moved, zeroed, compared or hashed.
    Bytes(&'n Ty),
    /// Each element of a container may be examined.
    Elements(&'n Ty),
    /// An event is copied.
    Event(EventId),
    /// A header is parsed and verified.
    Header(BlueprintId),
}

/// The destination of a statement that never continues with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The innermost loop: its end or its next round.
    Loop,
    /// The end of the function.
    Function,
    /// The end of the chain or the parser.
    Run,
}

/// The only place in a program where a statement may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Chain,
    Parser,
}

/// The part of a record whose size depends on the program.
#[derive(Clone, Copy, Debug)]
pub enum Tail {
    Image(BlueprintId),
    Event(EventId),
    Signal(SignalId),
    /// This many numbers of 64 bits.
    Numbers(usize),
}

/// Receives the facts of one node, and of the nodes in it that are not expressions. By default, it ignores
/// them.
pub trait Facts<'n>: Sized {
    /// Evaluates a scalar operand.
    fn value(&mut self, _value: &'n Expr) {}
    /// Uses a place.
    fn place(&mut self, _place: &'n Place, _access: PlaceAccess) {}
    /// Passes arguments to a function and calls it.
    fn call(&mut self, _func: FuncId, args: &'n [Arg]) {
        self.nodes(args);
    }
    /// Contains statements.
    fn block(&mut self, _stmts: &'n [Stmt]) {}
    /// Contains another node.
    fn node<N: Node>(&mut self, node: &'n N) {
        node.facts(self);
    }
    /// Takes more than one step.
    fn work(&mut self, _work: Work<'n>) {}
    /// Always leaves the block.
    fn exit(&mut self, _exit: Exit) {}
    /// May refuse to continue, which ends the chain or the parser.
    fn may_refuse(&mut self) {}
    /// Has an effect other than on its places.
    fn acts(&mut self) {}
    /// Belongs into a chain, or into a parser.
    fn only_in(&mut self, _home: Home) {}
    /// Is about the chain's context, without naming it in another way.
    fn about_context(&mut self) {}
    /// Writes a record of this many bytes, without its tail.
    fn record(&mut self, _bytes: usize) {}
    /// Writes the tail of the record.
    fn tail(&mut self, _tail: Tail) {}

    fn values(&mut self, values: impl IntoIterator<Item = &'n Expr>) {
        values.into_iter().for_each(|value| self.value(value));
    }
    fn nodes<N: Node + 'n>(&mut self, nodes: impl IntoIterator<Item = &'n N>) {
        nodes.into_iter().for_each(|node| self.node(node));
    }
    fn read(&mut self, place: &'n Place) {
        self.place(place, PlaceAccess::Read);
    }
    fn reads(&mut self, places: impl IntoIterator<Item = &'n Place>) {
        places
            .into_iter()
            .for_each(|place| self.place(place, PlaceAccess::Read));
    }
    fn write(&mut self, place: &'n Place) {
        self.place(place, PlaceAccess::Write);
    }
    fn writes(&mut self, places: impl IntoIterator<Item = &'n Place>) {
        places
            .into_iter()
            .for_each(|place| self.place(place, PlaceAccess::Write));
    }
    /// Changes a container.
    fn changes(&mut self, container: &'n Place) {
        self.write(container);
        self.moves(container);
        self.work(Work::Elements(&container.ty));
    }
    /// Searches a container.
    fn searches(&mut self, container: &'n Place) {
        self.read(container);
        self.work(Work::Elements(&container.ty));
    }
    /// Moves, zeroes or compares all bytes of a place.
    fn moves(&mut self, place: &'n Place) {
        self.work(Work::Bytes(&place.ty));
    }
    /// Hashes the parts of a tuple.
    fn hashes(&mut self, parts: &'n [IdPart]) {
        self.nodes(parts);
        parts.iter().for_each(|part| match part {
            IdPart::Scalar(value, _) => self.work(Work::Bytes(&value.ty)),
            IdPart::Bytes(place) => self.moves(place),
        });
    }
    /// Writes a record about a unit of data. Without an owner, the unit belongs to the chain's context.
    fn unit(&mut self, uid: &'n Uid) {
        self.read(&uid.id);
        match &uid.of {
            Some(owner) => self.read(owner),
            None => self.about_context(),
        }
        self.record(size_of::<UnitRec>());
    }
    /// May refuse to continue, unless there is a place for its success.
    fn may_refuse_without(&mut self, ok: &'n Option<Place>) {
        if ok.is_none() {
            self.may_refuse();
        }
    }
}

/// A node, as the macro `nodes` declares it.
pub trait Node {
    /// The kind of node, for messages: "stmt", "query".
    const KIND: &'static str;
    /// The names of all nodes of this kind.
    const NAMES: &'static [&'static str];

    /// Returns the node's name, which is unique within its kind.
    fn name(&self) -> &'static str;

    /// States the facts of the node.
    fn facts<'n>(&'n self, facts: &mut impl Facts<'n>);
}

/// Declares enums of nodes. A node's name is that of its variant, or the text behind `=`. Its facts are calls
/// of methods of [`Facts`], behind `=>`.
macro_rules! nodes {
    ($(
        $(#[$meta:meta])*
        pub enum $Enum:ident: $kind:literal {
            $(
                $(#[$about:meta])*
                $Variant:ident $(= $name:literal)?
                $(($($field:ident: $ty:ty),*))?
                $({ $($(#[$about_field:meta])* $named:ident: $named_ty:ty),* $(,)? })?
                $(=> $($fact:ident($($of:tt)*))*)?;
            )*
        }
    )*) => {$(
        $(#[$meta])*
        pub enum $Enum {
            $($(#[$about])* $Variant $(($($ty),*))? $({ $($(#[$about_field])* $named: $named_ty),* })?,)*
        }

        impl $crate::facts::Node for $Enum {
            const KIND: &'static str = $kind;
            const NAMES: &'static [&'static str] = &[$(nodes!(@name $Variant $($name)?)),*];

            fn name(&self) -> &'static str {
                match self {
                    $($Enum::$Variant { .. } => nodes!(@name $Variant $($name)?),)*
                }
            }

            #[allow(unused_variables)] // Few nodes have facts about each of their fields.
            fn facts<'n>(&'n self, facts: &mut impl $crate::facts::Facts<'n>) {
                match self {
                    $($Enum::$Variant $(($($field),*))? $({ $($named),* })? => {
                        $($(facts.$fact($($of)*);)*)?
                    })*
                }
            }
        }
    )*};
    (@name $Variant:ident) => { stringify!($Variant) };
    (@name $Variant:ident $name:literal) => { $name };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Base, ExprKind, Query, StmtKind};

    fn place(offset: u32) -> Place {
        Place { base: Base::Local, offset, steps: Vec::new(), ty: Ty::uint(64) }
    }

    /// Offsets of places, in order.
    #[derive(Default)]
    struct Order(Vec<u32>);

    impl<'n> Facts<'n> for Order {
        fn value(&mut self, value: &'n Expr) {
            self.node(&value.kind);
        }
        fn place(&mut self, place: &'n Place, _: PlaceAccess) {
            self.0.push(place.offset);
        }
    }

    #[test]
    fn operands_come_in_the_order_of_evaluation() {
        let load = |offset| Expr { ty: Ty::uint(64), kind: ExprKind::Load(place(offset)) };
        let query = ExprKind::Query(Query::HasKey(place(2), Box::new(load(1))));
        let store = StmtKind::Store(place(3), Expr { ty: Ty::Bool, kind: query });
        let mut order = Order::default();
        store.facts(&mut order);
        assert_eq!(order.0, [1, 2, 3]);
    }

    #[test]
    fn an_extraction_refuses_only_without_a_place_for_its_success() {
        let extract = |ok| StmtKind::Extract { blueprint: BlueprintId(0), dst: place(0), ok };
        assert!(extract(None).effects().may_end);
        let effects = extract(Some(place(8))).effects();
        assert!(!effects.may_end && effects.acts && effects.home == Some(Home::Parser));
    }
}
