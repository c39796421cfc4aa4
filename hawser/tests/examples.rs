//! The example programs behave as their head comments describe.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use hawser_testing::{Need, TestResult, has, helper};

fn output(command: &mut Command) -> TestResult<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn a_session_echoes() -> TestResult {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let mut server = helper("session_echo")
        .args(["listen", &address])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("it is piped")?).read_line(&mut line)?;
    let digest = line.trim().rsplit(' ').next().ok_or("a digest")?.to_owned();
    let echo = output(helper("session_echo").args(["send", &address, &digest, "hello"]));
    server.kill()?;
    server.wait()?;
    assert_eq!(echo?, "hello\n");
    Ok(())
}

#[test]
fn a_race_ends_with_a_page() -> TestResult {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = format!("localhost:{}", listener.local_addr()?.port());
    let serving = thread::spawn(move || -> std::io::Result<()> {
        let mut client = listener.accept()?.0;
        client.read_exact(&mut [0; 14])?;
        client.write_all(b"HTTP/1.0 204 No Content\r\n\r\n")
    });
    let text = output(helper("race").arg(&server))?;
    assert!(
        text.contains(" won after ") && text.ends_with("HTTP/1.0 204 No Content\r\n"),
        "{text}"
    );
    serving.join().map_err(|_| "the server panicked")??;
    Ok(())
}

#[test]
fn a_lab_carries_a_transfer_past_a_silence() -> TestResult {
    if !has("a_lab_carries_a_transfer_past_a_silence", &[Need::Netns]) {
        return Ok(());
    }
    let done = helper("lab").output()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    let text = String::from_utf8(done.stdout)?;
    assert!(text.starts_with("1048576 bytes arrived after "), "{text}{errors}");
    Ok(())
}
