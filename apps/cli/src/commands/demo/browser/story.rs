//! `hawser demo --story browser`: downloads with and without the second path, shown as a table.
//!
//! While everything runs, SCTP is blocked, then admitted, then blocked again. Then sessions over both paths
//! make the same downloads through the gateway, and the last of them loses QUIC midway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser::lab::enter_user_namespace;
use hawser_dashboard::{Download, DownloadState, Feed};
use serde_json::{Value, json};

use super::bridge::Bridge;
use super::client::{Client, CompleteDownload, RunningDownload};
use super::demo_lab::{DemoLab, RATE};
use super::setups::{DownloadSetup, SETUPS};
use super::{page, picture};
use crate::commands::demo::Args;
use crate::exit::{Exit, Outcome};

/// The sizes of downloads with `--every-size`, in MiB.
const EVERY_SIZE_MIB: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const SIZE_MIB: u32 = 16;
/// The session that is shown by default.
const MIXED: &[DownloadSetup] = SETUPS.split_at(2).1.split_at(1).0;
/// The size of a download that only shows the chosen transport and that data arrives, in MiB.
const SMALL_MIB: u32 = 1;
/// The maximum time until an admitted transport is used again. A blocked transport is retried after 10 s, and
/// the interval doubles each time.
const NOTICED_IN: Duration = Duration::from_secs(90);

/// The states of the network, as the table names them.
const BLOCKED: &str = "SCTP blocked";
const ADMITTED: &str = "all admitted";
const AGAIN: &str = "SCTP blocked again";
const LOST: &str = "QUIC blocked midway";

/// A row of the table.
struct Row {
    network: &'static str,
    setup: &'static DownloadSetup,
    mib: u32,
    /// The transport and the duration in seconds, or the error.
    result: Result<(String, f64), String>,
}

impl Row {
    fn mbit_per_second(&self) -> Option<f64> {
        let (_, seconds) = self.result.as_ref().ok()?;
        Some(f64::from(self.mib) * f64::from(1u32 << 20) * 8.0 / 1e6 / seconds)
    }

    fn json(&self) -> Value {
        let (transport, seconds) = self
            .result
            .as_ref()
            .map(|(t, s)| (Some(t), Some(s)))
            .unwrap_or_default();
        json!({
            "network": self.network, "setup": self.setup.id, "mib": self.mib, "transport": transport,
            "seconds": seconds, "mbit_per_second": self.mbit_per_second(), "error": self.result.as_ref().err(),
        })
    }

    fn print(&self) {
        let line = format!("{:20}{:26}{:>4} MiB", self.network, self.setup.name, self.mib);
        match (&self.result, self.mbit_per_second()) {
            (Ok((transport, seconds)), Some(rate)) => {
                println!("{line}  {transport:9}{seconds:>7.2} s {rate:>6.2} Mbit/s");
            }
            (Err(why), _) | (Ok((why, _)), None) => println!("{line}  {why}"),
        }
    }
}

/// Plays the story.
pub(in super::super) fn run(args: &Args) -> Outcome {
    // This must happen before any thread is started.
    enter_user_namespace().map_err(Exit::environment)?;
    let feed = Feed::new(page::plan(&[]));
    let bridge = Arc::new(Bridge::new(feed.clone()));
    let place = DemoLab::set_up(&bridge, Vec::new())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| page::watch(&place, &feed, &stop));
        let result = play(args, &place, &bridge, &feed, &stop);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn play(args: &Args, place: &DemoLab, bridge: &Bridge, feed: &Feed, stop: &AtomicBool) -> Outcome {
    let client = Client::start(place, bridge, stop)?;
    let by = client.name();
    let sizes = match args.every_size {
        true => EVERY_SIZE_MIB.to_vec(),
        false => vec![args.size.unwrap_or(SIZE_MIB)],
    };
    let every_setup = args.every_setup || args.every_size;
    if !args.json {
        println!();
        println!("{by} downloads through the proxy, over two paths of {RATE} Mbit/s each:");
        println!();
    }
    let mut story = Story { place, feed, client, rows: Vec::new(), as_json: args.json };
    story.play(&sizes, if every_setup { &SETUPS[1..] } else { MIXED })?;
    if let Some(file) = &args.picture {
        // The picture should show the policy's ranking with SCTP in use.
        story.notice()?;
        picture::take(place, feed, file)?;
    }
    if args.json {
        let rows: Vec<Value> = story.rows.iter().map(Row::json).collect();
        println!("{}", json!({ "by": by, "rows": rows }));
    }
    match story.rows.iter().filter(|row| row.result.is_err()).count() {
        0 => Ok(()),
        n => Err(Exit::failed(format!(
            "{n} of {} downloads failed",
            story.rows.len()
        ))),
    }
}

struct Story<'p> {
    place: &'p DemoLab,
    feed: &'p Feed,
    client: Client<'p>,
    rows: Vec<Row>,
    as_json: bool,
}

impl Story<'_> {
    fn play(&mut self, sizes: &[u32], sessions: &'static [DownloadSetup]) -> Result<(), Exit> {
        let policy = &SETUPS[0];
        self.switch("sctp", false)?;
        self.download(BLOCKED, policy, sizes);
        self.switch("sctp", true)?;
        self.notice()?;
        self.download(ADMITTED, policy, sizes);
        self.switch("sctp", false)?;
        self.download(AGAIN, policy, &[SMALL_MIB]);
        self.switch("sctp", true)?;
        for setup in sessions {
            self.download(ADMITTED, setup, sizes);
        }
        self.lose(
            &MIXED[0],
            sizes.first().map_or(SIZE_MIB, |mib| mib / 2).max(SIZE_MIB / 2),
        )
    }

    fn switch(&self, id: &str, on: bool) -> Result<(), Exit> {
        self.place.switch(id, on).map_err(Exit::environment)?;
        self.feed.switched(id, on);
        Ok(())
    }

    fn download(&mut self, network: &'static str, setup: &'static DownloadSetup, sizes: &[u32]) {
        for &mib in sizes {
            let running = self.client.begin(setup.number(), mib);
            self.finish(network, setup, mib, running);
        }
    }

    /// Makes small downloads until the first setup uses SCTP again.
    fn notice(&mut self) -> Result<(), Exit> {
        let begin = Instant::now();
        while begin.elapsed() < NOTICED_IN {
            let done = self.client.download(0, SMALL_MIB);
            if done.map_err(Exit::failed)?.transport == "sctp" {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Err(Exit::failed(format!(
            "SCTP was admitted, and not tried again for {NOTICED_IN:?}"
        )))
    }

    /// Makes a download in a session that loses one of its carriers.
    fn lose(&mut self, setup: &'static DownloadSetup, mib: u32) -> Result<(), Exit> {
        let running = self.client.begin(setup.number(), mib);
        // By then, a third of the file has arrived over both paths.
        std::thread::sleep(Duration::from_secs_f64(f64::from(mib) * 8.4 / (3.0 * 2.0 * RATE)));
        self.switch("quic", false)?;
        self.finish(LOST, setup, mib, running);
        self.switch("quic", true)
    }

    /// Waits for the end of a download and reports it.
    fn finish(
        &mut self,
        network: &'static str,
        setup: &'static DownloadSetup,
        mib: u32,
        running: Result<RunningDownload, String>,
    ) {
        let id = self.rows.len() as u64;
        let mut download = Download::begun(id, setup.name, u64::from(mib) << 20);
        download.by = self.client.name().to_owned();
        self.feed.download(download.clone());
        let result = running.and_then(|running| self.client.finish(running));
        match &result {
            Ok(CompleteDownload { transport, seconds }) => {
                download.state = DownloadState::Done;
                (download.transport, download.seconds) = (Some(transport.clone()), Some(*seconds));
            }
            Err(why) => {
                download.state = DownloadState::Failed;
                download.error = Some(why.clone());
            }
        }
        self.feed.download(download);
        let row = Row {
            network,
            setup,
            mib,
            result: result.map(|done| (done.transport, done.seconds)),
        };
        if !self.as_json {
            row.print();
        }
        self.rows.push(row);
    }
}
