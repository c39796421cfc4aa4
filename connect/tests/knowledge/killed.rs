//! A process that is killed while it writes loses no confirmed entry.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use hawser_connect::knowledge::{KnowledgeEvent, Settings, Trouble};

use super::TestFolder;
use super::open::open;

#[tokio::test]
async fn flushed_nodes_survive_kill_9() {
    let place = TestFolder::new();
    let path: PathBuf = place.0.join("store");
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..4 {
        let mut process = hawser_testing::helper("knowledge_writer")
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let numbers = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        for number in numbers.take(15 + 4 * round) {
            kept.insert(number % 100, number);
        }
        // SIGKILL, at whatever point it is by now.
        process.kill().expect("it is ours");
        process.wait().expect("it is ours");
        let knowledge = open(&Settings { store: Some(path.clone()), ..Settings::default() }).await;
        let mut events = knowledge.events();
        let found: BTreeMap<String, u64> = knowledge
            .list()
            .iter()
            .filter_map(|known| {
                Some((
                    known.uid.to_string(),
                    known.node["properties"]["own/number"]["value"].as_u64()?,
                ))
            })
            .collect();
        for (node, number) in &kept {
            let found_number = found.get(&format!("n{node}")).copied();
            assert!(
                found_number >= Some(*number),
                "round {round}: n{node} has {found_number:?}, and {number} was kept"
            );
        }
        let received = tokio::time::timeout(std::time::Duration::from_millis(50), events.next()).await;
        assert!(
            !matches!(received, Ok(Some(KnowledgeEvent::Trouble(Trouble::Store(_))))),
            "{received:?}"
        );
    }
    assert!(kept.len() > 20, "{kept:?}");
}
