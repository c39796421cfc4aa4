//! The examples in C, compiled as the page says and run.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_testing::Need;

use crate::header::{folder, libraries};

/// Installs the library as the page on C says, and returns the prefix.
fn installed(name: &str) -> PathBuf {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prefix-{name}"));
    let output = Command::new(folder().join("../../scripts/c-library"))
        .args([&prefix, &libraries()])
        .output()
        .expect("the script runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    prefix
}

/// How an example is compiled and run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Plain,
    /// With AddressSanitizer and UndefinedBehaviorSanitizer in the example.
    Sanitized,
    /// Under valgrind, which also sees the library.
    Valgrind,
}

/// Compiles an example against the library that is installed there, without a warning.
fn compile(prefix: &Path, name: &str, mode: Mode) -> PathBuf {
    let program = prefix.join(format!("{name}-{mode:?}"));
    let sanitizers: &[&str] = match mode {
        Mode::Sanitized => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        Mode::Plain | Mode::Valgrind => &[],
    };
    let options = Command::new("pkg-config")
        .args(["--cflags", "--libs", "hawser"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .expect("pkg-config runs");
    let options = String::from_utf8_lossy(&options.stdout).into_owned();
    let output = Command::new("cc")
        .args([
            "-std=c11",
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-g",
        ])
        .arg(folder().join("examples").join(format!("{name}.c")))
        .arg("-o")
        .arg(&program)
        .args(options.split_whitespace())
        .args(sanitizers)
        .output()
        .expect("cc runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Compiles and runs an example, and returns its output.
fn run(prefix: &Path, program: &str, mode: Mode, arguments: &[&str]) -> String {
    let program = compile(prefix, program, mode);
    let mut command = Command::new(&program);
    if mode == Mode::Valgrind {
        command = Command::new("valgrind");
        command
            .args(["--quiet", "--leak-check=full", "--show-leak-kinds=definite"])
            .args(["--errors-for-leak-kinds=definite", "--error-exitcode=9"])
            .arg(&program);
    }
    let output = command
        .args(arguments)
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .output()
        .expect("the example runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{text}{errors}", output.status);
    text
}

/// The modes that this machine has.
fn modes(test: &str) -> impl Iterator<Item = Mode> {
    let has_valgrind = hawser_testing::has(test, &[Need::Valgrind]);
    let all = [Mode::Plain, Mode::Sanitized, Mode::Valgrind];
    all.into_iter()
        .filter(move |mode| has_valgrind || *mode != Mode::Valgrind)
}

#[test]
fn messages_come_back_from_the_echo_server() {
    let prefix = installed("echo");
    for mode in modes("messages_come_back_from_the_echo_server") {
        let text = run(&prefix, "echo", mode, &[]);
        assert_eq!(
            text, "server: message 0\nserver: message 1\nserver: message 2\nthe connection is closed\n",
            "{mode:?}"
        );
    }
}

#[test]
fn a_page_is_fetched_by_the_transport_that_wins() {
    let prefix = installed("http");
    for mode in modes("a_page_is_fetched_by_the_transport_that_wins") {
        fetch(&prefix, mode);
    }
}

fn fetch(prefix: &Path, mode: Mode) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port().to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a client");
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("a request");
            request.push(byte[0]);
        }
        let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nhello\n";
        stream.write_all(answer).expect("the answer is written");
        String::from_utf8(request).expect("a text")
    });
    let text = run(prefix, "http_get", mode, &["127.0.0.1", &port, "/page"]);
    assert!(text.ends_with("\r\n\r\nhello\n"), "{text}");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let request = answer.join().expect("the server ends");
    assert!(
        request.starts_with("GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
        "{request}"
    );
}
