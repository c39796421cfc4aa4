//! Good files are read correctly; bad ones give an error with its place.

use super::*;

/// The shortest scenario.
const SHORT: &str = r#"
program = "x.mtp"
host = [{ name = "a" }, { name = "b" }]
link = [{ between = ["a", "b"] }]
flow = [{ from = "a", to = "b", bulk = { bytes = "1MiB" } }]
"#;

/// Returns an error without the column of its place; the tests of hawser-documents cover places.
pub(crate) fn by_line(error: &ScenarioError) -> String {
    let column = error.place.map(|place| format!(", column {}", place.column));
    error.to_string().replacen(&column.unwrap_or_default(), "", 1)
}

#[test]
fn omitted_keys_take_their_defaults() {
    let scenario = Scenario::parse(SHORT).expect("a good file");
    assert_eq!((scenario.seed, scenario.duration), (1, TimeSpan(60_000_000_000)));
    assert_eq!(scenario.host[1].mtu, 1500);
    let addresses = scenario.host[1]
        .parsed_addresses(1)
        .expect("omitted_keys_take_their_defaults");
    assert_eq!(
        addresses.iter().map(|(a, _)| a.to_string()).collect::<Vec<_>>(),
        ["10.0.0.2", "fd00::2"]
    );
    assert_eq!(scenario.link[0].label(), "a-b");
    assert_eq!(scenario.ports(), [Some(7001..=7001)]);
    let mut profile = Profile::default();
    scenario.link[0].both.apply(&mut profile);
    assert_eq!(profile, Profile::default());
}

#[test]
fn a_written_scenario_parses_to_the_same() {
    let text = r#"
name = "all keys"
seed = 7
duration = "90s"
linger = "4min"
program = "tcp"
params = { RTO = "200ms", ECN = true, LIMIT = 5, BUFFER = "64KiB", SERVER = "2001:db8::1", NONE_OF_IT = "NONE" }
[[host]]
name = "a"
addresses = ["192.0.2.1/24", "2001:db8::1/64"]
mtu = 9000
program = "other.mtp"
params = { RTO = "1s" }
priorities = 2
[[host]]
name = "b"
addresses = ["192.0.2.2/24"]
[[switch]]
name = "s"
priorities = 8
buffer = "1MiB"
shared = true
mark_above = "30kB"
trim_to = 64
return_to_sender = true
spray = "round-robin"
[[link]]
between = ["b", "s"]
[[link]]
name = "wire"
between = ["a", "b"]
both = { rate = "1.5Mbit/s", queue = "64KiB", queue_packets = 50, ecn = "10kB", drop = [3, 1] }
forward = { loss = "1%", burst = 2.5, corrupt = 0.001, duplicate = 0.01 }
backward = { delay = "10ms", jitter = "1ms", reorder = 0.05, hold = "3ms" }
[[flow]]
from = "a"
to = "b"
at = "1s"
count = 3
spacing = "10ms"
port = 80
family = 4
open = "both"
close = "server"
read_rate = "1Mbit/s"
bulk = { bytes = 1000, back = "1KiB" }
[[flow]]
from = "b"
to = "a"
request = { count = 5, size = 100, response = [1, "64KiB"], think = "1ms" }
[[flow]]
from = "b"
to = "a"
messages = { count = 5, size = 100, interval = "1ms", both_ways = true }
[[at]]
time = "2s"
link = "wire"
state = "down"
[[at]]
time = "3s"
link = "wire"
state = "up"
both = { rate = 0 }
[[at]]
time = "4s"
switch = "s"
state = "down"
"#;
    let scenario = Scenario::parse(text).expect("a good file");
    let again = scenario.to_toml().expect("it can be written");
    assert_eq!(
        Scenario::parse(&again).expect("what was written"),
        scenario,
        "{again}"
    );
    let mut profile = Profile::default();
    scenario.link[1].both.apply(&mut profile);
    scenario.link[1].forward.apply(&mut profile);
    assert_eq!(
        (profile.rate, profile.queue_bytes, profile.loss),
        (Some(1_500_000), 65_536, 0.01)
    );
    assert_eq!(profile.drop, [1, 3], "sorted");
    scenario.at[1].both.apply(&mut profile);
    assert_eq!((profile.rate, profile.loss), (None, 0.01), "the rest stays");
}

/// Each case is a change of [`SHORT`], and its error.
#[test]
fn bad_files_are_rejected_with_reason_and_place() {
    let cases = [
        ("program", "programme", "line 2: `programme`: unknown key"),
        ("program", "programme", "hint: did you mean `program`?"),
        (
            "\"1MiB\"",
            "\"1 elephant\"",
            "line 5: `flow[0].bulk.bytes`: `1 elephant` is not a number and one of",
        ),
        ("\"1MiB\"", "-3", "line 5: `flow[0].bulk.bytes`"),
        ("bytes", "bites", "hint: did you mean `bytes`?"),
        (
            "bulk = { bytes = \"1MiB\" }",
            "at = \"0s\"",
            "line 5: `flow[0]`: a flow has exactly one of",
        ),
        (
            "[\"a\", \"b\"]",
            "[\"a\", \"c\"]",
            "line 4: `link[0].between[1]`: unknown host `c`",
        ),
        ("[\"a\", \"b\"]", "[\"a\", \"c\"]", "hint: the hosts are a, b"),
        (
            "[\"a\", \"b\"]",
            "[\"a\", \"a\"]",
            "a link needs two different ends",
        ),
        ("[\"a\", \"b\"]", "[\"a\"]", "line 4: `link[0].between"),
        (
            "[\"a\", \"b\"]",
            "[\"a\", \"b\", \"c\"]",
            "a link connects two hosts or switches, not 3",
        ),
        (
            "[\"a\", \"b\"] }",
            "[\"a\", \"b\"], both = { loss = 1.5 } }",
            "a share from 0 to 1",
        ),
        (
            "[\"a\", \"b\"] }",
            "[\"a\", \"b\"], both = { los = 0.1 } }",
            "did you mean `loss`?",
        ),
        (
            "[\"a\", \"b\"] }",
            "[\"a\", \"b\"], both = { burst = 0 } }",
            "`link[0].both.burst`",
        ),
        (
            "[\"a\", \"b\"] }",
            "[\"a\", \"b\"] }, { between = [\"b\", \"a\"], name = \"a-b\" }",
            "the link `a-b` already exists",
        ),
        ("{ name = \"b\" }", "{ name = \"a\" }", "line 3: `host[1].name`"),
        (
            "{ name = \"b\" }",
            "{ name = \"b\", addresses = [\"10.0.0.1/8\"] }",
            "already an address of `a`",
        ),
        (
            "{ name = \"b\" }",
            "{ name = \"b\", addresses = [\"10.0.0.9\"] }",
            "hint: an address and a prefix length",
        ),
        (
            "{ name = \"b\" }",
            "{ name = \"b\", mtu = 10 }",
            "between 68 and 65535",
        ),
        (
            "flow = ",
            "at = [{ time = \"1s\", link = \"wire\", state = \"down\" }]\nflow = ",
            "unknown link `wire`",
        ),
        (
            "flow = ",
            "at = [{ time = \"1s\", link = \"a-b\" }]\nflow = ",
            "this entry changes nothing",
        ),
        (
            "flow = ",
            "at = [{ time = \"2min\", link = \"a-b\", state = \"up\" }]\nflow = ",
            "is after the end",
        ),
        (
            "to = \"b\"",
            "to = \"b\", count = 100000",
            "more than 10000 connections",
        ),
        ("to = \"b\"", "to = \"b\", count = 18446744073709551615", "line 5"),
        (
            "to = \"b\"",
            "to = \"b\", port = 65535, count = 2",
            "no port is left",
        ),
        (
            "to = \"b\"",
            "to = \"b\", family = 5",
            "the family must be 4 or 6",
        ),
        ("to = \"b\"", "to = \"a\"", "no path from `a` to `a`"),
        (
            "program",
            "duration = \"0s\"\nprogram",
            "the time must be above 0",
        ),
        ("program", "duration = 5\nprogram", "`duration`"),
        ("host = [", "host = {", "line 3"),
        ("\n", "\u{0}", "line 1"),
    ];
    for (from, to, expected) in cases {
        assert!(SHORT.contains(from), "{from}");
        let error = by_line(&Scenario::parse(&SHORT.replacen(from, to, 1)).expect_err(to));
        assert!(
            error.contains(expected),
            "{to}:\n  got      {error}\n  expected {expected}"
        );
    }
}

/// Two hosts at a switch, and one without links.
const SWITCHED: &str = r#"
program = "x.mtp"
host = [{ name = "a" }, { name = "b" }, { name = "lonely" }]
switch = [{ name = "s1" }]
link = [{ between = ["a", "s1"] }, { between = ["s1", "b"] }]
at = [{ time = "1s", switch = "s1", state = "down" }]
flow = [{ from = "a", to = "b", bulk = { bytes = "1MiB" } }]
"#;

/// Each case is a change of [`SWITCHED`], and its error.
#[test]
fn invalid_switches_are_rejected_with_reason_and_place() {
    assert!(Scenario::parse(SWITCHED).is_ok());
    let cases = [
        (
            "name = \"s1\"",
            "name = \"a\"",
            "line 4: `switch[0].name`: `a` is already a host",
        ),
        (
            "[{ name = \"s1\" }]",
            "[{ name = \"s1\" }, { name = \"s1\" }]",
            "`switch[1].name`: every switch needs a name of its own",
        ),
        (
            "[{ name = \"s1\" }]",
            "[{ name = \"\" }]",
            "every switch needs a name",
        ),
        (
            "{ name = \"s1\" }",
            "{ name = \"s1\", mtu = 1500 }",
            "line 4: `switch[0].mtu`: unknown key",
        ),
        (
            "[\"s1\", \"b\"]",
            "[\"sl\", \"b\"]",
            "line 5: `link[1].between[0]`: unknown host or switch `sl`\n  hint: did you mean `s1`?",
        ),
        (
            "[\"s1\", \"b\"]",
            "[\"x\", \"b\"]",
            "hint: the hosts and switches are a, b, lonely, s1",
        ),
        (
            "[\"s1\", \"b\"]",
            "[\"s1\", \"s1\"]",
            "a link needs two different ends",
        ),
        (
            "to = \"b\"",
            "to = \"lonely\"",
            "line 7: `flow[0]`: no path from `a` to `lonely`\n  hint: only links and switches form a path",
        ),
        (
            "to = \"b\"",
            "to = \"s1\"",
            "line 7: `flow[0].to`: unknown host `s1`\n  hint: `s1` is a switch",
        ),
        (
            "switch = \"s1\"",
            "host = \"s1\"",
            "`at[0].host`: unknown host `s1`\n  hint: `s1` is a switch",
        ),
        (
            "switch = \"s1\"",
            "switch = \"a\"",
            "`at[0].switch`: unknown switch `a`\n  hint: `a` is a host",
        ),
        (
            "switch = \"s1\"",
            "switch = \"s2\"",
            "unknown switch `s2`\n  hint: did you mean `s1`?",
        ),
        (
            "switch = \"s1\"",
            "switch = \"s1\", host = \"a\"",
            "a change concerns a link with its rules, a host, or a switch",
        ),
        (
            "switch = \"s1\"",
            "switch = \"s1\", both = { loss = 0.1 }",
            "a change concerns a link with its rules, a host, or a switch",
        ),
        (", state = \"down\"", "", "this entry changes nothing"),
    ];
    for (from, to, expected) in cases {
        assert!(SWITCHED.contains(from), "{from}");
        let error = by_line(&Scenario::parse(&SWITCHED.replacen(from, to, 1)).expect_err(to));
        assert!(
            error.contains(expected),
            "{to}:\n  got      {error}\n  expected {expected}"
        );
    }
}

#[test]
fn invalid_ports_are_rejected_with_reason_and_place() {
    let cases = [
        (
            "name = \"s1\"",
            "name = \"s1\", priorities = 9",
            "line 4: `switch[0].priorities`: 9 is not a valid number of priorities\n  hint: 1 to 8",
        ),
        (
            "name = \"lonely\"",
            "name = \"lonely\", priorities = 0",
            "line 3: `host[2].priorities`: 0 is not a valid number of priorities",
        ),
        (
            "name = \"lonely\"",
            "name = \"lonely\", device_queue = 0",
            "line 3: `host[2].device_queue`: a device without room for a byte cannot send\n  hint: \
             device_queue",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", buffer = 0",
            "`switch[0].buffer`: a buffer without room for a byte",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", shared = true",
            "`switch[0].shared`: no `buffer` is given that ports could share",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", priorities = 2, trim_to = 59",
            "`switch[0].trim_to`: a packet of 59 bytes may have no room for its IP header\n  hint: at least 60 bytes",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", trim_to = 60",
            "`switch[0].trim_to`: trimmed packets need several priorities and wait with the highest\n  \
             hint: priorities = 2",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", return_to_sender = true",
            "`switch[0].return_to_sender`: trimmed packets return without their data\n  hint: trim_to = 64",
        ),
        (
            "name = \"s1\"",
            "name = \"s1\", spray = true",
            "line 4: `switch[0].spray`: ",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(SWITCHED.contains(from), "{from}");
        let error = by_line(&Scenario::parse(&SWITCHED.replacen(from, to, 1)).expect_err(to));
        assert!(
            error.contains(expected),
            "{to}:\n  got      {error}\n  expected {expected}"
        );
    }
}

/// Two flows of [`SWITCHED`] at one port, and the resulting error.
#[test]
fn flows_share_a_port_only_with_the_same_settings() {
    let text = |first: &str, second: &str| {
        let flow = |rest| format!("{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }}, {rest} }}");
        let flows = format!("flow = [{},\n{}]", flow(first), flow(second));
        let (before, _) = SWITCHED.split_once("flow = ").expect("the flows");
        format!("{before}{flows}")
    };
    for (first, second) in [
        ("port = 80", "port = 80"),
        ("port = 80, count = 3, one_port = true", "port = 80, family = 4"),
        ("port = 80, receive_buffer = 5000", "port = 80, family = 6"),
        ("port = 80, count = 3", "port = 82, again = 2"),
    ] {
        let scenario = Scenario::parse(&text(first, second)).unwrap_or_else(|error| panic!("{error}"));
        let again = scenario.to_toml().expect("it can be written");
        assert_eq!(Scenario::parse(&again).as_ref(), Ok(&scenario), "{again}");
    }
    let cases = [
        (
            "port = 7001",
            "count = 1",
            "line 8: `flow[1].port`: port 7001 of `b` is already in use\n  hint: flows share a port where \
             each",
        ),
        (
            "port = 80",
            "port = 80, open = 'both'",
            "`flow[1].port`: port 80 of `b` is already in use\n  hint: a flow that both ends open",
        ),
        (
            "port = 80, open = 'both'",
            "port = 80",
            "`flow[0].port`: port 80 of `b` is already in use",
        ),
        (
            "port = 80",
            "port = 80, receive_buffer = 5000",
            "`flow[1].receive_buffer`: it differs from that of flow[0], with which it shares port 80 of `b`",
        ),
        ("port = 0", "count = 1", "`flow[0].port`: port 0 is not a port"),
    ];
    for (first, second, expected) in cases {
        let error = by_line(&Scenario::parse(&text(first, second)).expect_err(second));
        assert!(
            error.contains(expected),
            "{first}; {second}:\n  got      {error}\n  expected {expected}"
        );
    }
}

/// The ends of a flow of [`SWITCHED`] as lists, and the resulting error.
#[test]
fn ends_may_be_lists_of_different_hosts() {
    let text = |from: &str, to: &str| {
        SWITCHED.replace("from = \"a\", to = \"b\"", &format!("from = {from}, to = {to}"))
    };
    let scenario = Scenario::parse(&text("['a']", "'b'")).expect("a list of one");
    assert_eq!(scenario, Scenario::parse(SWITCHED).expect("the same"));
    let cases = [
        ("'a'", "[]", "line 7: `flow[0].to`: the list contains no host"),
        ("'a'", "['b', 'x']", "line 7: `flow[0].to[1]`: unknown host `x`"),
        (
            "['a', 's1']",
            "'b'",
            "`flow[0].from[1]`: unknown host `s1`\n  hint: `s1` is a switch",
        ),
        (
            "['a', 'a']",
            "'b'",
            "`flow[0].from[1]`: `a` is already in the list",
        ),
        (
            "['a', 'b']",
            "'b'",
            "`flow[0]`: no path from `b` to `b`\n  hint: a flow needs two different ends",
        ),
        (
            "'a'",
            "['b', 'lonely']",
            "`flow[0]`: no path from `a` to `lonely`",
        ),
        ("'a'", "5", "the name of a host, or a list of names"),
        ("'a'", "['b', 5]", "`flow[0].to[1]`"),
    ];
    for (from, to, expected) in cases {
        let error = by_line(&Scenario::parse(&text(from, to)).expect_err(to));
        assert!(
            error.contains(expected),
            "{from} {to}:\n  got      {error}\n  expected {expected}"
        );
    }
}

/// Two hosts are connected only if switches, not hosts, forward between them.
#[test]
fn hosts_do_not_forward() {
    let through = |middle: &str| {
        Scenario::parse(&format!(
            "program = 'tcp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'm' }}]\nswitch = [{{ name = 's' }}]\n\
             link = [{{ between = ['a', '{middle}'] }}, {{ between = ['{middle}', 'b'] }}]\n\
             flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]"
        ))
    };
    assert!(through("s").is_ok());
    let error = by_line(&through("m").expect_err("no path"));
    assert!(
        error.contains("no path from `a` to `b`") && error.contains("hosts do not forward packets"),
        "{error}"
    );
}

#[test]
fn switches_beyond_the_limit_are_refused() {
    let switches = |count: usize| {
        let switches: String = (0..count).map(|n| format!("{{ name = 's{n}' }},")).collect();
        Scenario::parse(&format!(
            "program = 'tcp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nswitch = [{switches}]\n\
             link = [{{ between = ['a', 'b'] }}]\nflow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]"
        ))
    };
    assert!(switches(1000).is_ok());
    let error = by_line(&switches(1001).expect_err("too many"));
    assert!(
        error.contains("`switch`: 1001 of them are more than the limit of 1000"),
        "{error}"
    );
}

#[test]
fn links_and_changes_beyond_the_limit_are_refused() {
    let with = |links: usize, changes: usize| {
        let links: String = (0..links)
            .map(|n| format!("{{ between = ['a', 'b'], name = 'l{n}' }},"))
            .collect();
        let change = "{ time = '1ms', link = 'l0', state = 'up' },";
        Scenario::parse(&format!(
            "program = 'tcp'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\nlink = [{links}]\nat = [{}]\n\
             flow = [{{ from = 'a', to = 'b', bulk = {{ bytes = 1 }} }}]",
            change.repeat(changes)
        ))
    };
    assert!(with(10_000, 100_000).is_ok());
    for (links, changes, expected) in [
        (
            10_001,
            1,
            "`link`: 10001 of them are more than the limit of 10000",
        ),
        (
            1,
            100_001,
            "`at`: 100001 of them are more than the limit of 100000",
        ),
    ] {
        let error = by_line(&with(links, changes).expect_err(expected));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn cut_and_altered_files_never_panic() {
    let mut rng = crate::scenario::rng::Rng::new(1, "hostile");
    for cut in 0..SHORT.len() {
        let _ = Scenario::parse(&SHORT[..cut]);
    }
    for _ in 0..2000 {
        let mut bytes = SHORT.as_bytes().to_vec();
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.between(9, 126) as u8;
        }
        let _ = Scenario::parse(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let mut scenario = Scenario::parse(SHORT).expect("a good file");
    scenario.host[0].program = Some("tcp".to_owned());
    scenario.relative_to(Path::new("some/where"));
    assert_eq!(scenario.program, "some/where/x.mtp");
    assert_eq!(
        scenario.host[0].program.as_deref(),
        Some("tcp"),
        "a built-in program has no path"
    );
}

#[test]
fn hosts_beyond_the_limit_are_refused_before_allocation() {
    let hosts = |count: usize| {
        let hosts: String = (0..count).map(|n| format!("{{ name = 'h{n}' }},")).collect();
        Scenario::parse(&format!(
            "program = 'tcp'\nhost = [{hosts}]\nlink = [{{ between = ['h0', 'h1'] }}]\n\
             flow = [{{ from = 'h0', to = 'h1', bulk = {{ bytes = 1 }} }}]"
        ))
    };
    assert!(hosts(1000).is_ok());
    let error = by_line(&hosts(1001).expect_err("too many"));
    assert!(
        error.contains("1001 of them are more than the limit of 1000"),
        "{error}"
    );
}
