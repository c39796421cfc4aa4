//! `hawser sim trace` of hosts that go down, and of hosts at switches.

use std::path::Path;

use serde_json::Value;

use crate::trace::events;

/// Host b goes down while it receives, and host a connects again.
const FALL: &str = "program = 'selective-repeat'\nduration = '1min'\nhost = [{ name = 'a' }, { name = 'b' }]\n\
    link = [{ between = ['a', 'b'], both = { rate = '1Mbit/s', delay = '10ms' } }]\n\
    flow = [{ from = 'a', to = 'b', again = 1, send_buffer = '32KiB', bulk = { bytes = '64KiB' } }]\n\
    at = [{ time = '100ms', host = 'b', state = 'down' }, { time = '1100ms', host = 'b', state = 'up' }]\n";

#[test]
fn a_host_that_comes_up_again_is_traced_and_its_events_count_on() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace-fall.toml");
    std::fs::write(&file, FALL).expect("it is written");
    let events = events(&[&file.to_string_lossy(), "--host", "b"]);
    let at = |event: &Value| event["at_ns"].as_u64().expect("a time");
    let (before, after): (Vec<_>, Vec<_>) = events.iter().partition(|event| at(event) < 1_100_000_000);
    assert!(before.iter().all(|event| at(event) <= 100_000_000));
    // The second connection carries all bytes: at least 47 packets of 1,400 bytes, and one that opens it.
    let packets = after.iter().filter(|event| event["source"] == "packet").count();
    assert!(before.len() > 3 && packets > 47, "{} and {packets}", before.len());
    let numbers: Vec<u64> = events
        .iter()
        .filter_map(|event| event["number"].as_u64())
        .collect();
    assert!(numbers.iter().copied().eq(1..=events.len() as u64), "{numbers:?}");
}

#[test]
fn a_trace_of_a_scenario_with_switches_has_every_hosts_events() {
    let events = events(&["examples/scenarios/tcp-bottleneck.toml", "--to", "200ms"]);
    // A packet takes 12 ms from a and 14 ms from b to host c, which answers at once. Switches neither receive
    // nor cause events.
    let first = |host: &str, source: &str| {
        let of_host = |event: &&Value| event["host"] == host && event["source"] == source;
        let event = events.iter().find(of_host).expect(host);
        (event["at_ns"].as_u64().expect("a time"), event["flow"].as_u64())
    };
    let (opened, flow) = first("a", "request");
    let (arrived, _) = first("c", "packet");
    assert_eq!(flow, Some(0));
    // Three links of 100, 10 and 100 Mbit/s, with delays of 1, 10 and 1 ms.
    assert!(
        (12_000_000..12_200_000).contains(&(arrived - opened)),
        "{arrived}"
    );
    let (answered, _) = first("a", "packet");
    assert!(
        (24_000_000..24_400_000).contains(&(answered - opened)),
        "{answered}"
    );
    assert_eq!(first("b", "request").1, Some(1));
    let hosts: std::collections::BTreeSet<_> =
        events.iter().filter_map(|event| event["host"].as_str()).collect();
    assert!(hosts.into_iter().eq(["a", "b", "c"]));
}

/// Queue pairs have ports of their own, so their flow is found by their hosts.
#[test]
fn events_of_queue_pairs_have_the_number_of_their_flow() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let scenario = folder.join("works.toml");
    let text = "program = 'roce'\nduration = '1min'\n\
                host = [{ name = 'a' }, { name = 'b' }, { name = 'c' }, { name = 'd' }]\n\
                link = [{ between = ['a', 'b'] }, { between = ['c', 'd'] }]\n\
                flow = [{ from = 'a', to = 'b', works = { count = 5, size = 1000 } }, { from = 'd', to = 'c', works = { count = 5, size = 1000 } }]\n";
    std::fs::write(&scenario, text).expect("a file");
    let scenario = scenario.to_str().expect("a path");
    let all = events(&[scenario]);
    for (flow, hosts) in [["a", "b"], ["c", "d"]].iter().enumerate() {
        let flow = flow.to_string();
        let of_flow = events(&[scenario, "--flow", &flow]);
        for host in hosts {
            let of_host = |event: &&Value| event["host"] == *host && event["context"].is_object();
            let count = all.iter().filter(of_host).count();
            assert!(count > 10, "{host}: {count}");
            assert_eq!(of_flow.iter().filter(of_host).count(), count, "{host}");
        }
        let is_of_both = |event: &Value| hosts.iter().any(|host| event["host"] == *host);
        assert!(of_flow.iter().all(is_of_both));
    }
}
