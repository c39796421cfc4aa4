//! The headers of a packet, derived from the body of the parser that takes it.

use hawser_ir::{Base, BlueprintId, Expr, ExprKind, Func, IdPart, Module, Parser, Source, Stmt, StmtKind};

use crate::dissector::expr;

/// The actions of a parser on a packet.
pub(crate) struct Shape {
    /// The headers that it extracts, in order.
    pub(crate) headers: Vec<Header>,
    /// The fields that identify a connection, by their places in memory. They are the fields of the first id
    /// that the parser makes, own end first.
    pub(crate) key: Vec<u32>,
}

/// A header that a parser extracts.
pub(crate) struct Header {
    pub(crate) blueprint: BlueprintId,
    /// Its offset in the parser's memory.
    pub(crate) at: u32,
    /// The conditions on its presence, as Lua.
    pub(crate) when: Vec<String>,
    /// True if a packet without it may be valid. This is so if the parser tests for its presence, or if its
    /// conditions are known only at run time.
    pub(crate) is_optional: bool,
    /// The place in the parser's memory that holds whether it was present, if the parser tests this.
    pub(crate) found: Option<u32>,
}

/// Returns the parsers of packets.
pub(crate) fn of_packets(module: &Module) -> impl Iterator<Item = &Parser> {
    let is_of_packets = |parser: &&Parser| matches!(parser.source, Source::Ip(_) | Source::Udp(_));
    module.parsers.iter().filter(is_of_packets)
}

/// Determines the actions of a parser.
pub(crate) fn shape(module: &Module, function: &Func) -> Shape {
    let mut shape = Shape { headers: Vec::new(), key: Vec::new() };
    walk(module, &function.body, &mut Vec::new(), false, &mut shape);
    shape
}

fn walk(module: &Module, body: &[Stmt], when: &mut Vec<String>, is_unsure: bool, into: &mut Shape) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Extract { blueprint, dst, ok } if dst.base == Base::Local && dst.steps.is_empty() => {
                into.headers.push(Header {
                    blueprint: *blueprint,
                    at: dst.offset,
                    when: when.clone(),
                    is_optional: is_unsure || ok.is_some(),
                    found: ok
                        .as_ref()
                        .filter(|place| place.base == Base::Local && place.steps.is_empty())
                        .map(|place| place.offset),
                });
            }
            StmtKind::If(condition, then, otherwise) => {
                let text = expr::value(module, condition);
                for (branch, word) in [(then, "~="), (otherwise, "==")] {
                    let condition = text.as_ref().map(|text| format!("{text} {word} 0"));
                    let known = condition.is_some();
                    when.extend(condition);
                    walk(module, branch, when, is_unsure || !known, into);
                    if known {
                        when.pop();
                    }
                }
            }
            StmtKind::MakeId(_, parts) if into.key.is_empty() => {
                into.key = parts.iter().filter_map(field).collect();
            }
            // The number of a loop's iterations is known only at run time.
            other => {
                for block in other.blocks() {
                    walk(module, block, when, true, into);
                }
            }
        }
    }
}

/// Returns the header field that is a part of an id.
fn field(part: &IdPart) -> Option<u32> {
    let IdPart::Scalar(expr, _) = part else {
        return None;
    };
    let inner: &Expr = if let ExprKind::Cast(inner) = &expr.kind {
        inner
    } else {
        expr
    };
    if let ExprKind::Load(place) = &inner.kind
        && place.base == Base::Local
        && place.steps.is_empty()
    {
        Some(place.offset)
    } else {
        None
    }
}
