//! `docs/exit-codes.md` is correct: each code that needs no network is produced once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_testing::{Need, has, skip};

/// Runs `hawser …`. Returns the exit code and the text on standard error.
fn hawser(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("hawser starts");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes a file for one test and returns its path.
fn file(name: &str, text: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder for tests can be written");
    path.display().to_string()
}

#[test]
fn a_good_program_ends_with_0() {
    let program = repository().join("examples/stop-and-wait.mtp");
    assert_eq!(
        hawser(&["check", &program.display().to_string()]),
        (0, String::new())
    );
}

#[test]
fn a_wrong_program_ends_with_1() {
    let program = file("wrong.mtp", "// Wrong.\ncontext c { nosuch x; }\n");
    let (code, message) = hawser(&["check", &program]);
    assert_eq!(code, 1, "{message}");
    assert!(message.contains("nosuch"), "{message}");
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [
        &["nosuch"][..],
        &["check"],
        &["sim", "run", "a.toml", "--seed", "many"],
        &["explain", "E9999"],
    ] {
        let (code, message) = hawser(arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
    }
}

/// Without a unit, seconds cannot be told from nanoseconds.
#[test]
fn a_span_without_a_unit_ends_with_2() {
    for arguments in [
        &["bus", "modify", "0:1", "tcp.conn.cc.cwnd", "9", "--lease", "5"][..],
        &["bus", "steer", "fast", "--for", "5"],
        &["watch", "--interval", "5"],
        &["kernel", "--for", "5"],
        &["rpc", "call", "10.9.0.1:7000", "--duration", "5"],
        &["rpc", "call", "10.9.0.1:7000", "--deadline", "5"],
    ] {
        let (code, message) = hawser(arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(
            message.contains("`5` has no unit: write 5s for seconds"),
            "{arguments:?}: {message}"
        );
    }
}

/// As for `serve` and `get`, the fault is in the arguments (2) or in this machine (4), and not in the network
/// (5).
#[test]
fn a_session_without_a_usable_stack_ends_with_2_or_4() {
    let recv = |arguments: &[&str]| {
        hawser(
            &[
                &[
                    "recv",
                    "198.51.100.1",
                    "--over",
                    "mtp-tcp",
                    "--addr",
                    "198.51.100.2/24",
                ],
                arguments,
            ]
            .concat(),
        )
    };
    let (code, message) = recv(&["--dev", "packet:nosuch0"]);
    assert!(code == 4 && message.contains("nosuch0"), "{code}: {message}");
    let (code, message) = recv(&["--dev", "packet:lo", "--param", "NO_SUCH=1"]);
    assert!(code == 2 && message.contains("NO_SUCH"), "{code}: {message}");
    let (code, message) = hawser(&["recv", "198.51.100.1", "--over", "mtp-tcp"]);
    assert!(code == 2 && message.contains("--dev"), "{code}: {message}");
}

#[test]
fn an_attachment_is_checked_without_a_process() {
    let cap = repository().join("examples/attach/cap.mtp").display().to_string();
    let check = |file: &str| hawser(&["check", "--attach", "tcp", file]);
    assert_eq!(check(&cap), (0, String::new()));
    let wrong = file(
        "wrong-place.mtp",
        "void cap(event_t ev, tcp_conn c) { }\nattach cap after cb;\n",
    );
    let (code, message) = check(&wrong);
    assert!(code == 1 && message.contains("`cb`"), "{code}: {message}");
    let (code, message) = check(&file("no-place.mtp", "void cap(event_t ev, tcp_conn c) { }\n"));
    assert!(
        code == 1 && message.contains("attaches nothing"),
        "{code}: {message}"
    );
    let (code, message) = hawser(&["check", "--attach", "nosuch", &cap]);
    assert!(
        code == 2 && message.contains("unknown program `nosuch`"),
        "{code}: {message}"
    );
}

#[test]
fn an_unknown_program_ends_with_2() {
    for command in ["check", "programs", "build", "build --as c"] {
        let arguments: Vec<&str> = command.split(' ').chain(["nosuch"]).collect();
        let (code, message) = hawser(&arguments);
        assert_eq!(code, 2, "{command}: {message}");
        assert!(
            message.contains("unknown program `nosuch`"),
            "{command}: {message}"
        );
    }
}

#[test]
fn a_bad_packet_test_does_not_keep_others_from_running() {
    let good = repository().join("transports/homa/steps/need_ack.steps");
    let bad = file("nowhere.steps", "program nosuch.mtp\n");
    for missing in [bad.as_str(), "nosuch.steps"] {
        let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .arg("test")
            .arg(missing)
            .arg(&good)
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .output()
            .expect("hawser starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("need_ack.steps: ok"), "{output:?}");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}

#[test]
fn an_unreadable_file_ends_with_3() {
    let missing = ["check", "sim run", "fmt"]
        .map(|command| command.split(' ').chain(["nosuch.file"]).collect::<Vec<_>>());
    let broken = file("broken.toml", "program = 3\n");
    let binary = file("binary.mtp", [0xff, 0xfe, 0x00]);
    let others = [
        vec!["sim", "run", broken.as_str()],
        vec!["check", binary.as_str()],
    ];
    for arguments in missing.into_iter().chain(others) {
        let (code, message) = hawser(&arguments);
        assert_eq!(code, 3, "{arguments:?}: {message}");
        assert!(!message.is_empty(), "{arguments:?} gives the reason");
    }
}

#[test]
fn a_bad_file_does_not_keep_others_from_being_formatted() {
    let wrong = file("unparsable.mtp", "context {");
    let other = file("unformatted.mtp", "context   c { uint32 x; }\n");
    let (code, message) = hawser(&["fmt", &wrong, "nosuch.mtp", &other]);
    assert_eq!(code, 3, "{message}");
    assert!(
        message.contains("unparsable.mtp has errors") && message.contains("nosuch.mtp"),
        "{message}"
    );
    assert_eq!(
        fs::read_to_string(other).expect("it is there"),
        "context c { uint32 x; }\n"
    );
}

#[test]
fn options_that_contradict_each_other_end_with_2() {
    let tun = "--dev=tun:hawser0";
    for (options, reported) in [
        (
            &[tun, "--addr=10.9.0.1/24", "--kernel-addr=10.9.0.1/24"][..],
            "two hosts",
        ),
        (&[tun, "--addr=10.9.0.2/24", "--addr=10.9.0.2/16"], "twice"),
        (
            &[
                "--dev=packet:eth0",
                "--addr=10.9.0.2/24",
                "--kernel-addr=10.9.0.1/24",
            ],
            "TUN",
        ),
        (
            &[
                "--dev=dpdk:net_memif0",
                "--addr=10.9.0.2/24",
                "--kernel-addr=10.9.0.1/24",
            ],
            "net_tap",
        ),
        (&["--dev=tun:a/b", "--addr=10.9.0.2/24"], "name a device"),
        (&[tun, "--addr=10.9.0.2/24", "--port=0"], "--port"),
    ] {
        let (code, message) = hawser(&[&["serve", "."], options].concat());
        assert_eq!(code, 2, "{options:?}: {message}");
        assert!(message.contains(reported), "{options:?}: {message}");
    }
    let (code, message) = hawser(&[
        "get",
        "http://10.9.0.1/x",
        tun,
        "--addr=10.9.0.2/24",
        "--json",
        "-o",
        "-",
    ]);
    assert_eq!(code, 2, "{message}");
}

#[test]
fn invalid_call_arguments_end_with_2() {
    let device = ["--dev=tun:hawser0", "--addr=10.9.0.2/24"];
    for (arguments, reported) in [
        (&["10.9.0.1:0"][..], "port 0 is invalid"),
        (&["10.9.0.1"], "expected ADDRESS:PORT, as in 10.9.0.1:7000"),
        (&["10.9.0.1:7000", "--deadline=0"], "more than 0"),
        (&["10.9.0.1:7000", "--duration=1441min"], "the limit is a day"),
        (&["10.9.0.2:7000"], "10.9.0.2 is the address of this stack itself"),
    ] {
        let (code, message) = hawser(&[&["rpc", "call"], arguments, &device].concat());
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(message.contains(reported), "{arguments:?}: {message}");
    }
    let (code, message) = hawser(&[&["get", "http://10.9.0.2/x"][..], &device].concat());
    assert!(
        code == 2 && message.contains("this stack itself"),
        "{code}: {message}"
    );
}

/// Commands that take a program's file and do not change it also take the name of a built-in program.
#[test]
fn built_in_programs_are_named_where_files_are() {
    for arguments in [
        &["check", "homa", "tcp-fast"][..],
        &["check", "--explain-offload", "tcp"],
        &["build", "--as", "c", "homa"],
        &["build", "--as", "wireshark", "homa"],
    ] {
        assert_eq!(hawser(arguments), (0, String::new()), "{arguments:?}");
    }
    let (code, message) = hawser(&["fmt", "homa"]);
    assert_eq!(code, 3, "{message}");
    assert!(
        message.contains("`homa` is built in, and has no file to format"),
        "{message}"
    );
    let (code, message) = hawser(&["build", "--as", "c", "./homa"]);
    assert_eq!(
        (code, message.trim_end()),
        (3, "hawser: cannot read ./homa: the file does not exist")
    );
}

/// Endless files, as an argument of a command and as named by a scenario.
#[test]
fn files_without_an_end_end_with_3() {
    let zero = "/dev/zero";
    for (command, reported) in [
        (
            "sim run",
            "cannot read /dev/zero: the file has more than the limit of 67108864 bytes",
        ),
        (
            "sim sweep",
            "cannot read /dev/zero: the file has more than the limit of 67108864 bytes",
        ),
        ("check", "cannot read /dev/zero: the path is not a file"),
        ("build --as c", "cannot read /dev/zero: the path is not a file"),
        ("fmt", "cannot read /dev/zero: the path is not a file"),
        (
            "test",
            "cannot read /dev/zero: the file has more than the limit of 67108864 bytes",
        ),
        (
            "bus attach",
            "/dev/zero: the file has more than the limit of 32768 bytes",
        ),
        (
            "recv --config",
            "cannot read /dev/zero: the file has more than the limit of 67108864 bytes",
        ),
    ] {
        let arguments: Vec<&str> = command.split(' ').chain([zero]).collect();
        let (code, message) = hawser(&arguments);
        assert_eq!(code, 3, "{command}: {message}");
        assert!(message.contains(reported), "{command}: {message}");
    }
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipe");
    let _ = fs::remove_file(&pipe);
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    for name in ["pipe", zero] {
        for key in ["size_file", "trace"] {
            let text = format!(
                "program = 'homa'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nlink = [{{ between = ['a', 'b'] }}]\n\
                 [[flow]]\nfrom = 'a'\nto = 'b'\ncalls = {{ reply = 1, {key} = '{name}' }}\n"
            );
            let (code, message) = hawser(&["sim", "run", &file("endless.toml", text)]);
            assert_eq!(code, 3, "{name}: {message}");
            let expected = format!("`flow[0].calls.{key}`: cannot read ");
            assert!(
                message.contains("endless.toml: line 7, column ")
                    && message.contains(&expected)
                    && message.contains(": the path is not a regular file"),
                "{message}"
            );
        }
    }
}

/// A scenario from a pipe is treated like any other.
#[test]
fn a_scenario_may_come_from_a_pipe() {
    let scenario = repository().join("examples/scenarios/tcp-lossy.toml");
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    hawser.args([
        "sim",
        "picture",
        "/dev/stdin",
        "--show-topology",
        &file("piped.svg", ""),
    ]);
    hawser.stdin(std::process::Stdio::piped());
    let mut hawser = hawser.spawn().expect("hawser starts");
    let mut stdin = hawser.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, &fs::read(scenario).expect("the example")).expect("it reads");
    drop(stdin);
    assert!(hawser.wait().expect("it ends").success());
}

#[test]
fn a_span_of_time_that_ends_before_it_begins_ends_with_2() {
    let scenario = repository().join("examples/scenarios/tcp-clean.toml");
    let scenario = scenario.display().to_string();
    let drawn = file("drawn.html", "");
    for arguments in [
        &["sim", "trace", &scenario][..],
        &["sim", "picture", &scenario, "--html", &drawn],
    ] {
        let (code, message) = hawser(&[arguments, &["--from", "5s", "--to", "1s"]].concat());
        assert_eq!(code, 2, "{message}");
        assert!(message.contains("--from 5s is later than --to 1s"), "{message}");
    }
}

/// A fault that appears only with the program is reported with file and line, like faults of the scenario
/// itself.
#[test]
fn a_flow_the_program_cannot_carry_is_reported_with_its_place() {
    for (flow, reported) in [
        (
            "bulk = { bytes = 1 }",
            "line 7, column 8: `flow[0].bulk`: `homa` offers no connections",
        ),
        (
            "calls = { size = 1 }",
            "line 7, column 9: `flow[0].calls`: `homa` offers calls, but no messages without",
        ),
    ] {
        let text = format!(
            "program = 'homa'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nlink = [{{ between = ['a', 'b'] }}]\n\
             [[flow]]\nfrom = 'a'\nto = 'b'\n{flow}\n"
        );
        let scenario = file("not-carried.toml", text);
        for command in ["run", "trace", "shrink"] {
            let (code, message) = hawser(&["sim", command, &scenario]);
            assert_eq!(code, 3, "{command}: {message}");
            assert!(
                message.contains(&format!("{scenario}: {reported}")),
                "{command}: {message}"
            );
        }
    }
}

#[test]
fn a_missing_device_ends_with_4() {
    let (code, message) = hawser(&["serve", ".", "--dev", "packet:nosuch0", "--addr", "10.9.0.2/24"]);
    assert_eq!(code, 4, "{message}");
    assert!(message.contains("nosuch0"), "{message}");
}

#[test]
fn a_closed_output_pipe_ends_with_0() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut hawser = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = hawser
        .args(["explain", "E0020"])
        .stdout(writer)
        .output()
        .expect("hawser starts");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn diagnostics_of_several_programs_are_one_json_value() {
    let wrong = file("first.mtp", "// Wrong.\ncontext c { nosuch x; }\n");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["check", "--json", &wrong, &wrong])
        .output()
        .expect("hawser starts");
    let diagnostics: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one value");
    let codes: Vec<_> = diagnostics
        .as_array()
        .into_iter()
        .flatten()
        .map(|f| f["code"].as_str())
        .collect();
    assert_eq!(codes, [Some("E0203"), Some("E0203")]);
}

#[test]
fn a_failing_swarm_saves_a_replayable_scenario() {
    // The program has no simultaneous open, so the first seed fails.
    let program = repository().join("examples/stop-and-wait.mtp");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swarm");
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    let saved = folder.join("failure.toml");
    let swarm = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .current_dir(program.parent().expect("it lies in a folder"))
        .args([
            "swarm",
            "stop-and-wait.mtp",
            "--runs",
            "1",
            "--json",
            "--no-shrink",
            "--save",
        ])
        .arg(&saved)
        .output()
        .expect("hawser starts");
    assert_eq!(swarm.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&swarm.stderr).contains("--plain"),
        "it shows what may be asked less"
    );
    let result: serde_json::Value = serde_json::from_slice(&swarm.stdout).expect("one value");
    assert_eq!((&result["ok"], &result["seed"]), (&false.into(), &1.into()));
    let (code, message) = hawser(&["sim", "replay", &saved.display().to_string(), "--seed", "1"]);
    assert_eq!(code, 1, "{message}");
}

#[test]
fn a_swarm_result_does_not_depend_on_the_job_count() {
    let program = repository()
        .join("examples/stop-and-wait.mtp")
        .display()
        .to_string();
    let saved = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("jobs-failure.toml")
        .display()
        .to_string();
    let swarm = |more: &[&str]| {
        let common = [
            "sim",
            "swarm",
            &program,
            "--json",
            "--no-shrink",
            "--save",
            &saved,
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(common)
            .args(more)
            .output();
        let output = output.expect("hawser starts");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("UTF-8"),
        )
    };
    for options in [
        &["--plain", "--runs", "24"][..],
        &["--runs", "24", "--first", "1"],
    ] {
        let one = swarm(&[options, &["--jobs", "1"]].concat());
        assert_eq!(one.0, Some(i32::from(!options.contains(&"--plain"))), "{}", one.1);
        for jobs in ["2", "7"] {
            assert_eq!(swarm(&[options, &["--jobs", jobs]].concat()), one, "{jobs} jobs");
        }
    }
    // A time limit ends the swarm early, and the completed runs are reported.
    let (code, message) = swarm(&["--plain", "--runs", "1000000", "--jobs", "2", "--for", "200ms"]);
    let result: serde_json::Value = serde_json::from_str(&message).expect("one value");
    let runs = result["runs"].as_u64().expect("a number");
    assert!(code == Some(0) && (1..1_000_000).contains(&runs), "{message}");
    for wrong in [&["--jobs", "0"][..], &["--for", "5"], &["--for", "soon"]] {
        assert_eq!(swarm(wrong).0, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_swarm_sets_params() {
    let program = repository().join("examples/go-back-n.mtp").display().to_string();
    let swarm = |param: &str| hawser(&["sim", "swarm", &program, "--runs", "1", "--param", param]);
    assert_eq!(swarm("RTO=3s"), (0, String::new()));
    assert_eq!(swarm("RTO").0, 2);
    assert_eq!(swarm("RTO=soon").0, 2);
    assert_eq!(swarm("RTO=5").0, 2);
    assert_eq!(swarm("NOSUCH=1").0, 2);
}

#[test]
fn absent_programs_and_params_end_with_2_or_3() {
    let device = ["--dev=packet:nosuch0", "--addr=10.9.0.2/24"];
    let serve = |options: &[&str]| hawser(&[&["serve", "."], &device[..], options].concat());
    for options in [
        &["--program=nosuch"][..],
        &["--param=NOSUCH=1"],
        &["--param=MIN_RTO=5"],
    ] {
        let (code, message) = serve(options);
        assert_eq!(code, 2, "{options:?}: {message}");
    }
    assert_eq!(hawser(&["sim", "swarm", "nosuch"]).0, 2);
    assert_eq!(hawser(&["test", "--program=nosuch", "a.pkt"]).0, 2);
    assert_eq!(serve(&["--program=nosuch.mtp"]).0, 3);
    // Unknown names within a file are faults of that file.
    let scenario = |line: &str| {
        let rest = "host = [{ name = 'a' }, { name = 'b' }]\nlink = [{ between = ['a', 'b'] }]\n\
                    flow = [{ from = 'a', to = 'b', bulk = { bytes = 1 } }]\n";
        hawser(&["sim", "run", &file("names.toml", format!("{line}\n{rest}"))])
    };
    for (line, reported) in [
        ("program = 'nosuch'", "unknown program `nosuch`"),
        (
            "program = 'tcp'\nparams = { NOSUCH = 1 }",
            "unknown param `NOSUCH`",
        ),
        (
            "program = 'tcp'\nparams = { MIN_RTO = 5 }",
            "MIN_RTO takes a duration with its unit (200ms), not `5`",
        ),
    ] {
        let (code, message) = scenario(line);
        assert_eq!(code, 3, "{line}: {message}");
        assert!(message.contains(reported), "{line}: {message}");
    }
}

#[test]
fn files_named_in_help_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("--help")
        .output()
        .expect("hawser starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let named: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("examples/"))
        .collect();
    assert_eq!(named.len(), 2);
    for file in named {
        assert!(repository().join(file).is_file(), "{file}");
    }
}

#[test]
fn every_code_of_the_page_stands_in_help() {
    let page = fs::read_to_string(repository().join("docs/exit-codes.md")).expect("the page is there");
    let codes = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok());
    let help = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("--help")
        .output()
        .expect("hawser starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (_, reported) = help.split_once("Exit codes:").expect("the exit codes");
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    assert_eq!(codes.len(), 7);
    for code in codes {
        let words: Vec<&str> = reported.split([' ', ',', '\n']).collect();
        assert!(words.contains(&code.as_str()), "{code} is not in {reported}");
    }
}

/// The path of `--interact` may belong to another process, or be a folder. Each command that can be watched
/// reports this and exits with 4, whether it opens the socket inside a runtime or not.
#[test]
fn a_socket_that_cannot_be_opened_ends_with_4() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let taken = folder.join("taken");
    let _listener = std::os::unix::net::UnixListener::bind(&taken).expect("a socket");
    let here = file("sent.bin", "content");
    for place in [taken.as_path(), &folder] {
        let interact = format!("--interact={}", place.display());
        for command in [
            vec!["send", here.as_str(), "--listen", "127.0.0.1:0"],
            vec!["recv", "--listen", "127.0.0.1:0"],
            vec!["cat", "--listen", "127.0.0.1:0"],
            vec!["kernel", "--for", "1s"],
            vec!["proxy", "--listen", "127.0.0.1:0"],
        ] {
            let (code, message) = hawser(&[&command[..], &[interact.as_str()]].concat());
            assert_eq!(code, 4, "{command:?} at {}: {message}", place.display());
            if command[0] == "kernel" && message.contains("CAP_BPF") {
                skip(Need::Ebpf, "a_socket_that_cannot_be_opened_ends_with_4", message);
                continue;
            }
            assert!(message.contains(&place.display().to_string()), "{message}");
        }
    }
}

/// A command that needs root says so before anything runs, and names the alternative.
#[test]
fn scripts_in_the_kernel_take_root() {
    if !has("scripts_in_the_kernel_take_root", &[Need::Netns]) {
        return;
    }
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../transports/tcp/scripts/RFC9293/passive-open.pkt"
    );
    let mut command = Command::new("unshare");
    command.args(["-Ur", env!("CARGO_BIN_EXE_hawser")]);
    let output = command
        .args(["test", "--target=xdp", script])
        .output()
        .expect("unshare starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("--target host works without"), "{message}");
}
