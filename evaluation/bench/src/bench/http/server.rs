//! The servers: nginx on Linux's TCP (Debian: `nginx-light`), `hawser serve` on ours over a packet socket.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use hawser_documents::temporary::Folder;

use super::line::{self, Line};
use crate::sys;

/// The port of both servers.
const PORT: u16 = 80;

/// The two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    Nginx,
    Hawser,
}

impl ServerKind {
    /// Returns the name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::Nginx => "nginx",
            ServerKind::Hawser => "Hawser",
        }
    }
}

/// A running server, which is killed when this is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

/// Returns nginx's configuration: one process, because the bench measures one server thread; no log; files
/// sent by the kernel. In a user namespace, root is the only user to whom nginx can give its folders.
fn configuration(folder: &Folder) -> String {
    let root = folder.display();
    let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {root}/{kind};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\npid {root}/nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n\
         sendfile on;\ntcp_nopush on;\nkeepalive_requests 100;\n{bodies}\
         server {{ listen {}:{PORT}; root {root}; }}\n}}\n",
        line::KERNEL
    )
}

/// Returns a program in one of these folders, or on the PATH.
fn found(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = folders.iter().cloned().chain(std::env::split_paths(&path));
    candidates
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn spawn(
    line: &Line,
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
    address: SocketAddr,
) -> io::Result<Server> {
    let host = line.host("server")?;
    let mut command = host.command(program).map_err(io::Error::other)?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(Server { child: command.spawn()?, address })
}

impl Server {
    /// Starts nginx for the files of a folder, on the core of this thread.
    ///
    /// # Errors
    /// nginx is missing, or could not be started.
    pub(super) fn nginx(line: &Line, folder: &Folder) -> io::Result<Server> {
        // Debian installs it outside the PATH of ordinary users.
        let program = found("nginx", &["/usr/sbin".into()])
            .ok_or_else(|| io::Error::other("nginx is not installed: apt-get install nginx-light"))?;
        let file = folder.join("nginx.conf");
        std::fs::write(&file, configuration(folder))?;
        let arguments = ["-e", "stderr", "-c"]
            .map(Into::into)
            .into_iter()
            .chain([file.into()]);
        spawn(
            line,
            &program,
            arguments,
            SocketAddr::new(line::KERNEL.into(), PORT),
        )
    }

    /// Starts `hawser serve` for the same files.
    ///
    /// # Errors
    /// The command is missing, or could not be started.
    pub(super) fn hawser(
        line: &Line,
        folder: &Folder,
        engine: &str,
        params: &[String],
    ) -> io::Result<Server> {
        let here = std::env::current_exe()?;
        let beside: Vec<PathBuf> = here.parent().map(Path::to_path_buf).into_iter().collect();
        let program = found("hawser", &beside).ok_or_else(|| {
            io::Error::other(
                "cannot find hawser beside this program or on the PATH: cargo build --release -p hawser-cli",
            )
        })?;
        let arguments = [
            "serve".to_owned(),
            folder.display().to_string(),
            format!("--dev=packet:{}", line::INTERFACE),
            format!("--addr={}/24", line::OURS),
            format!("--router={}", line::ROUTER),
            format!("--port={PORT}"),
            format!("--engine={engine}"),
        ];
        let params = params.iter().map(|param| format!("--param={param}"));
        let arguments = arguments.into_iter().chain(params).map(Into::into);
        spawn(
            line,
            &program,
            arguments,
            SocketAddr::new(line::OURS.into(), PORT),
        )
    }

    /// Returns the server's processor time so far.
    ///
    /// # Errors
    /// The server has ended.
    pub(super) fn cpu_time(&self) -> io::Result<Duration> {
        sys::process_time(self.child.id())
    }

    /// Checks that the server is running.
    ///
    /// # Errors
    /// The server has ended, with this status.
    pub(super) fn runs(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("the server ended early ({status})"))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
