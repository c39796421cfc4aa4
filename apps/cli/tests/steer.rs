//! A subscriber is killed, frozen, flooded or unauthorised in the middle of a transfer, and the transfer
//! continues under the transport's own controller. Further tests attach files during a transfer, and steer it
//! by a controller in another process.

use hawser_testing::{Need, has};

use crate::lab_folder::LabFolder;

/// A server that can be watched and steered, and a client that downloads `file` from it at 40 Mbit/s. The
/// flow's name is in `F`; `cwnd` prints the window; `same` waits for the end of the transfer and compares the
/// files.
const BEGIN: &str = r#"
    S="--socket $PWD/i.sock"
    head -c 30000000 /dev/urandom > file
    H serve . --dev tun:h0 --kernel-addr 10.9.0.1/24 --addr 10.9.0.2/24 \
        --faults rate=40Mbit/s,delay=10ms,queue=200kB --interact=$PWD/i.sock $RIGHTS > serve.log &
    until [ -S i.sock ]; do sleep 0.05; done
    curl -s -o got http://10.9.0.2/file &
    CURL=$!
    until H bus probe $S | grep -q 'tcp.conn'; do sleep 0.05; done
    sleep 1
    F=$(H bus probe $S | grep tcp.conn | head -1 | cut -d' ' -f1)
    cwnd() { H bus probe $F tcp.conn.cc.cwnd $S | sed 's/.*= //'; }
    same() { wait $CURL; cmp file got; echo same; }
    echo "before $(cwnd)"
"#;

/// Runs a script of the client. Returns its output by the first word of each line, or `None` if this machine
/// allows no labs.
fn run(name: &'static str, rights: &str, script: &str) -> Option<Vec<(String, String)>> {
    if !has(name, &[Need::Tun]) {
        return None;
    }
    let place = LabFolder::new(name, "true");
    let rules = match rights {
        "" => "RIGHTS=".to_owned(),
        rights => {
            format!("printf '{rights}' > rights.toml; chmod 600 rights.toml; RIGHTS=--rights=rights.toml")
        }
    };
    let repo = format!("REPO='{}/../..'", env!("CARGO_MANIFEST_DIR"));
    let output = place.run(&format!("{repo}\n{rules}\n{BEGIN}\n{script}"))?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    let words = |line: &str| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        (first.to_owned(), rest.to_owned())
    };
    Some(out.lines().map(words).collect())
}

fn number(lines: &[(String, String)], word: &str) -> u64 {
    let found = lines.iter().find(|(first, _)| first == word);
    found
        .and_then(|(_, rest)| rest.parse().ok())
        .unwrap_or_else(|| panic!("no {word} in {lines:?}"))
}

fn reported(lines: &[(String, String)], what: &str) -> bool {
    lines
        .iter()
        .any(|(first, rest)| format!("{first} {rest}").contains(what))
}

/// The connection closes with the process, so the lease ends at once.
#[test]
fn killing_a_steerer_restores_the_own_controller() {
    let script = r#"
        H bus modify $F tcp.conn.cc.cwnd 20000 --lease 60s $S > modify.log & M=$!
        sleep 0.5; echo "held $(cwnd)"
        kill -KILL $M; sleep 0.5; echo "after $(cwnd)"
        H bus audit $S; same
    "#;
    let Some(lines) = run("killed", "", script) else {
        return;
    };
    assert!(number(&lines, "before") > 40_000, "{lines:?}");
    assert_eq!(number(&lines, "held"), 20_000);
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
    assert!(
        reported(&lines, "hawser-modify: tcp.conn.cc.cwnd") && reported(&lines, "its holder has gone"),
        "{lines:?}"
    );
    assert!(reported(&lines, "same"));
}

/// The frozen process sends no more messages, so its lease expires.
#[test]
fn a_frozen_steerer_holds_no_longer_than_its_lease() {
    let script = r#"
        H bus modify $F tcp.conn.cc.cwnd 20000 --lease 1500ms $S > modify.log & M=$!
        sleep 0.5; kill -STOP $M; echo "held $(cwnd)"
        sleep 1.5; echo "after $(cwnd)"
        H bus audit $S; kill -KILL $M; same
    "#;
    let Some(lines) = run("frozen", "", script) else {
        return;
    };
    assert_eq!(number(&lines, "held"), 20_000);
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
    assert!(reported(&lines, "the lease ended"), "{lines:?}");
    assert!(reported(&lines, "same"));
}

/// The subscriber gets every event and reads none. The events that do not fit are lost and counted.
#[test]
fn a_flooded_subscriber_does_not_delay_the_flow() {
    let script = r#"
        cat > flood.py <<'X'
import json, os, signal, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect("i.sock"); f = s.makefile("rw")
f.write(json.dumps({"hello": {"name": "flooded"}}) + "\n"); f.flush(); f.readline()
f.write(json.dumps({"subscribe": {"events": ["*"]}}) + "\n"); f.flush()
number = json.loads(f.readline())["subscribed"]
os.kill(os.getpid(), signal.SIGSTOP)
f.write(json.dumps({"statistics": number}) + "\n"); f.flush()
for line in f:
    printed = json.loads(line)
    if "statistics" in printed:
        print("lost", printed["statistics"]["lost"]); print("events", printed["statistics"]["events"]); break
X
        python3 flood.py > flood.log & P=$!
        sleep 2; kill -CONT $P; wait $P; cat flood.log; echo "after $(cwnd)"; same
    "#;
    if !has("a_flooded_subscriber_does_not_delay_the_flow", &[Need::Python]) {
        return;
    }
    let Some(lines) = run("flooded", "", script) else {
        return;
    };
    let (events, lost) = (number(&lines, "events"), number(&lines, "lost"));
    assert!(lost > 0 && lost < events, "{lost} of {events}");
    assert!(reported(&lines, "same"));
}

/// Without the right, the variable stays unchanged, and the missing right is reported.
#[test]
fn a_steerer_without_the_right_is_refused() {
    let script = r#"
        H bus modify $F tcp.conn.cc.cwnd 20000 $S 2> refused.log && exit 1; echo "code $?"
        cat refused.log; echo "after $(cwnd)"; H bus audit $S; same
    "#;
    let Some(lines) = run("rights", "[[rule]]\\nobserve = [\"*\"]\\npriority = 9\\n", script) else {
        return;
    };
    assert!(
        reported(&lines, "code 1") && reported(&lines, "has no right to set tcp.conn.cc.cwnd"),
        "{lines:?}"
    );
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
    assert!(
        reported(&lines, "refused: the subscriber has no right to set the variable")
            && reported(&lines, "same"),
        "{lines:?}"
    );
}

/// A file caps the window. The cap is effective as long as the file is attached, even after the client has
/// gone; afterwards the window grows again.
#[test]
fn a_file_is_attached_to_a_running_program_and_detached() {
    let script = r#"
        sed 's/CAP = 20000/CAP = 15000/' "$REPO/examples/attach/cap.mtp" > cap.mtp
        H bus attach cap.mtp $S; sleep 0.5; echo "capped $(cwnd)"
        H bus attach $S; H bus attach --json $S | grep -c '"who":"hawser-attach"' | sed 's/^/json /'
        H bus detach cap --json $S; sleep 1; echo "after $(cwnd)"
        H bus detach cap $S 2> err || echo "code $?"; cat err
        H bus audit $S; same
    "#;
    let Some(lines) = run("attached", "", script) else {
        return;
    };
    assert!(number(&lines, "before") > 40_000, "{lines:?}");
    assert_eq!(number(&lines, "capped"), 15_000, "{lines:?}");
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
    for what in [
        "cap is attached to source 0",
        "cap by hawser-attach: cap after cc",
        "json 1",
        r#"{"detached":{"name":"cap","source":0}}"#,
        "code 1",
        "`cap` is not attached; no file is attached",
        "hawser-attach: cap of source 0 attached",
        "hawser-detach: cap of source 0 detached",
        "same",
    ] {
        assert!(reported(&lines, what), "{what}: {lines:?}");
    }
}

/// The errors are those of `hawser check`, and the transport is unaffected.
#[test]
fn a_wrong_file_is_refused_with_its_place() {
    let script = r#"
        printf 'void cap(event_t ev, tcp_conn c) {\n    c.cc.cwnd = 15000;\n}\nattach cap after reduse;\n' > cap.mtp
        H bus attach cap.mtp $S 2> err || echo "code $?"; cat err
        printf 'void cap(tcp_icmp ev, tcp_conn c) { }\nattach cap after cc;\n' > idle.mtp
        H bus attach idle.mtp $S 2> err || echo "code $?"; cat err
        H bus attach none.mtp $S 2> err || echo "none $?"
        H bus attach cap.mtp --socket nowhere 2> err || echo "nobody $?"
        H bus attach cap.mtp --source 7 $S 2> err || echo "code $?"; cat err
        echo "after $(cwnd)"; H bus attach $S; H bus audit $S; same
    "#;
    let Some(lines) = run("wrong-file", "", script) else {
        return;
    };
    for what in [
        "code 1",
        "cap.mtp:4:18",
        "`reduse` is unknown",
        "did you mean `reduce`?",
        "idle.mtp:2:8",
        "no chain of `tcp_icmp` has `cc`",
        "the source 7 does not exist",
        "cap of source 0 refused: [E0201]",
        "same",
    ] {
        assert!(reported(&lines, what), "{what}: {lines:?}");
    }
    assert_eq!((number(&lines, "none"), number(&lines, "nobody")), (3, 4));
    assert!(
        !reported(&lines, "by hawser-attach"),
        "nothing is attached: {lines:?}"
    );
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
}

#[test]
fn attaching_without_the_right_is_refused() {
    let rules = "[[rule]]\\nname = \"hawser-attach\"\\nobserve = [\"*\"]\\n\
        modify = [{ variables = \"*\" }]\\npriority = 9\\n[[rule]]\\nobserve = [\"*\"]\\nattach = true\\n";
    let script = r#"
        H bus attach "$REPO/examples/attach/cap.mtp" $S 2> err || echo "code $?"; cat err
        echo "after $(cwnd)"; H bus attach $S; H bus audit $S; same
    "#;
    let Some(lines) = run("attach-rights", rules, script) else {
        return;
    };
    assert!(
        reported(&lines, "code 1") && reported(&lines, "has no right to attach to a program"),
        "{lines:?}"
    );
    assert!(number(&lines, "after") > 40_000, "{lines:?}");
    assert!(
        !reported(&lines, "by hawser-attach"),
        "nothing is attached: {lines:?}"
    );
    assert!(
        reported(
            &lines,
            "cap of source 0 refused: the subscriber has no right to attach"
        ) && reported(&lines, "same"),
        "{lines:?}"
    );
}

/// FAST with an α of 4 segments keeps the queue nearly empty, where the transport's own controller fills it.
/// When its process is killed, the transport's controller takes over.
#[test]
fn a_controller_steers_from_another_process() {
    let script = r#"
        srtt() { H bus probe $F tcp.conn.srtt --json $S | sed 's/.*srtt"*: *//;s/[^0-9].*//'; }
        H bus steer reno --for 500ms --json --flow $F $S
        H bus steer fast --provider x $S --for 10ms 2> err || echo "code $?"
        kill $CURL; wait $CURL || true
        H bus steer fast --alpha 4 $S > steer.log & P=$!
        until grep -q steers steer.log; do sleep 0.05; done
        curl -s -o got http://10.9.0.2/file & CURL=$!
        sleep 2; F=$(H bus probe $S | grep tcp.conn | grep -v "^$F " | head -1 | cut -d' ' -f1)
        echo "steered $(srtt)"; kill -KILL $P; sleep 2.5; echo "after $(srtt)"
        H bus audit $S; same
    "#;
    let Some(lines) = run("controller", "", script) else {
        return;
    };
    let (steered, after) = (number(&lines, "steered"), number(&lines, "after"));
    // The path's own round trip is 20 ms; a full queue of 200 kB adds 40 ms.
    assert!(
        (20_000_000..35_000_000).contains(&steered),
        "{steered} ns: {lines:?}"
    );
    assert!(
        after > steered + 5_000_000,
        "{steered} ns, then {after} ns: {lines:?}"
    );
    for what in [
        "fast: tcp.conn.cc.cwnd of",
        "its holder has gone",
        r#"{"steering":{"controller":"reno","provider":"tcp"}}"#,
        "reno: tcp.conn.cc.cwnd of",
        "code 1",
        "same",
    ] {
        assert!(reported(&lines, what), "{what}: {lines:?}");
    }
    let steered = lines
        .iter()
        .find(|(first, _)| first.contains(r#"{"steered":{"signals":"#));
    assert!(
        steered.is_some_and(|(first, _)| !first.contains(":0}")),
        "{lines:?}"
    );
}

/// A command that can no longer have an effect prints the reason and does not exit with 0.
#[test]
fn a_steerer_without_settable_variables_fails() {
    let rules = "[[rule]]\\nname = \"blind\"\\nobserve = [\"*\"]\\npriority = 9\\n\
        [[rule]]\\nobserve = [\"*\"]\\nmodify = [{ variables = \"*\" }]\\nattach = true\\npriority = 9\\n";
    let script = r#"
        H bus modify $F tcp.conn.cc.cwnd 20000 --lease 60s --name low $S > low.log 2>&1 & M=$!
        until grep -q 20000 low.log; do sleep 0.05; done
        H bus modify $F tcp.conn.cc.cwnd 30000 --lease 200ms --priority 5 --name high $S
        wait $M || echo "lost $?"; cat low.log
        H bus steer fast --name blind $S 2> err || echo "blind $?"; cat err
        H bus steer fast --flow 0:99 $S 2> err || echo "noflow $?"; cat err
        H bus events 'nosuch.*' $S 2> err || echo "nomatch $?"; cat err
        printf '// Nothing.\n' > empty.mtp; H bus attach empty.mtp $S 2> err || echo "empty $?"; cat err
        H bus audit $S; same; sleep 0.5
        H bus steer fast --for 300ms $S 2> err || echo "idle $?"; cat err
    "#;
    let Some(lines) = run("nothing", rules, script) else {
        return;
    };
    for word in ["lost", "blind", "noflow", "nomatch", "empty", "idle"] {
        assert_eq!(number(&lines, word), 1, "{word}: {lines:?}");
    }
    for what in [
        "has ended: `high` has taken the variable with priority 5",
        "`blind` has no right to set tcp.conn.cc.cwnd; the rights file of the process can grant it",
        "the flow 0:99 does not exist",
        "no event or variable matches `nosuch.*`",
        "empty.mtp attaches no processor",
        "the command set no window: it received no signal of any connection of tcp in this time",
        "low: tcp.conn.cc.cwnd of",
        "taken by a client of higher priority (user ",
        "same",
    ] {
        assert!(reported(&lines, what), "{what}: {lines:?}");
    }
}

/// Signals of a file are offered and published like the program's own. A false assertion is signalled, too,
/// and detaches the file, while the transfer continues.
#[test]
fn an_attachment_that_breaks_an_assertion_is_detached() {
    let script = r#"
        cat > bad.mtp <<'X'
param uint64 LIMIT = 20000;                 // bytes
signal reached {                            // the window is above LIMIT
    uint64 cwnd;                            // bytes that it has
}
void check(event_t ev, tcp_conn c) {
    if (c.cc.cwnd > LIMIT) emit signal(reached{cwnd: c.cc.cwnd});
    assert(c.cc.cwnd < LIMIT * 100);
}
attach check after cc;
X
        H watch $S --json --for 4s > watched & W=$!
        until [ -s watched ]; do sleep 0.05; done
        H bus attach bad.mtp $S; sleep 0.5; H bus events 'tcp.bad.*' $S
        H bus attach bad.mtp --param LIMIT=100 $S
        until [ -z "$(H bus attach --json $S | grep check)" ]; do sleep 0.05; done; echo "gone"
        H bus events 'tcp.bad.*' $S 2> err || echo "code $?"; cat err
        H bus attach bad.mtp --param LOMIT=100 $S 2> err || echo "param $?"; cat err
        wait $W; for e in bad.reached assertion_failed; do echo "$e $(grep -c "tcp.$e\"" watched)"; done
        H bus audit $S; same
    "#;
    let Some(lines) = run("asserts", "", script) else {
        return;
    };
    assert!(
        number(&lines, "bad.reached") > 0 && number(&lines, "assertion_failed") > 0,
        "{lines:?}"
    );
    assert_eq!((number(&lines, "code"), number(&lines, "param")), (1, 1));
    for what in [
        "bad is attached to source 0",
        "  event     tcp.bad.reached: the window is above LIMIT",
        "              cwnd (number): bytes that it has",
        "gone",
        "no event or variable matches `tcp.bad.*`",
        "unknown param `LOMIT`: the program has LIMIT",
        "hawser: bad of source 0 detached: an assertion failed: c.cc.cwnd < LIMIT * 100",
        "same",
    ] {
        assert!(reported(&lines, what), "{what}: {lines:?}");
    }
}
