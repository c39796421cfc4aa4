//! `hawser cat` with a server that does not speak Hawser: `openssl s_server`, which answers a request with a
//! page about the connection.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that is killed when dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn openssl(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
fn cat_speaks_to_a_plain_tls_server() {
    let folder = hawser_documents::temporary::Folder::new().expect("a folder for temporary files");
    let made = openssl(
        &folder,
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ],
    )
    .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"])
    .args(["-addext", "subjectAltName=DNS:localhost"])
    .status();
    assert!(made.expect("openssl is installed").success());
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let server = ["s_server", "-www", "-quiet", "-tls1_3", "-alpn", "http/1.1"];
    let _peer = Peer(
        openssl(&folder, &server)
            .args([
                "-cert",
                "cert.pem",
                "-key",
                "key.pem",
                "-accept",
                &address.to_string(),
            ])
            .spawn()
            .expect("openssl is installed"),
    );
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let document = folder.join("session.toml");
    let text = format!(
        "remote_host = \"{address}\"\nconnection_priority = [[\"tcp\", \"any\", \"any\"]]\n\
         fallback = [\"http/1.1\"]\nstate = \"none\"\n\
         [ssl_config]\ncert = \"{}\"\nname = \"localhost\"\n",
        folder.join("cert.pem").display()
    );
    std::fs::write(&document, text).expect("a file");
    let mut cat = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("cat")
        .arg("--config")
        .arg(&document)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hawser");
    cat.stdin
        .take()
        .expect("its input")
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .expect("it reads");
    let output = cat.wait_with_output().expect("it ends");
    let (page, printed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && page.starts_with("HTTP/1.0 200 ok"),
        "{page}{printed}"
    );
    assert!(
        printed.contains("warning: fallback:") && printed.contains("speaks http/1.1, not Hawser"),
        "{printed}"
    );
}
