//! Each request and each refusal.

use super::*;
use crate::Rights;
use crate::hostile::ACKED;
use hawser_linux::provider as kernel;

#[test]
fn each_request_has_its_answer() {
    let place = TestServer::new();
    let mut client = place.client("all", 3);
    let offers = ask(&mut client, &json!({ "offers": {} }));
    assert_eq!(offers["offers"][0]["provider"], "tcp");
    assert_eq!(offers["offers"][0]["events"][0]["name"], "tcp.acked");
    assert_eq!(offers["offers"][0]["variables"][0]["max"], 1_000_000);
    let flows = ask(&mut client, &json!({ "flows": {} }));
    assert_eq!(flows["flows"][1]["flow"], "0:1");
    assert_eq!(flows["flows"][1]["remote"], "10.0.0.1:80");
    let subscription =
        json!({ "subscribe": { "events": ["tcp.acked"], "with": [".conn.cc.cwnd"], "scope": "kind=conn" } });
    let number = ask(&mut client, &subscription)["subscribed"].clone();
    assert_eq!(
        ask(&mut client, &json!({ "subscriptions": {} }))["subscriptions"][0]["who"],
        "all"
    );
    place.provider.publish(1, ACKED, &[1448]);
    let signal = receive(&mut client);
    assert_eq!(signal["event"], "tcp.acked");
    assert_eq!(
        (&signal["flow"], &signal["subscription"]),
        (&json!("0:1"), &number)
    );
    assert_eq!(signal["fields"], json!({ "bytes": 1448 }));
    assert_eq!(signal["with"], json!({ ".conn.cc.cwnd": 20 }));
    let change = json!({ "change": { "subscription": number, "frequency": 2 } });
    assert_eq!(ask(&mut client, &change), json!({ "changed": number }));
    (0..2).for_each(|n| place.provider.publish(0, ACKED, &[n]));
    assert_eq!(receive(&mut client)["fields"]["bytes"], 1);
    let statistics = ask(&mut client, &json!({ "statistics": number }));
    assert_eq!(
        statistics["statistics"],
        json!({ "events": 3, "passed": 2, "lost": 0, "crowded": 0 })
    );
    let set =
        json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 99, "lease": "1min" } });
    assert_eq!(ask(&mut client, &set)["modified"]["before"], 10);
    let probed = ask(
        &mut client,
        &json!({ "probe": { "flow": "0:0", "variables": ["*.cwnd", ".conn.srtt"] } }),
    );
    assert_eq!(
        probed["probed"]["values"],
        json!({ "tcp.conn.cc.cwnd": 99, "tcp.conn.srtt": 7 })
    );
    let back = json!({ "release": { "flow": "0:0", "variable": "tcp.conn.cc.cwnd" } });
    assert_eq!(ask(&mut client, &back)["released"]["before"], 99);
    assert_eq!(place.provider.window(0), 10);
    let steer = json!({ "steer": { "flow": "0:1", "variable": ".conn.cc.cwnd", "value": 50, "lease": 60_000_000_000u64 } });
    judge(&steer);
    client.send(&steer).expect("it is there");
    soon("the window is set", || place.provider.window(1) == 50);
    client
        .send(&json!({ "steer": { "flow": "0:1", "variable": ".conn.cc.cwnd" } }))
        .expect("it is there");
    soon("the window is given back", || place.provider.window(1) == 20);
    assert_eq!(
        ask(&mut client, &json!({ "unsubscribe": number })),
        json!({ "unsubscribed": number })
    );
    let want = ["set", "released", "set", "released"];
    soon("the log has it all", || {
        place.acts().iter().map(|act| act.1).eq(want)
    });
    let audit = ask(&mut client, &json!({ "audit": {} }));
    assert_eq!(audit["audit"][0]["value"], 99);
}

/// Entries of the log have values, and flows have addresses.
#[test]
fn a_variable_without_the_right_to_read_is_in_no_answer() {
    let rules = "[[rule]]\nname = \"blind\"\nobserve = []\n[[rule]]\nname = \"state\"\nobserve = [\"*.state\"]\n\
        [[rule]]\nobserve = [\"*\"]\nmodify = [{ variables = \"*\" }]\npriority = 9";
    let place = TestServer::with(Rules::parse(rules).expect("rules"));
    let [mut steerer, mut blind, mut state] = ["steerer", "blind", "state"].map(|name| place.client(name, 1));
    let set =
        json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 99, "lease": "1min" } });
    ask(&mut steerer, &set);
    soon("it is in the log", || {
        ask(&mut steerer, &json!({ "audit": {} }))["audit"][0]["value"] == 99
    });
    let mut counts = |of: &str| {
        let count = |client: &mut Client| ask(client, &json!({ of: {} }))[of].as_array().map(Vec::len);
        [count(&mut blind), count(&mut state), count(&mut steerer)]
    };
    assert_eq!(counts("audit"), [Some(0), Some(0), Some(1)]);
    assert_eq!(counts("flows"), [Some(0), Some(2), Some(2)]);
}

#[test]
fn each_refusal_states_its_reason_and_a_remedy() {
    let rules = "[[rule]]\nname = \"some\"\nobserve = [\"tcp.acked\", \"tcp.conn.cc.*\", \"tcp.conn.state\"]\n\
        modify = [{ variables = \"*.cwnd\", min = 5, max = 50 }]\npriority = 2\n\
        [[rule]]\nname = \"see\"\nobserve = [\"*\"]\npriority = 9";
    let place = TestServer::with(Rules::parse(rules).expect("rules"));
    let mut some = place.client("some", 2);
    let modify = |flow: &str, variable: &str, value: u64| json!({ "modify": { "flow": flow, "variable": variable, "value": value, "lease": "1min" } });
    for (request, why) in [
        (
            json!({ "subscribe": { "events": ["tcp.closed"] } }),
            "`some` has no right to receive tcp.closed: an operator can grant it in the rights file",
        ),
        (
            json!({ "subscribe": { "events": ["tcp.ackd"] } }),
            "no provider has an event `tcp.ackd`",
        ),
        (
            json!({ "subscribe": { "events": ["tcp.acked"], "with": [".conn.srtt"] } }),
            "no right to read tcp.conn.srtt",
        ),
        (
            json!({ "subscribe": { "events": ["tcp.acked"], "priority": 3 } }),
            "no right to take priority 3 (its highest is 2)",
        ),
        (
            json!({ "subscribe": { "events": ["tcp.acked"], "ring": true } }),
            "request one first",
        ),
        (
            json!({ "change": { "subscription": 77 } }),
            "the subscription 77 does not exist",
        ),
        (json!({ "unsubscribe": 77 }), "the subscription 77 does not exist"),
        (json!({ "statistics": 77 }), "the subscription 77 does not exist"),
        (
            json!({ "probe": { "flow": "0:9" } }),
            "the flow 0:9 does not exist",
        ),
        (
            json!({ "probe": { "flow": "7:0" } }),
            "the source 7 does not exist",
        ),
        (
            json!({ "probe": { "flow": "0:0", "variables": [".conn.srtt"] } }),
            "no right to read",
        ),
        (
            json!({ "probe": { "flow": "0:0", "variables": ["tcp.cwnd"] } }),
            "no provider has a variable `tcp.cwnd`; known names: tcp.conn.cc.cwnd",
        ),
        (
            modify("0:0", "tcp.conn.cc.cwnd", 51),
            "tcp.conn.cc.cwnd: 51 is outside 5..=50",
        ),
        (modify("0:0", "tcp.conn.state", 4), "tcp.conn.state is read-only"),
        (
            modify("0:0", "tcp.conn.*", 4),
            "names 2 variables: set one at a time",
        ),
        (
            modify("0:9", "tcp.conn.cc.cwnd", 9),
            "the flow 0:9 does not exist",
        ),
        (
            json!({ "modify": { "flow": "0:0", "variable": ".conn.cc.cwnd", "value": 9, "lease": 0 } }),
            "the duration of a lease must be above 0",
        ),
        (
            json!({ "release": { "flow": "0:0", "variable": ".conn.cc.cwnd" } }),
            "this subscriber does not hold the variable",
        ),
        (
            json!({ "hello": { "name": "some", "priority": 3 } }),
            "no right to take priority 3",
        ),
        (
            json!({ "dance": {} }),
            "unknown value `dance`: expected one of `hello`, ",
        ),
    ] {
        let error = refusal(&mut some, &request);
        assert!(error.contains(why), "{request}: {error}");
        judge(&json!({ "error": error }));
    }
    let mut see = place.client("see", 9);
    assert_eq!(
        refusal(&mut see, &modify("0:0", "tcp.conn.cc.cwnd", 9)),
        "`see` has no right to set tcp.conn.cc.cwnd: an operator can grant it in the rights file"
    );
    assert_eq!(place.provider.window(0), 10, "nothing was set");
}

#[test]
fn a_hold_of_higher_priority_is_kept() {
    let place = TestServer::new();
    let (mut low, mut high) = (place.client("low", 1), place.client("high", 5));
    let set = |value| json!({ "modify": { "flow": flow(0), "variable": ".conn.cc.cwnd", "value": value, "lease": "1min" } });
    ask(&mut high, &set(70));
    assert_eq!(
        refusal(&mut low, &set(60)),
        "tcp.conn.cc.cwnd: `high` holds the variable with priority 5: use a higher priority, or wait for the end of the lease"
    );
    assert_eq!(place.provider.window(0), 70);
}

/// The answer to the next request is not mistaken for it.
#[test]
fn an_error_of_steering_is_marked_as_such() {
    let place = TestServer::new();
    let mut client = place.client("steerer", 1);
    for wrong in [
        json!({ "steer": { "flow": "x", "variable": "v", "value": 1, "lease": 1 } }),
        json!({ "steer": { "flow": "0:0", "variable": "tcp.conn.window", "value": 1, "lease": 1 } }),
    ] {
        client.send(&wrong).expect("it is there");
        assert!(ask(&mut client, &json!({ "flows": {} }))["flows"].is_array());
        assert!(matches!(
            client.receive(Some(Duration::from_millis(1))),
            Err(ClientError::Refused(_))
        ));
    }
}

#[test]
fn two_subscribers_receive_the_same() {
    let place = TestServer::new();
    let mut clients = [place.client("a", 1), place.client("b", 1)];
    for client in &mut clients {
        ask(client, &json!({ "subscribe": { "events": ["tcp.*"] } }));
    }
    (0..100).for_each(|n| place.provider.publish(n % 2, ACKED, &[n]));
    for client in &mut clients {
        for n in 0..100u64 {
            let signal = receive(client);
            assert_eq!(
                (&signal["fields"]["bytes"], &signal["flow"]),
                (&json!(n), &json!(format!("0:{}", n % 2)))
            );
        }
    }
}

/// The description includes the unit. It comes from tables, and in a program from the comments beside its
/// declarations.
#[test]
fn every_event_and_variable_is_described() {
    let program = hawser_load::programs::resolve_with("tcp", &[]).expect("it is built in");
    let tcp = hawser_engine::schema(program.module()).expect("a schema");
    let missing = tcp.undescribed();
    assert!(
        missing
            .iter()
            .all(|name| name.starts_with("tcp.assertion_failed.") || tcp.variable(name).is_some()),
        "{missing:?}"
    );
    for (name, about) in [
        ("tcp.acked", "data was acknowledged for the first time"),
        ("tcp.acked.bytes", "bytes acknowledged"),
        ("tcp.conn.cc.cwnd", "bytes that may be in flight"),
        ("tcp.conn.snd_wnd", "the peer's window, bytes"),
    ] {
        assert_eq!(tcp.about(name), Some(about));
    }
    let bus = Bus::new();
    let _source = bus.source(std::sync::Arc::new(kernel::schema(&[])), None);
    let offers = crate::answer::offers(&bus.sources(), &Rights::observer());
    let acked = &offers["offers"][0]["events"][1];
    assert_eq!(acked["about"], "data was acknowledged for the first time");
    assert_eq!(acked["fields"][0]["about"], "bytes acknowledged");
}
