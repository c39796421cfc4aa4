//! The files of `examples/` pass, and the log of one is a file that passes.

use super::{examples, steps};

fn files() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(examples()).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "steps"));
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            (path.display().to_string(), text)
        })
        .collect()
}

#[test]
fn the_examples_pass() {
    let files = files();
    assert!(files.len() >= 4, "{}", files.len());
    for (name, text) in files {
        let report = steps(&text);
        assert!(report.passed(), "{}", report.explain(&name));
    }
}

#[test]
fn the_log_of_a_file_is_a_file_that_passes() {
    for (name, text) in files() {
        let head = text.lines().take_while(|line| !line.starts_with("every"));
        let head: Vec<&str> = head.collect();
        let happened = steps(&text).happened.join("\n");
        // The log contains the output of the stack instead of the steps that expect it.
        let again = format!("{}\n{happened}\n", head.join("\n"));
        let report = steps(&again);
        assert!(report.passed(), "{}\n{again}", report.explain(&name));
    }
}

#[test]
fn asserts_see_two_contexts_and_the_names_of_the_program() {
    let report = steps(
        "program stop-and-wait.mtp\n\
         a: connect 7001 from 40000\n\
         b: connect 7002 from 40001\n\
         a: send 1500\n\
         b: send 100\n\
         > SW{dport: 7001}\n\
         > SW{dport: 7002}\n\
         assert a.flight == MSS && a.end - a.flight == b.flight && max(a.rto, b.wait) == RTO\n",
    );
    assert!(report.passed(), "{}", report.explain("two"));
}
