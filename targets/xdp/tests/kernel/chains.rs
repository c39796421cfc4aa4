//! Chains of transport programs as eBPF: the kernel's verifier takes them, and they do what the interpreter does, byte for
//! byte, on random events and contexts.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use hawser_equality::trial::{EVENTS, Trial};
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_testing::TestResult;

use crate::side::Kernel;

/// Courses of events for each program.
const SEEDS: u64 = 20;

pub(crate) fn chains_in_the_kernel_do_what_the_interpreter_does() -> TestResult {
    for path in [
        "examples/stop-and-wait.mtp",
        "transports/selective-repeat/selective-repeat.mtp",
        "transports/ndp/ndp.mtp",
    ] {
        let (module, interpreter) = program(path)?;
        let kernel = Kernel::load(&module, &interpreter)?;
        assert!(kernel.refused().0.is_empty(), "{path}: {:?}", kernel.refused());
        for seed in 1..=SEEDS {
            let mut trial = Trial::new(&module, &interpreter, &kernel, seed);
            for event in 0..EVENTS {
                trial
                    .event(&mut |_, _, _, _| ())
                    .map_err(|text| format!("{path}, seed {seed}, event {event}: {text}"))?;
            }
        }
    }
    Ok(())
}

fn program(path: &str) -> Result<(Arc<Module>, Interpreter), Box<dyn Error + Send + Sync>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiled = hawser_driver::compile(&root.join(path));
    let module = compiled.module.as_ref().filter(|_| !compiled.failed());
    let module = Arc::new(module.ok_or_else(|| compiled.render(false))?.clone());
    let params = module.params.iter().map(|param| param.default).collect();
    let interpreter = Interpreter::new(module.clone(), params)?;
    Ok((module, interpreter))
}
