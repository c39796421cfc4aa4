//! Executes statements and evaluates expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::error::{BlockError, EvaluationError, NameError, PythonFault};
use super::value::Value;
use super::{Block, Comparison, Node, Operator, Statement, StatementKind};

/// The maximum length of a text that a block may create, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// A source of named values.
pub(crate) trait NamedValues {
    /// Returns the value of a name.
    ///
    /// # Errors
    /// The reason why the name has no value.
    fn value(&self, name: &str) -> Result<Value, NameError>;
}

/// Runs a block. `variables` keeps variables between blocks, and `printed` receives the output.
pub(crate) fn execute(
    block: &Block,
    names: &dyn NamedValues,
    variables: &mut BTreeMap<String, Value>,
    printed: &mut Vec<String>,
) -> Result<(), BlockError> {
    block
        .0
        .iter()
        .try_for_each(|statement| step(statement, names, variables, printed))
}

fn step(
    statement: &Statement,
    names: &dyn NamedValues,
    variables: &mut BTreeMap<String, Value>,
    printed: &mut Vec<String>,
) -> Result<(), BlockError> {
    let wrong = |error| BlockError { place: statement.place, why: PythonFault::NoValue(error) };
    let scope = Scope { names, variables };
    match &statement.kind {
        StatementKind::Nothing => {}
        StatementKind::Assert(test, message, source) => {
            if truth(&scope.value(test).map_err(wrong)?) {
                return Ok(());
            }
            let message = match message {
                Some(message) => scope.value(message).map_err(wrong)?.to_string(),
                None => scope.sides(test),
            };
            return Err(BlockError {
                place: statement.place,
                why: PythonFault::IsFalse { assertion: source.clone(), message },
            });
        }
        StatementKind::Assign(name, operator, node) => {
            let mut value = scope.value(node).map_err(wrong)?;
            if let Some(operator) = operator {
                let before = scope.name(name).map_err(wrong)?;
                value = binary(*operator, before, value).map_err(wrong)?;
            }
            variables.insert(name.clone(), value);
        }
        StatementKind::Evaluate(Node::Call(name, arguments)) if name == "print" => {
            let texts: Result<Vec<String>, EvaluationError> = arguments
                .iter()
                .map(|node| scope.value(node).map(|value| value.to_string()))
                .collect();
            printed.push(texts.map_err(wrong)?.join(" "));
        }
        StatementKind::Evaluate(node) => {
            scope.value(node).map_err(wrong)?;
        }
    }
    Ok(())
}

/// Evaluates an expression.
pub(crate) fn evaluate(node: &Node, names: &dyn NamedValues) -> Result<Value, EvaluationError> {
    Scope { names, variables: &BTreeMap::new() }.value(node)
}

struct Scope<'a> {
    names: &'a dyn NamedValues,
    variables: &'a BTreeMap<String, Value>,
}

impl Scope<'_> {
    fn name(&self, name: &str) -> Result<Value, EvaluationError> {
        self.variables
            .get(name)
            .cloned()
            .map_or_else(|| Ok(self.names.value(name)?), Ok)
    }

    fn value(&self, node: &Node) -> Result<Value, EvaluationError> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Name(name) => self.name(name),
            Node::List(items) => items
                .iter()
                .map(|item| self.value(item))
                .collect::<Result<_, _>>()
                .map(Value::List),
            Node::Not(inner) => Ok(Value::Bool(!truth(&self.value(inner)?))),
            Node::Negate(inner) => binary(Operator::Subtract, Value::Integer(0), self.value(inner)?),
            Node::Invert(inner) => Ok(Value::Integer(!integer(&self.value(inner)?)?)),
            Node::And(left, right) => match self.value(left)? {
                left if truth(&left) => self.value(right),
                left => Ok(left),
            },
            Node::Or(left, right) => match self.value(left)? {
                left if truth(&left) => Ok(left),
                _ => self.value(right),
            },
            Node::Compare(first, rest) => self.comparisons(first, rest),
            Node::Binary(operator, left, right) => binary(*operator, self.value(left)?, self.value(right)?),
            Node::Choose(test, then, otherwise) => self.value(if truth(&self.value(test)?) {
                then
            } else {
                otherwise
            }),
            Node::Index(list, at) => index(&self.value(list)?, &self.value(at)?),
            Node::Call(name, arguments) => {
                let arguments: Result<Vec<Value>, EvaluationError> =
                    arguments.iter().map(|a| self.value(a)).collect();
                call(name, arguments?)
            }
        }
    }

    fn comparisons(&self, first: &Node, rest: &[(Comparison, Node)]) -> Result<Value, EvaluationError> {
        let mut left = self.value(first)?;
        for (comparison, node) in rest {
            let right = self.value(node)?;
            if !compare(*comparison, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    /// Shows both sides of a false comparison, for an assertion without a message.
    fn sides(&self, node: &Node) -> String {
        let show = |node: &Node| {
            self.value(node)
                .map_or_else(|why| why.to_string(), |value| value.to_string())
        };
        match node {
            Node::Compare(first, rest) => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, n)| n))
                .map(show)
                .collect::<Vec<_>>()
                .join(", "),
            node => show(node),
        }
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::None => false,
        Value::Bool(value) => *value,
        Value::Integer(value) => *value != 0,
        Value::Float(value) => *value != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::List(items) => !items.is_empty(),
    }
}

fn integer(value: &Value) -> Result<i128, EvaluationError> {
    match value {
        Value::Integer(value) => Ok(*value),
        Value::Bool(value) => Ok(i128::from(*value)),
        Value::None | Value::Float(_) | Value::Text(_) | Value::List(_) => {
            Err(EvaluationError::NoInteger(value.clone()))
        }
    }
}

fn float(value: &Value) -> Result<f64, EvaluationError> {
    match value {
        Value::Float(value) => Ok(*value),
        value => integer(value)
            .map(|value| value as f64)
            .map_err(|_| EvaluationError::NoNumber(value.clone())),
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, EvaluationError> {
    let order = || -> Result<Option<Ordering>, EvaluationError> {
        Ok(match (left, right) {
            (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
            (Value::Float(_), _) | (_, Value::Float(_)) => float(left)?.partial_cmp(&float(right)?),
            _ => Some(integer(left)?.cmp(&integer(right)?)),
        })
    };
    let equal = || order().map_or(left == right, |order| order == Some(Ordering::Equal));
    let within = || match (left, right) {
        (_, Value::List(items)) => Ok(items.contains(left)),
        (Value::Text(part), Value::Text(text)) => Ok(text.contains(part.as_str())),
        _ => Err(EvaluationError::HoldsNothing(right.clone())),
    };
    Ok(match comparison {
        Comparison::Equal => equal(),
        Comparison::Differs => !equal(),
        Comparison::Less => order()? == Some(Ordering::Less),
        Comparison::AtMost => matches!(order()?, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order()? == Some(Ordering::Greater),
        Comparison::AtLeast => matches!(order()?, Some(Ordering::Greater | Ordering::Equal)),
        Comparison::In => within()?,
        Comparison::NotIn => !within()?,
    })
}

fn binary(operator: Operator, left: Value, right: Value) -> Result<Value, EvaluationError> {
    match (operator, &left, &right) {
        (Operator::Modulo, Value::Text(form), _) => return format_text(form, right).map(Value::Text),
        (Operator::Add, Value::Text(a), Value::Text(b)) if a.len() + b.len() <= MAX_TEXT_BYTES => {
            return Ok(Value::Text(format!("{a}{b}")));
        }
        (Operator::Divide, _, _) => {
            let by = float(&right)?;
            return if by == 0.0 {
                Err(EvaluationError::DivisionByZero)
            } else {
                Ok(Value::Float(float(&left)? / by))
            };
        }
        (_, Value::Float(_), _) | (_, _, Value::Float(_)) => return float_binary(operator, &left, &right),
        _ => {}
    }
    let (a, b) = (integer(&left)?, integer(&right)?);
    let small = |value: i128| u32::try_from(value).ok();
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::FloorDivide | Operator::Modulo if b == 0 => return Err(EvaluationError::DivisionByZero),
        Operator::FloorDivide => a
            .checked_div(b)
            .map(|q| q - i128::from(a % b != 0 && (a < 0) != (b < 0))),
        Operator::Modulo => a
            .checked_rem(b)
            .map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        Operator::Power => small(b).and_then(|b| a.checked_pow(b)),
        Operator::And => Some(a & b),
        Operator::Or => Some(a | b),
        Operator::Xor => Some(a ^ b),
        Operator::ShiftLeft => small(b)
            .filter(|b| *b < 120)
            .and_then(|b| 2_i128.checked_pow(b))
            .and_then(|by| a.checked_mul(by)),
        Operator::ShiftRight => small(b).map(|b| a >> b.min(127)),
        Operator::Divide => None,
    };
    result.map(Value::Integer).ok_or(EvaluationError::Overflow(a, b))
}

fn float_binary(operator: Operator, left: &Value, right: &Value) -> Result<Value, EvaluationError> {
    let (a, b) = (float(left)?, float(right)?);
    Ok(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::FloorDivide | Operator::Modulo if b == 0.0 => return Err(EvaluationError::DivisionByZero),
        Operator::FloorDivide => (a / b).floor(),
        Operator::Modulo => a - b * (a / b).floor(),
        Operator::Power => a.powf(b),
        Operator::Divide
        | Operator::And
        | Operator::Or
        | Operator::Xor
        | Operator::ShiftLeft
        | Operator::ShiftRight => return Err(EvaluationError::NoIntegers(left.clone(), right.clone())),
    }))
}

/// Formats `'cwnd=%d' % 10`. Each `%` form takes the next value; flags and widths are accepted and ignored.
fn format_text(form: &str, values: Value) -> Result<String, EvaluationError> {
    let mut values = match values {
        Value::List(items) => items,
        value => vec![value],
    }
    .into_iter();
    let mut text = String::new();
    let mut rest = form.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        while rest
            .next_if(|c| matches!(c, '0'..='9' | '.' | '-' | '+' | ' ' | 'l'))
            .is_some()
        {}
        match rest.next() {
            Some('%') => text.push('%'),
            Some(kind @ ('d' | 'i' | 'u' | 's' | 'r' | 'x' | 'f' | 'g')) => {
                let value = values.next().ok_or(EvaluationError::TooFewValues)?;
                match kind {
                    'x' => text.push_str(&format!("{:x}", integer(&value)?)),
                    _ => text.push_str(&value.to_string()),
                }
            }
            _ => return Err(EvaluationError::UnknownForm(form.to_owned())),
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(EvaluationError::TooLong);
        }
    }
    Ok(text)
}

fn index(list: &Value, at: &Value) -> Result<Value, EvaluationError> {
    let Value::List(items) = list else {
        return Err(EvaluationError::NoList(list.clone()));
    };
    let at = integer(at)?;
    let at = if at < 0 { at + items.len() as i128 } else { at };
    let item = usize::try_from(at).ok().and_then(|at| items.get(at));
    item.cloned()
        .ok_or(EvaluationError::NoItem { at, len: items.len() })
}

fn call(name: &str, arguments: Vec<Value>) -> Result<Value, EvaluationError> {
    let best = |wanted: Comparison| -> Result<Value, EvaluationError> {
        let items = match arguments.as_slice() {
            [Value::List(items)] => items.clone(),
            items => items.to_vec(),
        };
        let mut items = items.into_iter();
        let mut best = items
            .next()
            .ok_or_else(|| EvaluationError::OfNothing(name.to_owned()))?;
        for item in items {
            if compare(wanted, &item, &best)? {
                best = item;
            }
        }
        Ok(best)
    };
    match (name, arguments.as_slice()) {
        ("min", _) => best(Comparison::Less),
        ("max", _) => best(Comparison::Greater),
        ("abs", [Value::Float(value)]) => Ok(Value::Float(value.abs())),
        ("abs", [value]) => integer(value)?
            .checked_abs()
            .map(Value::Integer)
            .ok_or(EvaluationError::AbsOverflow),
        ("len", [Value::List(items)]) => Ok(Value::Integer(items.len() as i128)),
        ("len", [Value::Text(text)]) => Ok(Value::Integer(text.chars().count() as i128)),
        ("int", [Value::Float(value)]) => Ok(Value::Integer(*value as i128)),
        ("int", [value]) => integer(value).map(Value::Integer),
        ("float", [value]) => float(value).map(Value::Float),
        ("str", [value]) => Ok(Value::Text(value.to_string())),
        ("bool", [value]) => Ok(Value::Bool(truth(value))),
        _ => Err(EvaluationError::UnknownCall { name: name.to_owned(), arguments: arguments.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::python::{expression, parse};
    use crate::script::syntax::ScriptPosition;

    struct Two;
    impl NamedValues for Two {
        fn value(&self, name: &str) -> Result<Value, NameError> {
            match name {
                "two" | "cc.two" => Ok(Value::Integer(2)),
                _ => Err(NameError::Unknown(name.to_owned())),
            }
        }
    }

    #[test]
    fn expressions_evaluate_as_in_python() {
        for (text, value) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("-7 // 2", "-4"),
            ("-7 % 3", "2"),
            ("7 / 2", "3.5"),
            ("2 ** 3 ** 2", "512"),
            ("-2 ** 2", "-4"),
            ("1 << 4 | 1", "17"),
            ("6 & 3 == 3", "False"),
            ("1 < 2 < 3", "True"),
            ("1 < 2 > 3", "False"),
            ("not 1 or two", "2"),
            ("0 and nothing", "0"),
            ("'cwnd=%d of %s' % (two, 'x')", "cwnd=2 of x"),
            ("[10, 20, 30][cc.two]", "30"),
            ("max(1, two, 0) if two else 5", "2"),
            ("2 in [1, 2]", "True"),
            ("0x7fffffff", "2147483647"),
            ("1.5 == 3 / 2", "True"),
        ] {
            let node = expression(text).expect(text);
            assert_eq!(
                evaluate(&node, &Two).map(|v| v.to_string()),
                Ok(value.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn an_expression_without_a_value_gives_the_reason() {
        for (text, why) in [
            ("1 // 0", "division by zero"),
            ("2 ** 200", "128 bits"),
            ("nothing + 1", "is unknown"),
            ("[1][1]", "no item 1"),
            ("'a' + 1", "not an integer"),
            ("foo(1)", "not supported"),
        ] {
            let error = evaluate(&expression(text).expect(text), &Two).expect_err(text);
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    fn run(text: &str) -> Result<Vec<String>, BlockError> {
        let block = parse(text, ScriptPosition { line: 10, column: 5 }).expect(text);
        let (mut variables, mut printed) = (BTreeMap::new(), Vec::new());
        execute(&block, &Two, &mut variables, &mut printed)?;
        Ok(printed)
    }

    #[test]
    fn statements_are_executed() {
        let text = "\nimport sys\ncwnd = 10; cwnd += 2 # more\nprint(cwnd); assert cwnd == 12, cwnd ;\\\n  assert (1 ==\n  1)\n";
        assert_eq!(run(text), Ok(vec!["12".to_owned()]));
        let is_false = |place, assertion: &str, message: &str| BlockError {
            place,
            why: PythonFault::IsFalse { assertion: assertion.to_owned(), message: message.to_owned() },
        };
        let assertion = "assert two == 3, 'two=%d' % two";
        assert_eq!(
            run(&format!("\n{assertion}")),
            Err(is_false(
                ScriptPosition { line: 11, column: 1 },
                assertion,
                "two=2"
            ))
        );
        assert_eq!(
            run("assert two == 3"),
            Err(is_false(
                ScriptPosition { line: 10, column: 5 },
                "assert two == 3",
                "2, 3"
            ))
        );
    }

    #[test]
    fn unknown_syntax_is_an_error() {
        for (text, why) in [
            ("for x in y: pass", "not supported in the Python"),
            ("assert", "a value"),
            ("assert 1 1", "end of the statement"),
            ("x = 'a", "does not end"),
            ("a ? b", "not supported"),
        ] {
            let error = parse(text, ScriptPosition { line: 1, column: 1 }).expect_err(text);
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
        for deep in [
            "(".repeat(100_000),
            "-".repeat(100_000),
            "not ".repeat(100_000),
            "1+".repeat(100_000),
        ] {
            assert!(parse(&deep, ScriptPosition { line: 1, column: 1 }).is_err());
        }
    }
}
