//! State that remains of a port whose process was killed.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_dpdk::DpdkWire;
use hawser_engine::wire::Wire;
use hawser_host::netns::{Namespace, Netlink};
use hawser_testing::{Need, TestResult, has};

/// Opens a device, prints a line, and waits to be killed.
pub(crate) fn hold(device: &str) -> ExitCode {
    match DpdkWire::open(device) {
        Ok(_wire) => {
            println!("open");
            std::thread::sleep(Duration::from_secs(60));
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Inspects the system while a process has a port on a device. Then kills that process, and waits until the
/// state is as before.
fn killed(device: &str, shown: impl Fn() -> TestResult<String>, held: &[&str]) -> TestResult {
    let before = shown()?;
    // DPDK's folder, which also exists while another process starts.
    let folders = ["/run/dpdk/hawser", "/tmp/dpdk/hawser"].map(Path::new);
    let there = folders.map(Path::exists);
    let has_new_folder = || {
        folders
            .iter()
            .zip(there)
            .any(|(folder, was)| !was && folder.exists())
    };
    let mut child = Command::new(std::env::current_exe()?)
        .args(["hold", device])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("it was piped")?;
    BufReader::new(output).read_line(&mut line)?;
    assert_eq!(line, "open\n");
    let meanwhile = shown()?;
    for part in held {
        assert!(meanwhile.contains(part), "{part} is not in {meanwhile}");
    }
    child.kill()?;
    child.wait()?;
    let begin = Instant::now();
    while shown()? != before || has_new_folder() {
        let limit = Duration::from_secs(5);
        assert!(begin.elapsed() < limit, "{}\nis not\n{before}", shown()?);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A server in shared memory listens at a file in a folder that no other user can enter, even after another
/// server was killed.
pub(crate) fn shared_memory_is_met_in_a_folder_of_the_users_own() -> TestResult {
    let own = hawser_documents::temporary::Folder::new()?;
    for _ in 0..2 {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["hold", "net_memif0,role=server"])
            .env("XDG_RUNTIME_DIR", &*own)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("it was piped")?;
        BufReader::new(output).read_line(&mut line)?;
        let sockets = std::fs::read_to_string(format!("/proc/{}/net/unix", child.id()))?;
        let mode = std::fs::metadata(own.join("hawser"))?.permissions().mode();
        child.kill()?;
        child.wait()?;
        assert_eq!(line, "open\n");
        assert_eq!(mode & 0o777, 0o700);
        let path = own.join("hawser/memif.sock").display().to_string();
        assert!(sockets.contains(&path), "{sockets}");
        assert!(!sockets.contains("@/run/memif.sock"), "{sockets}");
    }
    Ok(())
}

/// Returns the output of iproute2's `ip`.
pub(crate) fn ip(arguments: &str) -> TestResult<String> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Its TAP device is gone, and so is the folder that DPDK creates for each process.
pub(crate) fn a_killed_process_leaves_no_device_and_no_folder() -> TestResult {
    if !has("what is left of a TAP device", &[Need::Tun]) {
        return Ok(());
    }
    killed("net_tap0,iface=held0", || ip("-oneline link"), &["held0"])
}

/// An interface that existed before is unchanged.
pub(crate) fn a_killed_process_leaves_an_interface_as_it_was() -> TestResult {
    on_an_interface("net_af_packet76", &["promiscuity 1"])
}

/// Tests the same for a port of any driver; its interface shows the texts in `held` while the port is open.
pub(crate) fn on_an_interface(port: &str, held: &[&str]) -> TestResult {
    let mut netlink = Netlink::open()?;
    lay_cable(&mut netlink)?;
    let shown = || ip("-details link show cable0");
    killed(&format!("{port},iface=cable0"), shown, held)
}

/// Connects the interfaces `cable0` and `cable1`. Neither is connected before both are up.
fn lay_cable(netlink: &mut Netlink) -> TestResult {
    netlink.add_veth("cable0", "cable1", &Namespace::current()?)?;
    for name in ["cable0", "cable1"] {
        netlink.bring_up(name)?;
    }
    for name in ["cable0", "cable1"] {
        netlink.settle(name)?;
    }
    Ok(())
}

/// A server must not wait forever for frames of an interface that was removed. An interface that is merely
/// down does not count as removed.
pub(crate) fn a_port_whose_interface_was_taken_away_ends() -> TestResult {
    let mut netlink = Netlink::open()?;
    lay_cable(&mut netlink)?;
    ends_without("cable0", DpdkWire::open("net_af_packet78,iface=cable0")?)?;
    if !has("a TAP device that was taken away", &[Need::Tun]) {
        return Ok(());
    }
    ends_without("tap0", DpdkWire::open("net_tap78,iface=tap0")?)
}

fn ends_without(name: &str, mut wire: DpdkWire) -> TestResult {
    let mut receive = || {
        std::thread::sleep(Duration::from_millis(110));
        let count = wire.receive(8);
        wire.release();
        count
    };
    let mut netlink = Netlink::open()?;
    netlink.take_down(name)?;
    for _ in 0..3 {
        receive()?;
    }
    netlink.remove(name)?;
    // Frames that arrived earlier may wait in the port.
    let error = (0..3).find_map(|_| receive().err()).ok_or("it is gone")?;
    assert_eq!(error.to_string(), format!("the interface '{name}' was removed"));
    Ok(())
}
