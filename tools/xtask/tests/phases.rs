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

    /// Makes the test programs of [`CARGO`], of which the last one is this script.
    fn of_tests(waiting: &str) -> Result<Phases, Box<dyn Error>> {
        let phases = Phases::with_cargo(CARGO)?;
        for folder in ["lang/syntax", "workbench/testkit", "apps/proxy"] {
            fs::create_dir_all(phases.0.join(folder))?;
        }
        for (name, script) in [("pure", "true"), ("host-0a", "true"), ("waiting", waiting)] {
            phases.program(name, script)?;
        }
        Ok(phases)
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

/// A skipped test fails the run only where its need is required: an ordinary user's run does not require
/// `ebpf`, whatever else the reason mentions.
#[test]
fn a_skip_counts_by_its_need_alone() -> Result<(), Box<dyn Error>> {
    let phases =
        Phases::of_tests("echo 'skipped: [ebpf] AF_XDP: cannot make a network namespace, tun or netns'")?;
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
    for line in [
        "skipped: [tunn] a",
        "skipped: a: there is no tun",
        "test a ... skipped: b",
    ] {
        phases.program("waiting", &format!("echo '{line}'"))?;
        let (code, printed) = phases.run(&["tests"], "")?;
        assert!(
            code == Some(1) && printed.contains("need.rs has no need ["),
            "{line}: {printed}"
        );
    }
    Ok(())
}

/// The output of both harnesses: the standard one shows a test's output below its name, and the other one
/// prints after the name.
#[test]
fn root_runs_again_what_it_may_do() -> Result<(), Box<dyn Error>> {
    for (output, again) in [
        ("skipped: [netns] all of it: no", "\n"),
        ("skipped: [usrsctp] all of it: no", ""),
        (
            "successes:\n---- a::b stdout ----\nskipped: [tun] a: no\n---- c stdout ----\nskipped: [tshark] c: no\n\
             ---- d stdout ----\nskipped: [curl] d: no\nskipped: [root] d: no\nsuccesses:\n    a::b\n",
            " a::b d\n",
        ),
        (
            "test a over Tun ... skipped: [tun] a over Tun: no\nok\ntest b ... skipped: [long] b: no\nok\n\
             test c ... skipped: [ebpf] c: no\nok\n",
            " a\n c\n",
        ),
    ] {
        let phases = Phases::of_tests(&format!("printf '%s' '{output}'"))?;
        let (code, printed) = phases.run(&["tests"], "")?;
        assert_eq!(code, Some(0), "{printed}");
        let found = fs::read_to_string(phases.0.join("target/test-programs-that-skipped"))?;
        let expected: String = again
            .lines()
            .map(|names| format!("apps/proxy waiting{names}\n"))
            .collect();
        assert_eq!(found, expected, "{output}");
    }
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

/// A cargo that names three test programs, one of which fails, and whose clippy reports a warning.
const CARGO: &str = r#"
program() { echo "{\"manifest_path\":\"$PWD/$1/Cargo.toml\",\"profile\":{\"test\":true},\"executable\":\"$PWD/$2\"}"; }
case "$*" in
    *evaluation*) ;;
    *json*) program lang/syntax pure; program workbench/testkit host-0a; program apps/proxy waiting ;;
    clippy*) exit 1 ;;
esac"#;

#[test]
fn idle_phases_run_beside_others_and_are_in_the_table() -> Result<(), Box<dyn Error>> {
    let phases = Phases::of_tests("")?;
    fs::write(phases.0.join("lang/syntax/clippy.toml"), "")?;
    let policy = "chrt -p $$ | sed -n '1s/.*: /policy /p'";
    let passes = format!("{policy}\necho 'test result: ok. 2 passed; 0 failed'");
    for name in ["host-0a", "waiting"] {
        phases.program(name, &passes)?;
    }
    let fails =
        "printf 'failures:\\n---- a::b stdout ----\\n  why\\ntest result: FAILED. 1 passed; 1 failed\\n'";
    phases.program("pure", &format!("{policy}\n{fails}\nexit 1"))?;
    let (code, printed) = phases.run(&["build", "idle:machines", "idle:lint", "tests"], "")?;
    assert_eq!(code, Some(1), "{printed}");
    for line in [
        "== machines, at idle priority\n     Running lang/syntax (pure)\npolicy SCHED_IDLE\n",
        "     Running workbench/testkit (host-0a)\npolicy SCHED_OTHER\n",
        "     Running apps/proxy (waiting)\npolicy SCHED_OTHER\n",
        "    ---- a::b stdout ----\n      why\n",
        "\n5 passed, 1 failed\n",
        "\nfailed: machines lint\n",
    ] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    let table = printed.split("== phases\n").nth(1).unwrap_or_default();
    for phase in ["build", "machines", "lint", "tests"] {
        assert!(
            table.contains(&format!("\n{phase} ")) || table.starts_with(phase),
            "{printed}"
        );
    }
    Ok(())
}
