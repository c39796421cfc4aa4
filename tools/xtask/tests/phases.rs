//! Tests the messages of `scripts/phases`, and with it of `make test` and `make demo`. They cover a missing
//! or old Rust, and skipped tests: by which need, whether they may be, and whether root runs them again.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Returns the standard error of `scripts/phases build` when only these tools and `rustc` can be found.
fn build_with(tools: &Path, rustc: Option<&str>) -> Result<String, Box<dyn Error>> {
    for tool in ["bash", "dirname", "sed", "cut", "sort", "head"] {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        let found = found.iter().find(|path| path.exists()).ok_or(tool)?;
        symlink(found, tools.join(tool))?;
    }
    for (name, prints) in [("rustc", rustc), ("cargo", rustc)] {
        let Some(prints) = prints else { continue };
        let path = tools.join(name);
        fs::write(&path, format!("#!{}/bash\necho '{prints}'\n", tools.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/phases");
    let output = Command::new(tools.join("bash"))
        .arg(script)
        .arg("build")
        .env("PATH", tools)
        .output()?;
    assert_eq!(output.status.code(), Some(1));
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn a_missing_or_old_rust_is_reported_with_how_to_install_it() -> Result<(), Box<dyn Error>> {
    let wanted = format!(
        "Hawser needs Rust {} or newer, and ",
        env!("CARGO_PKG_RUST_VERSION")
    );
    // The version that Debian 12 has.
    let old = "rustc 1.63.0 (4b91a6ea7 2022-08-08)";
    for (rustc, present) in [(None, "there is none; "), (Some(old), "this is 1.63.0 (")] {
        let tools = hawser_documents::temporary::Folder::new()?;
        let message = build_with(&tools, rustc)?;
        let expected = format!("{wanted}{present}");
        assert!(
            message.starts_with(&expected),
            "expected {expected}, got {message}"
        );
        let how = "install it as https://rustup.rs says: curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh\n";
        assert!(message.ends_with(how), "{message}");
    }
    Ok(())
}

/// A copy of the scripts in a folder of its own, so that a run does not touch the logs of the caller. Its
/// `cargo` is a script of the test.
struct Phases(hawser_documents::temporary::Folder);

impl Phases {
    fn with_cargo(script: &str) -> Result<Phases, Box<dyn Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let phases = Phases(hawser_documents::temporary::Folder::new()?);
        fs::create_dir(phases.0.join("scripts"))?;
        fs::create_dir_all(phases.0.join("tools/testing/src"))?;
        for file in [
            "scripts/phases",
            "scripts/features",
            "Cargo.toml",
            "tools/testing/src/need.rs",
        ] {
            fs::copy(root.join(file), phases.0.join(file))?;
        }
        phases.program("cargo", script)?;
        Ok(phases)
    }

    /// A nextest that runs these lines of a script for the product's tests, and lists no programs.
    fn of_tests(script: &str) -> Result<Phases, Box<dyn Error>> {
        let phases = Phases::with_cargo(r#"[[ $1 != clippy ]]"#)?;
        phases.nextest(script)?;
        Ok(phases)
    }

    fn nextest(&self, script: &str) -> Result<(), Box<dyn Error>> {
        self.program(
            "cargo-nextest",
            &format!("case \"$*\" in\n*\" run \"*product.crates*)\n{script}\n;;\nesac"),
        )
    }

    fn program(&self, name: &str, script: &str) -> Result<(), Box<dyn Error>> {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Runs these phases, and returns their exit code and output.
    fn run(&self, names: &[&str], required: &str) -> Result<(Option<i32>, String), Box<dyn Error>> {
        let path = format!("{}:{}", self.0.display(), std::env::var("PATH")?);
        let output = Command::new(self.0.join("scripts/phases"))
            .args(names)
            .env("PATH", path)
            .env("HAWSER_REQUIRE", required)
            .output()?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    }
}

#[test]
fn a_required_test_that_is_skipped_fails_its_phase() -> Result<(), Box<dyn Error>> {
    let phases = Phases::with_cargo("exit 101")?;
    phases.program("cargo-deny", "exit 101")?;
    let (code, printed) = phases.run(&["deny"], "")?;
    assert!(
        code == Some(0) && printed.starts_with("skipped: [cargo-deny] licences, "),
        "{code:?} {printed}"
    );
    let (code, printed) = phases.run(&["deny"], "netns,tun")?;
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = phases.run(&["deny"], "netns,cargo-deny")?;
    assert!(
        code == Some(1) && printed.contains("this must not be skipped here"),
        "{code:?} {printed}"
    );
    Ok(())
}

/// The lines of a nextest whose tests note these skips.
fn noting(skips: &str) -> String {
    format!("printf '%s\\n' '{skips}' >>\"$HAWSER_SKIPPED\"")
}

/// A skipped test fails the run only where its need is required: an ordinary user's run does not require
/// `ebpf`, whatever else the reason mentions.
#[test]
fn a_skip_counts_by_its_need_alone() -> Result<(), Box<dyn Error>> {
    let skips = "ebpf|xdp|a|AF_XDP: cannot make a network namespace, tun or netns";
    let phases = Phases::of_tests(&noting(skips))?;
    for (required, code) in [("netns,tun", 0), ("netns,ebpf,tun", 1)] {
        let (got, printed) = phases.run(&["tests"], required)?;
        assert_eq!(got, Some(code), "{required}: {printed}");
        assert!(printed.contains("skipped: [ebpf] AF_XDP: cannot"), "{printed}");
    }
    Ok(())
}

#[test]
fn an_unknown_need_is_an_error() -> Result<(), Box<dyn Error>> {
    let phases = Phases::of_tests("true")?;
    for required in ["netns,tunn", "ebp", "[a-z]*"] {
        let (code, printed) = phases.run(&["tests"], required)?;
        assert_eq!((code, printed.as_str()), (Some(2), ""), "{required}");
    }
    for line in ["tunn|p|a|a: there is no tunn", "|p|a|there is no tun", "a"] {
        phases.nextest(&noting(line))?;
        let (code, printed) = phases.run(&["tests"], "")?;
        assert!(
            code == Some(1) && printed.contains("need.rs has no need ["),
            "{line}: {printed}"
        );
    }
    Ok(())
}

#[test]
fn root_runs_again_what_it_may_do() -> Result<(), Box<dyn Error>> {
    let [a, d, f] = [
        "(binary_id(=p::a) & test(=a::b over Tun))",
        r"(binary_id(=p::d) & test(=d (1\, 2\)))",
        "(binary_id(=p::f) & test(=f))",
    ];
    for (skips, again) in [
        ("netns|p::a|a::b over Tun|all of it: no", a.to_owned()),
        ("usrsctp|p::a|a|all of it: no\nlong|p::a|b|b: no", String::new()),
        (
            "tun|p::a|a::b over Tun|a: no\ntshark|p::a|c|c: no\ncurl|p::d|d (1, 2)|d: no\nroot|p::d|d (1, 2)|d: no\n\
             root|p::d|d (1, 2)|d: once more\nebpf|p::f|f|f: no",
            [a, d, f].join(" | "),
        ),
    ] {
        let phases = Phases::of_tests(&noting(skips))?;
        let (code, printed) = phases.run(&["tests"], "")?;
        assert_eq!(code, Some(0), "{printed}");
        let found = fs::read_to_string(phases.0.join("target/test-programs/product.again"))?;
        assert_eq!(found, again, "{skips}");
    }
    Ok(())
}

/// Without nextest no test runs, so the phase fails.
#[test]
fn tests_without_nextest_fail_with_advice() -> Result<(), Box<dyn Error>> {
    let phases = Phases::with_cargo("true")?;
    phases.program("cargo-nextest", "exit 127")?;
    let (code, printed) = phases.run(&["tests"], "")?;
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.starts_with("cargo-nextest is not installed: "),
        "{printed}"
    );
    Ok(())
}

#[test]
fn advisories_that_cannot_be_fetched_are_skipped_by_name() -> Result<(), Box<dyn Error>> {
    let phases = Phases::with_cargo("exit 101")?;
    phases.program("cargo-deny", r#"[ "$1" != fetch ]"#)?;
    let (code, printed) = phases.run(&["deny"], "")?;
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(
        printed,
        "skipped: [internet] advisories: RustSec's database cannot be fetched\n"
    );
    phases.program("cargo-deny", r#"echo "$*"; [[ $* != *advisories* ]]"#)?;
    let (code, printed) = phases.run(&["deny"], "")?;
    assert!(
        code == Some(1) && printed.contains("check bans licenses sources\n"),
        "{printed}"
    );
    Ok(())
}

/// The output of nextest for a failed test.
const FAILED: &str = "
        FAIL [   0.013s] (2/2) hawser-syntax a::b
  stdout ───
    a line of the test
  stderr ───
    thread a::b panicked at a.rs:1:1:
    why

────────────
     Summary [   0.014s] 3 tests run: 2 passed (1 slow), 1 failed, 0 skipped
        FAIL [   0.013s] (2/2) hawser-syntax a::b
error: test run failed";

#[test]
fn idle_phases_run_beside_others_and_are_in_the_table() -> Result<(), Box<dyn Error>> {
    let policy = "chrt -p $$ | sed -n '1s/.*: /policy /p'";
    let phases = Phases::of_tests(&format!("{policy}\necho '{FAILED}'\nexit 100"))?;
    phases.program("cargo", &format!("[ $1 != doc ] || {policy}\n[[ $1 != clippy ]]"))?;
    let (code, printed) = phases.run(&["build", "idle:docs", "idle:lint", "tests"], "")?;
    assert_eq!(code, Some(1), "{printed}");
    for line in [
        "== docs, at idle priority\npolicy SCHED_IDLE\n",
        "\npolicy SCHED_OTHER\n",
        "\n            FAIL [   0.013s] (2/2) hawser-syntax a::b\n        thread a::b panicked at a.rs:1:1:\n        why\n",
        "\n2 passed, 1 failed\n",
    ] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    let failed = printed.lines().find_map(|line| line.strip_prefix("failed: "));
    let mut failed: Vec<_> = failed.unwrap_or_default().split(' ').collect();
    failed.sort_unstable();
    assert_eq!(failed, ["lint", "tests"], "{printed}");
    let table = printed.split("== phases\n").nth(1).unwrap_or_default();
    for phase in ["build", "docs", "lint", "tests"] {
        assert!(
            table.contains(&format!("\n{phase} ")) || table.starts_with(phase),
            "{printed}"
        );
    }
    Ok(())
}
