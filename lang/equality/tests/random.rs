//! Random programs as generated C, beside the interpreter. Their number is small enough for every run of the
//! tests; `cargo xtask long equality` takes any other.

use std::path::Path;

use hawser_equality::comparison::compare;
use hawser_equality::compile::{self, Settings};
use hawser_equality::coverage::Coverage;
use hawser_equality::native::Library;
use hawser_equality::{batches, nodes};

/// The number of programs, each with fifty events.
const PROGRAMS: u64 = 200;

fn plan(first: u64, programs: u64) -> batches::BatchPlan {
    batches::BatchPlan {
        first,
        programs,
        batch: 5,
        jobs: 2,
        settings: Settings::default(),
        text: None,
    }
}

#[test]
fn random_programs_do_the_same_as_c() {
    let executable = Path::new(env!("CARGO_BIN_EXE_hawser-equality"));
    let outcome = batches::run(executable, &plan(1, PROGRAMS));
    println!("{}", outcome.coverage.table());
    for failure in &outcome.failures {
        println!("seed {}, step {}: {}", failure.seed, failure.step, failure.text);
        println!(
            "again: cargo run -p hawser-equality -- repeat --first {}\n",
            failure.seed
        );
    }
    assert_eq!((outcome.equal, outcome.failures.len()), (PROGRAMS, 0));
    assert_eq!(
        outcome.coverage.missing(&nodes::all()),
        [""; 0],
        "nodes that no program had"
    );
}

/// Programs on which the sides once differed, as they were generated. With seed 138, the length of a packed
/// sorted list was not aligned in C. With seed 2282, the interpreter did not reduce a flag popped from a
/// list.
#[test]
fn programs_that_once_differed_are_equal() {
    let executable = Path::new(env!("CARGO_BIN_EXE_hawser-equality"));
    for seed in [138, 2282] {
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/once/{seed}.mtp"));
        let plan = batches::BatchPlan { text: Some(text), ..plan(seed, 1) };
        let outcome = batches::run(executable, &plan);
        let texts: Vec<&String> = outcome.failures.iter().map(|failure| &failure.text).collect();
        assert!(outcome.equal == 1 && texts.is_empty(), "seed {seed}: {texts:?}");
    }
}

/// Optional features occur in many programs, and are absent from many.
#[test]
fn programs_extend_declarations_and_use_parts_twice() {
    let programs: Vec<String> = (1..=PROGRAMS).map(hawser_equality::generate::program).collect();
    for part in [
        "\nextend context ctx0 {",
        "\nextend context ctx2 {",
        "\nextend event ",
        "\nextend struct ",
        "\nextend scratchpad pad {",
        " twin0;\n",
        "(twin0)",
        "(twin0), shared(part0)",
        "tail(part0)",
        ".twin0",
    ] {
        let count = programs.iter().filter(|text| text.contains(part)).count();
        assert!((10..150).contains(&count), "{count} of {PROGRAMS} have {part:?}");
    }
}

/// Compares a program whose C was changed by hand.
fn with_changed_c(text: &str, from: &str, to: &str) -> Result<(), String> {
    let mut printed = compile::printed("changed", text.to_owned())?;
    assert!(printed.c.contains(from), "{from} is nowhere in\n{}", printed.c);
    printed.c = printed.c.replace(from, to);
    let folder = hawser_documents::temporary::Folder::new().map_err(|error| error.to_string())?;
    let sources = [(printed.name.as_str(), printed.c.as_str())];
    let object = compile::shared_object(&folder, &sources, &Settings::default())?;
    let library = Library::open(&object)?;
    let native = library.program(&printed.symbol, &printed.module, printed.params.clone())?;
    let outcome = compare(&printed, &native, 1, &mut Coverage::default(), &mut |_| {});
    outcome.map_err(|(step, text)| format!("step {step}: {text}"))
}

const SMALL: &str = "
event item : EVENT { uint32 value; }
event added : EVENT { uint32 total; }
context sum { uint32 total; }
void add(item ev, sum s) { s.total += ev.value; emit raise(added{total: s.total}); }
dispatch d { item -> {add}; }
deploy { register_ep_chains(d); register_ctx_spec(sum, GLOBAL); }
";

#[test]
fn a_fault_in_the_c_is_found_and_named() {
    assert_eq!(with_changed_c(SMALL, "total + ", "total + "), Ok(()));
    let found = with_changed_c(SMALL, "total + ", "total - ").expect_err("the sum is wrong");
    assert!(found.contains("sum.total: "), "{found}");
    assert!(found.contains("record 0: Raise"), "{found}");
}

#[test]
fn failing_and_crashing_programs_are_named_by_seed() {
    let executable = Path::new(env!("CARGO_BIN_EXE_hawser-equality"));
    let folder = hawser_documents::temporary::Folder::new().expect("a folder for a program");
    let text = folder.join("wrong.mtp");
    std::fs::write(&text, "event e : EVENT { uint32 x = ; }").expect("the program is written");
    let outcome = batches::run(executable, &batches::BatchPlan { text: Some(text), ..plan(7, 1) });
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(outcome.failures[0].seed, 7);
    assert!(
        outcome.failures[0].text.starts_with("rejected"),
        "{}",
        outcome.failures[0].text
    );
    // If a process ends early, the failure names its seed.
    let outcome = batches::run(Path::new("/bin/false"), &plan(5, 1));
    assert_eq!(outcome.failures.len(), 1);
    assert!(
        outcome.failures[0].text.contains("ended the process"),
        "{}",
        outcome.failures[0].text
    );
}

#[test]
fn a_seed_always_generates_the_same_program() {
    assert_eq!(
        hawser_equality::generate::program(3),
        hawser_equality::generate::program(3)
    );
    assert_ne!(
        hawser_equality::generate::program(3),
        hawser_equality::generate::program(4)
    );
}
