//! Operations on containers: one function per node. Each returns whether the container had room, or whether
//! it found the element.

use hawser_ir::{ContainerOp, Expr, Operand, OptMember, Place, Ty};

use crate::apart::Signature;
use crate::emitter::Emitter;
use crate::number;
use crate::place::AssignmentTarget;
use crate::query::window_shape;
use crate::scope::Scope;
use crate::types::scalar;

impl Emitter<'_> {
    /// Performs an operation. Returns its success as a value, if that is wanted.
    pub(crate) fn container(&mut self, s: &mut Scope, op: &ContainerOp, wanted: bool) -> Option<String> {
        match op {
            ContainerOp::PushBack(place, operand) => self.push_back(s, place, operand, wanted),
            ContainerOp::PopFront(place, to) => self.pop_front(s, place, to.as_ref(), wanted),
            ContainerOp::Clear(place) => {
                let target = self.target(s, place);
                let size = self.layout().size(&place.ty);
                let line = format!("memset({}, 0, {size});", target.at.address());
                self.guarded(s, &target, |s| s.out.line(&line));
                wanted.then(|| "true".into())
            }
            ContainerOp::Put(place, operand) => self.put(s, place, operand, wanted),
            ContainerOp::Remove(place, key) => self.remove(s, place, key, wanted),
            ContainerOp::WindowSet(place, a, b) => self.window_range(s, "set", place, [a, b], wanted),
            ContainerOp::WindowUnset(place, a, b) => self.window_range(s, "unset", place, [a, b], wanted),
            ContainerOp::WindowSlide(place, to) => {
                let mut to = self.expr(s, to);
                if !place.steps.is_empty() {
                    to = s.keep("uint64_t", &to);
                }
                let target = self.target(s, place);
                let line = format!(
                    "hw_window_slide({}, {to}, {});",
                    target.at.address(),
                    window_shape(&place.ty)
                );
                self.guarded(s, &target, |s| s.out.line(&line));
                wanted.then(|| "true".into())
            }
            ContainerOp::OptionAdd(place, member, from) => self.option_add(s, place, *member, from, wanted),
        }
    }

    /// Returns the capacity and the stride of a list.
    fn shape(&self, ty: &Ty) -> Option<(u32, u32)> {
        let (items, cap) = ty.items()?;
        Some((cap, self.layout().item_stride(items)))
    }

    /// Declares a variable for the success of an operation. A container that does not exist behaves like an
    /// empty one: insertions succeed, and their data is lost.
    fn verdict(&mut self, s: &mut Scope, wanted: bool, initial: &str) -> Option<String> {
        wanted.then(|| {
            let name = s.names.take("ok");
            s.out.line(&format!("bool {name} = {initial};"));
            name
        })
    }

    /// Returns an operand as a C expression of the element's type; `None` if it consists of zeros alone.
    fn element(&mut self, s: &mut Scope, operand: &Operand, elem: &Ty) -> Option<String> {
        match operand {
            Operand::Value(e) => {
                let value = self.expr(s, e);
                Some(number::cast(&value, &e.ty, elem))
            }
            Operand::Ref(from) if self.is_nowhere(s, from) => None,
            Operand::Ref(from) => Some(self.seen(s, &Place { ty: elem.clone(), ..from.clone() }).lvalue()),
        }
    }

    fn push_back(&mut self, s: &mut Scope, place: &Place, operand: &Operand, wanted: bool) -> Option<String> {
        let (Some((cap, stride)), Ty::List { elem, .. } | Ty::Sorted { elem, .. }) =
            (self.shape(&place.ty), &place.ty)
        else {
            return wanted.then(|| "false".into());
        };
        // A call in the operand may change the list, but only after the list's end was found.
        let target = self.target(s, place);
        let list = target.at.address();
        let changes = matches!(operand, Operand::Value(e) if !self.plain(e));
        let end = (changes && !target.nowhere).then(|| {
            let len = format!("hw_len({}, {cap})", target.at.member("len").lvalue());
            let len = target
                .guard
                .as_ref()
                .map_or(len.clone(), |pointer| format!("{pointer} ? {len} : 0"));
            s.keep("uint32_t", &len)
        });
        let mut value = self.element(s, operand, elem);
        if let (Operand::Value(e), Some(text)) = (operand, &value)
            && !matches!(e.kind, hawser_ir::ExprKind::Const(_))
        {
            value = Some(s.keep(scalar(elem), text));
        }
        let item = self.pointed(elem);
        let ok = self.verdict(s, wanted, "true");
        let slot_at = match end {
            Some(end) => format!("hw_list_insert({list}, {end}, {cap}, {stride})"),
            None => format!("hw_list_push({list}, {cap}, {stride})"),
        };
        self.guarded(s, &target, |s| {
            let slot = s.names.take("slot");
            s.out.line(&format!("{item} *{slot} = {slot_at};"));
            if let Some(value) = &value {
                s.out.line(&format!("if ({slot})"));
                s.out.line(&format!("    *{slot} = {value};"));
            }
            if let Some(ok) = &ok {
                s.out.line(&format!("{ok} = {slot} != NULL;"));
            }
        });
        ok
    }

    fn pop_front(
        &mut self,
        s: &mut Scope,
        place: &Place,
        to: Option<&Place>,
        wanted: bool,
    ) -> Option<String> {
        let Some((cap, stride)) = self.shape(&place.ty) else {
            return wanted.then(|| "false".into());
        };
        let target = self.target(s, place);
        let ok = self.verdict(s, wanted, "false");
        if target.nowhere {
            return ok;
        }
        let list = target.at.clone();
        let guard = target
            .guard
            .as_ref()
            .map_or(String::new(), |pointer| format!("{pointer} && "));
        s.out
            .open(&format!("if ({guard}{} != 0)", list.member("len").lvalue()));
        if let Some(to) = to {
            let first = number::reduce(&list.member(&self.item(&place.ty, "0")).lvalue(), &to.ty);
            self.store(s, to, &first);
        }
        s.out.line(&format!(
            "hw_list_remove({}, 0, {cap}, {stride});",
            list.address()
        ));
        if let Some(ok) = &ok {
            s.out.line(&format!("{ok} = true;"));
        }
        s.out.close("");
        ok
    }

    /// Inserts an element in order, or replaces the element with the same key; false if the list is full.
    fn put(&mut self, s: &mut Scope, place: &Place, operand: &Operand, wanted: bool) -> Option<String> {
        let (Some(_), Ty::Sorted { elem, .. }) = (self.shape(&place.ty), &place.ty) else {
            return wanted.then(|| "false".into());
        };
        let target = self.target(s, place);
        let value = self.element(s, operand, elem);
        let helper = self.put_helper(&place.ty);
        let ok = self.verdict(s, wanted, "true");
        let list = target.at.address();
        let item = self.pointed(elem);
        // The element may itself lie in the list whose elements move, so it is copied first.
        let aside = s.names.take("aside");
        let value = value.as_deref().unwrap_or(self.zero(elem));
        let (declared, aside) = if self.is_ebpf() {
            let at = self.framed(&item, self.layout().size(elem));
            let mut declared = vec![format!("{item} *const {aside} = {at};")];
            declared.extend(self.set_whole(&aside, value, elem));
            (declared, aside)
        } else {
            (vec![format!("{item} {aside} = {value};")], format!("&{aside}"))
        };
        self.guarded(s, &target, |s| {
            declared.iter().for_each(|line| s.out.line(line));
            match &ok {
                Some(ok) => s.out.line(&format!("{ok} = {helper}({list}, {aside});")),
                None => s.out.line(&format!("(void){helper}({list}, {aside});")),
            }
        });
        ok
    }

    /// Prints the function that inserts an element at its position in a sorted list.
    fn put_helper(&mut self, list: &Ty) -> String {
        let tag = self.type_of(list);
        let name = format!("{}_put", tag.trim_start_matches("struct "));
        let (Ty::Sorted { elem, cap, by, key }, true) = (list, self.helper_names.insert(name.clone())) else {
            return name;
        };
        let stride = self.layout().stride(elem);
        let item = self.pointed(elem);
        let (in_list, aside) = ("list->items[i]", "(*element)");
        let (key_there, key_here) = (
            self.element_field(list, key, in_list),
            self.element_field(list, key, aside),
        );
        let mut body = "{\n    uint32_t i = HW_ZERO;\n".to_owned();
        body += &format!(
            "    for (; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i)) {{\n        if ({key_there} == {key_here}) {{\n            \
             hw_list_remove(list, i, {cap}, {stride});\n            break;\n        }}\n    }}\n"
        );
        body += &format!("    for (i = HW_ZERO; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i)) {{\n");
        for field in by {
            let there = self.element_field(list, field, in_list);
            let here = self.element_field(list, field, aside);
            let less = number::compare(hawser_ir::CmpOp::Lt, &there, &here, &field.ty);
            body += &format!(
                "        if ({there} != {here}) {{\n            if ({less})\n                continue;\n            break;\n        }}\n"
            );
        }
        // Equal elements keep their order of insertion.
        body += "    }\n";
        let copied = self.copied("*slot", "*element", self.layout().size(elem));
        body += &format!(
            "    {item} *slot = hw_list_insert(list, i, {cap}, {stride});\n    if (slot)\n        {copied}\n    \
             return slot != NULL;\n}}\n"
        );
        let signature = Signature {
            result: "bool",
            name: &name,
            params: &[format!("{tag} *list"), format!("const {item} *element")],
            takes_run: false,
        };
        self.helper(&signature, &body);
        name
    }

    fn remove(&mut self, s: &mut Scope, place: &Place, key: &Expr, wanted: bool) -> Option<String> {
        let (Some((cap, stride)), Ty::Sorted { key: field, .. }) = (self.shape(&place.ty), &place.ty) else {
            return wanted.then(|| "false".into());
        };
        let mut value = self.expr(s, key);
        if !place.steps.is_empty() {
            value = s.keep(scalar(&key.ty), &value);
        }
        let value = number::cast(&value, &key.ty, &field.ty);
        let target = self.target(s, place);
        let helper = self.remove_helper(&place.ty, cap, stride);
        let ok = self.verdict(s, wanted, "false");
        let call = format!("{helper}({}, {value})", target.at.address());
        self.guarded(s, &target, |s| match &ok {
            Some(ok) => s.out.line(&format!("{ok} = {call};")),
            None => s.out.line(&format!("(void){call};")),
        });
        ok
    }

    fn remove_helper(&mut self, list: &Ty, cap: u32, stride: u32) -> String {
        let tag = self.type_of(list);
        let name = format!("{}_remove", tag.trim_start_matches("struct "));
        let (Ty::Sorted { key, .. }, true) = (list, self.helper_names.insert(name.clone())) else {
            return name;
        };
        let found = self.element_field(list, key, "list->items[i]");
        let body = format!(
            "{{\n    for (uint32_t i = HW_ZERO; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i))\n        \
             if ({found} == key) {{\n            hw_list_remove(list, i, {cap}, {stride});\n            return true;\n        }}\n    \
             return false;\n}}\n"
        );
        let signature = Signature {
            result: "bool",
            name: &name,
            params: &[format!("{tag} *list"), format!("{} key", scalar(&key.ty))],
            takes_run: false,
        };
        self.helper(&signature, &body);
        name
    }

    fn window_range(
        &mut self,
        s: &mut Scope,
        name: &str,
        place: &Place,
        range: [&Expr; 2],
        wanted: bool,
    ) -> Option<String> {
        let mut values = self.values(s, range);
        if !place.steps.is_empty() {
            values = values.iter().map(|value| s.keep("uint64_t", value)).collect();
        }
        let target = self.target(s, place);
        let shape = window_shape(&place.ty);
        let args = values.join(", ");
        let call = |at: &str| format!("hw_window_{name}({at}, {args}, {shape})");
        let ok = self.verdict(s, wanted, "true");
        let found = call(&target.at.address());
        self.guarded(s, &target, |s| match &ok {
            Some(ok) => s.out.line(&format!("{ok} = {found};")),
            None => s.out.line(&format!("(void){found};")),
        });
        ok
    }

    fn option_add(
        &mut self,
        s: &mut Scope,
        place: &Place,
        member: OptMember,
        from: &Place,
        wanted: bool,
    ) -> Option<String> {
        let (Some((cap, stride)), Ty::Options { list, .. }) = (self.shape(&place.ty), &place.ty) else {
            return wanted.then(|| "false".into());
        };
        let value = match self.is_nowhere(s, from) {
            true => None,
            false => Some(self.seen(s, from).lvalue()),
        };
        let target: AssignmentTarget = self.target(s, place);
        let entry = self.item_type(&place.ty);
        let name = self.option_name(*list, member.0);
        let ok = self.verdict(s, wanted, "true");
        let at = target.at.address();
        let empty = self.layout().size(&from.ty) == 0;
        self.guarded(s, &target, |s| {
            let slot = s.names.take("entry");
            s.out
                .line(&format!("{entry} *{slot} = hw_list_push({at}, {cap}, {stride});"));
            s.out.open(&format!("if ({slot})"));
            s.out.line(&format!("{slot}->tag = {};", member.0));
            if let (Some(value), false) = (&value, empty) {
                s.out.line(&format!("{slot}->member.{name} = {value};"));
            }
            s.out.close("");
            if let Some(ok) = &ok {
                s.out.line(&format!("{ok} = {slot} != NULL;"));
            }
        });
        ok
    }
}
