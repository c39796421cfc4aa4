//! The schema that a program offers to the interactive layer, derived from its declarations.

use hawser_bus::{Access, EventId, EventType, Field, Schema, SchemaError, ValueKind, Variable};
use hawser_ir::{Context, ContextId, Module, StructId, Ty};

use crate::scalar;

/// The location of a scalar.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarLocation {
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// A variable of contexts of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) context: ContextId,
    pub(super) at: ScalarLocation,
}

/// A signal of the running program.
#[derive(Debug)]
pub(super) struct Signalled {
    /// Its number on the bus.
    pub(super) event: EventId,
    pub(super) scalars: Vec<ScalarLocation>,
}

impl ScalarLocation {
    #[inline]
    pub(super) fn load(self, bytes: &[u8]) -> u64 {
        let from = self.offset as usize;
        bytes.get(from..from + self.len as usize).map_or(0, scalar::load)
    }
}

/// Returns the schema that a program offers to the interactive layer: `PROVIDER.SIGNAL` and
/// `PROVIDER.CONTEXT.PATH`. The provider is the program's name up to the first `-`, so that variants of one
/// transport are one provider. A context's name does not include it. Besides the program's signals there is
/// [`FAILED`].
///
/// # Errors
/// Returns an error if the program declares more than a provider can have.
pub fn schema(module: &Module) -> Result<Schema, SchemaError> {
    let provider = provider(module);
    let field = |f: &hawser_ir::Field| Field { name: f.name.clone(), kind: kind(module, f) };
    let event = |(name, body): &(String, StructId)| EventType {
        name: format!("{provider}.{name}"),
        fields: module
            .structure(*body)
            .fields
            .iter()
            .filter(|f| f.ty.is_scalar())
            .map(field)
            .collect(),
    };
    let asserts = (0u64..)
        .zip(&module.asserts)
        .map(|(index, (_, text))| (index, text.clone()));
    let assertion = Field { name: "assertion".to_owned(), kind: ValueKind::Enum(asserts.collect()) };
    let failed = EventType { name: format!("{provider}.{FAILED}"), fields: vec![assertion] };
    let events = module.signals.iter().map(event).chain([failed]).collect();
    let mut about = Vec::new();
    for (name, body) in &module.signals {
        let of_it = module.notes.iter().filter(|(of, ..)| of == body);
        about.extend(of_it.map(|(_, field, text)| match field.as_str() {
            "" => (format!("{provider}.{name}"), text.clone()),
            field => (format!("{provider}.{name}.{field}"), text.clone()),
        }));
    }
    about.push((
        format!("{provider}.{FAILED}"),
        "an assertion or an invariant failed in a chain: a bug of the program or of an attachment".to_owned(),
    ));
    let observable = variables(module);
    about.extend(observable.iter().filter_map(|(variable, row)| {
        let (_, _, text) = module
            .notes
            .iter()
            .find(|(of, field, _)| *of == row.of && *field == row.field)?;
        Some((variable.name.clone(), text.clone()))
    }));
    let variables = observable.into_iter().map(|(variable, _)| variable).collect();
    Ok(Schema::new(provider, events, variables)?.described(about))
}

/// The event of every program for an assertion or an invariant that was false in a chain.
pub(super) const FAILED: &str = "assertion_failed";

pub(super) fn provider(module: &Module) -> &str {
    module.name.split('-').next().unwrap_or(&module.name)
}

/// Returns the name of the flows of a context type.
pub(super) fn context_kind(module: &Module, context: &Context) -> String {
    let bare = context
        .name
        .strip_prefix(provider(module))
        .and_then(|rest| rest.strip_prefix('_'));
    bare.unwrap_or(&context.name).to_owned()
}

fn kind(module: &Module, field: &hawser_ir::Field) -> ValueKind {
    match field.ty {
        Ty::Enum { index, .. } => match module.enums.get(index as usize) {
            Some(names) => ValueKind::Enum(names.variants.clone()),
            None => ValueKind::Number,
        },
        Ty::Bool => ValueKind::Bool,
        Ty::Duration => ValueKind::Duration,
        Ty::Time | Ty::Timer => ValueKind::Time,
        _ => ValueKind::Number,
    }
}

/// An observable scalar with its declaration.
pub(super) struct Declared {
    pub(super) row: Row,
    /// The structure that has the scalar as a field, and the field's name.
    of: StructId,
    field: String,
}

/// Returns the observable scalars of all keyed contexts, in order of declaration.
pub(super) fn variables(module: &Module) -> Vec<(Variable, Declared)> {
    let mut out = Vec::new();
    for (index, context) in module.contexts.iter().enumerate() {
        let prefix = format!("{}.{}", provider(module), context_kind(module, context));
        walk(
            module,
            context.body,
            &prefix,
            0,
            ContextId(index as u32),
            &mut out,
        );
    }
    out
}

fn walk(
    module: &Module,
    body: StructId,
    prefix: &str,
    base: u32,
    context: ContextId,
    out: &mut Vec<(Variable, Declared)>,
) {
    for field in &module.structure(body).fields {
        let (name, offset) = (format!("{prefix}.{}", field.name), base + field.offset);
        if let Ty::Struct(part) = &field.ty {
            walk(module, *part, &name, offset, context, out);
        } else if field.access.observable
            && let Some(len) = scalar::size(&field.ty)
        {
            let access = match field.access.modifiable {
                Some((min, max)) => Access::Modifiable { min, max },
                None => Access::Observable,
            };
            let row = Row { context, at: ScalarLocation { offset, len: len as u32 } };
            let declared = Declared { row, of: body, field: field.name.clone() };
            out.push((Variable { name, kind: kind(module, field), access }, declared));
        }
    }
}

/// Returns the signals of a program in a schema that contains them.
pub(super) fn signals(module: &Module, schema: &Schema) -> Vec<Signalled> {
    let provider = provider(module);
    let signal = |(name, body): &(String, StructId)| {
        let event = schema.event(&format!("{provider}.{name}"))?;
        Some(Signalled { event, scalars: signal_scalars(module, *body) })
    };
    // All of them are found, because the schema was made from the module.
    module.signals.iter().map_while(signal).collect()
}

fn signal_scalars(module: &Module, body: StructId) -> Vec<ScalarLocation> {
    let fields = &module.structure(body).fields;
    let at =
        |f: &hawser_ir::Field| Some(ScalarLocation { offset: f.offset, len: scalar::size(&f.ty)? as u32 });
    fields
        .iter()
        .filter(|f| f.ty.is_scalar())
        .filter_map(at)
        .collect()
}
