//! The small part of Python with which scripts examine TCP_INFO: assertions, prints, assignments, and
//! expressions over numbers, texts and lists.
//!
//! In a program's `script.toml`, the same expressions derive fields of TCP_INFO from its observable
//! variables. There a name may contain dots (`cc.cwnd`).
//!
//! Invariants: parsing and evaluation terminate for every text. Nesting and sizes are bounded, and arithmetic
//! that does not fit 128 bits is an error.

mod error;
mod evaluate;
mod parse;
mod token;
mod value;

pub(crate) use error::{NameError, PythonFault};
pub(crate) use evaluate::{NamedValues, evaluate, execute};
pub(crate) use parse::{expression, parse};
pub(crate) use value::Value;

use std::collections::BTreeSet;

use crate::script::syntax::ScriptPosition;

/// A block of statements.
#[derive(Clone, Debug, PartialEq)]
pub struct Block(pub(crate) Vec<Statement>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) place: ScriptPosition,
    pub(crate) kind: StatementKind,
}

/// The action of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementKind {
    /// `assert test, message`.
    Assert(Node, Option<Node>, String),
    /// `name = value`, or with an operator: `name += value`.
    Assign(String, Option<Operator>, Node),
    /// A value that is computed and discarded: `print(…)`.
    Evaluate(Node),
    /// `import` or `pass`, which have no effect.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Constant(Value),
    Name(String),
    List(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Invert(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// `first < second <= third`.
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// `then if test else otherwise`, in the order test, then, otherwise.
    Choose(Box<Node>, Box<Node>, Box<Node>),
    Index(Box<Node>, Box<Node>),
    Call(String, Vec<Node>),
}

impl Node {
    /// Collects the names in an expression.
    pub(crate) fn names(&self, out: &mut BTreeSet<String>) {
        match self {
            Node::Constant(_) => {}
            Node::Name(name) => {
                out.insert(name.clone());
            }
            Node::List(items) | Node::Call(_, items) => items.iter().for_each(|item| item.names(out)),
            Node::Not(node) | Node::Negate(node) | Node::Invert(node) => node.names(out),
            Node::And(a, b) | Node::Or(a, b) | Node::Binary(_, a, b) | Node::Index(a, b) => {
                a.names(out);
                b.names(out);
            }
            Node::Compare(first, rest) => {
                first.names(out);
                rest.iter().for_each(|(_, node)| node.names(out));
            }
            Node::Choose(a, b, c) => [a, b, c].into_iter().for_each(|node| node.names(out)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
    In,
    NotIn,
}

/// An operator on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}
