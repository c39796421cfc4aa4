//! Names as the C library finds them.

use std::time::{Duration, Instant};

use hawser_lab::{Host, Lab, Spec};

use crate::TestResult;

const FILE: &str = r#"
    host = [{ name = "client" }, { name = "server" }]
    link = [{ between = ["client", "server"], both = { delay = "1ms" } }]
    [[dns]]
    name = "www.example"
    addresses = ["server", "192.0.2.7"]
    ipv6 = { delay = "300ms" }
    [[dns]]
    name = "gone.example"
    both = { answer = "missing" }
    [[dns]]
    name = "mute.example"
    both = { answer = "silence" }
"#;

/// Returns the results of `getent`, and the time that it takes.
fn getent(host: Host<'_>, database: &str, name: &str) -> TestResult<(Vec<String>, Duration)> {
    let start = Instant::now();
    let output = host.command("getent")?.args([database, name]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let addresses = text.lines().filter_map(|line| line.split_whitespace().next());
    let mut addresses: Vec<String> = addresses.map(str::to_owned).collect();
    addresses.dedup();
    Ok((addresses, start.elapsed()))
}

pub(crate) fn hosts_resolve_each_others_names() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    assert_eq!(lab.warnings(), [""; 0]);
    for (host, other, address) in [
        ("client", "server", "10.77.0.2"),
        ("server", "client", "10.77.0.1"),
    ] {
        let (found, _) = getent(lab.host(host)?, "ahostsv4", other)?;
        assert_eq!(found, [address], "{other} on {host}");
    }
    Ok(())
}

pub(crate) fn scripted_answers_are_given() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let client = lab.host("client")?;
    let (mut found, took) = getent(client, "ahostsv4", "www.example")?;
    found.sort();
    assert_eq!(found, ["10.77.0.2", "192.0.2.7"]);
    assert!(
        took < Duration::from_millis(300),
        "{took:?}: no question for IPv6 is waited for"
    );
    let (found, took) = getent(client, "ahostsv6", "www.example")?;
    assert!(found.contains(&"fd77::2".to_owned()), "{found:?}");
    assert!(took >= Duration::from_millis(300), "{took:?}");
    for name in ["gone.example", "unknown.example"] {
        let (found, took) = getent(client, "ahostsv4", name)?;
        assert!(
            found.is_empty() && took < Duration::from_secs(2),
            "{name}: {found:?} after {took:?}"
        );
    }
    let mut mute = client.command("timeout")?;
    let status = mute
        .args(["0.5", "getent", "ahostsv4", "mute.example"])
        .status()?;
    assert_eq!(status.code(), Some(124), "it still waits for an answer");
    Ok(())
}

pub(crate) fn the_working_directory_is_kept() -> TestResult {
    let lab = Lab::up(&Spec::parse(FILE)?)?;
    let client = lab.host("client")?;
    let here = std::env::current_dir()?;
    assert_eq!(client.run(std::env::current_dir)??, here);
    let output = client.command("pwd")?.output()?;
    assert_eq!(String::from_utf8(output.stdout)?.trim(), here.to_string_lossy());
    assert!(
        std::fs::read_to_string("/etc/hosts")?
            .lines()
            .all(|line| !line.contains("10.77.")),
        "outside"
    );
    Ok(())
}
