//! Queries of lists, windows and option lists, which have no effects.

use hawser_ir::number::ScalarShape;
use hawser_ir::{Expr, FieldRef, Index, OPTION_TAG, OptListId, Place, Query, Step, Ty};

use crate::apart::Signature;
use crate::emitter::Emitter;
use crate::number;
use crate::scope::Scope;
use crate::types::scalar;

impl Emitter<'_> {
    pub(crate) fn query(&mut self, s: &mut Scope, query: &Query, ty: &Ty) -> String {
        let text = match query {
            Query::Len(place) => self.container_len(s, place),
            Query::HasTag(place, tag) => self.has_tag(s, place, *tag),
            Query::HasKey(place, key) => self.has_key(s, place, key),
            Query::FirstFrom(place, prefix) => self.first_from(s, place, prefix),
            Query::WindowHead(place) => self.window_query(s, "head", place, None),
            Query::WindowIsSet(place, x) => self.window_query(s, "is_set", place, Some(x)),
            Query::WindowFirstSet(place, x) => self.window_query(s, "first_set", place, Some(x)),
            Query::WindowFirstUnset(place, x) => self.window_query(s, "first_unset", place, Some(x)),
            Query::WindowRunFrom(place, i) => self.window_query(s, "run_from", place, Some(i)),
            Query::WindowRunTo(place, i) => self.window_query(s, "run_to", place, Some(i)),
        };
        match (query, scalar(ty)) {
            (_, "bool") => text,
            (_, "uint64_t") if text.starts_with("hw_") && !matches!(query, Query::Len(_)) => text,
            _ => number::wrap(&text, ty),
        }
    }

    fn container_len(&mut self, s: &mut Scope, place: &Place) -> String {
        let cap = match &place.ty {
            Ty::List { cap, .. } | Ty::Sorted { cap, .. } | Ty::Options { cap, .. } => *cap,
            Ty::Window { runs, .. } => *runs,
            Ty::Id => {
                let at = self.seen_address(s, place);
                return format!("hw_id_len({at})");
            }
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Ip
            | Ty::Addr
            | Ty::Timer
            | Ty::Data
            | Ty::Bytes { .. }
            | Ty::Array { .. }
            | Ty::Struct(_) => return "0".into(),
        };
        if self.is_nowhere(s, place) {
            return "0".into();
        }
        let len = self.seen(s, place).member("len").lvalue();
        format!("hw_len({len}, {cap})")
    }

    fn has_tag(&mut self, s: &mut Scope, place: &Place, tag: u32) -> String {
        let Ty::Options { list, cap } = &place.ty else {
            return "false".into();
        };
        match s.known_option(place, tag) {
            Some(name) => format!("{name} != HW_NOTHING"),
            None if self.is_nowhere(s, place) => "false".into(),
            None => format!("{} != HW_NOTHING", self.option_at(s, place, *list, *cap, tag)),
        }
    }

    /// Returns a pointer to the first option with a tag, or to zeros if no option has it.
    pub(crate) fn option_at(
        &mut self,
        s: &mut Scope,
        place: &Place,
        list: OptListId,
        cap: u32,
        tag: u32,
    ) -> String {
        let stride = self.layout().option_stride(list);
        let index = Index::Tag(tag);
        let step = Step { index, stride, header: hawser_ir::LIST_HEADER, cap, offset: OPTION_TAG };
        let list = self.seen_address(s, place);
        let helper = self.element_helper(&place.ty, &step, "read");
        format!("{helper}({list}, {tag})")
    }

    fn has_key(&mut self, s: &mut Scope, place: &Place, key: &Expr) -> String {
        let Ty::Sorted { elem, cap, key: field, .. } = &place.ty else {
            return "false".into();
        };
        let stride = self.layout().stride(elem);
        let index = Index::Key(Box::new(key.clone()), field.clone());
        if self.is_nowhere(s, place) {
            return "false".into();
        }
        let key = self.expr(s, key);
        let step = Step { index, stride, header: hawser_ir::LIST_HEADER, cap: *cap, offset: 0 };
        let list = self.seen_address(s, place);
        let helper = self.element_helper(&place.ty, &step, "read");
        format!("{helper}({list}, {key}) != HW_NOTHING")
    }

    /// Returns the position of the first element whose sort prefix is not less than the given values.
    fn first_from(&mut self, s: &mut Scope, place: &Place, prefix: &[Expr]) -> String {
        let Ty::Sorted { by, .. } = &place.ty else {
            return "0".into();
        };
        let by: Vec<FieldRef> = by.iter().take(prefix.len()).cloned().collect();
        let values = self.values(s, prefix.iter().take(by.len()));
        if self.is_nowhere(s, place) {
            return "0".into();
        }
        let helper = self.first_from_helper(&place.ty, &by);
        let list = self.seen_address(s, place);
        let args: String = values.iter().map(|value| format!(", {value}")).collect();
        format!("{helper}({list}{args})")
    }

    fn first_from_helper(&mut self, list: &Ty, by: &[FieldRef]) -> String {
        let tag = self.type_of(list);
        let name = format!("{}_first_from{}", tag.trim_start_matches("struct "), by.len());
        if !self.helper_names.insert(name.clone()) {
            return name;
        }
        let Ty::Sorted { cap, .. } = list else { return name };
        let mut params = vec![format!("const {tag} *list")];
        let values = by.iter().enumerate();
        params.extend(values.map(|(i, field)| format!("{} v{i}", scalar(&field.ty))));
        let mut body = "{\n    uint32_t i = HW_ZERO;\n".to_owned();
        body += &format!("    for (; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i)) {{\n");
        for (i, field) in by.iter().enumerate() {
            let found = self.element_field(list, field, "list->items[i]");
            let value = format!("v{i}");
            let less = number::compare(hawser_ir::CmpOp::Lt, &found, &value, &field.ty);
            body += &format!(
                "        if ({found} != {value}) {{\n            if ({less})\n                continue;\n            break;\n        }}\n"
            );
        }
        body += "        break;\n    }\n    return i;\n}\n";
        let signature = Signature { result: "uint64_t", name: &name, params: &params, takes_run: false };
        self.helper(&signature, &body);
        name
    }

    fn window_query(&mut self, s: &mut Scope, name: &str, place: &Place, x: Option<&Expr>) -> String {
        let shape = window_shape(&place.ty);
        let x = x
            .map(|x| self.expr(s, x))
            .map_or(String::new(), |x| format!(", {x}"));
        if self.is_nowhere(s, place) {
            return format!("hw_window_{name}(HW_NOTHING{x}, {shape})");
        }
        let window = self.seen_address(s, place);
        format!("hw_window_{name}({window}{x}, {shape})")
    }
}

/// Returns the kind of numbers that a window holds, as an `hw_shape`.
pub(crate) fn window_shape(ty: &Ty) -> String {
    let (runs, elem) = match ty {
        Ty::Window { runs, elem } => (*runs, (**elem).clone()),
        _ => (0, Ty::uint(64)),
    };
    let shape = ScalarShape::from_type(&elem);
    format!(
        "(hw_shape){{{runs}, {}, {}, {}}}",
        shape.bits, shape.signed, shape.circular
    )
}
