//! Expressions: one arm per node.

use std::cmp::Ordering;
use std::hash::Hasher;

use hawser_ir::abi::Id;
use hawser_ir::number;
use hawser_ir::{Expr, ExprKind, IdPart, Place, Query, Ty, WireFact};
use siphasher::sip::SipHasher24;

use crate::containers::{Sorted, Window, list_len};
use crate::machine::{Halt, Machine};
use crate::memory::Loc;

/// The packed form of values at a place that does not exist.
const ZEROS: [u8; 64] = [0; 64];

impl Machine<'_> {
    pub(crate) fn eval(&mut self, expr: &Expr) -> Result<u64, Halt> {
        Ok(match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Param(index) => self.program.params.get(*index as usize).copied().unwrap_or(0),
            ExprKind::Table(table, index) => {
                let at = usize::try_from(self.eval(index)?).unwrap_or(usize::MAX);
                let table = &self.program.module.tables[table.0 as usize];
                table.values.get(at).copied().unwrap_or(0)
            }
            ExprKind::Load(place) => self.load(place)?,
            ExprKind::Cast(inner) => number::reduce(self.eval(inner)?, &expr.ty),
            ExprKind::Binary(op, a, b) => {
                let a = self.eval(a)?;
                number::binary(*op, a, self.eval(b)?, &expr.ty)
            }
            ExprKind::Compare(op, a, b) => {
                let ty = &a.ty;
                let a = self.eval(a)?;
                u64::from(number::compare(*op, a, self.eval(b)?, ty))
            }
            ExprKind::Unary(op, a) => number::unary(*op, self.eval(a)?, &expr.ty),
            ExprKind::And(a, b) => u64::from(self.is_true(a)? && self.is_true(b)?),
            ExprKind::Or(a, b) => u64::from(self.is_true(a)? || self.is_true(b)?),
            ExprKind::Select(condition, a, b) => {
                if self.is_true(condition)? {
                    self.eval(a)?
                } else {
                    self.eval(b)?
                }
            }
            ExprKind::Builtin(function, args) => {
                let mut values = [0; 3];
                for (value, arg) in values.iter_mut().zip(args) {
                    *value = self.eval(arg)?;
                }
                let ty = args.first().map_or(&expr.ty, |a| &a.ty);
                number::reduce(number::builtin(*function, values, ty), &expr.ty)
            }
            ExprKind::SameBytes(a, b) => {
                let len = self.size(&a.ty);
                let a = self.locate(a)?;
                let b = self.locate(b)?;
                u64::from(self.memory.same(a, b, len))
            }
            ExprKind::IsZero(place) => {
                let len = self.size(&place.ty);
                let loc = self.locate(place)?;
                u64::from(self.memory.bytes(loc, len).iter().all(|b| *b == 0))
            }
            ExprKind::Query(query) => self.query(query)?,
            ExprKind::KeyedHash(keys, parts) => self.keyed_hash(keys, parts)?,
            ExprKind::Call(function, args) => self.call(*function, args)?,
            ExprKind::RuleArg(index) => self.rule_args.get(usize::from(*index)).copied().unwrap_or(0),
            ExprKind::Wanted(signal) => {
                let wanted = self
                    .records
                    .as_deref()
                    .map_or(0, hawser_ir::buf::RecordBuf::wanted);
                u64::from(wanted & signal.bit() != 0)
            }
            ExprKind::Wire(fact) => self.wire_fact(*fact),
        })
    }

    #[inline]
    pub(crate) fn is_true(&mut self, expr: &Expr) -> Result<bool, Halt> {
        Ok(self.eval(expr)? != 0)
    }

    /// Returns a quantity of the packet: of the current blueprint, or of the parser's cursor outside any
    /// blueprint. For the cursor, `HeaderLen` is the number of bytes before it, `DataLen` the number after
    /// it, and `TotalLen` both.
    fn wire_fact(&self, fact: WireFact) -> u64 {
        let facts = match (self.blueprint == Loc::NOWHERE, self.cursor) {
            (true, Some(c)) => crate::machine::PacketQuantities {
                total: c.end,
                header: c.at,
                data: c.end.saturating_sub(c.at),
            },
            (true, None) | (false, _) => self.facts,
        };
        match fact {
            WireFact::TotalLen => facts.total as u64,
            WireFact::HeaderLen => facts.header as u64,
            WireFact::DataLen => facts.data as u64,
        }
    }

    fn keyed_hash(&mut self, keys: &[Expr; 2], parts: &[IdPart]) -> Result<u64, Halt> {
        let k0 = self.eval(&keys[0])?;
        let k1 = self.eval(&keys[1])?;
        let mut hasher = SipHasher24::new_with_keys(k0, k1);
        for part in parts {
            self.pack(part, &mut |bytes| hasher.write(bytes))?;
        }
        Ok(hasher.finish())
    }

    /// Passes the packed form of a part of a tuple to `sink`, most significant byte first. Absent values are
    /// zero here, too.
    pub(crate) fn pack(&mut self, part: &IdPart, sink: &mut dyn FnMut(&[u8])) -> Result<(), Halt> {
        match part {
            IdPart::Scalar(expr, bytes) => {
                let value = self.eval(expr)?.to_be_bytes();
                sink(&value[8 - usize::from(*bytes).min(8)..]);
            }
            IdPart::Bytes(place) => {
                let loc = self.locate(place)?;
                if place.ty == Ty::Id {
                    sink(self.id(loc).bytes());
                } else {
                    let len = self.size(&place.ty);
                    let there = self.memory.bytes(loc, len);
                    sink(there);
                    let mut missing = len - there.len();
                    while missing > 0 {
                        let zeros = missing.min(ZEROS.len());
                        sink(&ZEROS[..zeros]);
                        missing -= zeros;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the id at a location. Its length byte is bounded, regardless of the memory's contents.
    pub(crate) fn id(&self, loc: Loc) -> Id {
        let mut id: Id = self.memory.pod(loc);
        id.0[Id::MAX] = id.0[Id::MAX].min(Id::MAX as u8);
        id
    }

    /// Answers a query of a container.
    fn query(&mut self, query: &Query) -> Result<u64, Halt> {
        Ok(match query {
            Query::Len(place) => {
                let list = self.locate(place)?;
                self.container_len(list, place)
            }
            Query::HasTag(place, tag) => {
                let list = self.locate(place)?;
                u64::from(self.has_tag(list, &place.ty, *tag))
            }
            Query::HasKey(place, key) => {
                let key = self.eval(key)?;
                let list = self.locate(place)?;
                let sorted = Sorted::new(&self.layout(), list, &place.ty);
                u64::from(sorted.is_some_and(|s| s.position(&self.memory, key).is_some()))
            }
            Query::FirstFrom(place, prefix) => self.first_from(place, prefix)?,
            Query::WindowHead(place) => self.window(place)?.map_or(0, |w| w.head(&self.memory)),
            Query::WindowIsSet(place, x) => {
                let x = self.eval(x)?;
                u64::from(self.window(place)?.is_some_and(|w| w.is_set(&self.memory, x)))
            }
            Query::WindowFirstSet(place, x) => {
                let x = self.eval(x)?;
                self.window(place)?.map_or(0, |w| w.first_set(&self.memory, x))
            }
            Query::WindowFirstUnset(place, x) => {
                let x = self.eval(x)?;
                self.window(place)?.map_or(0, |w| w.first_unset(&self.memory, x))
            }
            Query::WindowRunFrom(place, i) => {
                let i = self.eval(i)?;
                self.window(place)?
                    .and_then(|w| w.run(&self.memory, i))
                    .map_or(0, |run| run.0)
            }
            Query::WindowRunTo(place, i) => {
                let i = self.eval(i)?;
                self.window(place)?
                    .and_then(|w| w.run(&self.memory, i))
                    .map_or(0, |run| run.1)
            }
        })
    }

    pub(crate) fn window(&mut self, place: &Place) -> Result<Option<Window>, Halt> {
        let loc = self.locate(place)?;
        Ok(Window::new(loc, &place.ty))
    }

    /// Returns the number of elements, entries or runs.
    fn container_len(&self, at: Loc, place: &Place) -> u64 {
        match &place.ty {
            Ty::List { cap, .. } | Ty::Sorted { cap, .. } | Ty::Options { cap, .. } => {
                list_len(&self.memory, at, *cap)
            }
            Ty::Window { .. } => Window::new(at, &place.ty).map_or(0, |w| w.len(&self.memory) as u64),
            Ty::Id => self.id(at).bytes().len() as u64,
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Array { .. }
            | Ty::Varint
            | Ty::Ip
            | Ty::Addr
            | Ty::Timer
            | Ty::Data
            | Ty::Bytes { .. }
            | Ty::Struct(_) => 0,
        }
    }

    fn has_tag(&self, list: Loc, ty: &Ty, tag: u32) -> bool {
        let Ty::Options { list: id, cap } = ty else {
            return false;
        };
        let stride = self.layout().option_stride(*id) as usize;
        self.find_tag(list, *cap, stride, tag).is_some()
    }

    /// Returns the position of the first element whose sort prefix is not less than the given values.
    fn first_from(&mut self, place: &Place, prefix: &[Expr]) -> Result<u64, Halt> {
        // The values are kept on a stack, because evaluating one may run this function again.
        let first = self.values.len();
        for bound in prefix {
            let value = self.eval(bound)?;
            self.values.push(value);
        }
        let list = self.locate(place)?;
        let Some(sorted) = Sorted::new(&self.layout(), list, &place.ty) else {
            return Ok(0);
        };
        let len = sorted.len(&self.memory);
        let below = |position: &u64| {
            let compared = sorted
                .by
                .iter()
                .zip(&self.values[first..])
                .map(|(field, bound)| sorted.compare_field(&self.memory, *position, field, *bound));
            compared.fold(Ordering::Equal, Ordering::then).is_lt()
        };
        let position = (0..len).find(|position| !below(position)).unwrap_or(len);
        self.values.truncate(first);
        Ok(position)
    }
}
