//! `hawser proxy` and `hawser gateway`, in a lab: two hosts, two paths, curl.

mod place;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use place::Place;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// Where the web server of these tests is to listen, in a process of its own.
const WEB: &str = "HAWSER_TEST_WEB";

/// A place whose server has a web server at port 80 beside what its shell runs.
fn place(name: &'static str, serve: &str) -> Place {
    let web = std::env::current_exe().expect("a path");
    let web = format!("{WEB}=0.0.0.0:80 '{}' --exact the_web_server >web 2>&1", web.display());
    Place::new(name, &format!("({web} &) && {serve}"))
}

fn read(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.file(name)).unwrap_or_default()
}

/// No test: the web server of the others, when it is asked to be one. `GET /N` gives N bytes.
#[test]
fn the_web_server() {
    let Ok(address) = std::env::var(WEB) else { return };
    let listener = TcpListener::bind(address).expect("the address is free");
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length: usize = head.split([' ', '/']).find_map(|word| word.parse().ok()).unwrap_or(0);
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n").ok()?;
    stream.write_all(&vec![b'x'; length]).ok()
}

/// Waits until the proxy listens.
const LISTENS: &str = "until grep -q listening log 2>/dev/null; do sleep 0.05; done; ";

#[test]
fn a_download_goes_through_the_gateway_over_both_paths() {
    let place = place(
        "gateway",
        "H gateway token phone --out token > clients && exec H gateway --clients clients \
         --allow server:80 --allow 10.77.0.2:80 --json > said",
    );
    let script = "until grep -q pin said 2>/dev/null; do sleep 0.05; done; \
        PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' said); \
        H proxy --over gateway,tcp --gateway server --gateway-token token --gateway-pin $PIN --json > log & \
        LISTENScurl -s -S -o got --socks5-hostname 127.0.0.1:1080 http://server/8000000; \
        curl -s -o /dev/null -w '%{http_code}' -x http://127.0.0.1:1080 http://server/1; kill $!"
        .replace("LISTENS", LISTENS);
    let Some(output) = place.run(&script) else { return };
    let (said, log) = (read(&place, "said"), read(&place, "log"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200", "{output:?}\n{said}\n{log}");
    assert_eq!(read(&place, "got").len(), 8_000_000, "{log}");
    let closed = log.lines().find(|line| line.contains("\"closed\"")).expect("the tunnel was closed");
    assert!(closed.contains("\"transport\":\"session\""), "{log}\n{said}");
}

#[test]
fn without_its_gateway_it_goes_by_tcp() {
    let place = place("without", "H gateway token phone --out token > clients && exec sleep 60");
    let script = "until test -s token; do sleep 0.05; done; \
        H proxy --over gateway,tcp --gateway server --gateway-token token --json > log & \
        LISTENScurl -s -S -o got --socks5-hostname 127.0.0.1:1080 http://server/1000; kill $!"
        .replace("LISTENS", LISTENS);
    let Some(output) = place.run(&script) else { return };
    let log = read(&place, "log");
    assert_eq!(read(&place, "got").len(), 1_000, "{output:?} {log}");
    let closed = log.lines().find(|line| line.contains("\"closed\"")).expect("the tunnel was closed");
    assert!(closed.contains("\"transport\":\"tcp\""), "{closed}");
}

#[test]
fn a_policy_chooses_and_learns() {
    let place = place("policy", "exec sleep 60");
    let script = "H proxy --policy low_latency --control control --store store --json > log & \
        LISTENScurl -s -S -o got --socks5-hostname 127.0.0.1:1080 http://server/1000; \
        sleep 0.2; H cib list --socket control --json; kill -INT $!; wait; test -s store"
        .replace("LISTENS", LISTENS);
    let Some(output) = place.run(&script) else { return };
    let (log, known) = (read(&place, "log"), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(output.status.success(), "{output:?} {log}");
    assert_eq!(read(&place, "got").len(), 1_000, "{output:?} {log}");
    let ranked = log.lines().find(|line| line.contains("\"ranked\"")).expect("a ranking is told");
    for interface in ["wlan0", "wwan0"] {
        assert!(ranked.contains(&format!("\"transport\":\"TCP\",\"interface\":\"{interface}\"")), "{ranked}");
        assert!(known.contains(&format!("interface/{interface}")), "{known}");
    }
    // SCTP is preferred, and refused: that is learnt, and that another transport won.
    assert!(known.contains("\"source\":\"race\""), "{known}\n{log}");
}

#[test]
fn wrong_flags_are_named() {
    for (flags, code, words) in [
        (&["--over", "udp"][..], 2, "`udp` is no way to connect"),
        (&["--over", "gateway"], 2, "one of tcp, mptcp, sctp"),
        (&["--over", "sctp:eth0"], 2, "`sctp:eth0`"),
        (&["--gateway", "server"], 2, "--gateway-token"),
        (&["--listen", "0.0.0.0:0"], 2, "credential"),
        (&["--policy", "fast"], 2, "there are defaults, low_latency, reliable"),
        (&["--policy", "defaults", "--over", "tcp"], 2, "--over"),
        (&["--policy", "defaults", "--pib", "/no/such/folder"], 3, "/no/such/folder"),
        (&["--credential", "/no/such/file"], 3, "/no/such/file"),
        (&["--gateway", "server", "--gateway-token", "/no/such/token"], 3, "/no/such/token"),
    ] {
        let output = Command::new(HAWSER).arg("proxy").args(flags).output().expect("hawser starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}
