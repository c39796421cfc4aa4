//! The functions of a program that are inlined into their callers.
//!
//! A chain becomes one piece of C that contains its processors and the small functions that they call. A
//! value that one processor leaves in the scratchpad for the next can therefore stay in a register, and
//! repeated tests are made once. Larger functions are called, so that rare paths do not stand between the
//! usual ones.
//!
//! Invariant: a function is counted with all functions that are inlined into it, so that the code grows by a
//! bounded factor.

use std::collections::BTreeSet;

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Arg, Expr, FuncId, Module, Place};

/// The maximum number of places and expressions of a function that is always inlined.
const SMALL: usize = 64;

/// Returns, by function, whether it is inlined into its callers.
pub(crate) fn inlined(module: &Module) -> Vec<bool> {
    let processors: BTreeSet<u32> = module
        .chains
        .iter()
        .flat_map(|chain| &chain.processors)
        .map(|processor| processor.func.0)
        .collect();
    let mut sizes = vec![None; module.funcs.len()];
    (0..module.funcs.len()).for_each(|i| measure(module, FuncId(i as u32), &mut sizes));
    let is_small = |size: &Option<usize>| size.is_some_and(|size| size <= SMALL);
    let is_processor = |i: usize| processors.contains(&(i as u32));
    sizes
        .iter()
        .enumerate()
        .map(|(i, size)| is_small(size) || is_processor(i))
        .collect()
}

/// Measures a function together with its small callees. Calls form no cycle.
fn measure(module: &Module, id: FuncId, sizes: &mut Vec<Option<usize>>) {
    let index = id.0 as usize;
    if sizes[index].is_some() {
        return;
    }
    let (mut size, callees) = calls(module, id);
    for callee in callees {
        measure(module, callee, sizes);
        size += sizes[callee.0 as usize]
            .filter(|size| *size <= SMALL)
            .unwrap_or(1);
    }
    sizes[index] = Some(size);
}

/// Returns the number of a function's own places and expressions, and its callees, one entry for each call.
pub(crate) fn calls(module: &Module, id: FuncId) -> (usize, Vec<FuncId>) {
    let mut nodes = Nodes::default();
    visit::visit_block(&mut nodes, &module.funcs[id.0 as usize].body);
    (nodes.own, nodes.calls)
}

#[derive(Default)]
struct Nodes {
    own: usize,
    calls: Vec<FuncId>,
}

impl Visitor<'_> for Nodes {
    fn place(&mut self, _: &Place, _: PlaceAccess) {
        self.own += 1;
    }

    fn call(&mut self, func: FuncId, args: &[Arg]) {
        self.own += args.iter().filter(|arg| matches!(arg, Arg::Value(_))).count();
        self.calls.push(func);
    }

    fn expr(&mut self, _: &Expr) {
        self.own += 1;
    }
}
