//! Folders of policies, and the reaction of a watch to files that change, become faulty and are repaired.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser_connect::policy::document::{self, Format};
use hawser_connect::policy::{
    FileError, Folders, Manager, NameTable, NodeFileTimes, Options, PolicyWatcher, ReloadEvent, WatchError,
};
use parking_lot::Mutex;

const NOW: f64 = 1_700_000_000.0;
const NODE: &str = r#"{ "root": true, "expire": -1, "properties": { "interface": { "value": "eth0" } } }"#;

fn policy(score: i32) -> String {
    format!(r#"{{ "uid": "one", "properties": {{ "rtt": {{ "value": 1, "score": {score} }} }} }}"#)
}

/// Makes two empty folders for one test.
fn folders(name: &str) -> Folders {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("policy-{name}"));
    let _ = fs::remove_dir_all(&root);
    let [pib, cib] = ["pib", "cib"].map(|part| root.join(part));
    for folder in [&pib, &cib] {
        fs::create_dir_all(folder).expect("the folder for tests can be written");
    }
    Folders { pib: Some(pib), cib: Some(cib) }
}

fn write(folder: &Option<PathBuf>, name: &str, text: &str) {
    let path = folder.as_ref().expect("a folder").join(name);
    fs::write(path, text).expect("the folder for tests can be written");
}

fn rendered(errors: &[FileError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_kind_of_a_file_follows_from_its_extension() {
    let folders = folders("endings");
    write(&folders.pib, "b.policy", r#"{ "properties": {} }"#);
    write(&folders.pib, "a.profile", r#"{ "properties": {} }"#);
    write(&folders.pib, "c.profile.toml", "priority = -1\n");
    write(&folders.pib, "d.toml", "policy_type = \"profile\"\n");
    write(&folders.pib, "notes.md", "# not a policy");
    write(&folders.pib, ".hidden.policy", "{");
    write(&folders.pib, "#b.policy", "{");
    fs::create_dir(folders.pib.as_ref().expect("a folder").join("more")).expect("a folder");
    write(&folders.pib, "more/e.policy.json", "[{}, { \"uid\": \"named\" }]");
    write(&folders.cib, "eth0.cib", NODE);
    write(
        &folders.cib,
        "peer.remote",
        r#"{ "link": true, "match": [{}], "properties": {} }"#,
    );
    write(&folders.cib, "extra.toml", "match = [{}]\n");
    let base = folders
        .load(NameTable::default(), &mut NodeFileTimes::default(), NOW)
        .expect("they are right");
    let policies: Vec<_> = base.pib.iter().map(|one| (one.kind.name(), &*one.uid)).collect();
    let expected = [
        ("profile", "c"),
        ("profile", "a"),
        ("profile", "d"),
        ("policy", "b"),
        ("policy", "e[0]"),
        ("policy", "named"),
    ];
    assert_eq!(policies, expected);
    let nodes: Vec<_> = base.nodes.iter().map(|(node, _)| &*node.uid).collect();
    assert_eq!(nodes, ["eth0", "extra", "peer"]);
}

#[test]
fn every_mistake_is_reported_with_its_file() {
    let folders = folders("wrong");
    write(&folders.pib, "a.policy", r#"{ "uid": "same", "prioriti": 3 }"#);
    write(&folders.pib, "b.policy", r#"{ "uid": "SAME" }"#);
    write(&folders.pib, "c.policy", r#"{ "uid": "same" }"#);
    write(&folders.pib, "d.policy", r#"{ "policy_type": "profile" }"#);
    write(&folders.cib, "e.cib", "{");
    let errors = folders
        .load(NameTable::default(), &mut NodeFileTimes::default(), NOW)
        .expect_err("they are wrong");
    let rendered = rendered(&errors);
    for part in [
        "a.policy: prioriti: a policy has no such key (did you mean `priority`?)",
        "c.policy: `same` is also in",
        "d.policy: policy_type: the type is \"profile\", but the file is for a policy",
        "e.cib: line 1, column 1: the text ends within an object",
    ] {
        assert!(rendered.contains(part), "{part} is not in\n{rendered}");
    }
    let missing = Folders { pib: None, cib: Some("/nosuch/folder".into()) };
    let errors = missing
        .load(NameTable::default(), &mut NodeFileTimes::default(), NOW)
        .expect_err("it does not exist");
    assert!(
        errors[0].to_string().starts_with("/nosuch/folder: "),
        "{}",
        errors[0]
    );
}

#[test]
fn without_folders_the_shipped_policies_apply() {
    let base = Folders::default()
        .load(NameTable::default(), &mut NodeFileTimes::default(), NOW)
        .expect("it is right");
    assert!(base.pib.iter().any(|policy| &*policy.uid == "session"));
}

/// A node without an end lives from the time at which its file first had it, and again from each change.
#[test]
fn a_node_without_an_expiry_counts_from_its_first_load() {
    let folders = folders("learnt");
    let mut learnt = NodeFileTimes::default();
    let mut since = |text: &str, now: f64| {
        write(&folders.cib, "a.cib", text);
        folders
            .load(NameTable::default(), &mut learnt, now)
            .expect("it is right")
            .nodes[0]
            .1
    };
    assert_eq!(since("{ \"root\": true }", 1.0), 1.0);
    assert_eq!(since("{ \"root\": true }", 2.0), 1.0);
    assert_eq!(since("{ \"root\": true, \"description\": \"new\" }", 3.0), 3.0);
}

/// Returns the score of the best candidate under the policies in force.
fn in_force(manager: &Mutex<Manager>) -> (f64, usize) {
    let mut manager = manager.lock();
    let request = document::request("{}", Format::Json, manager.names_mut())
        .expect("a request")
        .value;
    let ranking = manager.select(&request, NOW).expect("few candidates");
    (ranking.candidates[0].score.rest, ranking.candidates.len())
}

async fn next(watch: &mut PolicyWatcher) -> ReloadEvent {
    tokio::time::timeout(Duration::from_secs(10), watch.next())
        .await
        .expect("in time")
        .expect("it can watch")
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_policy_and_is_reported() {
    let folders = folders("watch");
    write(&folders.pib, "one.policy", &policy(1));
    let manager = Arc::new(Mutex::new(Manager::new(Options::default())));
    let mut watch = PolicyWatcher::open(folders.clone(), manager.clone()).expect("it begins well");
    assert_eq!(in_force(&manager), (1.0, 1));

    write(&folders.pib, "one.policy", &policy(2));
    assert!(matches!(
        next(&mut watch).await,
        ReloadEvent::Loaded { policies: 1, nodes: 0, .. }
    ));
    assert_eq!(in_force(&manager), (2.0, 1));

    write(&folders.pib, "one.policy", r#"{ "uid": "one", "propertys": {} }"#);
    let ReloadEvent::Refused(errors) = next(&mut watch).await else {
        panic!("it is wrong")
    };
    assert!(
        rendered(&errors).contains("propertys: a policy has no such key"),
        "{}",
        rendered(&errors)
    );
    assert_eq!(in_force(&manager), (2.0, 1), "the last good one is in force");

    // A valid change of another file is not applied as long as one file is faulty.
    write(&folders.cib, "eth0.cib", NODE);
    assert!(matches!(next(&mut watch).await, ReloadEvent::Refused(_)));
    assert_eq!(in_force(&manager), (2.0, 1));

    write(&folders.pib, "one.policy", &policy(3));
    assert!(matches!(
        next(&mut watch).await,
        ReloadEvent::Loaded { policies: 1, nodes: 1, .. }
    ));
    assert_eq!(in_force(&manager), (3.0, 2));

    fs::remove_file(folders.cib.as_ref().expect("a folder").join("eth0.cib")).expect("it is there");
    assert!(matches!(
        next(&mut watch).await,
        ReloadEvent::Loaded { nodes: 0, .. }
    ));
    assert_eq!(in_force(&manager), (3.0, 1));
}

#[tokio::test]
async fn files_that_are_moved_into_place_and_new_folders_are_noticed() {
    let folders = folders("moved");
    let manager = Arc::new(Mutex::new(Manager::new(Options::default())));
    let mut watch = PolicyWatcher::open(folders.clone(), manager.clone()).expect("it begins well");
    let pib = folders.pib.clone().expect("a folder");
    fs::write(pib.join(".one.new"), policy(4)).expect("it can be written");
    fs::rename(pib.join(".one.new"), pib.join("one.policy")).expect("it can be moved");
    assert!(matches!(
        next(&mut watch).await,
        ReloadEvent::Loaded { policies: 1, .. }
    ));
    assert_eq!(in_force(&manager), (4.0, 1));

    fs::create_dir(pib.join("more")).expect("a folder");
    write(
        &folders.pib,
        "more/two.policy",
        r#"{ "properties": { "mtu": { "value": 1, "score": 1 } } }"#,
    );
    assert!(matches!(
        next(&mut watch).await,
        ReloadEvent::Loaded { policies: 2, .. }
    ));
    assert_eq!(in_force(&manager), (5.0, 1));
    write(&folders.pib, "more/two.policy", "{");
    assert!(matches!(next(&mut watch).await, ReloadEvent::Refused(_)));
}

#[tokio::test]
async fn opening_fails_if_the_first_files_are_bad() {
    let folders = folders("first");
    write(&folders.pib, "one.policy", "{");
    let manager = Arc::new(Mutex::new(Manager::new(Options::default())));
    let Err(WatchError::Files(errors)) = PolicyWatcher::open(folders, manager) else {
        panic!("it is wrong")
    };
    assert_eq!(errors.len(), 1);
}
