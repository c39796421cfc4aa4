//! Programs as machine code: `emit`, `build`, `--engine`, and the rejection of unsuitable builds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn hawser(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

fn run(arguments: &[&str]) -> Output {
    hawser(arguments).output().expect("hawser starts")
}

/// Returns the exit code, and the text on standard error.
fn ended(output: &Output) -> (i32, String) {
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(ended(&output).0, 0, "{arguments:?}: {}", ended(&output).1);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn example() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/stop-and-wait.mtp")
        .canonicalize()
        .expect("the example")
        .display()
        .to_string()
}

/// Builds the example under a name for one test.
fn built(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    good(&["build", &example(), "-o", &path.display().to_string()]);
    path
}

fn swarm(program: &Path, more: &[&str]) -> Output {
    let program = program.display().to_string();
    run(&[
        &[
            "swarm",
            &program,
            "--plain",
            "--runs",
            "2",
            "--save",
            "engines-failure.toml",
        ],
        more,
    ]
    .concat())
}

#[test]
fn a_built_program_runs_on_both_engines() {
    let path = built("both.so");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o022, 0, "nobody else can write it: {mode:o}");
    for (more, engine) in [
        (&[][..], "native"),
        (&["--engine", "interp"], "interp"),
        (&["--engine", "both"], "both"),
    ] {
        let output = swarm(&path, &[more, &["--json"]].concat());
        let message: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&message["ok"], &message["engine"]),
            (&true.into(), &engine.into()),
            "{message}"
        );
    }
}

/// An unknown param, or a value outside its type, is reported before the first seed, like the program's own
/// params.
#[test]
fn values_that_vary_are_checked_before_the_first_seed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    for wrong in ["NOSUCH=1", "RTO=1s,5"] {
        for command in ["swarm", "mutants"] {
            let program = path.display().to_string();
            let output = run(&[
                "sim", command, &program, "--plain", "--runs", "2", "--vary", wrong,
            ]);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {wrong}: {message}");
            assert!(!message.contains("seed"), "{command} {wrong}: {message}");
        }
    }
}

#[test]
fn the_engine_of_a_scenario_is_the_one_that_runs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scenario = root
        .join("examples/scenarios/stop-and-wait.toml")
        .display()
        .to_string();
    let engine = |more: &[&str]| {
        let message = good(&[&["sim", "run", &scenario, "--json"], more].concat());
        let message: serde_json::Value = serde_json::from_str(&message).expect("JSON");
        (message["engine"].clone(), message["trace_hash"].clone())
    };
    let (interp, hash) = engine(&[]);
    assert_eq!(interp, "interp");
    assert_eq!(engine(&["--engine", "native"]), ("native".into(), hash));
    let text = fs::read_to_string(&scenario).expect("a scenario");
    let named = format!("program = {:?}\nengine = \"native\"", example());
    let text = text.replace("program = \"../stop-and-wait.mtp\"", &named);
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("native.toml"), text).expect("it can be written");
    let message = good(&["sim", "run", "native.toml", "--json"]);
    let message: serde_json::Value = serde_json::from_str(&message).expect("JSON");
    assert_eq!(message["engine"], "native");
}

/// A library with a constructor that creates a file: the file shows that the library was loaded. A scenario
/// that names the library is simulated from its source, and none of its code runs without permission.
#[test]
fn a_scenario_that_names_a_library_does_not_run_its_code() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("constructor");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let witness = folder.join("ran");
    // A compiler that adds a constructor to its input.
    let compiler = folder.join("cc-with-constructor");
    let script = format!(
        "#!/bin/sh\n{{ cat; printf '%s\\n' '#include <stdio.h>' '__attribute__((constructor)) static void \
         planted(void) {{ FILE *f = fopen({witness:?}, \"w\"); if (f) fclose(f); }}'; }} | cc \"$@\"\n"
    );
    fs::write(&compiler, script).expect("it can be written");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let library = folder.join("planted.so").display().to_string();
    let build = hawser(&["build", &example(), "-o", &library])
        .env("CC", &compiler)
        .output();
    assert_eq!(ended(&build.expect("hawser starts")).0, 0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("examples/scenarios/stop-and-wait.toml")).expect("a scenario");
    let scenario = |name: &str, engine: &str| {
        let path = folder.join(name);
        let program = format!("program = {library:?}\n{engine}");
        fs::write(
            &path,
            text.replace("program = \"../stop-and-wait.mtp\"", &program),
        )
        .expect("it can be written");
        path.display().to_string()
    };
    let plain = scenario("plain.toml", "");
    let native = scenario("native.toml", "engine = \"native\"");

    for arguments in [
        &["sim", "run", &plain, "--json"][..],
        &["sim", "run", &plain, "--engine", "interp", "--json"],
    ] {
        let message: serde_json::Value = serde_json::from_str(&good(arguments)).expect("JSON");
        assert_eq!(message["engine"], "interp");
    }
    for arguments in [
        &["sim", "run", &native][..],
        &["sim", "run", &plain, "--engine", "native"],
    ] {
        let (code, message) = ended(&run(arguments));
        assert_eq!(code, 3, "{message}");
        assert!(message.contains("--allow-native"), "{message}");
    }
    assert_eq!(ended(&swarm(library.as_ref(), &["--engine", "interp"])).0, 0);
    assert!(!witness.exists(), "nothing of the library ran");
    let message: serde_json::Value =
        serde_json::from_str(&good(&["sim", "run", &plain, "--allow-native", "--json"])).expect("JSON");
    assert_eq!(message["engine"], "native");
    assert!(witness.exists(), "the planted code runs once it may");
}

#[test]
fn the_c_is_one_file_that_compiles() {
    let c = good(&["build", "--as", "c", &example()]);
    assert!(
        c.contains("#line") && c.contains("stop-and-wait.mtp"),
        "its lines are marked"
    );
    good(&["build", "--as", "c", &example(), "-o", "emitted.c"]);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emitted.c");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), c);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only"])
        .arg(&file)
        .status();
    assert!(compiled.expect("a C compiler").success());
}

#[test]
fn a_library_that_others_can_write_is_refused() {
    let path = built("writable.so");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).expect("it is ours");
    let (code, message) = ended(&swarm(&path, &[]));
    assert_eq!(code, 3, "{message}");
    assert!(
        message.contains("other users can write to the file") && message.contains("chmod go-w"),
        "{message}"
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("folder.so");
    fs::create_dir_all(&folder).expect("a folder");
    let (code, message) = ended(&swarm(&folder, &[]));
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("not a regular file"), "{message}");
}

#[test]
fn a_library_of_another_hawser_is_refused() {
    let path = built("stale.so");
    let mut bytes = fs::read(&path).expect("it is there");
    let digest = digest_of(&good(&["build", "--as", "c", &example()]));
    let at = bytes
        .windows(digest.len())
        .position(|w| w == digest.as_bytes())
        .expect("the digest is in it");
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    fs::write(&path, bytes).expect("it is ours");
    let (code, message) = ended(&swarm(&path, &[]));
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("build it again"), "{message}");
}

/// Returns the digest in the table at the end of the C source.
fn digest_of(c: &str) -> String {
    let (_, from) = c.rsplit_once(".digest = \"").expect("a digest");
    from.split_once('"').expect("its end").0.to_owned()
}

/// A name with trigraphs and a quotation mark: the C11 standard reads `??/` as a backslash.
#[test]
fn a_name_with_trigraphs_is_built() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines-what??/\"\u{e9}.mtp");
    let folder = path.parent().expect("a folder");
    fs::create_dir_all(folder).expect("it can be made");
    fs::copy(example(), &path).expect("it can be written");
    let out = folder.join("trigraphs.so").display().to_string();
    good(&["build", &path.display().to_string(), "-o", &out]);
    assert_eq!(ended(&swarm(out.as_ref(), &[])).0, 0);
}

/// Guards the process against faults of the emitter. The test looks for the library's imported symbol.
#[test]
fn a_built_program_has_a_stack_protector() {
    let bytes = fs::read(built("guarded.so")).expect("it is there");
    let has = |name: &[u8]| bytes.windows(name.len()).any(|w| w == name);
    assert!(has(b"__stack_chk_fail"));
}

#[test]
fn a_library_that_is_not_a_program_is_refused() {
    for (name, text) in [("text.so", "no library\n"), ("empty.so", "")] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).expect("it can be written");
        let (code, message) = ended(&swarm(&path, &[]));
        assert_eq!(code, 3, "{message}");
        assert!(message.contains(name), "{message}");
    }
    let (code, message) = ended(&swarm(Path::new("nosuch.so"), &[]));
    assert_eq!(code, 3, "{message}");
}

#[test]
fn a_missing_compiler_is_an_error_of_the_environment() {
    for arguments in [
        &["build", &example(), "-o", "never.so"][..],
        &["sim", "swarm", &example(), "--engine", "native"],
    ] {
        let output = hawser(arguments)
            .env("CC", "no-such-compiler")
            .output()
            .expect("hawser starts");
        let (code, message) = ended(&output);
        assert_eq!(code, 4, "{arguments:?}: {message}");
        assert!(
            message.contains("no-such-compiler") && message.contains("apt install"),
            "{message}"
        );
    }
    assert!(!Path::new(env!("CARGO_TARGET_TMPDIR")).join("never.so").exists());
}

#[test]
fn a_compiler_that_may_not_be_run_is_reported_as_missing() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines-path");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("no-right-to-run"), "").expect("it can be written");
    let output = hawser(&["build", &example(), "-o", "never.so"])
        .env("CC", "no-right-to-run")
        .env("PATH", &folder)
        .output()
        .expect("hawser starts");
    let (code, message) = ended(&output);
    assert_eq!(code, 4, "{message}");
    assert!(
        message.contains("cannot find the C compiler `no-right-to-run`"),
        "{message}"
    );
}

#[test]
fn a_wrong_program_is_not_built() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines-wrong.mtp");
    fs::write(&path, "context c { nosuch x; }\n").expect("it can be written");
    for form in ["library", "c"] {
        let (code, message) = ended(&run(&["build", "--as", form, &path.display().to_string()]));
        assert_eq!(code, 1, "{form}: {message}");
        assert!(message.contains("nosuch"), "{message}");
        assert_eq!(ended(&run(&["build", "--as", form, "nosuch.mtp"])).0, 3);
    }
    assert_eq!(ended(&run(&["build", &example(), "-o", "program.dll"])).0, 2);
    assert_eq!(ended(&run(&["sim", "swarm", "tcp", "--engine", "jit"])).0, 2);
}

/// The report's last line names the engine. Both engines give the same trace, and an explicit choice takes
/// precedence.
#[test]
fn a_long_run_is_machine_code_and_a_short_one_is_interpreted() {
    let scenario = |bytes: &str| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("engines-{bytes}.toml"));
        let text = format!(
            "duration = '10min'\nprogram = '{}'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             [[link]]\nbetween = ['a', 'b']\nboth = {{ rate = '1Gbit/s', delay = '10us' }}\n\
             [[flow]]\nfrom = 'a'\nto = 'b'\nbulk = {{ bytes = '{bytes}' }}\n",
            example()
        );
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let last = |arguments: &[&str]| {
        let text = good(arguments);
        text.lines().last().expect("a line").to_owned()
    };
    let (short, long) = (scenario("64KiB"), scenario("32MiB"));
    assert!(last(&["sim", "run", &short]).ends_with(", engine interp"));
    let chosen = last(&["sim", "run", &long]);
    assert!(chosen.ends_with(", engine native"), "{chosen}");
    let interpreted = last(&["sim", "run", &long, "--engine", "interp"]);
    assert_eq!(chosen.replace("engine native", "engine interp"), interpreted);
}
