//! Watches a transfer for ten seconds and modifies its window once. The effect must be visible.

use std::io::IsTerminal;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hawser::interact::Client;
use serde_json::{Value, json};

use super::environment::{DemoDevice, DemoEnvironment, DeviceKind, Family, digest};
use super::{Server, linux};
use crate::engine::EngineArgs;
use crate::exit::{Exit, Outcome};
use crate::interact::{exit, list, text};

/// The emulated network between the two hosts.
const FAULTS: &str = "rate=40Mbit/s,delay=10ms,queue=200kB";
/// The size of the file, more than can be transferred in the time.
const BYTES: u64 = 64 << 20;
/// The time for which the transfer is watched.
const LENGTH: Duration = Duration::from_secs(10);
/// The duration of one mark in the picture.
const MARK: Duration = Duration::from_millis(125);
/// The time after the start at which the window is set.
const SET_AT: Duration = Duration::from_secs(4);
const WINDOW: u64 = 25_000;
const LEASE: Duration = Duration::from_secs(3);

/// The observed values at one mark.
#[derive(Clone, Copy, Debug, Default)]
struct ObservedValues {
    /// The time since the start.
    at: Duration,
    window: u64,
    delivered: u64,
    srtt: u64,
}

/// Plays the story: the live view on a terminal, and a picture at the end.
pub(super) fn run(engine: &EngineArgs, medium: DeviceKind, as_json: bool) -> Outcome {
    linux::require_curl()?;
    let stage = DemoEnvironment::set_up(medium, BYTES)?;
    let (lane, socket) = (DemoDevice(0), stage.directory().join("interact.sock"));
    let mut command = stage.hawser()?;
    command
        .arg("serve")
        .arg(stage.directory())
        .args(["--json", "--port", "80"]);
    command
        .args(stage.device_options(lane, Family::V4))
        .args(["--engine", engine.for_program("tcp").name()]);
    command
        .args(["--faults", FAULTS])
        .arg(format!("--interact={}", socket.display()));
    let mut server = Server::start(command)?;
    server.line()?; // The server listens now.
    if !as_json {
        println!();
        println!("A transfer over {FAULTS}, watched; after 4 s its window is set for 3 s:");
        println!("  server$ hawser serve DIR --interact …");
        println!("  anyone$ hawser watch");
        println!("  anyone$ hawser bus modify FLOW tcp.conn.cc.cwnd {WINDOW} --lease 3s");
        println!();
    }
    let (url, got) = (stage.url(lane.hawser(Family::V4), 80), stage.download(lane));
    let (seen, came) = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| linux::curl(&url, &got));
        let seen = watch(&socket, as_json);
        (seen, transfer.join())
    });
    let seen = seen?;
    let came = came.unwrap_or_else(|_| Err("the download ended early".to_owned()));
    let same = came.is_ok() && digest(&got).is_ok_and(|(_, sha256)| sha256 == stage.sha256());
    let _ = std::fs::remove_file(got);
    let rates: Vec<f64> = seen.windows(2).map(|pair| rate(pair[0], pair[1])).collect();
    if as_json {
        let windows: Vec<u64> = seen.iter().map(|s| s.window).collect();
        let srtt: Vec<u64> = seen.iter().map(|s| s.srtt).collect();
        println!(
            "{}",
            json!({
                "same": same, "mark_seconds": MARK.as_secs_f64(), "window_bytes": windows, "srtt_ns": srtt,
                "mbit_per_second": rates, "set": WINDOW, "set_at_seconds": SET_AT.as_secs_f64(),
                "lease_seconds": LEASE.as_secs_f64(),
            })
        );
    } else {
        let windows: Vec<f64> = seen.iter().skip(1).map(|s| s.window as f64).collect();
        let round_trips: Vec<f64> = seen.iter().skip(1).map(|s| s.srtt as f64 / 1e6).collect();
        super::picture::rows(
            &[
                ("window", windows, "bytes"),
                ("round trip", round_trips, "ms"),
                ("rate", rates, "Mbit/s"),
            ],
            MARK,
        );
        println!("the file is {}", if same { "the same" } else { "not the same" });
    }
    if !same {
        return Err(Exit::failed("the download is not the file"));
    }
    verdict(&seen).map_err(Exit::failed)
}

/// Checks that the modification was visible: the held value, and a larger window before and after.
fn verdict(seen: &[ObservedValues]) -> Result<(), String> {
    // The lease begins slightly late, because it has to be requested.
    let slack = Duration::from_millis(700);
    let is_held = |s: &&ObservedValues| (SET_AT + slack..SET_AT + LEASE - slack).contains(&s.at);
    let held: Vec<u64> = seen.iter().filter(is_held).map(|s| s.window).collect();
    if held.is_empty() || held.iter().any(|window| *window != WINDOW) {
        return Err(format!("the window was not held at {WINDOW}: {held:?}"));
    }
    let grew = |is_meant: &dyn Fn(Duration) -> bool| seen.iter().any(|s| is_meant(s.at) && s.window > WINDOW);
    match (grew(&|at| at < SET_AT), grew(&|at| at > SET_AT + LEASE)) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("the window was not above {WINDOW} before it was set")),
        (_, false) => Err("the window did not grow when the lease was over".to_owned()),
    }
}

fn rate(before: ObservedValues, after: ObservedValues) -> f64 {
    after.delivered.saturating_sub(before.delivered) as f64 * 8.0 / MARK.as_secs_f64() / 1e6
}

/// Samples the flow at each mark, and sets the window once. On a terminal, `hawser watch` shows the flow as
/// well.
fn watch(socket: &std::path::Path, as_json: bool) -> Result<Vec<ObservedValues>, Exit> {
    let connect = |name| Client::connect(socket, name, 1).map_err(exit);
    let (mut looking, mut steering) = (connect("demo-watch")?, connect("demo-steer")?);
    let flow = flow(&mut looking)?;
    let live = !as_json && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let mut view = if live { Some(view(socket)?) } else { None };
    let (began, mut seen, mut is_set) = (Instant::now(), Vec::new(), false);
    while began.elapsed() < LENGTH {
        let names = ["tcp.conn.cc.cwnd", "tcp.conn.delivered", "tcp.conn.srtt"];
        let probed = looking
            .ask(&json!({ "probe": { "flow": flow, "variables": names } }))
            .map_err(exit)?;
        let value = |name: &str| probed["probed"]["values"][name].as_u64().unwrap_or_default();
        let [window, delivered, srtt] = names.map(value);
        seen.push(ObservedValues { at: began.elapsed(), window, delivered, srtt });
        if !is_set && began.elapsed() >= SET_AT {
            let lease = LEASE.as_nanos() as u64;
            let modify = json!({ "flow": flow, "variable": names[0], "value": WINDOW, "lease": lease });
            steering.ask(&json!({ "modify": modify })).map_err(exit)?;
            is_set = true;
        }
        let next = MARK * seen.len() as u32;
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
    if let Some(view) = &mut view {
        // The view ends by itself.
        let _ = view.wait();
    }
    Ok(seen)
}

/// Waits for the transfer's flow to appear.
fn flow(client: &mut Client) -> Result<Value, Exit> {
    for _ in 0..200 {
        let flows = client.ask(&json!({ "flows": {} })).map_err(exit)?;
        if let Some(conn) = list(&flows, "flows")
            .iter()
            .find(|flow| text(flow, "kind") == "conn")
        {
            return Ok(conn["flow"].clone());
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Err(Exit::failed("the transfer did not begin within 5 s"))
}

fn view(socket: &std::path::Path) -> Result<std::process::Child, Exit> {
    let hawser = std::env::current_exe().map_err(Exit::environment)?;
    let mut command = Command::new(hawser);
    command
        .arg("watch")
        .arg("--socket")
        .arg(socket)
        .args(["--for", "10s"])
        .stderr(Stdio::null());
    command.spawn().map_err(Exit::environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples at each mark of a window with these sizes before, during and after the lease.
    fn story(windows: [u64; 3]) -> Vec<ObservedValues> {
        let part = |at: Duration| usize::from(at >= SET_AT) + usize::from(at >= SET_AT + LEASE);
        let marks = (0..).map(|mark| MARK * mark).take_while(|at| *at < LENGTH);
        marks
            .map(|at| ObservedValues { at, window: windows[part(at)], ..ObservedValues::default() })
            .collect()
    }

    #[test]
    fn a_window_that_does_not_move_is_a_failure() {
        assert_eq!(verdict(&story([90_000, WINDOW, 90_000])), Ok(()));
        for wrong in [
            [90_000; 3],
            [WINDOW; 3],
            [90_000, WINDOW, WINDOW],
            [9_000, WINDOW, 90_000],
        ] {
            assert!(verdict(&story(wrong)).is_err(), "{wrong:?}");
        }
        assert!(verdict(&[]).is_err());
    }
}
