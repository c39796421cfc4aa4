//! Another user at the control socket: the mode keeps it out, and where that is gone the credentials.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use super::{Place, child, open};

const VARIABLE: &str = "HAWSER_TEST_SOCKET";
/// `nobody`.
const NOBODY: u32 = 65_534;

/// The other user: says what it met.
#[test]
fn stranger() {
    let Some(path) = std::env::var_os(VARIABLE) else {
        return;
    };
    match UnixStream::connect(PathBuf::from(path)) {
        Err(error) => println!("met {:?}", error.kind()),
        Ok(mut stream) => {
            // It may be closed already.
            let _ = stream.write_all(b"{\"put\":{\"uid\":\"strange\",\"root\":true}}\n{\"list\":{}}\n");
            let lines = BufReader::new(stream).lines().map_while(Result::ok);
            lines.for_each(|line| println!("met {line}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_user_is_refused_by_mode_and_by_credentials() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be somebody else");
        return;
    }
    let place = Place::new();
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let settings = place.settings();
    let socket = settings.socket.clone().expect("a path");
    let knowledge = open(&settings).await;
    let met = || -> Option<Vec<String>> {
        let mut command = child("others::stranger", VARIABLE, &socket);
        let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(
            said.lines()
                .filter_map(|line| Some(line.split_once("met ")?.1.to_owned()))
                .collect(),
        )
    };
    assert_eq!(
        fs::symlink_metadata(&socket)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let Some(first) = met() else {
        println!("skipped: another user may not run this program where it lies");
        return;
    };
    assert_eq!(first, ["PermissionDenied"], "mode 0600");
    // As if the mode did not hold.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let second = met().expect("it ran before");
    assert_eq!(
        second,
        ["{\"error\":\"user 65534 is not served here: only 0 and root are\"}"]
    );
    assert!(knowledge.list().iter().all(|known| &*known.uid != "strange"));
}
