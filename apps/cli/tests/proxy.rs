//! `hawser proxy` and `hawser gateway`, in a lab: two hosts, two paths, curl.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// Where the web server of these tests is to listen, in a process of its own.
const WEB: &str = "HAWSER_TEST_WEB";

/// A directory that goes with the test, with a lab in it.
struct Place(PathBuf);

impl Place {
    /// `serve`: what the server's shell runs, in the directory, beside a web server at port 80.
    fn new(name: &str, serve: &str) -> Place {
        let directory = std::env::temp_dir().join(format!("hawser-proxy-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let web = std::env::current_exe().expect("a path");
        let web = format!("{WEB}=0.0.0.0:80 '{}' --exact the_web_server >web 2>&1", web.display());
        let serve = serve.replace("H ", &format!("{HAWSER} "));
        let lab = format!(
            r#"
[[host]]
name = "laptop"
[[host]]
name = "server"
serve = """cd '{}' && ({web} &) && {serve}"""
[[link]]
name = "wifi"
between = ["laptop", "server"]
interfaces = ["wlan0", "eth0"]
both = {{ rate = "40Mbit/s", queue = "200kB", delay = "2ms" }}
[[link]]
name = "mobile"
between = ["laptop", "server"]
interfaces = ["wwan0", "eth1"]
both = {{ rate = "40Mbit/s", queue = "200kB", delay = "4ms" }}
"#,
            directory.display()
        );
        std::fs::write(directory.join("lab.toml"), lab).expect("a file");
        Place(directory)
    }

    /// Runs a shell on the laptop; none where this machine has no labs.
    fn run(&self, script: &str) -> Option<Output> {
        let script = script.replace("H ", &format!("{HAWSER} "));
        let mut command = Command::new(HAWSER);
        command.args(["lab", "up"]).arg(self.0.join("lab.toml")).args(["--", "sh", "-ec", &script]);
        let output = command.current_dir(&self.0).stdin(Stdio::null()).output().expect("hawser starts");
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(4) && said.contains("namespace") {
            println!("skipped: {said}");
            return None;
        }
        Some(output)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    let place = Place::new(
        "gateway",
        "H gateway token laptop --out token > clients && exec H gateway --clients clients \
         --allow server:80 --allow 10.77.0.2:80 --json > said",
    );
    let script = "until grep -q pin said 2>/dev/null; do sleep 0.05; done; \
        PIN=$(sed -n 's/.*\"pin\":\"\\([0-9a-f]*\\)\".*/\\1/p' said); \
        H proxy --over gateway,tcp --gateway server --gateway-token token --gateway-pin $PIN --json > log & \
        LISTENScurl -s -S -o got --socks5-hostname 127.0.0.1:1080 http://server/8000000; \
        curl -s -o /dev/null -w '%{http_code}' -x http://127.0.0.1:1080 http://server/1; kill $!"
        .replace("LISTENS", LISTENS);
    let Some(output) = place.run(&script) else { return };
    let (said, log) = (place.read("said"), place.read("log"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "200", "{output:?}\n{said}\n{log}");
    assert_eq!(place.read("got").len(), 8_000_000, "{log}");
    let closed = log.lines().find(|line| line.contains("\"closed\"")).expect("the tunnel was closed");
    assert!(closed.contains("\"transport\":\"session\""), "{log}\n{said}");
}

#[test]
fn without_its_gateway_it_goes_by_tcp() {
    let place = Place::new("without", "H gateway token laptop --out token > clients && exec sleep 60");
    let script = "until test -s token; do sleep 0.05; done; \
        H proxy --over gateway,tcp --gateway server --gateway-token token --json > log & \
        LISTENScurl -s -S -o got --socks5-hostname 127.0.0.1:1080 http://server/1000; kill $!"
        .replace("LISTENS", LISTENS);
    let Some(output) = place.run(&script) else { return };
    let log = place.read("log");
    assert_eq!(place.read("got").len(), 1_000, "{output:?} {log}");
    let closed = log.lines().find(|line| line.contains("\"closed\"")).expect("the tunnel was closed");
    assert!(closed.contains("\"transport\":\"tcp\""), "{closed}");
}

#[test]
fn wrong_flags_are_named() {
    for (flags, code, words) in [
        (&["--over", "udp"][..], 2, "`udp` is no way to connect"),
        (&["--over", "gateway"], 2, "one of tcp, mptcp, sctp"),
        (&["--over", "sctp:eth0"], 2, "`sctp:eth0`"),
        (&["--gateway", "server"], 2, "--gateway-token"),
        (&["--listen", "0.0.0.0:0"], 2, "credential"),
        (&["--credential", "/no/such/file"], 3, "/no/such/file"),
        (&["--gateway", "server", "--gateway-token", "/no/such/token"], 3, "/no/such/token"),
    ] {
        let output = Command::new(HAWSER).arg("proxy").args(flags).output().expect("hawser starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}
