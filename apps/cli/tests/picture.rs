//! Pictures of a run: what is in them is held to what else is known of the run, and the page is looked at in a browser.
//!
//! `HAWSER_SCREENSHOTS=DIRECTORY` keeps pictures of the page. axe-core is where `scripts/phases setup` puts it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hawser_dashboard::browser::{Browser, Options, command};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs `hawser sim` with these options on a scenario; its report.
fn sim(scenario: &str, options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", scenario, "--json"])
        .args(options)
        .current_dir(root())
        .output()
        .expect("hawser starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// The data in a page.
fn data(page: &str) -> Value {
    let (_, behind) = page
        .split_once(r#"<script type="application/json" id="data">"#)
        .expect("data");
    let (data, _) = behind.split_once("</script>").expect("its end");
    serde_json::from_str(data).expect("it is JSON")
}

#[test]
fn each_packet_has_its_fate_and_the_line_that_sent_it() {
    let (page, tables) = (folder().join("sw.html"), folder().join("sw"));
    let report = sim(
        "examples/scenarios/stop-and-wait.toml",
        &[
            "--html",
            &page.display().to_string(),
            "--csv",
            &tables.display().to_string(),
        ],
    );
    let drawn = data(&std::fs::read_to_string(&page).expect("it was written"));
    let packets = drawn["packets"].as_array().expect("packets");
    // The report counts them by itself.
    let links = report["links"].as_array().expect("links");
    let sent: u64 = links.iter().filter_map(|link| link["sent"].as_u64()).sum();
    let lost: u64 = links
        .iter()
        .filter_map(|link| link["dropped"]["loss"].as_u64())
        .sum();
    assert_eq!(packets.len() as u64, sent);
    assert!(lost > 50, "{lost}");
    assert_eq!(
        packets.iter().filter(|packet| packet["fate"] == "loss").count() as u64,
        lost
    );
    // The program's own text has the lines: all packets are sent by `transmit`.
    let program = std::fs::read_to_string(root().join("examples/stop-and-wait.mtp")).expect("it is there");
    let line = 1 + program
        .lines()
        .position(|line| line.contains("emit pkt_gen"))
        .expect("it sends");
    assert_eq!(
        drawn["lines"],
        serde_json::json!([format!("examples/scenarios/../stop-and-wait.mtp:{line}")])
    );
    // A link of 2 ms and 10 Mbit/s takes no less for any packet.
    for packet in packets.iter().filter(|packet| packet["fate"] == "delivered") {
        let took = packet["end_ns"]
            .as_u64()
            .zip(packet["at_ns"].as_u64())
            .map(|(end, at)| end - at);
        assert!(took >= Some(2_000_000), "{packet}");
    }
    let retransmissions = drawn["fields"].as_array().and_then(|fields| {
        let field = fields.iter().find(|field| field["name"] == "retransmissions")?;
        field["points"].as_array()?.last()?.as_u64()
    });
    let reported: u64 = report["flows"]
        .as_array()
        .expect("flows")
        .iter()
        .filter_map(|flow| flow["retransmissions"].as_u64())
        .sum();
    assert_eq!(retransmissions, Some(reported));
    let fired = drawn["timers"]
        .as_array()
        .expect("timers")
        .iter()
        .filter(|timer| timer["end"] == "fired")
        .count() as u64;
    assert_eq!(fired, reported, "each repetition is a timer that fired");
    let rows = std::fs::read_to_string(tables.join("packets.csv")).expect("it was written");
    assert_eq!(rows.lines().count() as u64, 1 + sent);
}

#[test]
fn what_is_not_drawn_is_counted() {
    let page = folder().join("few.html");
    let page_name = page.display().to_string();
    let scenario = "examples/scenarios/stop-and-wait.toml";
    let report = sim(scenario, &["--html", &page_name, "--max-packets", "100"]);
    let drawn = data(&std::fs::read_to_string(&page).expect("it was written"));
    let sent: u64 = report["links"]
        .as_array()
        .expect("links")
        .iter()
        .filter_map(|link| link["sent"].as_u64())
        .sum();
    assert_eq!(drawn["packets"].as_array().map(Vec::len), Some(100));
    assert_eq!(drawn["left_out"]["packets"].as_u64(), Some(sent - 100));

    sim(scenario, &["--html", &page_name, "--from", "1s", "--to", "1.5s"]);
    let drawn = data(&std::fs::read_to_string(&page).expect("it was written"));
    let times: Vec<u64> = drawn["packets"]
        .as_array()
        .expect("packets")
        .iter()
        .filter_map(|p| p["at_ns"].as_u64())
        .collect();
    assert!(
        !times.is_empty()
            && times
                .iter()
                .all(|at| (1_000_000_000..=1_500_000_000).contains(at))
    );
}

#[test]
fn the_drawing_has_each_lost_packet_as_a_cross() {
    let drawing = folder().join("sw.svg");
    let report = sim(
        "examples/scenarios/stop-and-wait.toml",
        &["--svg", &drawing.display().to_string()],
    );
    let drawn = std::fs::read_to_string(&drawing).expect("it was written");
    let links = report["links"].as_array().expect("links");
    let lost: u64 = links
        .iter()
        .filter_map(|link| link["dropped"]["loss"].as_u64())
        .sum();
    assert_eq!(drawn.matches("m0 -8l-8 8").count() as u64, lost);
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
}

#[test]
fn a_run_is_recorded_for_watch() {
    let (file, page) = (folder().join("run.jsonl"), folder().join("recorded.html"));
    let (file, page_name) = (file.display().to_string(), page.display().to_string());
    let report = sim(
        "examples/scenarios/stop-and-wait.toml",
        &["--record", &file, "--html", &page_name, "--to", "500ms"],
    );
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["watch", "--json", "--replay", &file])
        .output()
        .expect("hawser starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    // Bytes acknowledged grow, and never beyond what the application sent.
    let una = lines
        .iter()
        .filter_map(|line| line["sample"]["values"]["stop-and-wait.sw_conn.una"].as_u64());
    let una: Vec<u64> = una.collect();
    assert!(una.len() > 3 && una.is_sorted(), "{una:?}");
    assert!(
        una.last() > una.first() && una.last() <= report["flows"][0]["forward"]["bytes"].as_u64().as_ref()
    );
}

#[test]
fn a_browser_shows_the_page_and_obeys_keys() -> Result<(), Box<dyn std::error::Error>> {
    let Some(command) = command(|program| Ok::<_, std::io::Error>(Command::new(program)))? else {
        println!(
            "skipped: the picture of a run in a browser: there is no Chromium: apt-get install chromium"
        );
        return Ok(());
    };
    let page = folder().join("tcp.html");
    sim(
        "examples/scenarios/tcp-lossy.toml",
        &["--html", &page.display().to_string()],
    );
    let mut browser = Browser::launch(
        command,
        &Options {
            size: (1280, 1500),
            ..Options::default()
        },
    )?;
    browser.navigate(&served(&page))?;
    browser.wait_until("document.querySelectorAll('#rows tr').length > 10", SOON)?;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let press = |key: &str| {
        format!(
            "document.getElementById('packets').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', cancelable: true}}))"
        )
    };

    // An arrow chooses the first packet, and says what it is and who sent it.
    browser.evaluate(&press("ArrowDown"))?;
    browser.wait_until(&format!("{}.includes('syn: true')", text("packet")), SOON)?;
    browser.wait_until(&format!("/sent by .*\\.mtp:\\d+/.test({})", text("packet")), SOON)?;
    // Zooming in shows less time.
    let width = "Math.round((state.to - state.from) / 1000) * 1000";
    let before = browser.evaluate(width)?.as_f64().unwrap_or_default();
    browser.evaluate(&press("+"))?;
    let after = browser.evaluate(width)?.as_f64().unwrap_or_default();
    assert!((after / before - 0.5).abs() < 0.001, "{before} {after}");
    browser.evaluate(&press("ArrowRight"))?;
    assert_eq!(browser.evaluate("state.from > 0")?, true);
    browser.evaluate(&press("0"))?;
    // Every drawing has ink on it, in both views.
    let ink = "[...document.querySelectorAll('canvas')].every(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v))";
    for view in ["sequence", "ladder"] {
        let choose = "select.dispatchEvent(new Event('change')); 0";
        let chosen = format!(
            "{{ const select = document.getElementById('view'); select.value = '{view}'; {choose} }}"
        );
        browser.evaluate(&chosen)?;
        browser.wait_until(ink, SOON)?;
    }
    assert_eq!(browser.evaluate("state.view")?, "ladder");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    axe(&mut browser)?;
    keep(&mut browser)?;
    browser.resize((390, 844), true)?;
    assert_eq!(
        browser.evaluate("document.documentElement.scrollWidth <= 390")?,
        true
    );
    Ok(())
}

/// The address of a file, as a browser takes it.
fn served(page: &Path) -> String {
    format!("file://{}", page.display())
}

/// axe-core finds nothing serious, light and dark.
fn axe(browser: &mut Browser) -> Result<(), Box<dyn std::error::Error>> {
    let script = root().join("target/axe/package/axe.min.js");
    if !script.is_file() {
        println!("skipped: accessibility of drawn runs: there is no axe-core: scripts/phases setup");
        return Ok(());
    }
    let script = std::fs::read_to_string(script)?;
    browser.evaluate(&format!("{{ {script}; window.axe = axe; 0 }}"))?;
    for colours in ["light", "dark"] {
        browser.prefer(colours)?;
        browser.evaluate("window.found = null; axe.run().then(result => { window.found = result.violations.filter(one => ['serious', 'critical'].includes(one.impact)).map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' ')); }); 0")?;
        browser.wait_until("window.found !== null", SOON)?;
        let found = browser.evaluate("window.found.join('\\n')")?;
        assert_eq!(found, "", "{colours}");
    }
    browser.prefer("light")?;
    Ok(())
}

/// Keeps pictures for whoever wants them.
fn keep(browser: &mut Browser) -> Result<(), Box<dyn std::error::Error>> {
    let Some(directory) = std::env::var_os("HAWSER_SCREENSHOTS").map(PathBuf::from) else {
        return Ok(());
    };
    browser.evaluate("show(0, 3e8); choose(4); 0")?;
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(directory.join("run.png"), browser.screenshot()?)?;
    browser.prefer("dark")?;
    browser.evaluate("document.getElementById('view').value = 'sequence'; document.getElementById('view').dispatchEvent(new Event('change')); show(0, 2e9); 0")?;
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(directory.join("run-dark.png"), browser.screenshot()?)?;
    Ok(())
}
