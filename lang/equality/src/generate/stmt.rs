//! Statements.

use super::body::Body;
use super::scope::Var;
use super::types::Type;

/// The maximum depth of an expression in a statement.
const DEPTH: u32 = 3;

impl Body<'_> {
    /// Generates some statements.
    pub(super) fn statements(&mut self, count: usize, depth: u32) {
        for _ in 0..count {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: u32) {
        match self.rng.below(40) {
            0..=4 => self.declare(),
            5..=12 => self.assign(),
            13..=16 => self.update(),
            17..=19 => self.copy(),
            20..=24 => self.container(),
            25..=28 if depth > 0 => self.branch(depth),
            29..=31 if depth > 0 && self.loops < 2 => self.count(depth),
            32 if depth > 0 => self.block("", |body| body.statements(2, depth - 1)),
            33 | 34 => self.call_statement(),
            35..=38 if self.rules.emits && self.loops < 2 => self.instruction(),
            39 if depth < 2 => self.leave(),
            _ => self.assign(),
        }
    }

    /// Declares a variable of any type that variables can have.
    fn declare(&mut self) {
        let name = self.fresh_name("v");
        match self.rng.below(8) {
            0 => {
                let tuple = self.tuple();
                self.line(format!("flow_id {name}({tuple});"));
                self.know(Var::new(name, Type::Id, true));
            }
            1 => {
                let address = self.fixed(&Type::Ip, 1).unwrap_or("NONE".to_owned());
                self.line(format!("ip_addr_t {name} = {address};"));
                self.know(Var::new(name, Type::Ip, true));
            }
            2 | 3 => {
                let Some(aggregate) = self.local_type() else {
                    return;
                };
                let written = self.plan.written(&aggregate);
                let value = self.aggregate(&aggregate).filter(|_| self.rng.one_in(2));
                match value {
                    Some(value) => self.line(format!("{written} {name} = {value};")),
                    None => self.line(format!("{written} {name};")),
                }
                self.know(Var::new(name, aggregate, true));
            }
            _ => {
                let ty = if self.rng.one_in(12) {
                    Type::Addr
                } else {
                    Type::scalar(self.rng)
                };
                let written = self.plan.written(&ty);
                let value = self.expr(&ty, DEPTH);
                self.line(format!("{written} {name} = {value};"));
                self.know(Var::new(name, ty, true));
            }
        }
    }

    /// Returns a type of which the program has records or containers.
    fn local_type(&mut self) -> Option<Type> {
        let plan = self.plan;
        (!plan.locals.is_empty()).then(|| self.rng.pick(&plan.locals).clone())
    }

    /// Generates a value of an aggregate as a whole.
    pub(super) fn aggregate(&mut self, ty: &Type) -> Option<String> {
        match ty {
            Type::Ip if self.rng.one_in(3) => self.fixed(ty, 1),
            Type::Ip | Type::Id | Type::Bytes(_) if self.rng.one_in(5) => Some("NONE".to_owned()),
            Type::Id if self.rng.one_in(3) => Some(format!("id_t({})", self.tuple())),
            Type::Record(record) if self.rng.one_in(3) => Some(self.record_literal(*record)),
            _ if self.rng.one_in(3) => self.call(&|result| result.as_ref() == Some(ty), 1),
            _ => self.find_deep(false, 2, &|found| found == ty).map(|v| v.path),
        }
    }

    /// Generates `name{f: v, …}` with some of its scalar fields.
    pub(super) fn record_literal(&mut self, record: usize) -> String {
        let (name, fields) = {
            let record = &self.plan.records[record];
            (record.name.clone(), record.fields.clone())
        };
        let mut values = Vec::new();
        for field in &fields {
            if field.ty.is_scalar() && !self.rng.one_in(4) {
                values.push(format!("{}: {}", field.name, self.expr(&field.ty, 2)));
            } else if matches!(field.ty, Type::Ip | Type::Id | Type::Bytes(_))
                && let Some(value) = self.find(false, &|ty| *ty == field.ty)
            {
                values.push(format!("{}: {}", field.name, value.path));
            }
        }
        format!("{name}{{{}}}", values.join(", "))
    }

    fn assign(&mut self) {
        let depth = DEPTH;
        let Some(place) = self.find_deep(true, 2, &Type::is_scalar) else {
            return;
        };
        if place.ty == Type::Addr && self.rng.one_in(4) {
            return self.line(format!("{} = NONE;", place.path));
        }
        // An assignment may truncate.
        let ty = match &place.ty {
            Type::Uint(bits) if self.rng.one_in(6) => Type::Uint(64.min(bits + 5)),
            Type::Int(bits) if self.rng.one_in(6) => Type::Int(64.min(bits + 9)),
            Type::Seq(bits) if self.rng.one_in(4) => Type::Uint(64.min(bits + 1)),
            other => other.clone(),
        };
        let value = self.expr(&ty, depth);
        self.line(format!("{} = {value};", place.path));
    }

    /// Generates `place op= value`.
    fn update(&mut self) {
        let Some(place) = self.find_deep(true, 2, &|ty| ty.is_scalar() && *ty != Type::Varint) else {
            return;
        };
        let (ops, right): (&[&str], Type) = match &place.ty {
            Type::Bool => (&["&=", "|=", "^="], Type::Bool),
            Type::Uint(_) | Type::Int(_) if self.rng.one_in(4) => (&["<<=", ">>="], Type::Uint(8)),
            Type::Uint(_) | Type::Int(_) => (
                &["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="],
                place.ty.clone(),
            ),
            Type::Seq(bits) => (&["+=", "-="], Type::Uint(*bits)),
            Type::Duration if self.rng.one_in(2) => (&["*=", "/="], Type::Uint(64)),
            Type::Duration => (&["+=", "-=", "%="], Type::Duration),
            Type::Time => (&["+=", "-="], Type::Duration),
            Type::Addr => (&["+="], Type::Uint(32)),
            Type::Varint
            | Type::Enum
            | Type::Ip
            | Type::Id
            | Type::Bytes(_)
            | Type::Data
            | Type::Record(_)
            | Type::Array(..)
            | Type::List(..)
            | Type::Sorted(..)
            | Type::Window(..)
            | Type::Options(..) => return,
        };
        let op = *self.rng.pick(ops);
        let value = self.expr(&right, 2);
        self.line(format!("{} {op} {value};", place.path));
    }

    /// Copies an aggregate, or makes a new one in its place.
    fn copy(&mut self) {
        let plan = self.plan;
        let whole = |ty: &Type| match ty {
            Type::Record(record) => plan.is_copied(*record),
            _ => !ty.is_scalar(),
        };
        let Some(place) = self.find_deep(true, 1, &whole) else {
            return;
        };
        if place.ty == Type::Data {
            // A GLOBAL context has no id of its own.
            let uid = self.find(false, &|ty| *ty == Type::Id);
            let Some(uid) = uid.filter(|uid| uid.path != "g.self") else {
                return;
            };
            let (off, len) = (self.expr(&Type::Uint(64), 1), self.expr(&Type::Uint(32), 1));
            let size = self.rng.below(2000);
            let data = if self.rng.one_in(3) {
                format!("data({}, {off}, {len})", uid.path)
            } else {
                format!("data({}, {off}, {len}, {size})", uid.path)
            };
            return self.line(format!("{} = {data};", place.path));
        }
        if matches!(place.ty, Type::Record(_))
            && self.rng.one_in(3)
            && let Some(from) = self.find_deep(false, 1, &|ty| *ty == place.ty)
        {
            return self.line(format!("{} = {{{}}};", place.path, from.path));
        }
        if let Some(value) = self.aggregate(&place.ty) {
            self.line(format!("{} = {value};", place.path));
        }
    }

    /// Generates an operation on a container; its result is stored, tested or ignored.
    fn container(&mut self) {
        let is_container = |ty: &Type| {
            matches!(
                ty,
                Type::List(..) | Type::Sorted(..) | Type::Window(..) | Type::Options(..)
            )
        };
        let Some(place) = self.find(true, &is_container) else {
            return self.assign();
        };
        let Some(operation) = self.operation(&place) else {
            return;
        };
        let gives_element = operation.contains(".pop");
        match self.rng.below(5) {
            0 => {
                let name = self.fresh_name("v");
                self.line(format!("bool {name} = {operation};"));
                self.know(Var::new(name, Type::Bool, true));
            }
            1 => {
                let not = if self.rng.one_in(2) { "!" } else { "" };
                self.block(&format!("if ({not}{operation})"), |body| body.statements(1, 0));
            }
            2 if gives_element => {
                let element = match &place.ty {
                    Type::List(elem, _) => (**elem).clone(),
                    Type::Sorted(row, ..) => Type::Record(*row),
                    _ => return,
                };
                let name = self.fresh_name("v");
                let written = self.plan.written(&element);
                self.line(format!("{written} {name} = {operation};"));
                self.know(Var::new(name, element, true));
            }
            3 => match self.find(true, &|ty| *ty == Type::Bool) {
                Some(ok) => self.line(format!("{} = {operation};", ok.path)),
                None => self.line(format!("{operation};")),
            },
            _ => self.line(format!("{operation};")),
        }
    }

    fn operation(&mut self, place: &Var) -> Option<String> {
        let path = &place.path;
        Some(match &place.ty {
            Type::List(elem, _) => match self.rng.below(8) {
                0 => format!("{path}.pop_front()"),
                1 if self.rng.one_in(3) => format!("{path}.clear()"),
                _ if elem.is_scalar() => format!("{path}.push_back({})", self.expr(elem, 2)),
                _ => format!("{path}.push_back({})", self.aggregate(elem)?),
            },
            Type::Sorted(row, _, _, key) => match self.rng.below(9) {
                0 => format!("{path}.pop()"),
                1 if self.rng.one_in(3) => format!("{path}.clear()"),
                2 => {
                    let key = self.plan.records[*row].fields[*key].ty.clone();
                    format!("{path}.remove({})", self.expr(&key, 1))
                }
                _ => format!("{path}.put({})", self.aggregate(&Type::Record(*row))?),
            },
            Type::Window(_, elem) => {
                let from = match self.rng.below(3) {
                    0 => format!("{path}.head"),
                    1 => format!("{path}.first_unset({})", self.expr(elem, 1)),
                    _ => self.expr(elem, 1),
                };
                let step = match &**elem {
                    Type::Seq(bits) | Type::Uint(bits) => Type::Uint(*bits),
                    _ => return None,
                };
                let near = format!("({from} + {})", super::literal::index(self.rng, &step));
                match self.rng.below(8) {
                    0 => format!("{path}.slide({near})"),
                    1 => format!("{path}.unset({from}, {})", self.expr(elem, 1)),
                    2 => format!(
                        "{path}.unset({near}, ({near} + {}))",
                        super::literal::index(self.rng, &step)
                    ),
                    3 => format!("{path}.set({from}, {})", self.expr(elem, 1)),
                    _ => {
                        format!(
                            "{path}.set({near}, ({near} + {}))",
                            super::literal::index(self.rng, &step)
                        )
                    }
                }
            }
            Type::Options(list, _) => {
                if self.rng.one_in(9) {
                    return Some(format!("{path}.clear()"));
                }
                let member = *self.rng.pick(&self.plan.options[*list].members);
                format!("{path}.add({})", self.record_literal(member))
            }
            _ => return None,
        })
    }

    fn branch(&mut self, depth: u32) {
        if self.rng.one_in(4) {
            return self.choose(depth);
        }
        let condition = self.expr(&Type::Bool, DEPTH);
        self.block(&format!("if ({condition})"), |body| body.statements(2, depth - 1));
        if self.rng.one_in(3) {
            let condition = self.expr(&Type::Bool, 1);
            let head = if self.rng.one_in(3) {
                format!("else if ({condition})")
            } else {
                "else".to_owned()
            };
            self.block(&head, |body| body.statements(2, depth - 1));
        }
    }

    /// Generates a `match`, with every variant or with `default`.
    fn choose(&mut self, depth: u32) {
        let value = self.expr(&Type::Enum, 2);
        let arms: &[&str] = match self.rng.below(3) {
            0 => &["RED ->", "GREEN ->", "kinds::BLUE ->"],
            1 => &["BLUE, RED ->", "kinds::GREEN ->"],
            _ => &["GREEN ->", "default ->"],
        };
        self.block(&format!("match ({value})"), |body| {
            for arm in arms {
                body.block(arm, |body| body.statements(1, depth - 1));
            }
        });
    }

    fn count(&mut self, depth: u32) {
        let name = self.fresh_name("i");
        let rounds = 1 + self.rng.below(4);
        let listed = |ty: &Type| matches!(ty, Type::Array(..) | Type::List(..) | Type::Sorted(..));
        self.loops += 1;
        if let Some(list) = self.find(false, &listed).filter(|_| self.rng.one_in(2)) {
            let element = match &list.ty {
                Type::Array(elem, _) | Type::List(elem, _) => (**elem).clone(),
                Type::Sorted(row, ..) => Type::Record(*row),
                _ => Type::Bool,
            };
            let var = Var::new(name.clone(), element, list.writable);
            self.block(&format!("for ({name} in {}, {rounds})", list.path), |body| {
                body.know(var);
                body.loop_body(depth - 1);
            });
        } else if let Some(options) = self
            .find(false, &|ty| matches!(ty, Type::Options(..)))
            .filter(|_| self.rng.one_in(2))
        {
            let Type::Options(list, _) = options.ty else {
                return;
            };
            let member = *self.rng.pick(&self.plan.options[list].members);
            let member_name = self.plan.records[member].name.clone();
            let entry = Var::new(
                format!("{name}[{member_name}]"),
                Type::Record(member),
                options.writable,
            );
            self.block(&format!("for ({name} in {}, {rounds})", options.path), |body| {
                body.block(&format!("if ({name}[{member_name}].valid())"), |body| {
                    body.know(entry);
                    body.statements(1, 0);
                });
            });
        } else {
            let ty = if self.rng.one_in(4) {
                Type::circular(self.rng)
            } else {
                Type::integer(self.rng)
            };
            let (from, to) = (self.expr(&ty, 1), self.expr(&ty, 1));
            self.block(&format!("for ({name} in {from}..{to}, {rounds})"), |body| {
                body.know(Var::new(name.clone(), ty, true));
                body.loop_body(depth - 1);
            });
        }
        self.loops -= 1;
    }

    fn loop_body(&mut self, depth: u32) {
        self.statements(1, depth);
        if self.rng.one_in(3) {
            let condition = self.expr(&Type::Bool, 2);
            let how = *self.rng.pick(&["break;", "continue;"]);
            self.line(format!("if ({condition}) {how}"));
        }
        self.statements(1, depth);
    }

    fn call_statement(&mut self) {
        let suits = |result: &Option<Type>| result.as_ref().is_none_or(Type::is_scalar);
        if let Some(call) = self.call(&suits, 2) {
            self.line(format!("{call};"));
        }
    }

    /// Ends the function, the chain or the request under a condition that seldom holds.
    fn leave(&mut self) {
        let rare = self.expr(&Type::Uint(8), 1);
        let condition = format!("({rare} & uint8(3)) == uint8({})", self.rng.below(4));
        let what = match self.rng.below(6) {
            0 if self.rules.ends => "done;".to_owned(),
            1 if self.rules.ends => format!("assert({});", self.expr(&Type::Bool, 2)),
            2 if self.rules.refuses => match self.rng.below(3) {
                0 => "refuse(EADDRINUSE);".to_owned(),
                _ => format!("refuse({});", self.expr(&Type::Uint(32), 2)),
            },
            _ if self.rules.may_return => match self.rules.returns.clone() {
                None if self.rules.listed => "return out;".to_owned(),
                None => "return;".to_owned(),
                Some(ty) => match self.result(&ty) {
                    Some(value) => format!("return {value};"),
                    None => return,
                },
            },
            _ => return,
        };
        self.line(format!("if ({condition}) {what}"));
    }

    /// Generates the value of a `return`.
    pub(super) fn result(&mut self, ty: &Type) -> Option<String> {
        if ty.is_scalar() {
            Some(self.expr(ty, 2))
        } else {
            self.find(false, &|found| found == ty).map(|v| v.path)
        }
    }
}
