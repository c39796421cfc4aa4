//! Expressions over a stopped program: those that a debugger prints, and the conditions of its breakpoints.

use hawser_ir as ir;
use hawser_ir::{Base, Func, FuncId, FuncParam, StmtKind, Ty};
use hawser_syntax::ast::{self, Span};
use hawser_syntax::{Diagnostic, Severity, SourceMap};

use crate::body::{Body, BodyKind, Local, Returns, Variable, region};
use crate::codes;
use crate::convert::Value;
use crate::state::{Checker, span};

/// A variable that an expression may name.
#[derive(Clone, Debug, PartialEq)]
pub struct Visible {
    /// Its name. If several variables have the same name, the last one is meant.
    pub name: String,
    /// Its type in the program's module.
    pub ty: Ty,
}

/// An expression that has been checked.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The program with one additional function.
    pub module: ir::Module,
    /// The function. It takes references to the variables in their order, and to memory for the result.
    pub func: FuncId,
    /// The type of the result.
    pub ty: Ty,
}

/// Checks an expression over a program that was checked without errors, and lowers it. In addition to the
/// program's names, the expression sees the `visible` variables, and the fields of the variable with the
/// index `this`. The diagnostics are those of the expression.
#[must_use]
pub fn inspect(
    name: &str,
    sources: &SourceMap,
    files: &[ast::File],
    expression: &ast::Expr,
    visible: &[Visible],
    this: Option<usize>,
) -> (Option<Inspected>, Vec<Diagnostic>) {
    let mut checker = Checker::new(name, sources, files);
    checker.lower();
    checker.diagnostics.clear();
    let lowered = checker.inspected(expression, visible, this);
    let (module, mut diagnostics) = checker.finish();
    diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
    let inspected = module.zip(lowered);
    let inspected = inspected.map(|(module, (func, ty))| Inspected { module, func, ty });
    (inspected, diagnostics)
}

impl<'a> Checker<'a> {
    fn inspected(
        &mut self,
        expression: &'a ast::Expr,
        visible: &'a [Visible],
        this: Option<usize>,
    ) -> Option<(FuncId, Ty)> {
        let place = |index: usize| region(Base::Ref(index as u16), visible[index].ty.clone());
        let mut lower = Body::new(self, BodyKind::Function(Returns::Unknown));
        lower.at = expression.span;
        lower.this = this.map(place);
        let known = (0..visible.len())
            .map(|index| (visible[index].name.as_str(), local(Variable::Place(place(index)))));
        lower.scopes = vec![known.collect()];
        let value = lower.value(expression, None);
        let result = u16::try_from(visible.len()).ok().map(Base::Ref)?;
        let ty = lower.give(value, result, expression.span)?;
        let (locals, frame, body) = (lower.locals, lower.frame, lower.out);
        let reference =
            |visible: &Visible| FuncParam::Ref { name: visible.name.clone(), ty: visible.ty.clone() };
        let into = Visible { name: "result".to_owned(), ty: ty.clone() };
        self.module.funcs.push(Func {
            name: "expression".to_owned(),
            params: visible.iter().chain([&into]).map(reference).collect(),
            ret: None,
            locals,
            frame: frame.next_multiple_of(8),
            body,
            span: span(expression.span),
        });
        Some((FuncId(self.module.funcs.len() as u32 - 1), ty))
    }
}

impl Body<'_, '_> {
    /// Stores a value in the memory to which `result` refers, and returns its type.
    fn give(&mut self, value: Value, result: Base, at: Span) -> Option<Ty> {
        match value {
            Value::Place(place) if !place.ty.is_scalar() || place.ty == Ty::Timer => {
                let ty = place.ty.clone();
                self.push(StmtKind::Copy(region(result, ty.clone()), place));
                Some(ty)
            }
            Value::None => {
                self.error(
                    codes::NOT_A_VALUE,
                    at,
                    "`NONE` alone has no type",
                    "compare a value with it",
                );
                None
            }
            value => {
                let value = self.scalar(value, at)?;
                let ty = value.ty.clone();
                self.push(StmtKind::Store(region(result, ty.clone()), value));
                Some(ty)
            }
        }
    }
}

fn local(variable: Variable) -> Local {
    Local { variable, at: Span::default(), used: true, warn: None, read_only: true }
}
