//! A directory that goes with a test, with a lab in it: a phone and a server, WiFi and mobile.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hawser_temporary::Folder;

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// The longest that a script may take, in seconds: some wait for what never comes when it is wrong.
const LIMIT: &str = "180";

/// The directory.
pub(crate) struct Place {
    name: &'static str,
    directory: Folder,
    /// What the server's shell calls besides this command.
    needs: Option<&'static str>,
}

impl Place {
    /// `serve`: what the server's shell runs, in the directory; `H` stands for this command.
    pub(crate) fn new(name: &'static str, serve: &str) -> Place {
        Place::with_rules(name, "", serve)
    }

    /// The same with more rules for both links.
    pub(crate) fn with_rules(name: &'static str, rules: &str, serve: &str) -> Place {
        let directory = Folder::new().expect("a directory");
        let needs = serve.contains("python3").then_some("python3");
        let serve = serve.replace("H ", &format!("{HAWSER} "));
        let lab = format!(
            r#"
[[host]]
name = "phone"
[[host]]
name = "server"
serve = """cd '{}' && {serve}"""
[[link]]
name = "wifi"
between = ["phone", "server"]
interfaces = ["wlan0", "eth0"]
both = {{ rate = "80Mbit/s", queue = "200kB", delay = "2ms", {rules} }}
[[link]]
name = "mobile"
between = ["phone", "server"]
interfaces = ["wwan0", "eth1"]
both = {{ rate = "60Mbit/s", queue = "200kB", delay = "8ms", {rules} }}
"#,
            directory.display()
        );
        std::fs::write(directory.join("lab.toml"), lab).expect("a file");
        Place { name, directory, needs }
    }

    /// Runs a shell on the phone; none where this machine has no labs, or not what the server calls.
    pub(crate) fn run(&self, script: &str) -> Option<Output> {
        if let Some(needed) = self.needs
            && Command::new(needed).arg("--version").output().is_err()
        {
            println!("skipped: {}: there is no {needed}", self.name);
            return None;
        }
        let script = script.replace("H ", &format!("{HAWSER} "));
        let mut command = Command::new(HAWSER);
        command.args(["lab", "up"]).arg(self.directory.join("lab.toml"));
        command.args(["--", "timeout", LIMIT, "sh", "-ec", &script]);
        let output = command
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .output()
            .expect("hawser starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(4) && stderr.contains("namespace") {
            println!("skipped: {}: {stderr}", self.name);
            return None;
        }
        Some(output)
    }

    /// A file of it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
