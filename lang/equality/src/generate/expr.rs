//! Expressions of a given scalar type.
//!
//! Each way to make a value of a type is one line. Literals are typed. The operands of an operator have its
//! type, or one that converts implicitly.

use hawser_check::{FIXED, Fixed};

use super::body::Body;
use super::literal::literal;
use super::scope::Var;
use super::types::Type;

const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
const ARITHMETIC: &[&str] = &["+", "-", "*", "/", "%", "&", "|", "^"];

impl Body<'_> {
    /// Generates an expression of exactly this type; `varint_t` stands for `uint64`.
    pub(super) fn expr(&mut self, ty: &Type, depth: u32) -> String {
        if depth == 0 || self.rng.one_in(7) {
            return self.leaf(ty);
        }
        if self.rng.one_in(5)
            && let Some(call) = self.call_of(ty, depth - 1)
        {
            return call;
        }
        if self.rng.one_in(12)
            && *ty != Type::Addr
            && let Some(value) = self.table_value(ty, depth - 1)
        {
            return value;
        }
        if self.rng.one_in(10) && *ty != Type::Addr {
            let condition = self.expr(&Type::Bool, depth - 1);
            let (a, b) = (self.expr(ty, depth - 1), self.expr(ty, depth - 1));
            return format!("({condition} ? {a} : {b})");
        }
        match ty {
            Type::Bool => self.boolean(depth - 1),
            Type::Uint(bits) => self.unsigned(*bits, depth - 1),
            Type::Int(bits) => self.integer(ty, *bits, depth - 1),
            Type::Seq(bits) => self.circular(*bits, depth - 1),
            Type::Duration => self.duration(depth - 1),
            Type::Time => self.time(depth - 1),
            Type::Varint => self.expr(&Type::Uint(64), depth - 1),
            Type::Enum => {
                let from = Type::integer(self.rng);
                let inner = self.expr(&from, depth - 1);
                self.cast(&from, ty, &inner)
            }
            Type::Addr => self.address(depth - 1),
            Type::Ip
            | Type::Id
            | Type::Bytes(_)
            | Type::Data
            | Type::Record(_)
            | Type::Array(..)
            | Type::List(..)
            | Type::Sorted(..)
            | Type::Window(..)
            | Type::Options(..) => self.leaf(ty),
        }
    }

    /// Generates a value of a table, with any index.
    fn table_value(&mut self, ty: &Type, depth: u32) -> Option<String> {
        let suited = |row: &&(String, Type, usize)| row.1 == *ty || self.rules.function;
        let tables: Vec<_> = self.plan.tables.iter().filter(suited).cloned().collect();
        let (name, of, len) = (!tables.is_empty()).then(|| self.rng.pick(&tables).clone())?;
        let index = match self.rng.below(4) {
            0 => self.rng.below(len + 2).to_string(),
            1 => {
                let number = Type::integer(self.rng);
                self.expr(&number, depth)
            }
            _ => format!("{} % {name}.len", self.expr(&Type::Uint(32), depth)),
        };
        Some(self.cast(&of, ty, &format!("{name}[{index}]")))
    }

    /// Generates a variable, a field, an element or a literal.
    fn leaf(&mut self, ty: &Type) -> String {
        if *ty == Type::Varint {
            return self.leaf(&Type::Uint(64));
        }
        if self.rng.one_in(6) {
            return literal(self.rng, ty);
        }
        if *ty == Type::Uint(64)
            && self.rules.function
            && self.rng.one_in(8)
            && let Some(address) = self.find(false, &|found| *found == Type::Ip)
        {
            return format!("{}.{}", address.path, self.rng.pick(&["high", "low"]));
        }
        if self.rng.one_in(2)
            && let Some(found) = self.find(false, &|found| found == ty)
        {
            return found.path;
        }
        if *ty != Type::Addr
            && let Some(found) = self.find(false, &|found| found.is_scalar() && *found != Type::Addr)
        {
            return self.cast(&found.ty, ty, &found.path);
        }
        literal(self.rng, ty)
    }

    /// Generates a conversion from one type to another.
    fn cast(&self, from: &Type, to: &Type, text: &str) -> String {
        if from == to {
            return text.to_owned();
        }
        match to {
            // An enum mixes with no other type, and converts only to an integer.
            Type::Bool | Type::Seq(_) | Type::Duration | Type::Time | Type::Varint if *from == Type::Enum => {
                let number = Type::Uint(64);
                self.cast(&number, to, &self.cast(from, &number, text))
            }
            Type::Enum if !matches!(from, Type::Uint(_) | Type::Int(_)) => {
                let number = Type::Uint(64);
                self.cast(&number, to, &self.cast(from, &number, text))
            }
            Type::Enum => format!("kinds({text})"),
            Type::Bool => format!("bool({text})"),
            Type::Uint(bits) => format!("uint{bits}({text})"),
            Type::Int(bits) => format!("int{bits}({text})"),
            Type::Seq(bits) => format!("seq<{bits}>({text})"),
            Type::Duration => format!("duration_t({text})"),
            Type::Time => format!("time_t({text})"),
            Type::Varint => format!("varint_t({text})"),
            Type::Addr
            | Type::Ip
            | Type::Id
            | Type::Bytes(_)
            | Type::Data
            | Type::Record(_)
            | Type::Array(..)
            | Type::List(..)
            | Type::Sorted(..)
            | Type::Window(..)
            | Type::Options(..) => text.to_owned(),
        }
    }

    fn boolean(&mut self, depth: u32) -> String {
        match self.rng.below(14) {
            0 => format!(
                "({} && {})",
                self.expr(&Type::Bool, depth),
                self.expr(&Type::Bool, depth)
            ),
            1 => format!(
                "({} || {})",
                self.expr(&Type::Bool, depth),
                self.expr(&Type::Bool, depth)
            ),
            2 => format!("!({})", self.expr(&Type::Bool, depth)),
            3 => {
                let op = *self.rng.pick(&["&", "|", "^"]);
                format!(
                    "({} {op} {})",
                    self.expr(&Type::Bool, depth),
                    self.expr(&Type::Bool, depth)
                )
            }
            4 => {
                let ty = Type::integer(self.rng);
                format!("bool({})", self.expr(&ty, depth))
            }
            5 => self.same_bytes(),
            6 | 7 => self
                .query(&Type::Bool, depth)
                .unwrap_or_else(|| self.leaf(&Type::Bool)),
            8 => {
                let (a, b) = (
                    self.find(false, &|t| *t == Type::Addr),
                    self.expr(&Type::Addr, depth),
                );
                a.map_or_else(|| self.leaf(&Type::Bool), |a| format!("({} == {b})", a.path))
            }
            _ => self.comparison(depth),
        }
    }

    fn comparison(&mut self, depth: u32) -> String {
        let op = *self.rng.pick(COMPARISONS);
        let ty = match self.rng.below(7) {
            0 => Type::circular(self.rng),
            1 => Type::Duration,
            2 => Type::Time,
            3 => Type::Enum,
            _ => Type::integer(self.rng),
        };
        let a = self.expr(&ty, depth);
        let b = self.operand(&ty, depth);
        if self.rules.function && self.rng.one_in(6) {
            return format!("({a} in {{{b}, {}}})", self.operand(&ty, depth));
        }
        format!("({a} {op} {b})")
    }

    /// Generates a comparison of ids, addresses or bytes.
    fn same_bytes(&mut self) -> String {
        let comparable = |ty: &Type| matches!(ty, Type::Ip | Type::Id | Type::Bytes(_));
        let Some(a) = self.find(false, &comparable) else {
            return self.leaf(&Type::Bool);
        };
        let op = *self.rng.pick(&["==", "!="]);
        if a.ty == Type::Ip && self.rules.function && self.rng.one_in(3) {
            return format!("{}.is_v4", a.path);
        }
        // A value that is made by a call or an instruction needs statements before it.
        if self.rules.function
            && self.rng.one_in(3)
            && let Some(b) = self.aggregate(&a.ty)
        {
            let c = self
                .find(false, &|ty| *ty == a.ty)
                .map_or("NONE".to_owned(), |c| c.path);
            return format!("({} in {{{b}, {c}}})", a.path);
        }
        match self.find(false, &|ty| *ty == a.ty).filter(|_| self.rng.one_in(2)) {
            Some(b) => format!("({} {op} {})", a.path, b.path),
            None => format!("({} {op} NONE)", a.path),
        }
    }

    /// Generates a right operand, of the type or of one that converts to it implicitly.
    fn operand(&mut self, ty: &Type, depth: u32) -> String {
        let narrower = match ty {
            Type::Uint(bits) if self.rng.one_in(4) => {
                Type::Uint(1 + self.rng.below(usize::from(*bits)) as u8)
            }
            Type::Int(bits) if self.rng.one_in(4) => {
                Type::Int(2 + self.rng.below(usize::from(*bits) - 1) as u8)
            }
            Type::Int(bits) if self.rng.one_in(6) => {
                Type::Uint(1 + self.rng.below(usize::from(*bits) - 1) as u8)
            }
            other => other.clone(),
        };
        self.expr(&narrower, depth)
    }

    fn unsigned(&mut self, bits: u8, depth: u32) -> String {
        let ty = Type::Uint(bits);
        if bits == 64 && self.rng.one_in(2) {
            return self.word(depth);
        }
        match self.rng.below(12) {
            0 if bits > 1 => {
                let circle = Type::Seq(bits);
                format!("({} - {})", self.expr(&circle, depth), self.expr(&circle, depth))
            }
            1 => {
                let of = if bits > 1 && self.rng.one_in(2) {
                    Type::Int(bits)
                } else {
                    ty
                };
                format!("abs_diff({}, {})", self.expr(&of, depth), self.expr(&of, depth))
            }
            2 if bits > 1 => {
                let circle = Type::Seq(bits);
                format!(
                    "abs_diff({}, {})",
                    self.expr(&circle, depth),
                    self.expr(&circle, depth)
                )
            }
            3 => format!("sat_sub({}, {})", self.expr(&ty, depth), self.operand(&ty, depth)),
            4 if bits == 32 => self.query(&ty, depth).unwrap_or_else(|| self.leaf(&ty)),
            5 => self
                .query(&ty, depth)
                .unwrap_or_else(|| self.integer(&ty, bits, depth)),
            _ => self.integer(&ty, bits, depth),
        }
    }

    /// Generates the expressions that signed and unsigned numbers have in common.
    fn integer(&mut self, ty: &Type, bits: u8, depth: u32) -> String {
        match self.rng.below(14) {
            0 => format!("-({})", self.expr(ty, depth)),
            1 => format!("~({})", self.expr(ty, depth)),
            2 | 3 => self.shift(ty, bits, depth),
            4 => {
                let name = *self.rng.pick(&["min", "max"]);
                format!("{name}({}, {})", self.expr(ty, depth), self.operand(ty, depth))
            }
            5 => {
                let (a, b, c) = (
                    self.expr(ty, depth),
                    self.operand(ty, depth),
                    self.operand(ty, depth),
                );
                format!("mul_div({a}, {b}, {c})")
            }
            6 => format!("clz({})", self.expr(ty, depth)),
            7 => {
                let from = Type::scalar(self.rng);
                let from = if from == Type::Varint {
                    Type::Uint(64)
                } else {
                    from
                };
                let inner = self.expr(&from, depth);
                self.cast(&from, ty, &inner)
            }
            _ => {
                let op = *self.rng.pick(ARITHMETIC);
                format!("({} {op} {})", self.expr(ty, depth), self.operand(ty, depth))
            }
        }
    }

    fn shift(&mut self, ty: &Type, bits: u8, depth: u32) -> String {
        let op = *self.rng.pick(&["<<", ">>"]);
        let amount = match self.rng.below(4) {
            0 => self.rng.below(usize::from(bits) + 3).to_string(),
            1 => {
                let narrow = Type::integer(self.rng);
                self.expr(&narrow, depth)
            }
            _ => self.expr(&Type::Uint(8), 0),
        };
        format!("({} {op} {amount})", self.expr(ty, depth))
    }

    /// Generates the expressions that always yield a `uint64`.
    fn word(&mut self, depth: u32) -> String {
        let word = Type::Uint(64);
        match self.rng.below(7) {
            0..=2 => self.fixed(&word, depth).unwrap_or_else(|| self.leaf(&word)),
            3 => {
                let circle = Type::circular(self.rng);
                format!(
                    "unwrap({}, {})",
                    self.expr(&circle, depth),
                    self.expr(&word, depth)
                )
            }
            4 => format!(
                "({} / {})",
                self.expr(&Type::Duration, depth),
                self.expr(&Type::Duration, depth)
            ),
            5 => {
                let keys = [self.expr(&word, depth), self.expr(&word, 0)];
                let tuple = self.tuple();
                format!("keyed_hash({}, {}, {tuple})", keys[0], keys[1])
            }
            _ => self.query(&word, depth).unwrap_or_else(|| self.leaf(&word)),
        }
    }

    /// Generates a call of one of the functions that always yield this type.
    pub(super) fn fixed(&mut self, ty: &Type, depth: u32) -> Option<String> {
        let suited = |function: &&Fixed| Type::from_ir(&function.gives).as_ref() == Some(ty);
        let suited: Vec<&Fixed> = FIXED.iter().filter(suited).collect();
        let function = *(!suited.is_empty()).then(|| self.rng.pick(&suited))?;
        let types: Option<Vec<Type>> = function.takes.iter().map(Type::from_ir).collect();
        let operands: Vec<String> = types?.iter().map(|ty| self.expr(ty, depth)).collect();
        Some(format!("{}({})", function.word.name, operands.join(", ")))
    }

    /// Generates one to three values of known width, at most 39 bytes in all. An id of unknown length stands
    /// alone.
    pub(super) fn tuple(&mut self) -> String {
        let mut parts = Vec::new();
        let mut room: u32 = 39;
        for _ in 0..=self.rng.below(3) {
            let part = match self.rng.below(4) {
                0 => self.find(false, &|t| *t == Type::Ip).map(|v| (v.path, 16)),
                1 => self
                    .find(false, &|t| matches!(t, Type::Bytes(_)))
                    .map(|v| match v.ty {
                        Type::Bytes(len) => (v.path, len),
                        _ => (v.path, 39),
                    }),
                2 if parts.is_empty() => self.find(false, &|t| *t == Type::Id).map(|v| (v.path, 39)),
                _ => {
                    let ty = Type::integer(self.rng);
                    Some((self.expr(&ty, 1), 8))
                }
            };
            if let Some((text, len)) = part.filter(|(_, len)| *len <= room) {
                room -= len;
                parts.push(text);
            }
        }
        if parts.is_empty() {
            literal(self.rng, &Type::Uint(16))
        } else {
            parts.join(", ")
        }
    }

    fn circular(&mut self, bits: u8, depth: u32) -> String {
        let ty = Type::Seq(bits);
        let number = Type::Uint(bits);
        match self.rng.below(7) {
            0 | 1 => format!("({} + {})", self.expr(&ty, depth), self.operand(&number, depth)),
            2 => format!("({} - {})", self.expr(&ty, depth), self.operand(&number, depth)),
            3 => format!("({} + {})", self.expr(&number, depth), self.expr(&ty, depth)),
            4 => {
                let name = *self.rng.pick(&["min", "max"]);
                format!("{name}({}, {})", self.expr(&ty, depth), self.expr(&ty, depth))
            }
            5 => self.query(&ty, depth).unwrap_or_else(|| self.leaf(&ty)),
            _ => {
                let from = Type::integer(self.rng);
                let inner = self.expr(&from, depth);
                self.cast(&from, &ty, &inner)
            }
        }
    }

    fn duration(&mut self, depth: u32) -> String {
        let ty = Type::Duration;
        match self.rng.below(9) {
            0 => {
                let op = *self.rng.pick(&["+", "-", "%"]);
                format!("({} {op} {})", self.expr(&ty, depth), self.expr(&ty, depth))
            }
            1 => {
                let op = *self.rng.pick(&["*", "/"]);
                let number = Type::Uint(*self.rng.pick(&[8, 16, 32, 64]));
                format!("({} {op} {})", self.expr(&ty, depth), self.expr(&number, depth))
            }
            2 => format!(
                "({} - {})",
                self.expr(&Type::Time, depth),
                self.expr(&Type::Time, depth)
            ),
            3 => {
                let name = *self.rng.pick(&["min", "max", "sat_sub", "abs_diff"]);
                format!("{name}({}, {})", self.expr(&ty, depth), self.expr(&ty, depth))
            }
            4 => {
                let name = *self.rng.pick(&["sat_sub", "abs_diff"]);
                format!(
                    "{name}({}, {})",
                    self.expr(&Type::Time, depth),
                    self.expr(&Type::Time, depth)
                )
            }
            5 => {
                let word = Type::Uint(64);
                let ratio = (self.expr(&word, depth), self.expr(&word, depth));
                match self.find(false, &|t| *t == Type::Duration) {
                    Some(d) => format!("mul_div({}, {}, {})", d.path, ratio.0, ratio.1),
                    None => self.leaf(&ty),
                }
            }
            6 => {
                let op = *self.rng.pick(&["<<", ">>"]);
                format!(
                    "({} {op} {})",
                    self.expr(&ty, depth),
                    self.expr(&Type::Uint(8), 0)
                )
            }
            _ => {
                let word = Type::integer(self.rng);
                format!("duration_t({})", self.expr(&word, depth))
            }
        }
    }

    fn time(&mut self, depth: u32) -> String {
        let ty = Type::Time;
        match self.rng.below(5) {
            0 => {
                let op = *self.rng.pick(&["+", "-"]);
                format!(
                    "({} {op} {})",
                    self.expr(&ty, depth),
                    self.expr(&Type::Duration, depth)
                )
            }
            1 => format!(
                "({} + {})",
                self.expr(&Type::Duration, depth),
                self.expr(&ty, depth)
            ),
            2 => {
                let name = *self.rng.pick(&["min", "max"]);
                format!("{name}({}, {})", self.expr(&ty, depth), self.expr(&ty, depth))
            }
            _ => format!("time_t({})", self.expr(&Type::Uint(64), depth)),
        }
    }

    fn address(&mut self, depth: u32) -> String {
        let Some(Var { path, .. }) = self.find(false, &|t| *t == Type::Addr) else {
            return "NONE".to_owned();
        };
        let offset = Type::Uint(*self.rng.pick(&[8, 16, 32, 64]));
        match self.rng.below(4) {
            0 => path,
            1 => format!("({} + {path})", self.expr(&offset, depth)),
            2 => format!("({} ? NONE : {path})", self.expr(&Type::Bool, depth)),
            _ => format!("({path} + {})", self.expr(&offset, depth)),
        }
    }

    /// Generates a question to a container that yields this type.
    fn query(&mut self, ty: &Type, depth: u32) -> Option<String> {
        let container = self.find(false, &|found| match found {
            Type::Window(_, elem) => **elem == *ty || matches!(ty, Type::Bool | Type::Uint(_)),
            Type::List(..) => matches!(ty, Type::Bool | Type::Uint(32)),
            Type::Sorted(..) | Type::Options(..) => matches!(ty, Type::Bool | Type::Uint(32)),
            _ => false,
        })?;
        let path = &container.path;
        Some(match (&container.ty, ty) {
            (Type::Window(_, elem), _)
                if self.rng.one_in(2) && !matches!(ty, Type::Bool) && **elem != *ty =>
            {
                // The question goes through a cast, because few expressions have just this type.
                let asked = self.window(path, elem, depth);
                self.cast(elem, ty, &asked)
            }
            (Type::Window(_, elem), Type::Bool) if **elem != Type::Bool => {
                format!("{path}.is_set({})", self.expr(elem, depth))
            }
            (Type::Window(_, elem), _) if **elem == *ty => self.window(path, elem, depth),
            (Type::Window(..), _) => {
                let runs = format!("{path}.runs");
                self.cast(&Type::Uint(32), ty, &runs)
            }
            (Type::Sorted(row, _, by, key), _) => {
                let fields = self.plan.records[*row].fields.clone();
                match (ty, self.rng.below(3)) {
                    (Type::Bool, 0) => format!("{path}.full"),
                    (Type::Bool, _) => {
                        let key = fields[*key].ty.clone();
                        format!("{path}.has({})", self.expr(&key, depth))
                    }
                    (_, 0) => format!("{path}.len"),
                    (_, _) => {
                        let many = 1 + self.rng.below(by.len());
                        // The expression is evaluated once for each element, so it may have no effect.
                        let calls = std::mem::take(&mut self.calls_left);
                        let values: Vec<String> = by[..many]
                            .iter()
                            .map(|f| self.expr(&fields[*f].ty, depth))
                            .collect();
                        self.calls_left = calls;
                        format!("{path}.first_from({})", values.join(", "))
                    }
                }
            }
            (Type::Options(list, _), Type::Bool) if !self.rng.one_in(4) => {
                let member = *self.rng.pick(&self.plan.options[*list].members);
                format!("{path}[{}].valid()", self.plan.records[member].name)
            }
            (_, Type::Bool) => format!("{path}.full"),
            (_, _) if self.rng.one_in(2) => format!("len({path})"),
            (_, _) => format!("{path}.len"),
        })
    }

    /// Generates a question to a window that yields a position.
    fn window(&mut self, path: &str, elem: &Type, depth: u32) -> String {
        let position = Type::Uint(32);
        match self.rng.below(5) {
            0 => format!("{path}.head"),
            1 => format!("{path}.first_set({})", self.expr(elem, depth)),
            2 => format!("{path}.first_unset({})", self.expr(elem, depth)),
            3 => format!("{path}.from({})", self.index(&position, depth)),
            _ => format!("{path}.to({})", self.index(&position, depth)),
        }
    }

    /// Generates a position: a small literal, or any expression.
    fn index(&mut self, ty: &Type, depth: u32) -> String {
        if self.rng.one_in(2) {
            super::literal::index(self.rng, ty)
        } else {
            self.expr(ty, depth)
        }
    }
}
