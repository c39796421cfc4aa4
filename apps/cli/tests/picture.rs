//! Pictures of a run: their content is compared with other outputs of the run, and the page is opened in a
//! browser.
//!
//! `HAWSER_SCREENSHOTS=DIRECTORY` saves screenshots of the page. `scripts/phases setup` installs axe-core.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hawser_dashboard::browser::{Browser, Options, command};
use hawser_testing::{Need, skip};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Runs `hawser sim picture` with these options on a scenario, or `sim run` without any. Returns its report.
fn sim(scenario: &str, options: &[&str]) -> Value {
    let word = if options.is_empty() { "run" } else { "picture" };
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", word, scenario, "--json"])
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

/// Extracts the data from a page.
fn data(page: &str) -> Value {
    let (_, behind) = page
        .split_once(r#"<script type="application/json" id="data">"#)
        .expect("data");
    let (data, _) = behind.split_once("</script>").expect("its end");
    serde_json::from_str(data).expect("it is JSON")
}

/// The scenario is only drawn, so the program need not exist.
#[test]
fn the_network_of_a_scenario_is_drawn() {
    let scenario = folder().join("leaf-spine.toml");
    let text = "name = 'a < b'\nprogram = 'none'\n[topology]\nkind = 'leaf-spine'\nleaves = 3\nspines = 2\nhosts = 4\n\
                core_link = { rate = '40Gbit/s' }\n[[flow]]\nfrom = 'h0'\nto = 'h1'\nbulk = { bytes = 1 }\n";
    std::fs::write(&scenario, text).expect("a file");
    let draw = |name: &str| {
        let out = folder().join(name);
        let status = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(["sim", "picture"])
            .arg(&scenario)
            .arg("--show-topology")
            .arg(&out)
            .status()
            .expect("hawser starts");
        (status.code(), std::fs::read_to_string(out).unwrap_or_default())
    };
    let (code, svg) = draw("network.svg");
    assert_eq!(code, Some(0));
    let count = |what: &str| svg.matches(what).count();
    assert_eq!(
        (count("<circle "), count("<rect x="), count("<line ")),
        (12, 5, 12 + 6)
    );
    assert_eq!(count("40Gbit/s</title>"), 6);
    assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
    let (code, dot) = draw("network.dot");
    assert_eq!((code, dot.matches(" -- ").count()), (Some(0), 18));
    assert_eq!(draw("network.png").0, Some(3), "an ending that says nothing");
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
    // The report has independent counts.
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
    // The expected lines come from the program's text: `transmit` sends all packets.
    let program = std::fs::read_to_string(root().join("examples/stop-and-wait.mtp")).expect("it is there");
    let line = 1 + program
        .lines()
        .position(|line| line.contains("emit pkt_gen"))
        .expect("it sends");
    assert_eq!(
        drawn["lines"],
        serde_json::json!([format!("examples/scenarios/../stop-and-wait.mtp:{line}")])
    );
    // No packet takes less than the 2 ms of the link.
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
fn a_packet_is_drawn_once_however_many_switches_forward_it() {
    let page = folder().join("bottleneck.html");
    let report = sim(
        "examples/scenarios/tcp-bottleneck.toml",
        &["--html", &page.display().to_string()],
    );
    let drawn = data(&std::fs::read_to_string(&page).expect("it was written"));
    let packets = drawn["packets"].as_array().expect("packets");
    let links = report["links"].as_array().expect("links");
    let is_host = |name: &Value| ["a", "b", "c"].contains(&name.as_str().expect("a name"));
    let sent = links.iter().filter(|link| is_host(&link["from"]));
    let sent: u64 = sent.filter_map(|link| link["sent"].as_u64()).sum();
    assert_eq!(packets.len() as u64, sent);
    // Packets are lost only in the shared queue, and the link between the switches reports them.
    let lost = links.iter().filter_map(|link| link["dropped"]["queue"].as_u64());
    let lost: u64 = lost.sum();
    let of_fate = |fate: &str| packets.iter().filter(|packet| packet["fate"] == fate).count() as u64;
    assert!(lost > 0);
    assert_eq!((of_fate("queue"), of_fate("delivered")), (lost, sent - lost));
    // The path between two hosts takes 12 or 14 ms.
    for packet in packets.iter().filter(|packet| packet["fate"] == "delivered") {
        let took = packet["end_ns"].as_u64().zip(packet["at_ns"].as_u64());
        assert!(took.is_some_and(|(end, at)| end - at >= 12_000_000), "{packet}");
        assert_eq!(packet["from"] == 2, packet["to"] != 2, "{packet}");
    }
    let queues: Vec<&str> = drawn["queues"]
        .as_array()
        .expect("queues")
        .iter()
        .filter_map(|q| q["name"].as_str())
        .collect();
    assert!(queues.contains(&"s1 to s2"), "{queues:?}");
    // The greatest depth equals that in the report, which has independent counts.
    let bottleneck = links
        .iter()
        .find(|link| link["from"] == "s1" && link["to"] == "s2");
    let deepest = bottleneck.map(|link| link["queue"]["max_bytes"].clone());
    let drawn = drawn["queues"].as_array().expect("queues");
    let drawn = drawn
        .iter()
        .find(|queue| queue["name"] == "s1 to s2")
        .expect("it is drawn");
    let points = drawn["points"].as_array().expect("points");
    let depths = points.iter().skip(1).step_by(2).filter_map(Value::as_u64);
    assert_eq!(depths.max(), deepest.and_then(|deepest| deepest.as_u64()));
    assert_eq!(drawn["mean"].as_array().map(Vec::len), Some(points.len()));
    assert!(
        links.iter().all(|link| link.get("queue_depths").is_none()),
        "nobody asked"
    );
}

/// Queue depths are in the report if requested, and are the same whether drawn or not.
#[test]
fn depths_of_queues_are_reported_and_drawn() {
    let text =
        std::fs::read_to_string(root().join("examples/scenarios/tcp-bottleneck.toml")).expect("it is there");
    let scenario = folder().join("depths.toml");
    std::fs::write(&scenario, format!("queue_depths = true\n{text}")).expect("a file");
    let (svg, tables) = (folder().join("depths.svg"), folder().join("depths"));
    let scenario = scenario.display().to_string();
    let plain = sim(&scenario, &[]);
    let drawn = sim(
        &scenario,
        &[
            "--svg",
            &svg.display().to_string(),
            "--csv",
            &tables.display().to_string(),
        ],
    );
    assert_eq!(plain["links"], drawn["links"]);
    let links = plain["links"].as_array().expect("links");
    let bottleneck = links
        .iter()
        .find(|link| link["from"] == "s1" && link["to"] == "s2")
        .expect("it is there");
    let (depths, queue) = (&bottleneck["queue_depths"], &bottleneck["queue"]);
    let column = |name: &str| -> Vec<f64> {
        let values = depths[name].as_array().expect("a column");
        values.iter().filter_map(Value::as_f64).collect()
    };
    let (max, mean) = (column("max_bytes"), column("mean_bytes"));
    assert!(
        (256..=512).contains(&max.len()) && max.len() == mean.len(),
        "{}",
        max.len()
    );
    assert_eq!(max.iter().copied().reduce(f64::max), queue["max_bytes"].as_f64());
    let step = depths["step_seconds"].as_f64().expect("a step");
    let (sum, seconds) = (
        mean.iter().sum::<f64>() * step,
        plain["seconds"].as_f64().expect("seconds"),
    );
    let whole = queue["mean_bytes"].as_f64().expect("a mean") * seconds;
    assert!((sum - whole).abs() < 1e-3 * whole, "{sum} of {whole}");
    let drawing = std::fs::read_to_string(svg).expect("it was written");
    assert!(
        drawing.contains("queue, s1 to s2: the most bytes, and the mean"),
        "{drawing}"
    );
    let rows = std::fs::read_to_string(tables.join("queues.csv")).expect("it was written");
    assert!(rows.starts_with("seconds,queue,max_bytes,mean_bytes\n"), "{rows}");
    assert!(rows.lines().filter(|row| row.contains("\"s1 to s2\"")).count() > 1000);
}

#[test]
fn packets_left_out_of_a_drawing_are_counted() {
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
    // The number of acknowledged bytes grows, and never exceeds the bytes that the application sent.
    let una = lines
        .iter()
        .filter_map(|line| line["sample"]["values"]["stop-and-wait.sw_conn.una"].as_u64());
    let una: Vec<u64> = una.collect();
    assert!(una.len() > 3 && una.is_sorted(), "{una:?}");
    assert!(
        una.last() > una.first() && una.last() <= report["flows"][0]["forward"]["bytes"].as_u64().as_ref()
    );
}

/// TCP signals `retransmitted` as often as it increments `retransmissions`, which the report contains.
/// Recording does not change the run.
#[test]
fn signals_are_recorded_for_watch() {
    let file = folder().join("signals.jsonl").display().to_string();
    let scenario = "examples/scenarios/tcp-lossy.toml";
    let report = sim(scenario, &["--record", &file]);
    assert_eq!(report["trace_hash"], sim(scenario, &[])["trace_hash"]);
    assert!(report["trace_hash"].is_string(), "{report}");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["watch", "--json", "--replay", &file])
        .output()
        .expect("hawser starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let signals: Vec<&Value> = lines
        .iter()
        .map(|line| &line["signal"])
        .filter(|one| !one.is_null())
        .collect();
    let count = |name: &str| signals.iter().filter(|one| one["event"] == name).count() as u64;
    let repeated: u64 = report["flows"]
        .as_array()
        .expect("flows")
        .iter()
        .filter_map(|flow| flow["retransmissions"].as_u64())
        .sum();
    assert!(repeated > 10, "{repeated}");
    assert_eq!(count("tcp.retransmitted"), repeated);
    // Both ends signal it, since one of them connected. Enums are numbers, whose names are in the offers.
    assert_eq!(count("tcp.established") % 2, 0);
    let changed = signals.iter().find(|one| one["event"] == "tcp.state_changed");
    assert!(
        changed.is_some_and(|one| one["fields"]["to"].is_u64()),
        "{changed:?}"
    );
}

/// No sender exceeds the window that its peer announced (RFC 9293, 3.8.6), and selective repeat does not
/// exceed its edge.
#[test]
fn no_packet_is_beyond_the_window_that_is_drawn() {
    let own = folder().join("sr.toml");
    let text = std::fs::read_to_string(root().join("examples/scenarios/tcp-lossy.toml")).expect("a scenario");
    std::fs::write(
        &own,
        text.replace("program = \"tcp\"", "program = \"selective-repeat\""),
    )
    .expect("a file");
    let page = folder().join("windows.html").display().to_string();
    for (scenario, window) in [
        ("examples/scenarios/tcp-lossy.toml", "snd_wnd above snd_una"),
        (&own.display().to_string(), "edge"),
    ] {
        sim(scenario, &["--html", &page]);
        let drawn = data(&std::fs::read_to_string(&page).expect("it was written"));
        let list = |name: &str| drawn[name].as_array().expect("a list").clone();
        let name = drawn["number"].as_u64().expect("a number");
        let windows = list("windows");
        let window = windows.iter().find(|one| one["name"] == window).expect(window);
        let points: Vec<u64> = list_of(&window["points"]);
        let number = |packet: &Value| {
            let numbers = packet["numbers"].as_array()?;
            let found = numbers.iter().find(|one| one[0].as_u64() == Some(name))?;
            found[1].as_u64()
        };
        let mut first = None;
        let (mut compared, mut closest) = (0, u64::MAX);
        for packet in list("packets") {
            if packet["from"] != window["host"] || packet["flow"] != window["flow"] {
                continue;
            }
            let Some(value) = number(&packet) else { continue };
            let first = *first.get_or_insert(if value > 1 << 24 { value } else { 0 });
            let payload = packet["payload"].as_u64().expect("bytes");
            if payload == 0 {
                continue;
            }
            let end = u64::from((value as u32).wrapping_sub(first as u32)) + payload;
            let at = packet["at_ns"].as_u64().expect("a time");
            let edge = points.chunks(2).take_while(|point| point[0] <= at).last();
            let edge = edge.expect("the window was known before anything was sent")[1];
            assert!(end <= edge, "{scenario}: {end} beyond {edge}: {packet}");
            (compared, closest) = (compared + 1, closest.min(edge - end));
        }
        assert!(
            compared > 100 && closest < 1 << 20,
            "{scenario}: {compared} {closest}"
        );
    }
}

fn list_of(numbers: &Value) -> Vec<u64> {
    let numbers = numbers.as_array().expect("a list").iter();
    numbers.filter_map(Value::as_u64).collect()
}

/// Presses a real key in the focused element.
fn press_key(browser: &mut Browser, key: &str) -> Result<(), Box<dyn std::error::Error>> {
    browser.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key }))?;
    browser.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }))?;
    Ok(())
}

/// Hovering shows the line of the packet under the pointer. `+` and `-` zoom about the middle in both views.
#[test]
fn a_pointer_shows_the_line_and_keys_zoom() -> Result<(), Box<dyn std::error::Error>> {
    let Some(command) = command(|program| Ok::<_, std::io::Error>(Command::new(program)))? else {
        skip(
            Need::Chromium,
            "pointing at the picture of a run",
            "apt-get install chromium",
        );
        return Ok(());
    };
    let page = folder().join("hover.html");
    let scenario = "examples/scenarios/tcp-lossy.toml";
    sim(scenario, &["--html", &page.display().to_string()]);
    let options = Options { size: (1280, 1500), ..Options::default() };
    let mut browser = Browser::launch(command, &options)?;
    browser.navigate(&served(&page))?;
    browser.wait_until("document.querySelectorAll('#rows tr').length > 10", SOON)?;
    let drawn = data(&std::fs::read_to_string(&page)?);
    for view in ["ladder", "sequence"] {
        browser.evaluate(&format!(
            "document.getElementById('view').value = '{view}'; \
             document.getElementById('view').dispatchEvent(new Event('change')); 0"
        ))?;
        browser.wait_until("!waits && places.length > 10", SOON)?;
        for place in [3, 9] {
            let at = format!(
                "{{ const one = places[{place}], box = document.getElementById('packets').getBoundingClientRect(); \
                 ({{ x: box.left + (one.x0 + one.x1) / 2, y: box.top + (one.y0 + one.y1) / 2 }}) }}"
            );
            let at = browser.evaluate(&at)?;
            let moved = json!({ "type": "mouseMoved", "x": at["x"], "y": at["y"] });
            browser.call("Input.dispatchMouseEvent", moved)?;
            browser.wait_until("state.chosen >= 0 && !waits", SOON)?;
            let number = browser.evaluate("shown[state.chosen].number")?;
            let near = format!(
                "places.some((one) => one.packet.number === {number} && distance(one, \
                 {} - document.getElementById('packets').getBoundingClientRect().left, \
                 {} - document.getElementById('packets').getBoundingClientRect().top) < 1)",
                at["x"], at["y"]
            );
            assert_eq!(browser.evaluate(&near)?, true, "{view} {place}: {number}");
            let packets = drawn["packets"].as_array().expect("packets");
            let packet = packets
                .iter()
                .find(|one| one["number"] == number)
                .expect("it is drawn");
            let line = packet["line"].as_u64().expect("a line") as usize;
            let words = browser.evaluate("document.getElementById('packet').textContent")?;
            let (words, line) = (words.as_str().expect("text"), drawn["lines"][line].as_str());
            assert!(
                words.ends_with(&format!("sent by {}", line.expect("a line"))),
                "{words}"
            );
        }
        browser.evaluate("show(1e8, 3e8); document.getElementById('packets').focus(); 0")?;
        let window = "[state.from, state.to].map(Math.round)";
        for (key, expected) in [
            ("+", [150_000_000, 250_000_000]),
            ("-", [100_000_000, 300_000_000]),
            ("ArrowRight", [150_000_000, 350_000_000]),
            ("ArrowLeft", [100_000_000, 300_000_000]),
        ] {
            press_key(&mut browser, key)?;
            assert_eq!(browser.evaluate(window)?, json!(expected), "{view} {key}");
        }
    }
    // Each line and each word of a drawing has enough contrast (WCAG 2.2, 1.4.3 and 1.4.11), in light and
    // dark mode.
    let luminance = "const lum = (name) => { let c = colour(name).slice(1); if (c.length === 3) c = [...c].map((d) => d + d).join(''); \
        const [r, g, b] = [0, 2, 4].map((at) => parseInt(c.slice(at, at + 2), 16) / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); \
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };";
    for colours in ["light", "dark"] {
        browser.prefer(colours)?;
        for name in ["ink", "faint", "one", "two", "third", "edge", "lost", "timer"] {
            let ratio = format!(
                "(() => {{ {luminance} const [a, b] = [lum('{name}'), lum('card')]; \
                 return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }})()"
            );
            let ratio = browser.evaluate(&ratio)?.as_f64().unwrap_or_default();
            assert!(ratio >= 4.5, "{colours} {name}: {ratio}");
        }
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
    Ok(())
}

#[test]
fn a_browser_shows_the_page_and_obeys_keys() -> Result<(), Box<dyn std::error::Error>> {
    let Some(command) = command(|program| Ok::<_, std::io::Error>(Command::new(program)))? else {
        skip(
            Need::Chromium,
            "the picture of a run in a browser",
            "apt-get install chromium",
        );
        return Ok(());
    };
    let page = folder().join("tcp.html");
    sim(
        "examples/scenarios/tcp-lossy.toml",
        &["--html", &page.display().to_string()],
    );
    let mut browser = Browser::launch(command, &Options { size: (1280, 1500), ..Options::default() })?;
    browser.navigate(&served(&page))?;
    browser.wait_until("document.querySelectorAll('#rows tr').length > 10", SOON)?;
    let text = |id: &str| format!("document.getElementById('{id}').textContent");
    let press = |key: &str| {
        format!(
            "document.getElementById('packets').dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', cancelable: true}}))"
        )
    };

    // An arrow key selects the first packet, and shows its content and sender.
    browser.evaluate(&press("ArrowDown"))?;
    browser.wait_until(&format!("{}.includes('syn: true')", text("packet")), SOON)?;
    browser.wait_until(&format!("/sent by .*\\.mtp:\\d+/.test({})", text("packet")), SOON)?;
    // Zooming in shows a shorter time.
    let width = "Math.round((state.to - state.from) / 1000) * 1000";
    let before = browser.evaluate(width)?.as_f64().unwrap_or_default();
    browser.evaluate(&press("+"))?;
    let after = browser.evaluate(width)?.as_f64().unwrap_or_default();
    assert!((after / before - 0.5).abs() < 0.001, "{before} {after}");
    browser.evaluate(&press("ArrowRight"))?;
    assert_eq!(browser.evaluate("state.from > 0")?, true);
    browser.evaluate(&press("0"))?;
    // No drawing is empty in either view.
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
    browser.wait_until("document.documentElement.scrollWidth <= 390", SOON)?;
    Ok(())
}

/// Returns the URL of a file for a browser.
fn served(page: &Path) -> String {
    format!("file://{}", page.display())
}

/// axe-core finds no serious problem in light and dark mode.
fn axe(browser: &mut Browser) -> Result<(), Box<dyn std::error::Error>> {
    let script = root().join("target/axe/package/axe.min.js");
    if !script.is_file() {
        skip(Need::Axe, "accessibility of drawn runs", "scripts/phases setup");
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

/// Saves screenshots if requested.
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

/// Four hosts call a fifth. Slowdown is drawn and written with the values of the report.
#[test]
fn slowdown_by_size_is_drawn_and_written() {
    let scenario = folder().join("slowdown.toml");
    let text = |size: &str| {
        format!(
            "program = 'homa'\nslowdown = true\n[topology]\nkind = 'leaf-spine'\nleaves = 1\nspines = 1\nhosts = 5\n\
             host_link = {{ rate = '10Gbit/s', delay = '1us' }}\n[[flow]]\nfrom = 'h[1-4]'\nto = 'h0'\n\
             calls = {{ count = 10, size = {size}, reply = 8, interval = '10us' }}\n"
        )
    };
    let (svg, tables) = (folder().join("slowdown.svg"), folder().join("slowdown"));
    let draw = |size: &str| {
        std::fs::write(&scenario, text(size)).expect("a file");
        let options = [
            "--svg",
            &svg.display().to_string(),
            "--csv",
            &tables.display().to_string(),
        ];
        let report = sim(&scenario.display().to_string(), &options);
        (
            report["slowdown"].clone(),
            std::fs::read_to_string(&svg).expect("it was written"),
        )
    };
    let (slowdown, drawing) = draw("[1, '50kB']");
    let groups = slowdown["by_size"].as_array().expect("groups");
    assert_eq!(groups.len(), 10);
    assert!(drawing.contains("slowdown by size, 40 calls"), "{drawing}");
    for figure in ["median", "99th percentile", "99.9th percentile"] {
        assert!(drawing.contains(&format!(">{figure}</text>")), "{figure}");
    }
    // There is a line for each figure, with a point for each group. Larger sizes are further to the right,
    // and higher slowdown is higher up.
    let lines: Vec<Vec<(f64, f64)>> = drawing
        .split("<polyline points=\"")
        .skip(1)
        .map(|line| {
            let points = line.split('"').next().unwrap_or_default().split(' ');
            let number = |text: &str| text.parse().expect("a number");
            let points = points.filter_map(|point| point.split_once(','));
            points.map(|(x, y)| (number(x), number(y))).collect()
        })
        .collect();
    assert_eq!(lines.len(), 3);
    for (line, figure) in lines.iter().zip(["p50", "p99", "p999"]) {
        assert!(
            line.len() == 10 && line.is_sorted_by(|one, other| one.0 < other.0),
            "{line:?}"
        );
        let values: Vec<f64> = groups.iter().filter_map(|group| group[figure].as_f64()).collect();
        let down = |place: usize| line[place].1;
        for place in 1..10 {
            let rises = values[place] - values[place - 1];
            assert!(
                rises.abs() < 0.1 || (rises > 0.0) == (down(place) < down(place - 1)),
                "{figure} {line:?}"
            );
        }
    }
    let rows = std::fs::read_to_string(tables.join("slowdown.csv")).expect("it was written");
    let first = rows.lines().nth(1).expect("a row");
    let mean = groups[0]["mean"].as_f64().expect("a mean");
    assert!(
        rows.lines().count() == 11 && first.contains(&format!(",{mean},")),
        "{rows}"
    );
    // Messages of a single size are drawn as bars.
    let (slowdown, drawing) = draw("5000");
    assert_eq!(slowdown["by_size"].as_array().map(Vec::len), Some(1));
    assert!(
        drawing.contains(">5000 bytes</text>") && drawing.contains("99.9th percentile: "),
        "{drawing}"
    );
}
