//! Calls of helpers, by value and by reference, with a scalar, an aggregate or no result.

use super::body::Body;
use super::types::Type;

/// A helper that is declared before the text being generated.
#[derive(Clone, Debug)]
pub(super) struct Helper {
    pub(super) name: String,
    pub(super) params: Vec<Type>,
    pub(super) result: Option<Type>,
    /// It calls only helpers of lower levels.
    pub(super) level: u32,
    /// True if it writes only its own variables, issues no instruction and does not end the chain.
    pub(super) pure_: bool,
    /// True if it makes events; only parsers call it.
    pub(super) light: bool,
}

impl Body<'_> {
    /// Generates a call that returns a scalar of this type.
    pub(super) fn call_of(&mut self, ty: &Type, depth: u32) -> Option<String> {
        let wanted = if *ty == Type::Varint {
            Type::Uint(64)
        } else {
            ty.clone()
        };
        self.call(&|result| result.as_ref() == Some(&wanted), depth)
    }

    /// Generates a call of any helper whose result suits.
    pub(super) fn call(&mut self, suits: &dyn Fn(&Option<Type>) -> bool, depth: u32) -> Option<String> {
        if !self.rules.function || self.calls_left == 0 {
            return None;
        }
        let rules = &self.rules;
        let callable = |helper: &&Helper| {
            helper.level < rules.level
                && (!rules.no_effects || helper.pure_)
                && (rules.emits || helper.pure_)
                && (self.loops == 0 || helper.light)
                && suits(&helper.result)
        };
        let helpers: Vec<&Helper> = self.plan.helpers.iter().filter(callable).collect();
        if helpers.is_empty() {
            return None;
        }
        let helper = (*self.rng.pick(&helpers)).clone();
        self.calls_left -= 1;
        let mut args = Vec::new();
        for param in &helper.params {
            let arg = if param.is_scalar() {
                self.expr(param, depth.min(2))
            } else {
                // The arguments of a helper without effects are only read.
                self.find(!helper.pure_, &|ty| ty == param)?.path
            };
            args.push(arg);
        }
        Some(format!("{}({})", helper.name, args.join(", ")))
    }
}
