//! The sockets at which ports in shared memory meet their peers. Only the user may access them.
//!
//! A peer of such a port can end this process, and write into its memory at a place of its choice. It can
//! also block the thread that polls the port. DPDK's own default for `net_memif` is an abstract socket, to
//! which every user of the network namespace may connect. Here a port gets a socket's file in a folder of
//! mode 0700. It gets an abstract socket only if the caller accepts every user as such a peer.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The drivers of ports in shared memory, each with the argument that names its socket.
const DRIVERS: [(&str, &str); 3] = [
    (MEMIF, "socket="),
    ("net_vhost", "iface="),
    ("net_virtio_user", "path="),
];
const MEMIF: &str = "net_memif";
/// Our own argument that accepts an abstract socket.
const TRUST: &str = "trust-every-user=yes";

/// Returns the device with its socket named, and without arguments that only Hawser understands. A device of
/// any other driver is returned unchanged.
pub(crate) fn with_own_socket(device: &str) -> Result<String, OpenError> {
    let driver = DRIVERS.iter().find(|(driver, _)| device.starts_with(driver));
    let Some((driver, key)) = driver else {
        return Ok(device.to_owned());
    };
    let arguments: Vec<&str> = device.split(',').collect();
    let socket = arguments.iter().find_map(|argument| argument.strip_prefix(key));
    if *driver == MEMIF {
        return memif(device, &arguments, socket.map(Path::new));
    }
    socket.map_or(Ok(()), |path| check(Path::new(path)))?;
    Ok(device.to_owned())
}

/// Does the same for a device of [`MEMIF`].
fn memif(device: &str, arguments: &[&str], socket: Option<&Path>) -> Result<String, OpenError> {
    let trusts = arguments.contains(&TRUST);
    let mut named: Vec<String> = arguments
        .iter()
        .filter(|argument| **argument != TRUST)
        .map(|argument| (*argument).to_owned())
        .collect();
    if arguments.contains(&"socket-abstract=yes") {
        return match trusts {
            true => Ok(named.join(",")),
            false => Err(OpenError::Abstract(device.to_owned())),
        };
    }
    let path = match socket {
        Some(path) => path.to_owned(),
        None => own_folder()?.join("memif.sock"),
    };
    check(&path)?;
    if arguments.contains(&"role=server") {
        remove_abandoned(&path);
    }
    if socket.is_none() {
        named.push(format!("socket={}", path.display()));
    }
    if !arguments.contains(&"socket-abstract=no") {
        named.push("socket-abstract=no".to_owned());
    }
    Ok(named.join(","))
}

/// Returns the folder for sockets of this user, which it creates if it is missing.
fn own_folder() -> Result<PathBuf, OpenError> {
    let set = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = set
        .map_or_else(|| PathBuf::from("/run"), PathBuf::from)
        .join("hawser");
    let error = |error| OpenError::Socket { path: folder.clone(), error };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(error)?;
    Ok(folder)
}

/// Checks that no other user can replace the socket at `path`.
fn check(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    is_own(folder.unwrap_or(Path::new(".")))
        .map_err(|error| OpenError::Socket { path: path.to_owned(), error })
}

/// Removes the socket of a server that was killed, because DPDK does not listen at an existing file.
fn remove_abandoned(path: &Path) {
    let refused =
        UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if refused {
        // If the file stays, DPDK reports why the port does not start.
        let _ = fs::remove_file(path);
    }
}

/// Fails if a user other than this one and root owns the folder or may write to it.
fn is_own(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    let user = rustix::process::geteuid().as_raw();
    match (found.uid() == user || found.uid() == 0) && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(
            "other users can write to its folder: use a folder of your own (mode 0700)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn devices_of_other_drivers_stay_as_they_are() {
        for device in ["net_tap0,iface=a", "0000:03:00.0"] {
            assert_eq!(with_own_socket(device).expect("it is taken"), device);
        }
    }

    #[test]
    fn an_abstract_socket_requires_the_trust_flag() {
        let refused =
            with_own_socket("net_memif0,role=server,socket-abstract=yes").expect_err("it is refused");
        assert!(refused.to_string().contains(TRUST), "{refused}");
        let device = "net_memif0,role=server,socket-abstract=yes,trust-every-user=yes";
        assert_eq!(
            with_own_socket(device).expect("it is taken"),
            "net_memif0,role=server,socket-abstract=yes"
        );
    }

    #[test]
    fn a_socket_lies_in_a_folder_to_which_no_other_user_writes() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let device = format!("net_memif0,socket={}", folder.join("s").display());
        assert_eq!(
            with_own_socket(&device).expect("it is taken"),
            format!("{device},socket-abstract=no")
        );
        let ring = format!("net_vhost0,iface={}", folder.join("s").display());
        assert_eq!(with_own_socket(&ring).expect("it is taken"), ring);
        fs::set_permissions(&*folder, fs::Permissions::from_mode(0o777)).expect("it is changed");
        assert!(matches!(with_own_socket(&device), Err(OpenError::Socket { .. })));
    }
}
