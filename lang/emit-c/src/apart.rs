//! Functions that eBPF programs call.
//!
//! The kernel's verifier goes through what is part of its callers once for each, and with functions inside functions
//! more often still; a function that is known outside its file it goes through once. Such a function takes and returns
//! numbers, at most five and one: pointers are handed to it as such, and the run is where all find it.
//!
//! Invariant: what is large and would be part of several callers is called, unless it takes too many arguments.

use hawser_ir::{FuncId, Module};

use crate::emitter::Emitter;
use crate::inlining::calls;
use crate::writer::Writer;

/// The maximum number of places and expressions of a function that becomes part of its callers wherever they are.
const SMALL: usize = 100;
/// The maximum number of arguments of a function in eBPF.
const MAX_ARGS: usize = 5;

/// By function: whether it is called.
pub(crate) fn apart(module: &Module) -> Vec<bool> {
    let count = module.funcs.len();
    let (mut sizes, mut order) = (vec![None; count], Vec::with_capacity(count));
    (0..count).for_each(|i| measure(module, FuncId(i as u32), &mut sizes, &mut order));
    // How often each would be there if it were part of its callers.
    let mut copies = vec![0_usize; count];
    let mut apart = vec![false; count];
    // Callers first.
    for id in order.into_iter().rev() {
        let index = id.0 as usize;
        let is_large = sizes[index].is_some_and(|size| size > SMALL);
        apart[index] = is_large && copies[index] > 1 && arguments(module, id) <= MAX_ARGS;
        let own = if apart[index] { 1 } else { copies[index].max(1) };
        for callee in calls(module, id).1 {
            let copies = &mut copies[callee.0 as usize];
            *copies = copies.saturating_add(own);
        }
    }
    apart
}

fn arguments(module: &Module, id: FuncId) -> usize {
    module.funcs[id.0 as usize].params.len()
}

/// Measures a function together with all that it calls; each comes behind those that it calls.
fn measure(module: &Module, id: FuncId, sizes: &mut Vec<Option<usize>>, order: &mut Vec<FuncId>) {
    if sizes[id.0 as usize].is_some() {
        return;
    }
    let (mut size, callees) = calls(module, id);
    for callee in callees {
        measure(module, callee, sizes, order);
        size = size.saturating_add(sizes[callee.0 as usize].unwrap_or(0));
    }
    sizes[id.0 as usize] = Some(size);
    order.push(id);
}

/// A parameter of a C function.
struct Param<'a> {
    ty: &'a str,
    name: &'a str,
    is_pointer: bool,
}

fn param(text: &str) -> Param<'_> {
    let (ty, name) = text.rsplit_once(' ').unwrap_or(("uint64_t", text));
    Param {
        ty,
        name: name.trim_start_matches('*'),
        is_pointer: name.starts_with('*'),
    }
}

/// The result of a function that may end the run, which is not among its arguments.
const RESULT: &str = "result";

impl Emitter<'_> {
    /// Declares a function that is called, and prints what stands for a call of it.
    pub(crate) fn call_apart(&mut self, result: &str, name: &str, params: &[String]) {
        let params: Vec<Param<'_>> = params.iter().map(|text| param(text)).collect();
        let mut list = String::new();
        let (mut numbers, mut args) = (Vec::new(), Vec::new());
        for Param { ty, name, is_pointer } in &params {
            list += &format!(", {ty} {}{name}", if *is_pointer { "*" } else { "" });
            if *name == RESULT {
                continue;
            }
            numbers.push(format!("uint64_t {name}"));
            args.push(match is_pointer {
                true => format!("HW_NUMBER({name})"),
                false => format!("(uint64_t){name}"),
            });
        }
        let numbers = if numbers.is_empty() {
            "void".to_owned()
        } else {
            numbers.join(", ")
        };
        let call = format!("{name}_apart({})", args.join(", "));
        let mut out = Writer::default();
        out.line(&format!("uint64_t {name}_apart({numbers});"));
        out.open(&format!("HW_INLINE {result} {name}(hw_run *run{list})"));
        match params.iter().find(|param| param.name == RESULT) {
            Some(Param { ty, .. }) => {
                out.line(&format!("bool is_over = {call};"));
                out.line(&format!("*{RESULT} = ({ty})run->result;"));
                out.line("return is_over;");
            }
            None if result == "void" => out.line(&format!("{call};")),
            None => out.line(&format!("return ({result}){call};")),
        }
        out.close("");
        self.prototypes += &out.finish();
    }

    /// Prints the function that is called, around its body.
    pub(crate) fn body_apart(&mut self, result: &str, name: &str, params: &[String]) {
        let params: Vec<Param<'_>> = params.iter().map(|text| param(text)).collect();
        let (mut numbers, mut args) = (Vec::new(), String::new());
        for Param { ty, name, is_pointer } in &params {
            if *name == RESULT {
                args += ", &given";
                continue;
            }
            numbers.push(format!("uint64_t {name}"));
            args += &match is_pointer {
                true => format!(", hw_arena_at({name})"),
                false => format!(", ({ty}){name}"),
            };
        }
        let numbers = if numbers.is_empty() {
            "void".to_owned()
        } else {
            numbers.join(", ")
        };
        let call = format!("{name}_body(HW_RUN{args})");
        let mut out = Writer::default();
        out.open(&format!("HW_APART uint64_t {name}_apart({numbers})"));
        match params.iter().find(|param| param.name == RESULT) {
            Some(Param { ty, .. }) => {
                out.line(&format!("{ty} given;"));
                out.line(&format!("bool is_over = {call};"));
                out.line("HW_RUN->result = (uint64_t)given;");
                out.line("return is_over;");
            }
            None if result == "void" => {
                out.line(&format!("{call};"));
                out.line("return 0;");
            }
            None => out.line(&format!("return (uint64_t){call};")),
        }
        out.close("");
        self.functions += &out.finish();
        self.functions.push('\n');
    }
}
