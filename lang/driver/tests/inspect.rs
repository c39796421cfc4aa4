//! A chain of an example that halts before a statement, and expressions over it. The expected values are
//! worked out by hand from the example's lines.

use std::path::Path;
use std::sync::Arc;

use hawser_check::Visible;
use hawser_driver::{Compilation, compile, inspect};
use hawser_interp::{Halted, Interpreter, LastingMemory, Variable};
use hawser_ir::abi::EventHeader;
use hawser_ir::{ContextId, Module, Ty};

fn example() -> Arc<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    Arc::new(compile(&path).module.expect("the example compiles"))
}

fn interpreter(module: &Arc<Module>) -> Interpreter {
    let params = module.params.iter().map(|param| param.default).collect();
    Interpreter::new(Arc::clone(module), params).expect("it runs")
}

/// Returns a connection with some of its fields set.
fn connection(module: &Module, values: &[(&str, u64)]) -> (ContextId, Vec<u8>) {
    let id = module
        .contexts
        .iter()
        .position(|context| context.name == "sw_conn");
    let id = id.expect("the example has it");
    let body = module.structure(module.contexts[id].body);
    let mut bytes = vec![0; body.size as usize];
    for (name, value) in values {
        let field = body.fields.iter().find(|field| field.name == *name);
        let field = field.unwrap_or_else(|| panic!("it has `{name}`"));
        let size = field
            .ty
            .width()
            .map_or(8, |(bits, _)| usize::from(bits).div_ceil(8));
        let at = field.offset as usize;
        bytes[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
    }
    (ContextId(id as u32), bytes)
}

/// Returns the chain of `sw_close` before it runs, on a connection.
fn close_of(module: &Module, values: &[(&str, u64)]) -> Halted {
    let event = module.events.iter().position(|event| event.name == "sw_close");
    let event = event.expect("the example has it");
    let header = EventHeader { now: 5_000, event: event as u16, ..bytemuck::Zeroable::zeroed() };
    let mut before = Halted::default();
    before.event = bytemuck::bytes_of(&header).to_vec();
    before.keyed = Some(connection(module, values));
    before
}

/// Returns the text of the statement before which a chain is halted, or an empty text at its end.
fn stands_before(module: &Module, halted: &Halted) -> String {
    halted.calls.last().map_or_else(String::new, |call| {
        let text = &module.files[call.at.file as usize].1;
        text[call.at.start as usize..call.at.end as usize].to_owned()
    })
}

/// Returns the value of an expression over a halted chain, with the connection as `ctx`, or the diagnostics.
fn value(module: &Arc<Module>, halted: &Halted, text: &str) -> Result<u64, Box<Compilation>> {
    let (context, _) = halted.keyed.as_ref().expect("a connection");
    let body = Ty::Struct(module.contexts[context.0 as usize].body);
    let mut variables = vec![Variable::whole("ctx", body, LastingMemory::Keyed)];
    if let Some(call) = halted.calls.last() {
        variables.extend(halted.variables(module, call));
    }
    let visible = variables
        .iter()
        .map(|variable| Visible { name: variable.name.clone(), ty: variable.ty.clone() });
    let expression = inspect(module, text, &visible.collect::<Vec<_>>(), Some(0));
    let inspected = expression.inspected.ok_or(Box::new(expression.compilation))?;
    let interpreter = interpreter(&Arc::new(inspected.module));
    let bytes = halted.evaluate(&interpreter, inspected.func, &variables, &inspected.ty);
    let mut number = [0; 8];
    let bytes = bytes.expect("it has a value");
    number[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    Ok(u64::from_ne_bytes(number))
}

#[test]
fn a_chain_halts_before_each_statement_in_order() {
    let module = example();
    let interpreter = interpreter(&module);
    // No data is in flight, and only the end of the stream remains to be sent. A declaration alone has no
    // effect.
    let before = close_of(&module, &[("next_out", 3)]);
    let statements: Vec<String> = (0..30)
        .map(|number| stands_before(&module, &interpreter.halt(&before, number, 0)))
        .take_while(|text| !text.is_empty())
        .collect();
    let expected = [
        "c.closing = true;",
        "if (c.waiting) return;",
        "c.flight = uint32(min(c.end - c.una, uint64(MSS)));",
        "if (c.flight == 0 && (!c.closing || c.fin_sent)) return;",
        "c.waiting = true;",
        "c.fin_sent = c.flight == 0;",
        "c.sent_at = ev.now;",
        "c.again = false;",
        "transmit(c, c.flight == 0 ? FIN : DATA, c.next_out, c.flight);",
        "ip.src_ip = c.lip;",
        "ip.dst_ip = c.rip;",
        "h.sport = c.lport;",
        "h.dport = c.rport;",
        "h.kind = kind;",
        "h.seq = seq;",
        "if (len > 0) h.data = data(c.self, c.una, len);",
        "emit pkt_gen(ip, h);",
        "emit timer_start(c.rtx, max(c.rto, c.wait));",
    ];
    assert_eq!(statements, expected);
}

#[test]
fn memory_is_as_the_statements_before_left_it() {
    let module = example();
    let interpreter = interpreter(&module);
    let before = close_of(&module, &[("next_out", 3), ("rto", 100_000_000)]);
    let at = |number| interpreter.halt(&before, number, 0);
    let is_waiting = |number| value(&module, &at(number), "ctx.waiting").expect("a value");
    assert_eq!((is_waiting(4), is_waiting(5)), (0, 1));
    // Inside `transmit`: its parameters, its own variables, and its caller.
    let inside = at(15);
    assert_eq!(inside.calls.len(), 2);
    assert_eq!(value(&module, &inside, "h.seq + 1").expect("a value"), 4);
    assert_eq!(
        value(&module, &inside, "kind == FIN && len == 0").expect("a value"),
        1
    );
    // After the chain, the timer is armed, 100 ms after the event.
    assert_eq!(
        value(&module, &at(99), "rtx").expect("a value"),
        5_000 + 100_000_000
    );
}

#[test]
fn an_expression_sees_constants_params_and_bare_fields() {
    let module = example();
    let halted = close_of(&module, &[("una", 100), ("end", 3000)]);
    let value = |text: &str| value(&module, &halted, text).expect(text);
    assert_eq!(value("min(end - una, uint64(MSS))"), 1400);
    assert_eq!(value("RTO * 2"), 200_000_000);
    assert_eq!(value("ctx.end / (una - 100)"), 0, "the language divides by zero");
}

#[test]
fn a_wrong_expression_gets_diagnostics_with_its_place() {
    let module = example();
    let halted = close_of(&module, &[]);
    for (text, code, at, hint) in [
        ("ctx.fligt == 0", "E0204", 4, "flight"),
        ("ctx.flight ==", "E0105", 13, ""),
        ("una + RTO", "E0303", 0, "uint64(d)"),
        ("una; end", "E0101", 3, ""),
        ("NONE", "E0205", 0, ""),
        ("waiting = true", "E0101", 8, ""),
    ] {
        let wrong = value(&module, &halted, text).expect_err(text);
        let [diagnostic] = wrong.diagnostics.as_slice() else {
            panic!("{text}: {:?}", wrong.diagnostics);
        };
        let place = (diagnostic.code, diagnostic.span.start);
        assert_eq!(place, (code, at), "{text}: {diagnostic:?}");
        assert_eq!(wrong.sources.file(diagnostic.span.file).text, text);
        let given = diagnostic.hint.as_ref().map_or("", |hint| hint.text.as_str());
        assert!(given.contains(hint), "{text}: {given}");
    }
}
