//! `hawser demo --story browser`: downloads with and without the second path, as a table.
//!
//! First SCTP is blocked, then admitted, then blocked again, while everything runs; then sessions over
//! both paths do the same through the gateway, and the last of them loses QUIC in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser::lab::enter_user_namespace;
use hawser_dashboard::{Download, DownloadState, Feed};
use serde_json::{Value, json};

use super::bridge::Bridge;
use super::client::{Client, Done, Running};
use super::place::{Place, RATE};
use super::setups::{SETUPS, Setup};
use super::{page, picture};
use crate::commands::demo::Args;
use crate::exit::{Exit, Outcome};

/// Sizes with and without `--every-size`, in MiB.
const EVERY_SIZE_MIB: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const SIZE_MIB: u32 = 16;
/// The session that is shown where not all are.
const MIXED: &[Setup] = SETUPS.split_at(2).1.split_at(1).0;
/// What is downloaded to see which transport is picked, and that something comes at all.
const SMALL_MIB: u32 = 1;
/// How long it may take until a transport that was blocked is noticed to be admitted: it is tried again
/// after 10 s, and then after twice as long each time.
const NOTICED_IN: Duration = Duration::from_secs(90);

/// What the network lets through, in the table's words.
const BLOCKED: &str = "SCTP blocked";
const ADMITTED: &str = "all admitted";
const AGAIN: &str = "SCTP blocked again";
const LOST: &str = "QUIC blocked midway";

/// A row of the table.
struct Row {
    network: &'static str,
    setup: &'static Setup,
    mib: u32,
    /// The transport and the seconds, or what went wrong.
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

/// Plays it.
pub(in super::super) fn run(args: &Args) -> Outcome {
    // Before any thread is started.
    enter_user_namespace().map_err(Exit::environment)?;
    let feed = Feed::new(page::plan(&[]));
    let bridge = Arc::new(Bridge::new(feed.clone()));
    let place = Place::set_up(&bridge, Vec::new())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| page::watch(&place, &feed, &stop));
        let result = play(args, &place, &bridge, &feed, &stop);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn play(args: &Args, place: &Place, bridge: &Bridge, feed: &Feed, stop: &AtomicBool) -> Outcome {
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
        // The policy's ranking is to be seen, and SCTP at work.
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
    place: &'p Place,
    feed: &'p Feed,
    client: Client<'p>,
    rows: Vec<Row>,
    as_json: bool,
}

impl Story<'_> {
    fn play(&mut self, sizes: &[u32], sessions: &'static [Setup]) -> Result<(), Exit> {
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

    fn download(&mut self, network: &'static str, setup: &'static Setup, sizes: &[u32]) {
        for &mib in sizes {
            let running = self.client.begin(setup.number(), mib);
            self.finish(network, setup, mib, running);
        }
    }

    /// Downloads a little until the first setup goes by SCTP again.
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

    /// A download within a session that loses one of its carriers.
    fn lose(&mut self, setup: &'static Setup, mib: u32) -> Result<(), Exit> {
        let running = self.client.begin(setup.number(), mib);
        // A third of it has come over both paths.
        std::thread::sleep(Duration::from_secs_f64(f64::from(mib) * 8.4 / (3.0 * 2.0 * RATE)));
        self.switch("quic", false)?;
        self.finish(LOST, setup, mib, running);
        self.switch("quic", true)
    }

    /// Waits for a download's end, and reports it.
    fn finish(
        &mut self,
        network: &'static str,
        setup: &'static Setup,
        mib: u32,
        running: Result<Running, String>,
    ) {
        let id = self.rows.len() as u64;
        let mut download = Download::begun(id, setup.name, u64::from(mib) << 20);
        download.by = self.client.name().to_owned();
        self.feed.download(download.clone());
        let result = running.and_then(|running| self.client.finish(running));
        match &result {
            Ok(Done { transport, seconds }) => {
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
