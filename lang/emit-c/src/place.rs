//! Places: from regions and offsets to members of structures.
//!
//! Reads and writes differ if a list element may be missing: a read then yields zeros, and a write has no
//! effect. There are therefore two functions for a place. [`Emitter::seen`] returns an object to read, which
//! always exists. [`Emitter::target`] returns an object to write, with a pointer that must be tested first.

use hawser_ir::{Base, FieldRef, Index, Items, OptListId, Place, Step, Ty};

use crate::analysis::{is_plain, is_plain_place};
use crate::apart::Signature;
use crate::emitter::Emitter;
use crate::number::{constant, paren, reduce};
use crate::scope::{ContextSlot, FoundContext, ObjectExpr, ParamBinding, Scope};
use crate::types::{scalar, stored};

/// The object at a position, with the structure of its contents.
#[derive(Clone, Debug)]
enum Node {
    Value(Ty),
    /// An entry of an option list, and its tag if that is known.
    Entry(OptListId, Option<u32>),
}

/// An object to write to.
#[derive(Clone, Debug)]
pub(crate) struct AssignmentTarget {
    pub(crate) at: ObjectExpr,
    /// A pointer that is null if there is no object to write to.
    pub(crate) guard: Option<String>,
    /// True if the place never exists.
    pub(crate) nowhere: bool,
}

impl Emitter<'_> {
    /// Returns the value of the scalar at a place.
    pub(crate) fn load(&mut self, s: &mut Scope, place: &Place) -> String {
        if place.base == Base::Local
            && place.steps.is_empty()
            && let Some(local) = s.local(place.offset)
            && local.ty.is_scalar()
            && scalar(&local.ty) == scalar(&place.ty)
        {
            return local.name.clone();
        }
        if self.is_nowhere(s, place) {
            return constant(0, &place.ty);
        }
        let at = self.seen(s, place);
        if place.ty == Ty::Bool && s.is_clean(place) {
            return at.lvalue();
        }
        reduce(&at.lvalue(), &place.ty)
    }

    /// Stores a value of the place's own type.
    pub(crate) fn store(&mut self, s: &mut Scope, place: &Place, value: &str) {
        let target = self.target(s, place);
        self.store_at(s, &target, value);
    }

    pub(crate) fn store_at(&mut self, s: &mut Scope, target: &AssignmentTarget, value: &str) {
        if target.nowhere {
            return;
        }
        let line = format!("{} = {value};", target.at.lvalue());
        self.guarded(s, target, |s| s.out.line(&line));
    }

    /// Prints code that runs only if there is an object to write to.
    pub(crate) fn guarded(
        &mut self,
        s: &mut Scope,
        target: &AssignmentTarget,
        print: impl FnOnce(&mut Scope),
    ) {
        match &target.guard {
            _ if target.nowhere => {}
            Some(pointer) => {
                s.out.open(&format!("if ({pointer})"));
                print(s);
                s.out.close("");
            }
            None => print(s),
        }
    }

    /// Returns an object to read at a place; it consists of zeros if the place does not exist.
    pub(crate) fn seen(&mut self, s: &mut Scope, place: &Place) -> ObjectExpr {
        let (mut at, ty) = self.seen_base(s, place);
        let mut node = Node::Value(ty);
        let mut offset = self.offset(s, place);
        for step in &place.steps {
            let (list, list_ty) = self.list_at(at, &node, offset, step);
            at = match step.index {
                Index::Tag(tag) if place.steps.len() == 1 && s.known_option(place, tag).is_some() => {
                    ObjectExpr::Pointer(s.known_option(place, tag).unwrap_or_default().to_owned())
                }
                Index::Tag(_) | Index::At(_) | Index::Item(_) | Index::Key(..) => {
                    let key = self.index(s, step);
                    let helper = self.element_helper(&list_ty, step, "read");
                    ObjectExpr::Pointer(format!("{helper}({}{key})", list.address()))
                }
            };
            (node, offset) = inside(&list_ty, step);
        }
        self.descend(at, &node, offset, &place.ty)
    }

    /// Returns an object to write to at a place. Elements of lists are kept in pointers.
    pub(crate) fn target(&mut self, s: &mut Scope, place: &Place) -> AssignmentTarget {
        let (mut at, ty, mut guard) = self.target_base(s, place);
        if self.is_nowhere(s, place) || self.is_read_only(s, place) {
            return AssignmentTarget { at, guard: None, nowhere: true };
        }
        let mut node = Node::Value(ty);
        let mut offset = self.offset(s, place);
        for step in &place.steps {
            let (list, list_ty) = self.list_at(at, &node, offset, step);
            let key = self.index(s, step);
            let helper = self.element_helper(&list_ty, step, "at");
            let item = self.item_type(&list_ty);
            let found = format!("{helper}({}{key})", list.address());
            let found = guard.map_or(found.clone(), |pointer| format!("{pointer} ? {found} : HW_NONE"));
            let name = s.names.take("element");
            s.out.line(&format!("{item} *{name} = {found};"));
            at = ObjectExpr::Pointer(name.clone());
            guard = Some(name);
            (node, offset) = inside(&list_ty, step);
        }
        AssignmentTarget { at: self.descend(at, &node, offset, &place.ty), guard, nowhere: false }
    }

    /// Returns a pointer to an object to read.
    pub(crate) fn seen_address(&mut self, s: &mut Scope, place: &Place) -> String {
        if self.is_nowhere(s, place) {
            return "HW_NOTHING".into();
        }
        self.seen(s, place).address()
    }

    /// True if a place is known not to exist.
    pub(crate) fn is_nowhere(&self, s: &Scope, place: &Place) -> bool {
        match place.base {
            Base::Fresh => s.fresh.is_none() && !matches!(s.slot, ContextSlot::Present(_)),
            Base::Keyed => s.keyed.is_none() && s.found == FoundContext::Nothing,
            Base::Blueprint => s.blueprint.is_none(),
            Base::Local => s.local(place.offset).is_none(),
            Base::Ref(n) => usize::from(n) >= s.refs.len(),
            Base::Event | Base::Global(_) | Base::Scratch => false,
        }
    }

    /// Returns the fixed offset of a place from the start of its base; variables are bases of their own.
    fn offset(&self, s: &Scope, place: &Place) -> u32 {
        match place.base {
            Base::Local => place.offset - s.local(place.offset).map_or(0, |local| local.offset),
            Base::Ref(_)
            | Base::Event
            | Base::Keyed
            | Base::Fresh
            | Base::Global(_)
            | Base::Scratch
            | Base::Blueprint => place.offset,
        }
    }

    fn is_read_only(&self, s: &Scope, place: &Place) -> bool {
        matches!(place.base, Base::Ref(n) if s.refs.get(usize::from(n)).is_some_and(|r| r.kind == ParamBinding::View))
    }

    fn seen_base(&mut self, s: &Scope, place: &Place) -> (ObjectExpr, Ty) {
        match place.base {
            Base::Ref(n) => match s.refs.get(usize::from(n)) {
                Some(reference) => (ObjectExpr::Pointer(reference.seen.clone()), reference.ty.clone()),
                None => nothing(),
            },
            Base::Keyed if s.keyed.is_none() && s.found == FoundContext::Any => {
                let pointer = "((const hw_context *)(HW_AT(run->memory->keyed) ? HW_AT(run->memory->keyed) : HW_NOTHING))";
                (ObjectExpr::Pointer(pointer.into()), Ty::Id)
            }
            Base::Local
            | Base::Event
            | Base::Keyed
            | Base::Fresh
            | Base::Global(_)
            | Base::Scratch
            | Base::Blueprint => {
                let (at, ty, _) = self.target_base(s, place);
                (at, ty)
            }
        }
    }

    /// Returns the start of a region, its type, and a pointer to test before writing.
    fn target_base(&mut self, s: &Scope, place: &Place) -> (ObjectExpr, Ty, Option<String>) {
        let (at, ty) = match place.base {
            Base::Local => s.local_at(place.offset).unwrap_or_else(nothing),
            Base::Ref(n) => match s.refs.get(usize::from(n)) {
                Some(r) => {
                    let guard = r.kind.may_be_null().then(|| r.name.clone());
                    return (ObjectExpr::Pointer(r.name.clone()), r.ty.clone(), guard);
                }
                None => nothing(),
            },
            Base::Event => match &s.event {
                Some(event) => event.clone(),
                None => (
                    ObjectExpr::Pointer("((hw_event *)HW_AT(run->event))".into()),
                    self.event_type(),
                ),
            },
            Base::Keyed => match (&s.keyed, s.found) {
                (Some(keyed), _) => keyed.clone(),
                (None, FoundContext::Context(context)) => {
                    self.context_pointer(context, "HW_AT(run->memory->keyed)")
                }
                (None, FoundContext::Any | FoundContext::Nothing) => {
                    let guard = Some("HW_AT(run->memory->keyed)".to_owned());
                    return (
                        ObjectExpr::Pointer("((hw_context *)HW_AT(run->memory->keyed))".into()),
                        Ty::Id,
                        guard,
                    );
                }
            },
            Base::Fresh => match (&s.fresh, s.slot) {
                (Some(fresh), _) => fresh.clone(),
                (None, ContextSlot::Present(context)) => {
                    self.context_pointer(context, "HW_AT(run->memory->fresh)")
                }
                (None, ContextSlot::Any | ContextSlot::Absent) => nothing(),
            },
            Base::Global(context) => self.context_pointer(
                context,
                &format!("HW_AT(HW_AT(run->memory->globals)[{}])", context.0),
            ),
            Base::Scratch => match (&s.scratch, self.module.scratch) {
                (Some(scratch), _) => scratch.clone(),
                (None, Some(id)) => {
                    let name = self.structure(id);
                    (
                        ObjectExpr::Pointer(format!("(({name} *)HW_AT(run->memory->scratch))")),
                        Ty::Struct(id),
                    )
                }
                (None, None) => nothing(),
            },
            Base::Blueprint => s.blueprint.clone().unwrap_or_else(nothing),
        };
        (at, ty, None)
    }

    fn context_pointer(&mut self, context: hawser_ir::ContextId, from: &str) -> (ObjectExpr, Ty) {
        let id = self.module.contexts[context.0 as usize].body;
        let name = self.structure(id);
        (ObjectExpr::Pointer(format!("(({name} *){from})")), Ty::Struct(id))
    }

    /// Returns the type of an event if only its header is known.
    fn event_type(&self) -> Ty {
        Ty::Struct(hawser_ir::StructId(0))
    }

    /// Returns the list from which a step starts.
    fn list_at(&mut self, at: ObjectExpr, node: &Node, offset: u32, step: &Step) -> (ObjectExpr, Ty) {
        let fits = |ty: &Ty| match ty {
            Ty::Array { len, .. } => *len == step.cap && step.header == 0,
            ty => ty.items().is_some_and(|(_, cap)| cap == step.cap) && step.header > 0,
        };
        self.find(&at, node, offset, &fits).unwrap_or((at, Ty::Bool))
    }

    /// Returns the index of a step as an additional argument.
    fn index(&mut self, s: &mut Scope, step: &Step) -> String {
        match &step.index {
            Index::At(e) | Index::Item(e) | Index::Key(e, _) => format!(", {}", self.expr(s, e)),
            Index::Tag(tag) => format!(", {tag}"),
        }
    }

    /// Descends from a position to the object of the wanted type at an offset.
    fn descend(&mut self, at: ObjectExpr, node: &Node, offset: u32, want: &Ty) -> ObjectExpr {
        if let Some((at, _)) = self.find(&at, node, offset, &|ty| same(ty, want)) {
            return at;
        }
        let pointer = self.pointed(want);
        let start = paren(&at.address());
        ObjectExpr::Pointer(format!("(({pointer} *)(void *)((char *){start} + {offset}))"))
    }

    /// Finds the member at an offset whose type suits.
    fn find(
        &mut self,
        at: &ObjectExpr,
        node: &Node,
        offset: u32,
        suits: &dyn Fn(&Ty) -> bool,
    ) -> Option<(ObjectExpr, Ty)> {
        match node {
            Node::Entry(list, tag) => self.find_in_entry(at, *list, *tag, offset, suits),
            Node::Value(ty) if offset == 0 && suits(ty) => Some((at.clone(), ty.clone())),
            Node::Value(Ty::Struct(id)) => self.find_in_struct(at, *id, offset, suits),
            Node::Value(Ty::Data) => {
                let fields = [
                    ("uid", 0, Ty::Id),
                    ("off", 40, Ty::uint(64)),
                    ("addr", 48, Ty::Addr),
                    ("len", 56, Ty::uint(32)),
                    ("seg_size", 60, Ty::uint(32)),
                ];
                pick(at, &fields, offset, suits)
            }
            Node::Value(Ty::Window { .. }) => pick(
                at,
                &[("head", 0, Ty::uint(64)), ("len", 8, Ty::uint(32))],
                offset,
                suits,
            ),
            Node::Value(Ty::List { .. } | Ty::Sorted { .. } | Ty::Options { .. }) => {
                pick(at, &[("len", 0, Ty::uint(32))], offset, suits)
            }
            Node::Value(
                Ty::Bool
                | Ty::Int { .. }
                | Ty::Enum { .. }
                | Ty::Seq { .. }
                | Ty::Duration
                | Ty::Time
                | Ty::Varint
                | Ty::Ip
                | Ty::Id
                | Ty::Addr
                | Ty::Timer
                | Ty::Bytes { .. }
                | Ty::Array { .. },
            ) => None,
        }
    }

    fn find_in_entry(
        &mut self,
        at: &ObjectExpr,
        list: OptListId,
        tag: Option<u32>,
        offset: u32,
        suits: &dyn Fn(&Ty) -> bool,
    ) -> Option<(ObjectExpr, Ty)> {
        let Some(inner) = offset.checked_sub(hawser_ir::OPTION_TAG) else {
            return pick(at, &[("tag", 0, Ty::uint(64))], offset, suits);
        };
        let members = self.module.opt_list(list).members.len() as u32;
        let tags = tag.map_or(0..members, |tag| tag..tag + 1);
        tags.into_iter().find_map(|tag| {
            let member = at.member("member").member(&self.option_name(list, tag));
            let body = Node::Value(Ty::Struct(self.option_body(list, tag)));
            self.find(&member, &body, inner, suits)
        })
    }

    fn find_in_struct(
        &mut self,
        at: &ObjectExpr,
        id: hawser_ir::StructId,
        offset: u32,
        suits: &dyn Fn(&Ty) -> bool,
    ) -> Option<(ObjectExpr, Ty)> {
        if let Some((header, size)) = self.header(id)
            && offset < size
        {
            let head = at.member("head");
            if header == "hw_context" {
                return pick(&head, &[("id", 0, Ty::Id)], offset, suits);
            }
            if offset == 0 && suits(&self.event_type()) {
                return Some((head, self.event_type()));
            }
            return find_in_event_header(&head, offset, suits);
        }
        if self.is_builtin(id) && id.0 == 0 {
            return find_in_event_header(at, offset, suits);
        }
        let names = self.field_names(id);
        let fields = &self.module.structure(id).fields;
        let lying = self.fields_as_they_lie(id);
        let begun = lying.partition_point(|i| fields[*i].offset <= offset);
        let last = fields[lying[begun.checked_sub(1)?]].offset;
        // Members of size zero begin at the same offset as the next member.
        let candidates = lying[..begun]
            .iter()
            .rev()
            .take_while(|i| fields[**i].offset == last);
        let covers = |field: &hawser_ir::Field| offset < field.offset + self.layout().size(&field.ty).max(1);
        let covering: Vec<usize> = candidates.copied().filter(|i| covers(&fields[*i])).collect();
        covering.into_iter().rev().find_map(|index| {
            let field = &fields[index];
            let member = at.member(if self.is_builtin(id) {
                &field.name
            } else {
                &names[index]
            });
            self.find(
                &member,
                &Node::Value(field.ty.clone()),
                offset - field.offset,
                suits,
            )
        })
    }

    /// Prints the function that finds an element of a list. For a missing element, `read` returns zeros, and
    /// `at` a null pointer.
    pub(crate) fn element_helper(&mut self, list: &Ty, step: &Step, how: &str) -> String {
        let tag = self.type_of(list);
        let item = self.item_type(list);
        let by = match &step.index {
            Index::At(_) | Index::Item(_) => String::new(),
            Index::Tag(_) => "_tag".into(),
            Index::Key(_, key) => format!("_key{}", key.offset),
        };
        let name = format!("{}_{how}{by}", tag.trim_start_matches("struct "));
        if !self.helper_names.insert(name.clone()) {
            return name;
        }
        let (constant, missing) = if how == "read" {
            ("const ", "HW_NOTHING")
        } else {
            ("", "HW_NONE")
        };
        let cap = step.cap;
        let body = match &step.index {
            Index::At(_) => format!(
                "HW_INLINE {constant}{item} *{name}({constant}{tag} *list, uint64_t i) {{\n    \
                 return i < hw_len(list->len, {cap}) ? &list->{} : {missing};\n}}\n",
                self.item(list, "i")
            ),
            Index::Item(_) => format!(
                "HW_INLINE {constant}{item} *{name}({constant}{tag} *array, uint64_t i) {{\n    \
                 return i < {cap} ? &array->{} : {missing};\n}}\n",
                self.item(list, "i")
            ),
            Index::Tag(_) => format!(
                "HW_INLINE {constant}{item} *{name}({constant}{tag} *list, uint64_t tag) {{\n    \
                 for (uint32_t i = HW_ZERO; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i))\n        \
                 if (list->items[i].tag == tag)\n            return &list->items[i];\n    return {missing};\n}}\n"
            ),
            Index::Key(_, key) => {
                let field = self.element_field(list, key, "list->items[i]");
                let body = format!(
                    "{{\n    for (uint32_t i = HW_ZERO; HW_MORE(i < hw_len(list->len, {cap})); HW_NEXT(i))\n        \
                     if ({field} == key)\n            return &list->items[i];\n    return {missing};\n}}\n"
                );
                let signature = Signature {
                    result: &format!("{constant}{item} *"),
                    name: &name,
                    params: &[
                        format!("{constant}{tag} *list"),
                        format!("{} key", scalar(&key.ty)),
                    ],
                    takes_run: false,
                };
                self.helper(&signature, &body);
                return name;
            }
        };
        self.helpers += &body;
        self.helpers.push('\n');
        name
    }

    /// Returns a scalar field of a list's element, as a value.
    pub(crate) fn element_field(&mut self, list: &Ty, field: &FieldRef, element: &str) -> String {
        let (Ty::List { elem, .. } | Ty::Sorted { elem, .. }) = list else {
            return "0".into();
        };
        let at = ObjectExpr::Object(element.to_owned());
        let found = self.descend(at, &Node::Value((**elem).clone()), field.offset, &field.ty);
        reduce(&found.lvalue(), &field.ty)
    }

    /// True if a search for a place has no effect and can be made at any time.
    pub(crate) fn plain_place(&self, place: &Place) -> bool {
        is_plain_place(&self.summaries, place)
    }

    /// True if an expression has no effect and needs no statements.
    pub(crate) fn plain(&self, e: &hawser_ir::Expr) -> bool {
        is_plain(&self.summaries, e)
    }
}

fn nothing() -> (ObjectExpr, Ty) {
    (ObjectExpr::Pointer("((const hw_id *)HW_NOTHING)".into()), Ty::Id)
}

/// Returns the node behind a step.
fn inside(list: &Ty, step: &Step) -> (Node, u32) {
    let tag = match step.index {
        Index::Tag(tag) => Some(tag),
        Index::At(_) | Index::Item(_) | Index::Key(..) => None,
    };
    if let Ty::Array { elem, .. } = list {
        return (Node::Value((**elem).clone()), step.offset);
    }
    let node = match list.items() {
        Some((Items::Options(list), _)) => Node::Entry(list, tag),
        Some((Items::Values(elem), _)) => Node::Value(elem.clone()),
        None => Node::Value(list.clone()),
    };
    (node, step.offset)
}

fn pick(
    at: &ObjectExpr,
    fields: &[(&str, u32, Ty)],
    offset: u32,
    suits: &dyn Fn(&Ty) -> bool,
) -> Option<(ObjectExpr, Ty)> {
    let (name, _, ty) = fields.iter().find(|(_, at, ty)| *at == offset && suits(ty))?;
    Some((at.member(name), ty.clone()))
}

fn find_in_event_header(
    head: &ObjectExpr,
    offset: u32,
    suits: &dyn Fn(&Ty) -> bool,
) -> Option<(ObjectExpr, Ty)> {
    let fields = [
        ("now", 0, Ty::Time),
        ("rand", 8, Ty::uint(64)),
        ("hash", 16, Ty::uint(32)),
        ("event", 20, Ty::uint(16)),
        ("ids", 22, Ty::uint(8)),
        ("id[0]", 24, Ty::Id),
        ("id[1]", 64, Ty::Id),
        ("id[2]", 104, Ty::Id),
    ];
    pick(head, &fields, offset, suits)
}

/// True if two types have the same C type and the same meaning of its bytes.
fn same(a: &Ty, b: &Ty) -> bool {
    a == b || (a.is_scalar() && b.is_scalar() && stored(a) == stored(b))
}
