//! `hawser sim sweep`: each task runs once, wherever it runs and whichever processes die.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, skip};
use serde_json::{Value, json};

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Prepares a scenario, and a sweep beside it.
fn stage(sweep: &str) -> Folder {
    let folder = Folder::new().expect("a folder");
    let examples = root().join("examples");
    for name in ["go-back-n.mtp", "scenarios/go-back-n.toml"] {
        let name = Path::new(name);
        fs::copy(
            examples.join(name),
            folder.join(name.file_name().expect("a name")),
        )
        .expect("a copy");
    }
    let scenario = folder.join("go-back-n.toml");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    fs::write(scenario, text.replace("../go-back-n.mtp", "go-back-n.mtp")).expect("it is written");
    write(&folder, sweep);
    folder
}

fn write(folder: &Folder, sweep: &str) {
    let text = format!("scenario = \"go-back-n.toml\"\n{sweep}");
    fs::write(folder.join("sweep.toml"), text).expect("it is written");
}

fn command(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(HAWSER);
    command.args(["sim", "sweep"]).arg(folder.join("sweep.toml"));
    command.arg("--out").arg(folder.join("out")).args(args);
    command
}

fn sweep(folder: &Folder, args: &[&str]) -> (Option<i32>, Value, String) {
    let output = command(folder, args)
        .arg("--json")
        .output()
        .expect("hawser starts");
    read(&output)
}

fn read(output: &Output) -> (Option<i32>, Value, String) {
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), value, errors)
}

/// Returns the rows of the table by fields, without the header.
fn table(folder: &Folder) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join("out/table.csv")).expect("the table");
    let lines = text.lines().skip(1);
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

const WINDOWS: &str = "seeds = { from = 1, to = 2 }\n[[vary]]\nname = \"delay\"\nkey = \"link.a-b.both.delay\"\n\
                       values = [\"1ms\", \"5ms\"]\n[[vary]]\nkey = \"params.WINDOW\"\nfrom = 4\nto = 12\nstep = 8\n";

#[test]
fn a_sweep_runs_missing_combinations_and_keeps_the_others() {
    let folder = stage(WINDOWS);
    let (code, result, errors) = sweep(&folder, &[]);
    assert_eq!(
        (code, &result["ran"], &result["kept"]),
        (Some(0), &json!(8), &json!(0)),
        "{errors}"
    );
    let rows = table(&folder);
    let keys: Vec<String> = rows.iter().map(|row| row[..3].join(" ")).collect();
    let expected = [
        "1ms 4 1", "1ms 4 2", "1ms 12 1", "1ms 12 2", "5ms 4 1", "5ms 4 2", "5ms 12 1", "5ms 12 2",
    ];
    assert_eq!(keys, expected);
    // One of the tasks, run by hand.
    let scenario = fs::read_to_string(folder.join("go-back-n.toml")).expect("the scenario");
    let by_hand = scenario
        .replace("delay = \"10ms\"", "delay = \"5ms\"")
        .replace("WINDOW = 16", "WINDOW = 12");
    assert_ne!(scenario, by_hand);
    fs::write(folder.join("by-hand.toml"), by_hand).expect("it is written");
    let mut alone = Command::new(HAWSER);
    alone
        .args(["sim", "run"])
        .arg(folder.join("by-hand.toml"))
        .args(["--seed", "2", "--json"]);
    let (_, alone, _) = read(&alone.output().expect("hawser starts"));
    assert_eq!(rows[7][4], alone["seconds"].to_string(), "{rows:?}");
    // A repeated sweep runs no task. With an additional value it runs only the new tasks.
    let (_, again, _) = sweep(&folder, &[]);
    assert_eq!((&again["ran"], &again["kept"]), (&json!(0), &json!(8)));
    write(
        &folder,
        &WINDOWS.replace("[\"1ms\", \"5ms\"]", "[\"1ms\", \"2ms\", \"5ms\"]"),
    );
    let (_, more, _) = sweep(&folder, &[]);
    assert_eq!(
        (&more["ran"], &more["kept"], table(&folder).len()),
        (&json!(4), &json!(8), 12)
    );
    // A program with a different text is a different program.
    let program = folder.join("go-back-n.mtp");
    let text = fs::read_to_string(&program).expect("the program");
    fs::write(&program, text + "\n// changed\n").expect("it is written");
    let (_, changed, _) = sweep(&folder, &[]);
    assert_eq!((&changed["ran"], &changed["kept"]), (&json!(12), &json!(0)));
    for name in ["seconds.svg", "bits_per_second.svg", "table.json"] {
        assert!(folder.join("out").join(name).exists(), "{name}");
    }
}

/// The task of a killed worker is taken up by another worker.
#[test]
fn a_killed_worker_is_replaced() {
    let folder = stage("seeds = { from = 1, to = 40 }\n");
    let running = command(&folder, &["--jobs", "2", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let workers = |parent: u32| -> Vec<i32> {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        // The workers are children of the parent's threads.
        let threads = fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten()
            .flatten();
        let of_threads = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let all: String = of_threads.chain(children).collect();
        all.split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let results = || fs::read_dir(folder.join("out/results")).map_or(0, Iterator::count);
    while results() < 3 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = workers(running.id());
    for pid in &killed {
        let status = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }
    let before = results();
    let output = running.wait_with_output().expect("it ends");
    let (code, result, errors) = read(&output);
    assert!(!killed.is_empty() && before < 40, "{killed:?} {before}");
    assert_eq!((code, &result["ran"]), (Some(0), &json!(40)), "{errors}");
    let seeds: BTreeSet<String> = table(&folder).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(seeds.len(), 40);
}

#[test]
fn a_failed_run_keeps_its_seed_and_command() {
    // No data can be delivered in this time.
    let folder = stage("[[vary]]\nkey = \"duration\"\nvalues = [\"5min\", \"150ms\"]\n");
    let (code, result, _) = sweep(&folder, &[]);
    let failed = &result["failed"];
    assert_eq!(
        (code, failed.as_array().map(Vec::len)),
        (Some(1), Some(1)),
        "{result}"
    );
    assert_eq!(
        (&failed[0]["seed"], &failed[0]["choices"][0]),
        (&json!(1), &json!("150ms"))
    );
    let words = failed[0]["command"].as_str().expect("a command");
    let words: Vec<&str> = words.split(' ').collect();
    let again = Command::new(HAWSER)
        .args(&words[1..])
        .output()
        .expect("hawser starts");
    assert_eq!((words[0], again.status.code()), ("hawser", Some(1)), "{words:?}");
    assert_eq!(table(&folder)[1][2], "false");
}

/// Checks the script's text, and runs each element of it as Slurm would.
#[test]
fn a_batch_script_runs_the_missing_tasks() {
    let folder = stage(WINDOWS);
    let (_, _, _) = sweep(&folder, &["--task", "3"]);
    let (code, result, errors) = sweep(&folder, &["--on", "slurm"]);
    assert_eq!((code, &result["tasks"]), (Some(0), &json!(7)), "{errors}");
    let script = folder.join("out/sweep.sbatch");
    let text = fs::read_to_string(&script).expect("the script");
    assert!(
        text.starts_with("#!/bin/sh\n") && text.contains("\n#SBATCH --array=1-2,4-8\n"),
        "{text}"
    );
    for number in [1, 2, 4, 5, 6, 7, 8] {
        let status = Command::new("sh")
            .arg(&script)
            .env("SLURM_ARRAY_TASK_ID", number.to_string())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{number}");
    }
    let (_, merged, _) = sweep(&folder, &[]);
    assert_eq!((&merged["ran"], &merged["kept"]), (&json!(0), &json!(8)));
    let (_, empty, _) = sweep(&folder, &["--on", "slurm"]);
    assert_eq!(empty, json!({ "tasks": 0, "script": null }));
}

/// An error of the scenario is reported with its place there. If one column is wrong, the rest of the table
/// is still written.
#[test]
fn errors_of_a_sweep_name_the_file_they_are_in() {
    let folder = stage("[[vary]]\nkey = \"seed\"\nvalues = [1]\n");
    let scenario = folder.join("go-back-n.toml");
    let text = fs::read_to_string(&scenario).expect("the scenario");
    fs::write(
        &scenario,
        format!("duration = \"1h\"\n{text}").replacen("\nduration", "\n#", 1),
    )
    .expect("it is written");
    let (code, _, errors) = sweep(&folder, &[]);
    let expected = "go-back-n.toml: line 1, column 12: `duration`: `1h` is not a number";
    assert!(code == Some(3) && errors.contains(expected), "{errors}");

    let folder =
        stage("[[column]]\nname = \"a\"\nof = \"seconds\"\n[[column]]\nname = \"b\"\nof = \"second\"\n");
    assert_eq!(sweep(&folder, &[]).0, Some(3));
    let text = fs::read_to_string(folder.join("out/table.csv")).expect("the table");
    assert!(text.starts_with("seed,ok,a,id\r\n"), "{text}");
}

/// A pipe without a writer, and an endless device.
#[test]
fn a_scenario_is_read_from_a_file_and_not_from_a_pipe() {
    let folder = stage("");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    for (name, expected) in [
        ("pipe", "pipe: the path is not a regular file"),
        (
            "/dev/zero",
            "cannot read /dev/zero: the path is not a regular file",
        ),
    ] {
        let text = format!("scenario = \"{name}\"\n");
        fs::write(folder.join("sweep.toml"), text).expect("it is written");
        let (code, _, errors) = sweep(&folder, &[]);
        assert!(code == Some(3) && errors.contains(expected), "{errors}");
    }
}

/// The page shows the file that its first command runs.
#[test]
fn the_example_of_the_page_is_the_one_in_the_repository() {
    let page = fs::read_to_string(root().join("docs/sweeps.md")).expect("the page");
    let example = fs::read_to_string(root().join("examples/sweeps/windows.toml")).expect("the example");
    assert!(page.contains("hawser sim sweep examples/sweeps/windows.toml"));
    let (_, rest) = page.split_once("```toml\n").expect("a block");
    let (shown, _) = rest.split_once("```\n").expect("its end");
    assert_eq!(shown, example);
}

#[test]
fn a_mistake_is_shown_with_its_place_and_a_hint() {
    for (text, expected) in [
        (
            "[[vary]]\nkee = \"a\"\n",
            "line 3, column 1: `vary[0].kee`: unknown key `kee`",
        ),
        (
            "[[vary]]\nkey = \"seed\"\n",
            "`vary[0]`: this entry cannot vary\n  hint: give a `key` with `values`",
        ),
        (
            "[[vary]]\nkey = \"link.9.both.loss\"\nvalues = [0.1]\n",
            "sweep.toml: line 3: with link.9.both.loss = 0.1: `link.9.both.loss`: the element `9` does not exist",
        ),
        (
            "[[vary]]\nkey = \"link.a-b.both.los\"\nvalues = [0.1]\n",
            "did you mean `loss`?",
        ),
        (
            "[[vary]]\nkey = \"params.WINDOW\"\nvalues = [1, 1]\n",
            "`1` occurs twice",
        ),
        (
            "[[vary]]\nkey = \"params.WINDOW\"\nfrom = 1\nto = 9\nstep = -1\n",
            "from 1 to 9 in steps of -1",
        ),
        (
            "[[vary]]\nkey = \"program.x\"\nvalues = [1]\n",
            "`program` is a value and has no keys",
        ),
        (
            "[[vary]]\nkey = \"program\"\nvalues = [\"hom\"]\n",
            "sweep.toml: line 3: unknown program `hom`",
        ),
        (
            "[[vary]]\nkey = \"seed\"\nvalues = [1]\n[[vary]]\nkey = \"flow.0.at\"\nvalues = [0, \"1h\"]\n",
            "sweep.toml: line 6: with seed = 1, flow.0.at = 1h: `flow[0].at`: `1h` is not a number and one of",
        ),
        (
            "[[column]]\nname = \"a\"\nof = \"seconds\"\n[[column]]\nname = \"b\"\nof = \"flows.*.goodput\"\nby = \"sum\"\n",
            "sweep.toml: line 7, column 6: `column[1].of`: no report has a figure `flows.*.goodput`\n  hint: the figures are",
        ),
        (
            "seeds = \"all\"\n",
            "hint: seeds = [1, 2, 3], or seeds = { from = 1, to = 100 }",
        ),
        ("seeds = [1, 1]\n", "each seed only once"),
        ("seeds = { from = 0, to = 5000000 }\n", "no values, or too many"),
        (
            "[[column]]\nname = \"x\"\nof = \"flows.*.ok\"\n",
            "hint: `by` makes one of them: sum, mean",
        ),
        (
            "[[column]]\nname = \"../x\"\nof = \"seconds\"\n",
            "letters, digits",
        ),
    ] {
        let folder = stage(text);
        let (code, _, errors) = sweep(&folder, &[]);
        assert!(
            code == Some(3) && errors.contains(expected),
            "{text}{code:?} {errors}"
        );
    }
    let folder = stage("");
    for (args, code) in [
        (&["--task", "2"][..], 2),
        (&["--on", "ray:"], 2),
        (&["--on", "ray", "--python", "false"], 4),
    ] {
        assert_eq!(sweep(&folder, args).0, Some(code), "{args:?}");
    }
}

/// Two nodes in namespaces of their own, one of which dies.
const CLUSTER: &str = r#"
set -eu
ip link set lo up
export RAY_ADDRESS=127.0.0.1:6379
# In the usual folder there may be files of another user's.
export RAY_TMPDIR="$FOLDER"
node="--num-cpus=1 --disable-usage-stats --block --object-store-memory=80000000 --node-ip-address=127.0.0.1"
begin() {
    setsid "$RAY/ray" start "$@" $node >"$FOLDER/$1" 2>&1 &
    until grep -q 'block forever' "$FOLDER/$1"; do
        sleep 0.1
        kill -0 $! || { cat "$FOLDER/$1" >&2; exit 1; }
    done
}
begin --head --port=6379 --include-dashboard=false --temp-dir="$FOLDER/ray"
begin --address=127.0.0.1:6379
node=$!
"$HAWSER" sim sweep "$FOLDER/sweep.toml" --out "$FOLDER/out" --on ray --python "$RAY/python" --json &
sweep=$!
until [ "$(ls "$FOLDER/out/results" | wc -l)" -ge 20 ]; do
    sleep 0.1
    kill -0 $sweep
done
[ "$(ls "$FOLDER/out/results" | wc -l)" -lt 200 ]
kill -9 -- -$node
# What Ray says of it may come after the end of the sweep; that it knows of it does not change.
"$RAY/python" - >&2 <<'END'
import ray, time
ray.init(log_to_driver=False)
while all(node["Alive"] for node in ray.nodes()):
    time.sleep(0.1)
END
wait $sweep
"#;

/// A module beside the sweep, which another user may have put there, is not imported instead of Ray.
#[test]
fn modules_beside_the_sweep_are_not_imported() {
    let folder = stage("seeds = { from = 1, to = 2 }\n");
    let marker = folder.join("imported");
    let module = format!(
        "open({:?}, 'w')\nraise ImportError\n",
        marker.display().to_string()
    );
    for name in ["ray.py", "json.py", "base64.py"] {
        fs::write(folder.join(name), &module).expect("it is written");
    }
    let (code, _, errors) = read(
        &command(&folder, &["--on", "ray"])
            .current_dir(&*folder)
            .env("PYTHONPATH", &*folder)
            // There is no cluster at this address, so no cluster is used or started even if Python has Ray.
            .env("RAY_ADDRESS", "127.0.0.1:1")
            .output()
            .expect("hawser starts"),
    );
    assert!(!marker.exists(), "a module of the folder was run");
    assert_ne!(code, Some(0), "{errors}");
}

/// The task of a dying node is retried on the other one, and no task is counted twice.
#[test]
fn ray_loses_a_node_and_no_task() {
    let what = "sweep: ray_loses_a_node_and_no_task";
    let ray = root().join("target/ray/bin");
    // The installation may use another user's Python, which this user may be unable to access.
    let has_ray = Command::new(ray.join("python"))
        .args(["-c", "import ray"])
        .output();
    if !has_ray.is_ok_and(|output| output.status.success()) {
        let why = "there is no Ray that this user can run: scripts/phases setup installs it";
        return skip(Need::Ray, what, why);
    }
    // The names of the nodes' sockets are limited to 107 bytes.
    let folder = stage("seeds = { from = 1, to = 200 }\n");
    let output = Command::new("timeout")
        .args([
            "300",
            "unshare",
            "-Urnp",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "bash",
            "-c",
            CLUSTER,
        ])
        .env("RAY", ray.canonicalize().expect("it is there"))
        .env("HAWSER", HAWSER)
        .env("FOLDER", &*folder)
        .output()
        .expect("unshare starts");
    let (code, result, errors) = read(&output);
    assert_eq!(
        (code, &result["ran"], &result["kept"]),
        (Some(0), &json!(200), &json!(0)),
        "{errors}"
    );
    let seeds: BTreeSet<String> = table(&folder).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(seeds.len(), 200);
}
