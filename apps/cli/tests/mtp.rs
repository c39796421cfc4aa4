//! Sessions and the proxy over TCP written in MTP, in labs. The phone's stack is a host of its own on WiFi.

use hawser_testing::{Need, has};
use serde_json::Value;

use crate::lab_folder::LabFolder;

/// The phone's stack, on the subnet of the lab's first link.
const STACK: &str = "--dev packet:wlan0 --addr 10.77.0.9/24 --router 10.77.0.2";

/// A shell fragment that waits for the server's output and extracts the certificate's SHA-256.
const PIN: &str = "until grep -q pin printed 2>/dev/null; do sleep 0.05; done; \
                   PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' printed); ";

fn content(bytes: u32) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// Returns the paths in a command's final report: interface, transport, and the larger of the payload bytes
/// first sent and those received.
fn paths(stdout: &[u8]) -> Vec<(String, String, u64)> {
    let text = String::from_utf8_lossy(stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    let done: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{text}"));
    assert_eq!(done["event"], "done", "{text}");
    let word = |path: &Value, key: &str| path[key].as_str().unwrap_or_default().to_owned();
    let bytes = |path: &Value| {
        path["fresh"]
            .as_u64()
            .max(path["delivered"].as_u64())
            .unwrap_or(0)
    };
    let paths = done["paths"].as_array().expect("paths").iter();
    paths
        .map(|path| (word(path, "interface"), word(path, "transport"), bytes(path)))
        .collect()
}

#[test]
fn a_file_goes_up_and_down_over_tcp_written_in_mtp() {
    let place = LabFolder::new("mtp-down", "exec H send original --anyone --json > printed");
    let content = content(4_000_000);
    std::fs::write(place.file("original"), &content).expect("a file");
    let Some(down) = place.run(&format!("{PIN} H recv server --pin $PIN --json -o down {STACK}")) else {
        return;
    };
    assert!(down.status.success(), "{down:?}");
    assert!(std::fs::read(place.file("down")).expect("a copy") == content);
    let place_up = LabFolder::new(
        "mtp-up",
        "mkdir got && cd got && exec H recv --anyone --json > ../printed",
    );
    std::fs::write(place_up.file("original"), &content).expect("a file");
    let script = format!("{PIN} H send original server --pin $PIN --json --over mtp-tcp:wlan0 {STACK}");
    let Some(up) = place_up.run(&script) else { return };
    assert!(up.status.success(), "{up:?}");
    assert!(std::fs::read(place_up.file("got/original")).expect("a copy") == content);
    for output in [&down, &up] {
        let paths = paths(&output.stdout);
        assert!(
            matches!(&paths[..], [(interface, transport, bytes)]
                if interface == "wlan0" && transport == "mtp-tcp" && *bytes >= 4_000_000),
            "{paths:?}"
        );
    }
}

/// The waiting side accepts carriers at its stack's address as well as at the kernel's.
#[test]
fn a_stack_is_called_and_a_document_names_another() {
    let serve = "exec H send original --anyone --json --dev packet:eth0 --addr 10.77.0.8/24 > printed";
    let place = LabFolder::new("mtp-called", serve);
    let content = content(3_000_000);
    std::fs::write(place.file("original"), &content).expect("a file");
    let document = r#"
remote_host = "10.77.0.8"
connection_priority = [["mtp-tcp", "ipv4", "wlan0"]]
[mtp_config.stacks.wlan0]
device = "packet"
address = "10.77.0.9/24"
"#;
    std::fs::write(place.file("session.toml"), document).expect("a file");
    let script = format!("{PIN} H recv --config session.toml --pin $PIN --json -o down");
    let Some(down) = place.run(&script) else { return };
    assert!(down.status.success(), "{down:?}");
    let printed = std::fs::read_to_string(place.file("printed")).expect("what the server printed");
    assert!(printed.contains("10.77.0.8:4433"), "{printed}");
    assert!(std::fs::read(place.file("down")).expect("a copy") == content);
}

#[test]
fn a_session_survives_the_loss_of_one_of_three_carriers() {
    let place = LabFolder::new("mtp-mix", "exec H send original --anyone --json > printed");
    let content = content(8_000_000);
    std::fs::write(place.file("original"), &content).expect("a file");
    // WiFi fails midway, and the stack with it. The stack first probes its address for 0.3 s.
    let script = format!(
        "{PIN} (sleep 0.9; ip link set wlan0 down) & \
         H recv server --pin $PIN --json -o down --over mtp-tcp:wlan0,quic:wwan0,tcp:wwan0 {STACK}"
    );
    let Some(down) = place.run(&script) else { return };
    assert!(down.status.success(), "{down:?}");
    assert!(std::fs::read(place.file("down")).expect("a copy") == content);
    let paths = paths(&down.stdout);
    let carried = |name: &str| {
        paths
            .iter()
            .filter(|path| path.1 == name)
            .map(|path| path.2)
            .sum::<u64>()
    };
    assert!(
        carried("mtp-tcp") > 100_000 && carried("quic") + carried("tcp") > 1_000_000,
        "{paths:?}"
    );
}

#[test]
fn a_gateway_is_called_at_its_stack() {
    let serve = "(python3 -m http.server 8080 > /dev/null 2>&1 &) && H gateway token phone --out token > clients && \
                 exec H gateway --clients clients --allow 10.77.0.2:8080 --json \
                 --dev packet:eth0 --addr 10.77.0.8/24 > printed";
    let place = LabFolder::new("mtp-gateway", serve);
    let content = content(2_000_000);
    std::fs::write(place.file("original"), &content).expect("a file");
    // In HTTP/1.0, the end of the connection ends the content.
    let script = format!(
        "{PIN} until curl -s -o ready http://10.77.0.2:8080/; do sleep 0.1; done; \
         printf 'GET /original HTTP/1.0\\r\\n\\r\\n' | H gateway cat 10.77.0.8 --token token --pin $PIN \
         --to 10.77.0.2:8080 {STACK} > down"
    );
    let Some(down) = place.run(&script) else { return };
    assert!(down.status.success(), "{down:?}");
    assert!(
        std::fs::read(place.file("down"))
            .expect("an answer")
            .ends_with(&content),
        "{down:?}"
    );
}

#[test]
fn a_proxy_races_tcp_written_in_mtp() {
    if !has("a_proxy_races_tcp_written_in_mtp", &[Need::Curl]) {
        return;
    }
    let place = LabFolder::new("mtp-proxy", "exec python3 -m http.server 8080 > printed 2>&1");
    let content = content(2_000_000);
    std::fs::write(place.file("original"), &content).expect("a file");
    let script = "H proxy --over mtp-tcp --json --dev packet:wlan0 --addr 10.77.0.9/24 > proxied & \
         until curl -s -o ready http://10.77.0.2:8080/ && curl -s -o ready http://127.0.0.1:1080/; do sleep 0.1; done; \
         curl -s --proxy socks5h://127.0.0.1:1080 -o down http://10.77.0.2:8080/original; kill $!";
    let Some(down) = place.run(script) else { return };
    let printed = std::fs::read_to_string(place.file("proxied")).expect("what the proxy printed");
    assert!(
        std::fs::read(place.file("down")).is_ok_and(|copy| copy == content),
        "{printed}{down:?}"
    );
    assert!(
        printed.contains(r#""event":"won","transport":"mtp-tcp""#),
        "{printed}"
    );
}
