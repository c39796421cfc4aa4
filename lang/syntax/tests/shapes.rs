//! Trees of expressions and statements, written with all parentheses. The expected shapes follow
//! C's table of precedence (ISO C, 6.5), which the language shares.

use hawser_syntax::ast::{BinOp, Expr, ExprKind, ItemKind, StmtKind, TypeArg, UnOp};
use hawser_syntax::{Diagnostic, parse};

/// Returns the single expression in `x = …;`, and the diagnostics.
fn parsed(text: &str) -> (String, Vec<Diagnostic>) {
    let (file, diagnostics) = parse(&format!("void f(e ev) {{ x = {text}; }}"), 0);
    let Some(ItemKind::Func { body, .. }) = file.items.into_iter().next().map(|item| item.kind) else {
        panic!("no function");
    };
    match body.stmts.into_iter().next().map(|stmt| stmt.kind) {
        Some(StmtKind::Assign { value, .. }) => (shape(&value), diagnostics),
        other => panic!("no assignment in {text}: {other:?}"),
    }
}

fn shape(expr: &Expr) -> String {
    let list = |exprs: Vec<&Expr>| exprs.into_iter().map(shape).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Duration(nanoseconds) => format!("{nanoseconds}ns"),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Name(name) => name.name.clone(),
        ExprKind::Field(of, field) => format!("{}.{}", shape(of), field.name),
        ExprKind::Path(of, member) => format!("{}::{}", of.name, member.name),
        ExprKind::Index(of, index) => format!("{}[{}]", shape(of), shape(index)),
        ExprKind::Call { callee, types, args } => {
            let types = if types.is_empty() {
                String::new()
            } else {
                format!("<{}>", types.len())
            };
            let args: Vec<String> = args
                .iter()
                .map(|arg| {
                    let label = arg
                        .label
                        .as_ref()
                        .map_or_else(String::new, |label| label.name.clone() + " ");
                    label + &shape(&arg.value)
                })
                .collect();
            format!("{}{types}({})", shape(callee), args.join(", "))
        }
        ExprKind::Struct { name, fields } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(field, value)| format!("{}: {}", field.name, shape(value)))
                .collect();
            format!("{}{{{}}}", name.name, fields.join(", "))
        }
        ExprKind::Unary(op, of) => format!("({}{})", unary(*op), shape(of)),
        ExprKind::Binary(op, left, right) => format!("({} {} {})", shape(left), binary(*op), shape(right)),
        ExprKind::Conditional(condition, then, otherwise) => {
            format!(
                "({} ? {} : {})",
                shape(condition),
                shape(then),
                list(vec![otherwise])
            )
        }
        ExprKind::In(of, set) => format!("({} in {{{}}})", shape(of), list(set.iter().collect())),
        ExprKind::Fields(sources) => format!("{{{}}}", list(sources.iter().collect())),
        ExprKind::Error => "error".to_owned(),
    }
}

fn unary(op: UnOp) -> &'static str {
    match op {
        UnOp::Not => "!",
        UnOp::Neg => "-",
        UnOp::BitNot => "~",
        UnOp::Select => "select ",
    }
}

fn binary(op: BinOp) -> &'static str {
    match op {
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::Rem => "%",
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::Lt => "<",
        BinOp::Le => "<=",
        BinOp::Gt => ">",
        BinOp::Ge => ">=",
        BinOp::Eq => "==",
        BinOp::Ne => "!=",
        BinOp::BitAnd => "&",
        BinOp::BitXor => "^",
        BinOp::BitOr => "|",
        BinOp::And => "&&",
        BinOp::Or => "||",
    }
}

#[test]
fn operators_bind_as_in_c() {
    for (text, expected) in [
        ("a + b * c - d / e % f", "((a + (b * c)) - ((d / e) % f))"),
        ("a - b - c", "((a - b) - c)"),
        ("a << 1 + b >> 2", "((a << (1 + b)) >> 2)"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a <= b != c >= d", "((a <= b) != (c >= d))"),
        ("a + 1 in {b, c | d} == e", "(((a + 1) in {b, (c | d)}) == e)"),
        ("{a, b.c}", "{a, b.c}"),
        ("a & b == c", "(a & (b == c))"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a || b && c | d", "(a || (b && (c | d)))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a || b ? c + d : e", "((a || b) ? (c + d) : e)"),
        ("!a && -b < ~c", "((!a) && ((-b) < (~c)))"),
        ("- - a.b(c).d[e]", "(-(-a.b(c).d[e]))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a > b >> c >= d", "((a > (b >> c)) >= d)"),
        ("a - -b", "(a - (-b))"),
    ] {
        assert_eq!(parsed(text), (expected.to_owned(), vec![]), "{text}");
    }
}

#[test]
fn syntax_specific_to_mtp_parses() {
    for (text, expected) in [
        ("a->b.c->d", "a.b.c.d"),
        ("TCPBP::seq", "TCPBP::seq"),
        ("seq<32>(a) + seq < b", "((seq<1>(a) + seq) < b)"),
        ("seq<W>(a)", "seq<1>(a)"),
        ("new_ctx{a: 1 + 2, b: c{d: 3}}", "new_ctx{a: (1 + 2), b: c{d: 3}}"),
        (
            "pkt_gen(ip, bp, r0(0), queue nic.q0, rank (a + b))",
            "pkt_gen(ip, bp, r0(0), queue nic.q0, rank (a + b))",
        ),
        (
            "pkt_gen(ip, bp, queue nic.q1, cost cost + 1)",
            "pkt_gen(ip, bp, queue nic.q1, cost (cost + 1))",
        ),
        (
            "f(queue, rank, queue.len, rank(1), cost, cost(2))",
            "f(queue, rank, queue.len, rank(1), cost, cost(2))",
        ),
        ("h.opts[mss].valid()", "h.opts[mss].valid()"),
        (
            "2min + 1s + 200ms + 10us + 5ns",
            "((((120000000000ns + 1000000000ns) + 200000000ns) + 10000ns) + 5ns)",
        ),
        ("0xff + 1_000 + 0xFF_FF", "((255 + 1000) + 65535)"),
        ("ev.event + ev.context", "(ev.event + ev.context)"),
        ("18446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(parsed(text), (expected.to_owned(), vec![]), "{text}");
    }
}

/// A mistake whose meaning is clear yields the intended tree, so that parsing continues.
#[test]
fn common_slips_parse_as_intended() {
    for (text, expected, code) in [
        ("f(a = b)", "f((a == b))", "E0107"),
        ("(a) (b)", "(a || b)", "E0108"),
        ("a and b", "(a && b)", "E0111"),
    ] {
        let (found, diagnostics) = parsed(text);
        assert_eq!(found, expected);
        assert_eq!(
            diagnostics
                .iter()
                .map(|diagnostic| diagnostic.code)
                .collect::<Vec<_>>(),
            [code]
        );
    }
}

#[test]
fn types_keep_their_arguments() {
    let (file, diagnostics) = parse(
        "struct s { sorted_list<list<seq<32>, 4>, 2 * N, by (a, b), key k> l; }",
        0,
    );
    assert_eq!(diagnostics, []);
    let ItemKind::Struct { fields, .. } = &file.items[0].kind else {
        panic!("no struct")
    };
    let [
        TypeArg::Type(list),
        TypeArg::Value(length),
        TypeArg::By(by),
        TypeArg::Key(key),
    ] = fields[0].ty.args.as_slice()
    else {
        panic!("{:?}", fields[0].ty.args)
    };
    assert_eq!((list.name.name.as_str(), list.args.len()), ("list", 2));
    assert_eq!(shape(length), "(2 * N)");
    assert_eq!(
        by.iter().map(|name| name.name.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(key.name, "k");
}

#[test]
fn an_else_belongs_to_the_nearest_if() {
    let (file, diagnostics) = parse("void f(e ev) { if (a) if (b) x = 1; else x = 2; }", 0);
    assert_eq!(diagnostics, []);
    let ItemKind::Func { body, .. } = &file.items[0].kind else {
        panic!("no function")
    };
    let StmtKind::If { then, otherwise, .. } = &body.stmts[0].kind else {
        panic!("no if")
    };
    assert!(otherwise.is_none());
    assert!(matches!(
        &then.stmts[0].kind,
        StmtKind::If { otherwise: Some(_), .. }
    ));
}

#[test]
fn spans_cover_their_text() {
    let text = "const uint32 A = (1 + 2) * 3;";
    let (file, _) = parse(text, 7);
    let ItemKind::Const { value, .. } = &file.items[0].kind else {
        panic!("no constant")
    };
    assert_eq!(value.span.file, 7);
    assert_eq!(
        &text[value.span.start as usize..value.span.end as usize],
        "(1 + 2) * 3"
    );
    assert_eq!(file.items[0].span.end as usize, text.len());
}

#[test]
fn citations_are_kept() {
    let (file, _) = parse(
        "//= RFC9293 3.10.7.4\nconst uint32 A = 1; //=  RFC6298 2.1 \n// no citation\n",
        0,
    );
    let texts: Vec<&str> = file.citations.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, ["RFC9293 3.10.7.4", "RFC6298 2.1"]);
}
