//! Functions: one C function for each setting in which a function of the program is called.

use hawser_ir::visit::{self, PlaceAccess};
use hawser_ir::{Base, Func, FuncId, FuncParam, Stmt, StmtKind, Ty};

use crate::apart::Signature;
use crate::emitter::Emitter;
use crate::locals::LocalsPlan;
use crate::scope::{
    ContextSlot, Ending, FoundContext, Instance, Local, ObjectExpr, ParamBinding, Reference, Scope,
};
use crate::types::{scalar, stored};

/// The size in bytes from which zeroing a variable is left to the C library.
pub(crate) const LARGE: u32 = 128;
/// The size in bytes up to which compilers for eBPF copy by loads and stores.
const IN_PLACE: u32 = 64;

/// Returns the pointer to a variable in the frame; the variable's name dereferences it.
fn framed_name(name: &str) -> Option<&str> {
    name.strip_prefix("(*")?.strip_suffix(')')
}

/// True if a variable is in memory, in eBPF.
pub(crate) fn is_framed(local: &Local) -> bool {
    framed_name(&local.name).is_some()
}

/// Returns a name for a pointer to a variable that turns out not to be in the frame.
pub(crate) fn pointer_name(name: &str) -> &str {
    framed_name(name).unwrap_or(name)
}

/// True if a variable is passed by reference.
fn is_referenced(body: &[Stmt], variable: std::ops::Range<u32>) -> bool {
    let mut found = false;
    visit::places(body, |place, access| {
        found |=
            access == PlaceAccess::Reference && place.base == Base::Local && variable.contains(&place.offset);
    });
    found
}

impl Emitter<'_> {
    pub(crate) fn func(&self, id: FuncId) -> &Func {
        &self.module.funcs[id.0 as usize]
    }

    /// Returns the name of a function in a setting, and schedules its printing. Facts that the function does
    /// not depend on are removed from the setting first.
    pub(crate) fn instance(&mut self, mut wanted: Instance) -> String {
        let summary = &self.summaries[wanted.func.0 as usize];
        for (kind, written) in wanted.refs.iter_mut().zip(&summary.writes) {
            if !written {
                *kind = ParamBinding::Plain;
            }
        }
        if !summary.found {
            wanted.found = FoundContext::Any;
        }
        if !summary.fresh {
            wanted.slot = ContextSlot::Any;
        }
        if let Some(name) = self.instances.get(&wanted) {
            return name.clone();
        }
        let suffix = if wanted.refs.contains(&ParamBinding::Fresh) {
            "_fresh"
        } else if wanted.refs.iter().any(|kind| kind.may_be_null()) || wanted.slot == ContextSlot::Absent {
            "_absent"
        } else if wanted.found == FoundContext::Nothing {
            "_no_context"
        } else {
            ""
        };
        let plain = crate::names::identifier(&self.func(wanted.func).name);
        let name = format!("mtp_{}", self.function_names.take(&format!("{plain}{suffix}")));
        self.instances.insert(wanted.clone(), name.clone());
        self.waiting.push_back((wanted, name.clone()));
        name
    }

    pub(crate) fn function(&mut self, instance: &Instance, name: &str) {
        let module = self.module;
        let func = &module.funcs[instance.func.0 as usize];
        let summary = self.summaries[instance.func.0 as usize].clone();
        let mut scope = Scope::new();
        scope.body = Some(instance.func);
        scope.views = self.views_are_there(instance.func);
        scope.found = instance.found;
        scope.slot = instance.slot;
        scope.ret.clone_from(&func.ret);
        scope.ending = if summary.halts {
            Ending::Halting
        } else {
            Ending::Plain
        };
        let mut params = self.parameters(&mut scope, func, instance, &summary.writes);
        if let (true, Some(ty)) = (summary.halts, &func.ret) {
            params.push(format!("{} *result", scalar(ty)));
        }
        let result = match (&scope.ending, &func.ret) {
            (Ending::Halting, _) => "bool",
            (Ending::Plain, Some(ty)) => scalar(ty),
            (Ending::Plain, None) => "void",
        };
        let is_apart = self.is_ebpf() && self.apart[instance.func.0 as usize];
        let storage = if self
            .module
            .parsers
            .iter()
            .any(|parser| parser.func == instance.func)
        {
            "HW_FLAT HW_PART"
        } else if self.inlined[instance.func.0 as usize] {
            "HW_INLINE"
        } else {
            "HW_PART"
        };
        let signature = Signature { result, name, params: &params, takes_run: true };
        if is_apart {
            self.prototypes += &signature.call();
        }
        let head = format!(
            "{storage} {}",
            signature.head(if is_apart { "_body" } else { "" })
        );
        self.prototypes += &format!("{head};\n");
        scope.out.open(&head);
        self.prologue(&mut scope, summary.fresh, summary.found);
        self.declare_result_cleared(&mut scope, summary.halts && func.ret.is_some());
        self.block(&mut scope, &func.body);
        if !matches!(func.body.last(), Some(Stmt { kind: StmtKind::Return(_), .. })) {
            self.end(&mut scope);
        }
        scope.out.close("");
        self.functions += &scope.out.finish();
        self.functions.push('\n');
        if is_apart {
            self.functions += &signature.called();
        }
    }

    /// Sets a halting function's result to zero, for the case that no `return` sets it.
    fn declare_result_cleared(&mut self, scope: &mut Scope, has_result: bool) {
        if has_result {
            scope.out.line("*result = 0;");
        }
    }

    /// Binds parameters, plans variables, and returns the C parameters.
    fn parameters(
        &mut self,
        scope: &mut Scope,
        func: &Func,
        instance: &Instance,
        writes: &[bool],
    ) -> Vec<String> {
        let mut params = Vec::new();
        let mut by_value = Vec::new();
        for param in &func.params {
            match param {
                FuncParam::Value { name, ty, offset } => {
                    let name = scope.names.take(name);
                    params.push(format!("{} {name}", scalar(ty)));
                    let name = self
                        .argument_in_frame(scope, func, (&name, ty, *offset))
                        .unwrap_or(name);
                    by_value.push(*offset);
                    let size = self.layout().size(ty);
                    scope
                        .locals
                        .push(Local { name, ty: ty.clone(), offset: *offset, size });
                }
                FuncParam::Ref { name, ty } => {
                    let index = scope.refs.len();
                    let kind = instance.refs.get(index).copied().unwrap_or(ParamBinding::Plain);
                    let written = writes.get(index).copied().unwrap_or(false) && kind != ParamBinding::View;
                    let name = scope.names.take(name);
                    let constant = if written { "" } else { "const " };
                    params.push(format!("{constant}{} *{name}", self.type_of(ty)));
                    scope
                        .refs
                        .push(Reference { seen: name.clone(), name, ty: ty.clone(), kind });
                }
            }
        }
        self.variables(scope, func, &by_value);
        params
    }

    /// In eBPF, copies an argument that is passed on by reference into the frame, and returns the expression
    /// for the copy.
    fn argument_in_frame(
        &mut self,
        scope: &mut Scope,
        func: &Func,
        (name, ty, offset): (&str, &Ty, u32),
    ) -> Option<String> {
        if !(self.is_ebpf() && is_referenced(&func.body, offset..offset + 1)) {
            return None;
        }
        let kept = scope.names.take(&format!("{name}_kept"));
        let text = stored(ty);
        let at = self.framed(text, 8);
        scope.arguments.push(format!("{text} *const {kept} = {at};"));
        scope.arguments.push(format!("*{kept} = {name};"));
        Some(format!("(*{kept})"))
    }

    /// Names the variables of a function's frame and plans the places of their declarations.
    pub(crate) fn variables(&mut self, scope: &mut Scope, func: &Func, by_value: &[u32]) {
        let first = scope.locals.len();
        for field in func.locals.iter().filter(|f| !by_value.contains(&f.offset)) {
            let mut name = scope.names.take(&field.name);
            let size = self.layout().size(&field.ty);
            let in_memory = || is_referenced(&func.body, field.offset..field.offset + size.max(1));
            if self.is_ebpf() && (!field.ty.is_scalar() || in_memory()) {
                name = format!("(*{name})");
            }
            scope
                .locals
                .push(Local { name, ty: field.ty.clone(), offset: field.offset, size });
        }
        debug_assert!(
            scope.locals.is_sorted_by_key(|local| local.offset),
            "frames grow by what is declared"
        );
        let declared = scope.locals.iter().enumerate().skip(first);
        let declared: Vec<_> = declared.map(|(i, l)| (i, l.offset, l.size, &l.ty)).collect();
        scope.plan = LocalsPlan::new(&func.body, &declared);
        scope.in_place = self.in_place(scope, func);
        scope.images = self.images_in_place(scope, func);
        for index in scope.in_place.iter().chain(&scope.images) {
            let name = &mut scope.locals[*index].name;
            *name = pointer_name(name).to_owned();
        }
    }

    /// Declares pointers to objects that the function uses but does not receive as arguments.
    fn prologue(&mut self, scope: &mut Scope, uses_fresh: bool, uses_found: bool) {
        for line in std::mem::take(&mut scope.arguments) {
            scope.out.line(&line);
        }
        if let (true, ContextSlot::Present(context)) = (uses_fresh, scope.slot) {
            let ty = self.structure(self.module.contexts[context.0 as usize].body);
            let name = scope.names.take("fresh");
            scope
                .out
                .line(&format!("{ty} *{name} = ({ty} *)HW_AT(run->memory->fresh);"));
            let body = self.module.contexts[context.0 as usize].body;
            scope.fresh = Some((ObjectExpr::Pointer(name), Ty::Struct(body)));
        }
        let _ = uses_found;
        for i in 0..scope.refs.len() {
            if scope.refs[i].kind.may_be_null() {
                let ty = self.type_of(&scope.refs[i].ty.clone());
                let seen = scope.names.take(&format!("{}_seen", scope.refs[i].name));
                let name = &scope.refs[i].name;
                scope
                    .out
                    .line(&format!("const {ty} *{seen} = {name} ? {name} : HW_NOTHING;"));
                scope.refs[i].seen = seen;
            }
        }
    }

    /// Prints the code behind the last statement.
    fn end(&mut self, scope: &mut Scope) {
        match (&scope.ending, &scope.ret) {
            (Ending::Halting, _) => scope.out.line("return false;"),
            (Ending::Plain, Some(_)) => scope.out.line("return 0;"),
            (Ending::Plain, None) => {}
        }
    }

    /// Declares a variable with an initial value for all of it.
    pub(crate) fn declare(&mut self, scope: &mut Scope, local: usize, value: &str) {
        if scope.in_place == Some(local) {
            self.declare_in_place(scope, local);
        } else if scope.images.contains(&local) {
            self.declare_image(scope, local, value);
        } else if let Some(pointer) = framed_name(&scope.locals[local].name) {
            let pointer = pointer.to_owned();
            self.declare_in_frame(scope, local, &pointer, value);
        } else if value == "{0}" && scope.locals[local].size > LARGE {
            self.declare_unset(scope, local);
            let name = &scope.locals[local].name;
            scope.out.line(&format!("hw_zero(&{name}, sizeof {name});"));
        } else {
            self.declaration(scope, local, &format!(" = {value}"));
        }
    }

    /// Declares a variable that the following code sets.
    pub(crate) fn declare_unset(&mut self, scope: &mut Scope, local: usize) {
        if let Some(pointer) = framed_name(&scope.locals[local].name) {
            let pointer = pointer.to_owned();
            self.point_into_frame(scope, local, &pointer);
        } else {
            self.declaration(scope, local, "");
        }
    }

    /// Declares a variable in the frame, with an initial value for all of it.
    fn declare_in_frame(&mut self, scope: &mut Scope, local: usize, pointer: &str, value: &str) {
        self.point_into_frame(scope, local, pointer);
        let ty = scope.locals[local].ty.clone();
        for line in self.set_whole(pointer, value, &ty) {
            scope.out.line(&line);
        }
    }

    /// Sets the whole target of a pointer: to zero, to its type's initial value, or to a copy of another
    /// object.
    pub(crate) fn set_whole(&mut self, pointer: &str, value: &str, ty: &Ty) -> Vec<String> {
        let size = self.layout().size(ty);
        if ty.is_scalar() {
            vec![format!("*{pointer} = {value};")]
        } else if value == self.zero(ty) {
            vec![format!("memset({pointer}, 0, {size});")]
        } else if value.starts_with('{') {
            self.initialised(&format!("*{pointer}"), ty)
        } else {
            vec![self.copied(&format!("*{pointer}"), value, size)]
        }
    }

    /// Declares the pointer to a variable's place in the frame.
    fn point_into_frame(&mut self, scope: &mut Scope, local: usize, pointer: &str) {
        let Local { ty, size, .. } = scope.locals[local].clone();
        let text = self.pointed(&ty);
        let at = self.framed(&text, size);
        scope.out.line(&format!("{text} *const {pointer} = {at};"));
    }

    /// Returns the statement that copies an object of `size` bytes.
    pub(crate) fn copied(&self, to: &str, from: &str, size: u32) -> String {
        if self.is_ebpf() && size > IN_PLACE {
            format!("memcpy(&{to}, &{from}, {size});")
        } else {
            format!("{to} = {from};")
        }
    }

    /// Declares a pointer to the room for an event instead of the event itself.
    fn declare_in_place(&mut self, scope: &mut Scope, local: usize) {
        let Local { name, ty, size, offset } = scope.locals[local].clone();
        let text = self.type_of(&ty);
        scope
            .out
            .line(&format!("{text} *const {name} = hw_event_room(run, {size});"));
        scope.out.open(&format!("if (!{name})"));
        self.end_run(scope, "HW_OUTCOME(HW_DROPPED, HW_EVENTS)");
        scope.out.close("");
        self.clear_event(scope, &name, (offset, size));
    }

    fn declaration(&mut self, scope: &mut Scope, local: usize, value: &str) {
        let Local { name, ty, .. } = scope.locals[local].clone();
        let text = if ty.is_scalar() {
            scalar(&ty).to_owned()
        } else {
            self.type_of(&ty)
        };
        // An object that begins with words and has an odd size, such as a list of bytes, is packed in C.
        let packed = self.layout().align(&ty) == 8 && !self.layout().size(&ty).is_multiple_of(8);
        let align = if packed { "_Alignas(8) " } else { "" };
        scope.out.line(&format!("{align}{text} {name}{value};"));
    }

    /// Returns a zero initialiser for a variable.
    pub(crate) fn zero(&self, ty: &Ty) -> &'static str {
        match ty {
            Ty::Struct(id) if self.module.structure(*id).size == 0 => "{}",
            Ty::Bool => "false",
            _ if ty.is_scalar() => "0",
            _ => "{0}",
        }
    }

    /// Returns the type of a pointer to the object at a place.
    pub(crate) fn pointed(&mut self, ty: &Ty) -> String {
        if ty.is_scalar() {
            stored(ty).to_owned()
        } else {
            self.type_of(ty)
        }
    }
}
