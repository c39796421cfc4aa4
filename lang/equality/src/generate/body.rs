//! A function's body while it is generated: the names that it can use, and the constructs that it may
//! contain.

use super::ProgramPlan;
use super::scope::{self, Var};
use super::types::Type;
use crate::rng::Rng;

/// The constructs that a body may contain.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// True if helpers may be called and temporaries made. False only for wire expressions, rules and
    /// invariants.
    pub(super) function: bool,
    /// True if only helpers without effects may be called, and only the body's own variables written.
    pub(super) no_effects: bool,
    /// Helpers below this level may be called.
    pub(super) level: u32,
    /// True if instructions may be issued.
    pub(super) emits: bool,
    /// True if `refuse` is allowed.
    pub(super) refuses: bool,
    /// True if `done` and `assert` are allowed.
    pub(super) ends: bool,
    /// The type that `return` needs; `None` for a bare `return`.
    pub(super) returns: Option<Type>,
    /// True if `return` is allowed.
    pub(super) may_return: bool,
    /// True for the paper's style, in which instructions are added to a list.
    pub(super) listed: bool,
}

pub(super) struct Body<'p> {
    pub(super) plan: &'p ProgramPlan,
    pub(super) rng: &'p mut Rng,
    pub(super) vars: Vec<Var>,
    /// The timers that can be named, such as `c.t0`.
    pub(super) timers: Vec<String>,
    pub(super) rules: Rules,
    pub(super) lines: Vec<String>,
    indent: usize,
    names: usize,
    pub(super) loops: u32,
    pub(super) calls_left: u32,
}

impl<'p> Body<'p> {
    pub(super) fn new(plan: &'p ProgramPlan, rng: &'p mut Rng, rules: Rules) -> Body<'p> {
        let mut vars = Vec::new();
        if rules.function {
            vars.extend(
                plan.constants
                    .iter()
                    .map(|(name, ty)| Var::new(name.clone(), ty.clone(), false)),
            );
        }
        let names = 0;
        Body {
            plan,
            rng,
            vars,
            timers: Vec::new(),
            rules,
            lines: Vec::new(),
            indent: 1,
            names,
            loops: 0,
            calls_left: 3,
        }
    }

    /// Declares a parameter or a variable.
    pub(super) fn know(&mut self, var: Var) {
        self.vars.push(var);
    }

    /// Declares a record's built-in fields, in addition to those that it declares itself.
    pub(super) fn know_event(&mut self, name: &str) {
        self.know(Var::new(format!("{name}.now"), Type::Time, false));
        self.know(Var::new(format!("{name}.rand"), Type::Uint(64), false));
        self.know(Var::new(format!("{name}.hash"), Type::Uint(32), false));
    }

    /// Declares a context with its id and its timers.
    pub(super) fn know_context(&mut self, name: &str, record: usize, writable: bool) {
        self.know(Var::new(name, Type::Record(record), writable));
        self.know(Var::new(format!("{name}.self"), Type::Id, false));
        for timer in &self.plan.records[record].timers {
            self.vars
                .push(Var::new(format!("{name}.{timer}.armed"), Type::Bool, false));
            self.timers.push(format!("{name}.{timer}"));
        }
    }

    /// Returns a name that is unique in this body.
    pub(super) fn fresh_name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.lines
            .push(format!("{}{}", "    ".repeat(self.indent), text.as_ref()));
    }

    /// Adds a block: a head, the contents that `fill` adds, and a closing brace. Its variables go out of
    /// scope.
    pub(super) fn block(&mut self, head: &str, fill: impl FnOnce(&mut Self)) {
        self.line(format!("{head} {{"));
        let (vars, timers) = (self.vars.len(), self.timers.len());
        self.indent += 1;
        fill(self);
        self.indent -= 1;
        self.vars.truncate(vars);
        self.timers.truncate(timers);
        self.line("}");
    }

    /// Finds a place or a value of a suitable type.
    pub(super) fn find(&mut self, writable: bool, suits: &dyn Fn(&Type) -> bool) -> Option<Var> {
        let vars: Vec<&Var> = self.vars.iter().filter(|v| !writable || v.writable).collect();
        scope::find(self.plan, self.rng, &vars, writable, suits, &mut |rng, ty| {
            super::literal::index(rng, ty)
        })
    }

    /// Finds a place whose list positions and keys are arbitrary expressions.
    pub(super) fn find_deep(
        &mut self,
        writable: bool,
        depth: u32,
        suits: &dyn Fn(&Type) -> bool,
    ) -> Option<Var> {
        let found = self.find(writable, suits)?;
        if depth == 0 || !found.path.contains('[') || !self.rng.one_in(2) {
            return Some(found);
        }
        // The last index is replaced by an expression of its own.
        let open = found.path.rfind('[')?;
        let close = found.path[open..].find(']')? + open;
        let inside = &found.path[open + 1..close];
        let Some((ty, _)) = super::literal::typed(inside) else {
            return Some(found);
        };
        let index = self.expr(&ty, depth - 1);
        let path = format!("{}[{index}]{}", &found.path[..open], &found.path[close + 1..]);
        Some(Var { path, ..found })
    }
}
