//! Chains of transport programs as eBPF. The kernel's verifier accepts them, and they do the same as the
//! interpreter, byte for byte, on random events and contexts.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hawser_equality::trial::{EVENTS, Trial};
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_testing::TestResult;

use crate::side::Kernel;

/// Programs, each with its number of event sequences.
const PROGRAMS: [(&str, u64); 7] = [
    ("examples/stop-and-wait.mtp", 20),
    ("transports/selective-repeat/selective-repeat.mtp", 20),
    ("transports/ndp/ndp.mtp", 20),
    ("transports/roce/roce.mtp", 20),
    ("transports/homa/homa.mtp", 10),
    ("transports/quic-lite/quic-lite.mtp", 5),
    ("transports/tcp/tcp.mtp", 5),
];

pub(crate) fn chains_in_the_kernel_do_what_the_interpreter_does() -> TestResult {
    PROGRAMS.iter().try_for_each(|(path, seeds)| {
        let begin = Instant::now();
        run(path, *seeds).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {} s", begin.elapsed().as_secs());
        Ok(())
    })
}

fn run(path: &str, seeds: u64) -> TestResult {
    let (module, interpreter) = program(path)?;
    let kernel = Kernel::load(&module, &interpreter)?;
    let refused = kernel.refused().0;
    assert!(refused.is_empty(), "{refused:?}");
    for seed in 1..=seeds {
        let mut trial = Trial::new(&module, &interpreter, &kernel, seed);
        for event in 0..EVENTS {
            trial
                .event(&mut |_, _, _, _| ())
                .map_err(|text| format!("seed {seed}, event {event}: {text}"))?;
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
