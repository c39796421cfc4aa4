//! Operations of parsers: `p.extract(h)`, `set_flow_id`.

use hawser_ir::{Place, StmtKind, Ty};
use hawser_syntax::ast::{self, Ident, Span};

use crate::body::Body;
use crate::codes;
use crate::field::packet_members;
use crate::state::{EVENT, RecordKind};

impl<'a> Body<'_, 'a> {
    /// `p.extract(h)`; `ok` receives whether it succeeded.
    pub(crate) fn packet_operation(
        &mut self,
        method: &'a Ident,
        args: &[&'a ast::Expr],
        ok: Option<&Place>,
        at: Span,
    ) {
        self.ck.note_member_of(method, packet_members);
        if method.name != "extract" {
            self.unknown_member(method, "pkt_t", Some("a packet has `extract` and `len`".into()));
            return;
        }
        let [header] = args else {
            self.argument_count(at, "extract", "one header", args.len());
            return;
        };
        if ok.is_some_and(|ok| ok.ty != Ty::Bool) {
            self.error(
                codes::MISMATCH,
                at,
                "`extract` returns whether it succeeded",
                "expected a `bool`",
            );
            return;
        }
        let place = match self.value(header, None) {
            crate::convert::Value::Place(place) => place,
            crate::convert::Value::Error => return,
            _ => {
                self.error(
                    codes::MISMATCH,
                    header.span,
                    "this is not a header",
                    "expected a variable of a `pkt_bp`",
                );
                return;
            }
        };
        let record = match place.ty {
            Ty::Struct(id) => self.ck.record_of(id),
            _ => None,
        };
        let record = record.filter(|record| {
            matches!(
                self.ck.records[*record].kind,
                RecordKind::Blueprint | RecordKind::Struct | RecordKind::Opt
            )
        });
        let Some(blueprint) = record.and_then(|record| self.ck.blueprint_of(record)) else {
            if record.is_none() {
                let found = self.ck.show(&place.ty);
                self.error(
                    codes::MISMATCH,
                    header.span,
                    format!("`{found}` has no form on the wire"),
                    "expected a variable of a `pkt_bp`",
                );
            }
            return;
        };
        self.push(StmtKind::Extract { blueprint, dst: place, ok: ok.cloned() });
    }

    /// `set_flow_id(ev, id, …);`
    pub(crate) fn set_flow_id(&mut self, args: &[&'a ast::Expr], at: Span) {
        let [event, ids @ ..] = args else {
            self.argument_count(at, "set_flow_id", "the event and one to three ids", args.len());
            return;
        };
        if !(1..=3).contains(&ids.len()) {
            self.argument_count(at, "set_flow_id", "the event and one to three ids", args.len());
            return;
        }
        let event = self.aggregate(event, &Ty::Struct(EVENT));
        let ids: Option<Vec<Place>> = ids.iter().map(|id| self.aggregate(id, &Ty::Id)).collect();
        if let (Some(event), Some(ids)) = (event, ids) {
            self.push(StmtKind::SetIds { event, ids });
        }
    }
}
