//! Tables of constants: `const T NAME[N] = {…};`, and reads from them.

use hawser_ir::{self as ir, Expr, ExprKind, TableId, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{self, Ident};

use crate::body::Body;
use crate::codes;
use crate::convert::Value;
use crate::fold;
use crate::names::Def;
use crate::state::{Checker, DeclProgress, MAX_DEPTH, MAX_SIZE, TableDecl};

impl<'a> Checker<'a> {
    pub(crate) fn collect_table(
        &mut self,
        ty: &'a ast::Type,
        name: &'a Ident,
        size: Option<&'a ast::Expr>,
        values: &'a [ast::Expr],
    ) {
        self.define(name, Def::Table(self.tables.len()));
        self.tables.push(TableDecl {
            name,
            ty,
            size,
            values,
            progress: DeclProgress::Waiting,
            result: None,
            used: false,
        });
    }

    /// Evaluates all tables and adds them to the module.
    pub(crate) fn table_rows(&mut self) {
        for index in 0..self.tables.len() {
            self.table(index);
            let decl = &self.tables[index];
            let (ty, values) = decl.result.clone().unwrap_or((Ty::uint(64), vec![0]));
            self.module
                .tables
                .push(ir::Table { name: decl.name.name.clone(), ty, values });
        }
    }

    /// Returns the type and the values of a table.
    pub(crate) fn table(&mut self, index: usize) -> Option<(Ty, Vec<u64>)> {
        let name = self.tables[index].name;
        match self.tables[index].progress {
            DeclProgress::Ready => return self.tables[index].result.clone(),
            DeclProgress::Waiting if self.depth < MAX_DEPTH => {}
            DeclProgress::Waiting | DeclProgress::Active => {
                self.circular(name.span, &name.name);
                return None;
            }
        }
        self.tables[index].progress = DeclProgress::Active;
        self.depth += 1;
        let result = self.evaluated_table(index);
        self.depth -= 1;
        self.tables[index].progress = DeclProgress::Ready;
        self.tables[index].result = result.clone();
        result
    }

    fn evaluated_table(&mut self, index: usize) -> Option<(Ty, Vec<u64>)> {
        let (ty, size, values) = {
            let decl = &self.tables[index];
            (decl.ty, decl.size, decl.values)
        };
        let ty = self.scalar_type(ty)?;
        let size = match size {
            Some(size) => Some(self.constant_expr(size, &Ty::uint(64))?),
            None => None,
        };
        self.check_table_size(index, size, &ty)?;
        let values: Vec<Option<u64>> = values
            .iter()
            .map(|value| self.constant_expr(value, &ty))
            .collect();
        Some((ty, values.into_iter().collect::<Option<_>>()?))
    }

    /// Checks that a table has as many values as declared, and at least one.
    fn check_table_size(&mut self, index: usize, size: Option<u64>, ty: &Ty) -> Option<()> {
        let decl = &self.tables[index];
        let (name, given) = (decl.name, decl.values.len() as u64);
        let expected = match size {
            _ if given == 0 => "expected at least one value".to_owned(),
            Some(size) if size != given => format!("the table declares {size} values and has {given}"),
            _ if given * u64::from(self.layout().size(ty)) > MAX_SIZE => {
                format!("expected at most {MAX_SIZE} bytes")
            }
            _ => return Some(()),
        };
        let name = &name.name;
        let message = format!("the table `{name}` has {given} values");
        let mut diagnostic = Diagnostic::error(codes::TABLE, decl.name.span, message).label(expected);
        if size.is_some() {
            let hint = format!(
                "write `{name}[]`: the compiler counts the values, and `{name}.len` is their \
                                number"
            );
            diagnostic = diagnostic.hint(hint);
        }
        self.report(diagnostic);
        None
    }
}

impl<'a> Body<'_, 'a> {
    /// `TABLE[index]`
    pub(crate) fn table_value(&mut self, table: usize, index: &'a ast::Expr) -> Value {
        let (index, place) = (self.position(index), index.span);
        let Some((ty, values)) = self.ck.table(table) else {
            self.poisoned = true;
            return Value::Error;
        };
        self.warn_beyond(&index, values.len() as u64, "table", place);
        if let Some(at) = fold::value_of(&index) {
            let value = usize::try_from(at).ok().and_then(|at| values.get(at));
            return Value::Scalar(fold::constant(value.copied().unwrap_or(0), ty));
        }
        let kind = ExprKind::Table(TableId(table as u32), Box::new(index));
        Value::Scalar(Expr { ty, kind })
    }

    /// `TABLE.len`, `len(TABLE)`
    pub(crate) fn table_len(&mut self, table: usize) -> Value {
        let len = self.ck.tables[table].values.len() as u64;
        Value::Scalar(fold::constant(len, Ty::uint(32)))
    }
}
