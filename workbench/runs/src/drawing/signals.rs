//! The signals that a program emits.

use hawser_inspect::trace::{SharedName, TraceValue, TracedInstruction};
use hawser_ir::{Module, Ty};

use crate::drawing::picture::{SignalField, SignalType};

/// Returns the signal types of a program. Fields that are not a single number are omitted.
pub(crate) fn types(module: &Module) -> Vec<SignalType> {
    let field = |field: &hawser_ir::Field| {
        let mut labels = Vec::new();
        let kind = match field.ty {
            Ty::Enum { index, .. } => {
                let names = module.enums.get(index as usize);
                labels = names.map_or_else(Vec::new, |names| names.variants.clone());
                "enum"
            }
            Ty::Bool => "bool",
            Ty::Duration => "duration",
            Ty::Time | Ty::Timer => "time",
            _ => "number",
        };
        SignalField { name: field.name.clone(), kind, labels }
    };
    let signals = module.signals.iter().map(|(name, body)| {
        let fields = &module.structure(*body).fields;
        SignalType {
            name: name.clone(),
            fields: fields
                .iter()
                .filter(|field| field.ty.is_scalar())
                .map(field)
                .collect(),
        }
    });
    signals.collect()
}

/// Returns the name and the numeric fields of the signal that an instruction emits.
pub(crate) fn emitted(
    instruction: &TracedInstruction,
    types: &[SignalType],
) -> Option<(String, Vec<(String, u64)>)> {
    if instruction.instruction != "signal" {
        return None;
    }
    let (name, TraceValue::Fields(fields)) = instruction.arguments.first()? else {
        return None;
    };
    let of = types.iter().find(|of| of.name == name.as_str())?;
    let value = |field: &SignalField| {
        let (_, value) = fields
            .iter()
            .find(|(name, _): &&(SharedName, TraceValue)| name.as_str() == field.name)?;
        Some((field.name.clone(), number(field, value)?))
    };
    Some((of.name.clone(), of.fields.iter().filter_map(value).collect()))
}

fn number(field: &SignalField, value: &TraceValue) -> Option<u64> {
    match value {
        TraceValue::Flag(flag) => Some(u64::from(*flag)),
        TraceValue::Number(number) | TraceValue::Span(number) | TraceValue::Time(number) => Some(*number),
        // As on the bus, negative numbers are in two's complement.
        TraceValue::Signed(number) => Some(*number as u64),
        TraceValue::None => Some(0),
        TraceValue::Text(text) => {
            let label = field.labels.iter().find(|(_, label)| label == text);
            label.map(|(number, _)| *number)
        }
        TraceValue::Fields(_) | TraceValue::List(..) => None,
    }
}
