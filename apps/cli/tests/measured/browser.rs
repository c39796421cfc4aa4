//! The browser's story of `hawser demo`: downloads through the proxy, with and without the second path, and
//! the page with its switches.
//!
//! The bounds are those of the issue, for two paths of 10 Mbit/s. `HAWSER_EVERY_SIZE=1` covers every size
//! from 1 to 64 MiB (`cargo xtask long browser`).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hawser_dashboard::browser::{Browser, Options, command};
use hawser_testing::{Need, has, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::TURN;

/// The rate of a download over one path of 10 Mbit/s, in Mbit/s, less headers and the handshake.
const ONE_PATH: std::ops::Range<f64> = 8.5..9.6;

/// A row of the story's table.
#[derive(Debug)]
struct Row {
    network: String,
    setup: String,
    mib: u64,
    transport: String,
    mbit_per_second: f64,
}

fn hawser() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    command.arg("demo");
    command
}

fn rows(result: &Value) -> Vec<Row> {
    let row = |row: &Value| {
        assert_eq!(row["error"], Value::Null, "{row}");
        let text = |key: &str| row[key].as_str().expect(key).to_owned();
        Row {
            network: text("network"),
            setup: text("setup"),
            mib: row["mib"].as_u64().expect("a size"),
            transport: text("transport"),
            mbit_per_second: row["mbit_per_second"].as_f64().expect("a rate"),
        }
    };
    result["rows"].as_array().expect("rows").iter().map(row).collect()
}

/// Returns the minimum rate of both paths together, in Mbit/s. A small file must only match one path, because
/// the race, the handshake and slow start take most of its time.
fn min_rate(row: &Row) -> f64 {
    match (row.mib, row.setup.as_str()) {
        (32.., "policy") => 18.0,
        (16.., "policy") => 17.0,
        (16.., _) => 17.5,
        _ => 0.0,
    }
}

/// Returns whether a row's transport and rate are as expected from the network.
fn is_right(row: &Row, rows: &[Row]) -> bool {
    let alone = |one: &&Row| one.network == "SCTP blocked" && one.mib == row.mib;
    match row.network.as_str() {
        "SCTP blocked" => row.mib < 16 || ONE_PATH.contains(&row.mbit_per_second),
        "all admitted" => {
            let alone = rows.iter().find(alone).expect("the same over one path");
            let best = if row.setup == "policy" { "sctp" } else { "session" };
            row.transport == best && row.mbit_per_second >= min_rate(row).max(0.95 * alone.mbit_per_second)
        }
        // For other rows it is enough that they are complete.
        _ => true,
    }
}

/// Checks the conditions that hold even on a busy machine: all rows exist, no download failed, and no blocked
/// transport is used.
fn check(rows: &[Row]) {
    for row in rows {
        match row.network.as_str() {
            "SCTP blocked" | "SCTP blocked again" => assert_eq!(row.transport, "tcp", "{row:?}"),
            "QUIC blocked midway" => assert_eq!(row.transport, "session", "{row:?}"),
            "all admitted" => {}
            other => panic!("{other}"),
        }
    }
    let count = |network: &str| rows.iter().filter(|row| row.network == network).count();
    assert_eq!(count("all admitted"), 4 * count("SCTP blocked"), "{rows:?}");
    assert_eq!(
        (count("SCTP blocked again"), count("QUIC blocked midway")),
        (1, 1),
        "{rows:?}"
    );
}

/// Rates are checked as measured. The measurement is repeated if they are wrong, because other processes may
/// have used the processor, which also carries the lab's links.
#[test]
fn downloads_take_both_paths_when_they_can() {
    if !has(
        "downloads by a browser",
        &[Need::Netns, Need::Curl, Need::Usrsctp],
    ) {
        return;
    }
    let _turn = TURN.lock();
    const MAX_MEASUREMENTS: usize = 3;
    for attempt in 1..=MAX_MEASUREMENTS {
        let mut story = hawser();
        story.args(["--story", "browser", "--json", "--every-setup"]);
        if std::env::var_os("HAWSER_EVERY_SIZE").is_some() {
            story.arg("--every-size");
        }
        let output = story.output().expect("hawser starts");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{message}");
        let result: Value = serde_json::from_slice(&output.stdout).expect("the result is JSON");
        if result["by"] != "Chromium" {
            skip(Need::Chromium, "downloads by a browser", "curl took its place");
        }
        let rows = rows(&result);
        rows.iter().for_each(|row| println!("{row:?}"));
        check(&rows);
        let wrong: Vec<&Row> = rows.iter().filter(|row| !is_right(row, &rows)).collect();
        if wrong.is_empty() {
            return;
        }
        assert!(
            attempt < MAX_MEASUREMENTS,
            "not what the network should give: {wrong:?}"
        );
        println!("measured again, because of {wrong:?}");
    }
}

/// A served page, terminated when dropped.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        // A signal, as from a user, lets the command clean up. If it cannot be sent, the process is killed.
        if kill_process(Pid::from_child(&self.0), Signal::TERM).is_err() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// A browser on this machine opens the page, uses the switches, and orders a download.
#[test]
fn the_page_switches_the_network() -> Result<(), Box<dyn std::error::Error>> {
    let Some(chromium) = command(|program| Ok::<_, std::io::Error>(Command::new(program)))? else {
        skip(Need::Chromium, "the page's switches", "apt-get install chromium");
        return Ok(());
    };
    if !has("the page's switches", &[Need::Netns, Need::Usrsctp]) {
        return Ok(());
    }
    let _turn = TURN.lock();
    let mut command = hawser();
    command
        .args(["--web", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut page = Page(command.spawn()?);
    let mut line = String::new();
    BufReader::new(page.0.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
    let Ok(message) = serde_json::from_str::<Value>(&line) else {
        let mut why = String::new();
        std::io::Read::read_to_string(&mut page.0.stderr.take().ok_or("no pipe")?, &mut why)?;
        return Err(why.into());
    };
    let mut browser = Browser::launch(chromium, &Options::default())?;
    browser.navigate(message["url"].as_str().ok_or("no address")?)?;
    let soon = Duration::from_secs(10);
    let switch =
        |id: &str, on: bool| format!("document.querySelector('[data-id={id}]')?.ariaChecked == '{on}'");
    for (number, (id, transport)) in [(1, ("sctp", "over tcp")), (2, ("path-a", "over"))] {
        browser.wait_until(&switch(id, true), soon)?;
        browser.evaluate(&format!("document.querySelector('[data-id={id}]').click()"))?;
        browser.wait_until(&switch(id, false), soon)?;
        browser.evaluate("document.querySelector('#order-size').value = '1'")?;
        browser.evaluate("document.querySelector('#order button').click()")?;
        let done = format!("document.querySelectorAll('#downloads [data-state=done]').length == {number}");
        browser.wait_until(&done, Duration::from_secs(40))?;
        let detail =
            browser.evaluate("document.querySelector('#downloads li:first-child small').textContent")?;
        assert!(
            detail.as_str().is_some_and(|detail| detail.contains(transport)),
            "{id}: {detail}"
        );
        browser.evaluate(&format!("document.querySelector('[data-id={id}]').click()"))?;
    }
    browser.wait_until(
        "document.querySelector('.lane [data-outcome=won]') !== null",
        soon,
    )?;
    browser.wait_until(
        "document.querySelector('#candidates tr[data-chosen=true]') !== null",
        soon,
    )?;
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    Ok(())
}
