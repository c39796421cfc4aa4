//! What is left of a port whose process was killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_dpdk::DpdkWire;
use hawser_host::{TunOptions, TunWire};
use hawser_testing::{TestResult, skip};

/// Opens a device, says so, and waits to be killed.
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

/// Its TAP device is gone, and so is the folder that DPDK makes for each process.
pub(crate) fn a_killed_process_leaves_nothing() -> TestResult {
    if TunWire::open("probe0", TunOptions::default()).is_err() {
        skip("what is left of a TAP device", "/dev/net/tun may not be opened");
        return Ok(());
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args(["hold", "net_tap0,iface=held0"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("it was piped")?;
    BufReader::new(output).read_line(&mut line)?;
    assert_eq!(line, "open\n");
    let interfaces = || Command::new("ip").args(["-o", "link"]).output();
    let is_there = || TestResult::Ok(String::from_utf8(interfaces()?.stdout)?.contains("held0"));
    assert!(is_there()?);
    child.kill()?;
    child.wait()?;
    let begin = Instant::now();
    while is_there()? {
        assert!(begin.elapsed() < Duration::from_secs(5), "held0 is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    for folder in ["/run/dpdk", "/tmp/dpdk"] {
        let folder = Path::new(folder).join(format!("hawser-{}", child.id()));
        assert!(!folder.exists(), "{}", folder.display());
    }
    Ok(())
}
