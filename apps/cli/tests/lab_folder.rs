//! A directory for a test, with a lab of a phone and a server that are connected by WiFi and mobile.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hawser_documents::temporary::Folder;
use hawser_testing::{Need, has};

const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// The maximum time of a script, in seconds. A faulty script may wait for ever.
const LIMIT: &str = "180";

/// A directory with a lab, removed when dropped.
pub(crate) struct LabFolder {
    name: &'static str,
    directory: Folder,
    /// The needs of the server's shell besides this command.
    needs: Vec<Need>,
}

impl LabFolder {
    /// Creates the directory. The server's shell runs `serve` in it, where `H` stands for this command.
    pub(crate) fn new(name: &'static str, serve: &str) -> LabFolder {
        LabFolder::with_rules(name, "", serve)
    }

    /// Creates the directory like `new`, with additional rules for both links.
    pub(crate) fn with_rules(name: &'static str, rules: &str, serve: &str) -> LabFolder {
        let directory = Folder::new().expect("a directory");
        let mut needs = vec![Need::Netns];
        needs.extend(serve.contains("python3").then_some(Need::Python));
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
        LabFolder { name, directory, needs }
    }

    /// Runs a shell script on the phone. Returns `None` if this machine allows no labs or lacks a program
    /// that the server needs.
    pub(crate) fn run(&self, script: &str) -> Option<Output> {
        if !has(self.name, &self.needs) {
            return None;
        }
        let script = script.replace("H ", &format!("{HAWSER} "));
        let mut command = Command::new(HAWSER);
        command.args(["lab", "up"]).arg(self.directory.join("lab.toml"));
        command.args(["--", "timeout", LIMIT, "sh", "-ec", &script]);
        let output = command.current_dir(&self.directory).stdin(Stdio::null()).output();
        Some(output.expect("hawser starts"))
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
