//! `assert`: conditions about contexts, in the language.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_check::Visible;
use hawser_engine::program::Program;
use hawser_interp::{Halted, Interpreter, LastingMemory, Variable};
use hawser_ir::{ContextId, FuncId, StructId, Ty};

use crate::step::cursor::{Error, LineParse};
use crate::step::image::load;
use crate::step::packet::Format;

/// The memories of a condition's contexts during evaluation, which limit their number.
const PLACES: [LastingMemory; 2] = [LastingMemory::Keyed, LastingMemory::Fresh];
/// The maximum number of cached conditions.
const MAX: usize = 1000;

/// A context, under its name in a condition.
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) id: ContextId,
    pub(crate) bytes: Vec<u8>,
}

/// A checked condition.
struct Condition {
    interpreter: Interpreter,
    function: FuncId,
}

/// A cache of checked conditions, by their texts and contexts.
#[derive(Default)]
pub(crate) struct Conditions(BTreeMap<(String, Vec<(String, ContextId)>), Condition>);

impl Conditions {
    /// Evaluates a condition about contexts. Returns `None` if it holds, otherwise the values in it. Places
    /// of errors count from the condition's first character.
    pub(crate) fn holds(
        &mut self,
        program: &dyn Program,
        format: &Format,
        text: &str,
        contexts: &[Context],
    ) -> LineParse<Option<String>> {
        if contexts.len() > PLACES.len() {
            let message = format!("a condition concerns at most {} contexts", PLACES.len());
            return Err(Error::new(1, message));
        }
        let body = |context: &Context| program.module().contexts[context.id.0 as usize].body;
        let variables: Vec<Variable> = contexts
            .iter()
            .zip(PLACES)
            .map(|(context, memory)| {
                Variable::whole(context.name.as_str(), Ty::Struct(body(context)), memory)
            })
            .collect();
        let types = contexts.iter().map(|context| (context.name.clone(), context.id));
        let key = (text.to_owned(), types.collect());
        if !self.0.contains_key(&key) {
            let checked = check(program, text, &variables)?;
            if self.0.len() >= MAX {
                self.0.clear();
            }
            self.0.insert(key.clone(), checked);
        }
        let mut halted = Halted::default();
        halted.keyed = contexts
            .first()
            .map(|context| (context.id, context.bytes.clone()));
        halted.fresh = contexts.get(1).map(|context| context.bytes.clone());
        let condition = &self.0[&key];
        let value = halted.evaluate(&condition.interpreter, condition.function, &variables, &Ty::Bool);
        if value.is_some_and(|bytes| bytes == [1]) {
            return Ok(None);
        }
        let shown = paths(text).into_iter().filter_map(|path| {
            let (name, field) = path.split_once('.')?;
            let context = contexts.iter().find(|context| context.name == name)?;
            Some(format!(
                "{path} is {}",
                value_of(format, body(context), field, &context.bytes)?
            ))
        });
        let mut values: Vec<String> = shown.collect();
        values.dedup();
        Ok(Some(match values.is_empty() {
            true => "it is false".to_owned(),
            false => values.join(", "),
        }))
    }
}

fn check(program: &dyn Program, text: &str, variables: &[Variable]) -> LineParse<Condition> {
    let visible: Vec<Visible> = variables
        .iter()
        .map(|variable| Visible { name: variable.name.clone(), ty: variable.ty.clone() })
        .collect();
    let expression = hawser_driver::inspect(program.module(), text, &visible, None);
    let Some(inspected) = expression.inspected else {
        let Some(found) = expression.compilation.diagnostics.into_iter().next() else {
            return Err(Error::new(1, "the checker refuses it"));
        };
        let before = text.get(..found.span.start as usize).unwrap_or(text);
        let message = match found.label.as_str() {
            "" => found.message.clone(),
            label => format!("{}: {label}", found.message),
        };
        let error = Error::new(before.chars().count() as u32 + 1, message);
        return Err(error.hint(found.hint.map_or_else(String::new, |hint| hint.text)));
    };
    if inspected.ty != Ty::Bool {
        return Err(Error::new(1, "this is not a condition: its value is not a bool")
            .hint("compare it, as in `assert conn.flight == 0`"));
    }
    let interpreter = Interpreter::new(Arc::new(inspected.module), program.params().to_vec());
    Ok(Condition {
        interpreter: interpreter.map_err(|error| Error::new(1, error.to_string()))?,
        function: inspected.func,
    })
}

/// Returns the value of a field of a structure, by its path.
fn value_of(format: &Format, structure: StructId, path: &str, bytes: &[u8]) -> Option<String> {
    let types = format.types();
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (ty, at) = types.field(structure, first, 0).ok()?;
    let part = bytes.get(at..)?;
    match ty {
        Ty::Struct(inner) if !rest.is_empty() => value_of(format, *inner, rest, part),
        Ty::Timer => Some(match load(part, 8) {
            0 => "not armed".to_owned(),
            _ => "armed".to_owned(),
        }),
        _ => Some(types.show(ty, part, &[]).to_string()),
    }
}

/// Returns the dotted names in a condition: `conn.cc.cwnd`.
fn paths(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    words
        .filter(|word| word.contains('.') && !word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Returns the first parts of these names, each once.
pub(crate) fn named(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = paths(text)
        .iter()
        .filter_map(|path| path.split('.').next())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
