//! The headers of a packet, derived from the body of the parser that takes it.

use std::collections::BTreeMap;
use std::ops::Range;

use hawser_ir::facts::Exit;
use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{
    Base, BlueprintId, Expr, ExprKind, Func, IdPart, Module, Parser, ParserInput, Place, Stmt, StmtKind,
};

use crate::dissector::expr;

/// The actions of a parser on a packet.
pub(crate) struct ParserActions {
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
    let is_of_packets = |parser: &&Parser| matches!(parser.source, ParserInput::Ip(_) | ParserInput::Udp(_));
    module.parsers.iter().filter(is_of_packets)
}

/// Determines the actions of a parser.
pub(crate) fn shape(module: &Module, function: &Func) -> ParserActions {
    let mut walk = Walk {
        module,
        variables: Variables::new(module, function),
        when: Vec::new(),
        values: BTreeMap::new(),
        shape: ParserActions { headers: Vec::new(), key: Vec::new() },
    };
    walk.block(&function.body, false);
    walk.shape
}

/// The maximum length of a variable's value as Lua, since it stands wherever the variable is read.
const MAX_VALUE: usize = 1_000;

/// The walk through a parser's statements.
struct Walk<'m> {
    module: &'m Module,
    variables: Variables,
    /// The conditions under which the next statement runs, as Lua.
    when: Vec<String>,
    /// The values of variables that are set once, as Lua, by offset.
    values: BTreeMap<u32, String>,
    shape: ParserActions,
}

impl Walk<'_> {
    fn block(&mut self, body: &[Stmt], mut is_unsure: bool) {
        let (conditions, values) = (self.when.len(), self.values.clone());
        for stmt in body {
            match &stmt.kind {
                StmtKind::Extract { blueprint, dst, ok } if is_local(dst) => {
                    let found = ok.as_ref().filter(|place| is_local(place));
                    self.shape.headers.push(Header {
                        blueprint: *blueprint,
                        at: dst.offset,
                        when: self.when.clone(),
                        is_optional: is_unsure || ok.is_some(),
                        found: found.map(|place| place.offset),
                    });
                }
                StmtKind::If(condition, then, otherwise) => {
                    is_unsure |= self.branch(condition, [then, otherwise], is_unsure);
                }
                StmtKind::Store(to, value) if self.variables.is_set_once(to) => {
                    let value = self.value(value).filter(|value| value.len() <= MAX_VALUE);
                    self.values.extend(value.map(|value| (to.offset, value)));
                }
                StmtKind::MakeId(_, parts) if self.shape.key.is_empty() => {
                    self.shape.key = parts.iter().filter_map(field).collect();
                }
                // The number of a loop's iterations is known only at run time.
                other => {
                    for block in other.blocks() {
                        self.block(block, true);
                    }
                }
            }
        }
        self.when.truncate(conditions);
        self.values = values;
    }

    /// Walks through both branches of an `if`. If one of them leaves the parser, the statements behind the `if`
    /// run under the condition of the other. Returns true if that condition is unknown.
    fn branch(&mut self, condition: &Expr, branches: [&[Stmt]; 2], is_unsure: bool) -> bool {
        let text = self.value(condition);
        let ways = ["~=", "=="].map(|word| text.as_ref().map(|text| format!("{text} {word} 0")));
        for (branch, way) in branches.into_iter().zip(&ways) {
            self.when.extend(way.clone());
            self.block(branch, is_unsure || text.is_none());
            self.when.truncate(self.when.len() - way.iter().len());
        }
        let [then, otherwise] = branches.map(leaves);
        let [on_true, on_false] = ways;
        let behind = match (then, otherwise) {
            (true, _) => on_false,
            (false, true) => on_true,
            (false, false) => return false,
        };
        let is_unknown = behind.is_none();
        self.when.extend(behind);
        is_unknown
    }

    /// Translates an expression over the headers that were read, or returns `None` if it uses anything else.
    fn value(&self, expr: &Expr) -> Option<String> {
        expr::value_over(self.module, expr, &|kind| match kind {
            ExprKind::Load(place) if is_local(place) => match self.variables.is_from_packet(place.offset) {
                true => Some(format!("(m[{}] or 0)", place.offset)),
                false => self.values.get(&place.offset).cloned(),
            },
            _ => None,
        })
    }
}

fn is_local(place: &Place) -> bool {
    place.base == Base::Local && place.steps.is_empty()
}

/// True if no path through the statements reaches their end.
fn leaves(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::If(_, then, otherwise) => leaves(then) && leaves(otherwise),
        other => matches!(other.effects().exit, Some(Exit::Function | Exit::Run)),
    })
}

/// The parts of a parser's memory, by the way in which they are set.
struct Variables {
    /// The parts that headers are extracted to, and the results of extractions.
    read: Vec<Range<u32>>,
    /// The parts that other statements set, one for each such statement.
    set: Vec<Range<u32>>,
}

impl Variables {
    fn new(module: &Module, function: &Func) -> Variables {
        let mut read = Vec::new();
        let mut set = Sets { function, set: Vec::new() };
        // The places of variables that are set to zero, and the number of parts read until then.
        let mut zeroed: Vec<(u32, usize)> = Vec::new();
        hawser_ir::statements(&function.body, &mut |stmt| match &stmt.kind {
            StmtKind::Extract { blueprint, dst, ok } => {
                let body = module.blueprints[blueprint.0 as usize].body;
                let size = module.structure(body).size;
                let results = ok.iter().filter(|place| is_local(place));
                read.extend(results.map(|place| place.offset..place.offset + 1));
                if is_local(dst) {
                    read.push(dst.offset..dst.offset + size.max(1));
                }
            }
            // A header's initial values are replaced when it is extracted.
            StmtKind::Init(_) => {}
            StmtKind::Store(to, value) if is_local(to) && matches!(value.kind, ExprKind::Const(0)) => {
                zeroed.push((to.offset, read.len()));
            }
            _ => visit::visit_own(&mut set, stmt),
        });
        // A variable that is zero until it is read from the packet needs no value: what was not read counts as zero.
        let is_result = |(offset, before): &(u32, usize)| {
            let is_in = |range: &Range<u32>| range.contains(offset);
            !read[..*before].iter().any(is_in) && read[*before..].iter().any(is_in)
        };
        let others = zeroed.into_iter().filter(|zeroed| !is_result(zeroed));
        set.set.extend(others.map(|(offset, _)| offset..offset + 1));
        Variables { read, set: set.set }
    }

    /// True if a part holds what was read from the packet.
    fn is_from_packet(&self, offset: u32) -> bool {
        let contains = |range: &Range<u32>| range.contains(&offset);
        self.read.iter().any(contains) && !self.set.iter().any(contains)
    }

    /// True if a place is a scalar that one statement sets.
    fn is_set_once(&self, place: &Place) -> bool {
        let contains = |range: &&Range<u32>| range.contains(&place.offset);
        is_local(place)
            && self.set.iter().filter(contains).count() == 1
            && !self.read.iter().any(|range| range.contains(&place.offset))
    }
}

/// Collects the parts that statements set: a scalar by its offset, and the whole variable around any other
/// place.
struct Sets<'m> {
    function: &'m Func,
    set: Vec<Range<u32>>,
}

impl Visitor<'_> for Sets<'_> {
    fn place(&mut self, place: &Place, access: PlaceAccess) {
        if place.base != Base::Local || !access.writes() {
            return;
        }
        self.set
            .push(match place.ty.is_scalar() && place.steps.is_empty() {
                true => place.offset..place.offset + 1,
                false => {
                    let starts = || self.function.locals.iter().map(|local| local.offset);
                    let from = starts().filter(|start| *start <= place.offset).max();
                    let to = starts().filter(|start| *start > place.offset).min();
                    from.unwrap_or(0)..to.unwrap_or(u32::MAX)
                }
            });
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
