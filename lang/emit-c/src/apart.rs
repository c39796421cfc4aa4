//! Functions that eBPF programs call instead of inlining them.
//!
//! The kernel's verifier checks a function that is inlined into its callers once for each of them, and nested
//! ones even more often. It checks a function with external linkage only once. Such a function takes and
//! returns numbers, and pointers are passed to it as numbers. The run, and all arguments beyond five, are
//! found in a place that all functions know.
//!
//! Invariant: a large function that would be inlined into several callers is called instead.

use hawser_ir::visit;
use hawser_ir::{FuncId, Module, StmtKind};

use crate::emitter::Emitter;
use crate::inlining::calls;
use crate::writer::Writer;

/// The maximum number of places and expressions of a function that is always inlined.
const SMALL: usize = 100;
/// The maximum nesting depth of such functions. The kernel allows eight frames: the program takes one, and
/// two are for functions that the runtime and the functions over one type call.
const MAX_DEPTH: usize = 5;
/// The maximum number of arguments of a function in eBPF, and of those that are stored in the run:
/// `hw_run.more`.
const MAX_ARGS: usize = 5;
const MORE_ARGS: usize = 8;

/// Returns, by function, whether it is called.
pub(crate) fn apart(module: &Module) -> Vec<bool> {
    let count = module.funcs.len();
    let (mut sizes, mut order) = (vec![None; count], Vec::with_capacity(count));
    (0..count).for_each(|i| measure(module, FuncId(i as u32), &mut sizes, &mut order));
    // The number of copies of each function if it were inlined.
    let mut copies = vec![0_usize; count];
    let mut apart = vec![false; count];
    // The maximum number of called functions on the path to each function.
    let mut depths = vec![0; count];
    // Callers first.
    for id in order.into_iter().rev() {
        let index = id.0 as usize;
        let is_large = sizes[index].is_some_and(|size| size > SMALL);
        apart[index] = is_large
            && copies[index] > 1
            && depths[index] < MAX_DEPTH
            && arguments(module, id) <= MAX_ARGS + MORE_ARGS;
        let own = if apart[index] { 1 } else { copies[index].max(1) };
        let body = &module.funcs[index].body;
        // A callee in a loop counts twice, because the verifier may check several rounds.
        let mut callees = calls(module, id).1;
        hawser_ir::statements(body, &mut |stmt| {
            if let StmtKind::For { body, .. } = &stmt.kind {
                callees.extend(visit::callees(body));
            }
        });
        for callee in callees {
            let depth = depths[index] + usize::from(apart[index]);
            let (copies, deepest) = (&mut copies[callee.0 as usize], &mut depths[callee.0 as usize]);
            *copies = copies.saturating_add(own);
            *deepest = depth.max(*deepest);
        }
    }
    apart
}

fn arguments(module: &Module, id: FuncId) -> usize {
    module.funcs[id.0 as usize].params.len()
}

/// Measures a function together with all its callees, and appends it to `order` behind them.
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

/// The signature of a called function.
pub(crate) struct Signature<'a> {
    /// The result type. A function that may end the run returns whether it did.
    pub(crate) result: &'a str,
    pub(crate) name: &'a str,
    /// The parameters behind the run, if it takes the run.
    pub(crate) params: &'a [String],
    pub(crate) takes_run: bool,
}

/// A parameter of a C function.
struct Param<'a> {
    ty: &'a str,
    name: &'a str,
    is_pointer: bool,
}

impl Param<'_> {
    /// True for the parameter through which a function that may end the run passes its result back.
    fn is_result(&self) -> bool {
        self.name == "result"
    }
}

fn param(text: &str) -> Param<'_> {
    let (ty, name) = text.rsplit_once(' ').unwrap_or(("uint64_t", text));
    Param {
        ty,
        name: name.trim_start_matches('*'),
        is_pointer: name.starts_with('*'),
    }
}

/// Joins a list for C whose first part may be absent.
fn list(first: Option<&str>, rest: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = first.map(str::to_owned).into_iter().chain(rest).collect();
    all.join(", ")
}

impl Signature<'_> {
    fn params(&self) -> impl Iterator<Item = Param<'_>> {
        self.params.iter().map(|text| param(text))
    }

    fn result_type(&self) -> Option<&str> {
        self.params().find(Param::is_result).map(|param| param.ty)
    }

    /// Returns the function's own head, with a suffix to its name.
    pub(crate) fn head(&self, suffix: &str) -> String {
        let run = self.takes_run.then_some("hw_run *run");
        let params = list(run, self.params.iter().cloned());
        format!("{} {}{suffix}({params})", self.result, self.name)
    }

    /// Returns the head of the variant that takes numbers.
    fn number_head(&self) -> String {
        let params = self.params().filter(|param| !param.is_result()).take(MAX_ARGS);
        let params = list(None, params.map(|param| format!("uint64_t {}", param.name)));
        let params = if params.is_empty() { "void" } else { &params };
        format!("uint64_t {}_apart({params})", self.name)
    }

    /// Declares the variant that takes numbers, and prints the function as a call of it.
    pub(crate) fn call(&self) -> String {
        let args = self.params().filter(|param| !param.is_result());
        let mut args = args.map(|param| match param.is_pointer {
            true => format!("HW_NUMBER({})", param.name),
            false => format!("(uint64_t){}", param.name),
        });
        let call = format!(
            "{}_apart({})",
            self.name,
            list(None, args.by_ref().take(MAX_ARGS))
        );
        let mut out = Writer::default();
        out.line(&format!("{};", self.number_head()));
        out.open(&format!("HW_INLINE {}", self.head("")));
        for (i, arg) in args.enumerate() {
            out.line(&format!("HW_RUN->more[{i}] = {arg};"));
        }
        match (self.result_type(), self.result) {
            (Some(ty), _) => {
                out.line(&format!("bool is_over = {call};"));
                out.line(&format!("*result = ({ty})run->result;"));
                out.line("return is_over;");
            }
            (None, "void") => out.line(&format!("{call};")),
            (None, pointer) if pointer.ends_with('*') => out.line(&format!("return hw_arena_at({call});")),
            (None, number) => out.line(&format!("return ({number}){call};")),
        }
        out.close("");
        out.finish()
    }

    /// Prints the variant that takes numbers, as a call of the function itself, `NAME_body`.
    pub(crate) fn called(&self) -> String {
        let args = self.params().enumerate().map(|(i, param)| {
            let number = match i.checked_sub(MAX_ARGS) {
                Some(more) => format!("HW_RUN->more[{more}]"),
                None => param.name.to_owned(),
            };
            match param {
                _ if param.is_result() => "&given".to_owned(),
                Param { is_pointer: true, .. } => format!("hw_arena_at({number})"),
                Param { ty, .. } => format!("({ty}){number}"),
            }
        });
        let run = self.takes_run.then_some("HW_RUN");
        let call = format!("{}_body({})", self.name, list(run, args));
        let mut out = Writer::default();
        out.open(&format!("HW_APART {}", self.number_head()));
        match (self.result_type(), self.result) {
            (Some(ty), _) => {
                out.line(&format!("{ty} given;"));
                out.line(&format!("bool is_over = {call};"));
                out.line("HW_RUN->result = (uint64_t)given;");
                out.line("return is_over;");
            }
            (None, "void") => {
                out.line(&format!("{call};"));
                out.line("return 0;");
            }
            (None, pointer) if pointer.ends_with('*') => out.line(&format!("return HW_NUMBER({call});")),
            (None, _) => out.line(&format!("return (uint64_t){call};")),
        }
        out.close("");
        out.line("");
        out.finish()
    }
}

impl Emitter<'_> {
    /// Prints a function over one type, given its body from the opening brace on.
    pub(crate) fn helper(&mut self, signature: &Signature<'_>, body: &str) {
        self.helpers += &if self.is_ebpf() {
            let (called, call) = (signature.called(), signature.call());
            format!("HW_INLINE {} {body}\n{called}{call}\n", signature.head("_body"))
        } else {
            format!("static inline {} {body}\n", signature.head(""))
        };
    }
}
