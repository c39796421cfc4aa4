//! Chains of transport programs as eBPF: the kernel's verifier takes them, and they do what the interpreter does, byte for
//! byte, on random events and contexts.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hawser_equality::trial::{EVENTS, Trial};
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_testing::TestResult;

use crate::side::Kernel;

/// A program, its chains that are more than the verifier goes through, and how many courses of events it is worth.
struct Case {
    path: &'static str,
    refused: &'static [&'static str],
    seeds: u64,
}

/// Names may leave `refused`, and none may come.
const CASES: [Case; 7] = [
    Case {
        path: "examples/stop-and-wait.mtp",
        refused: &[],
        seeds: 20,
    },
    Case {
        path: "transports/selective-repeat/selective-repeat.mtp",
        refused: &[],
        seeds: 20,
    },
    Case {
        path: "transports/ndp/ndp.mtp",
        refused: &[],
        seeds: 20,
    },
    Case {
        path: "transports/roce/roce.mtp",
        refused: &[],
        seeds: 20,
    },
    Case {
        path: "transports/homa/homa.mtp",
        refused: &["data_event"],
        seeds: 10,
    },
    Case {
        path: "transports/quic-lite/quic-lite.mtp",
        refused: &["ack_frame", "loss_timer"],
        seeds: 5,
    },
    Case {
        path: "transports/tcp/tcp.mtp",
        refused: &[
            "tcp_send",
            "tcp_close",
            "cookie_back",
            "opened_early",
            "tcp_seg",
            "tcp_icmp",
            "tcp_set",
            "retransmit_timeout",
            "persist_timeout",
        ],
        seeds: 5,
    },
];

pub(crate) fn chains_in_the_kernel_do_what_the_interpreter_does() -> TestResult {
    CASES.iter().try_for_each(|case| {
        let begin = Instant::now();
        run(case).map_err(|error| format!("{}: {error}", case.path))?;
        println!("{}: {} s", case.path, begin.elapsed().as_secs());
        Ok(())
    })
}

fn run(case: &Case) -> TestResult {
    let (module, interpreter) = program(case.path)?;
    // To go through a million steps of each takes most of the test's time.
    let tries_all = std::env::var_os("HAWSER_VERIFIER").is_some();
    let without = if tries_all { &[] } else { case.refused };
    let kernel = Kernel::load(&module, &interpreter, without)?;
    let refused = kernel.refused().0;
    let names: Vec<&str> = refused.iter().map(|refusal| refusal.event.as_str()).collect();
    assert_eq!(names, case.refused, "{refused:?}");
    for seed in 1..=case.seeds {
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
