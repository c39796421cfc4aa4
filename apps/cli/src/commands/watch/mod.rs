//! `hawser watch [PATTERN]`: shows the flows of a running process.

mod outputs;
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser::interact::overview::Overview;
use hawser::interact::parse_span;
use hawser::interact::record::{Header, LineContent};

use crate::exit::{Exit, Outcome};
use crate::interact::ClientArgs;
use crate::signals;
use outputs::Outputs;
use screen::Screen;
use source::{LiveSource, Replay, SourceItem, WantedSubscription, WatchSource};

/// The maximum wait of one turn, so that keys take effect immediately.
const TICK: Duration = Duration::from_millis(25);

/// Watch the flows of a running process: states, windows, round trips, rates, events
///
/// Keys: q quit, arrows select a flow, p pause, s sort. Without a terminal, and with --json, the output is
/// one JSON object per line: signals as they arrive, and samples of each flow.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The events to receive: tcp.*, *.recovery_began
    #[arg(default_value = "*")]
    pattern: String,
    /// The interval at which variables are read
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_span)]
    every: Duration,
    /// Receive only the last event with the same name and flow in this time; by default 100ms on a terminal,
    /// and 0 (all) for JSON, recordings, qlog and diagrams
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    interval: Option<Duration>,
    /// Only signals of these flows: a flow (0:100000002), or a rule (remote.port=443)
    #[arg(long, value_name = "FLOWS")]
    scope: Option<String>,
    /// Exit after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    /// Record all signals in this file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Read a recording instead of a running process
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "scope", "interval"])]
    replay: Option<PathBuf>,
    /// Write qlog for qvis: JSON, or JSON text sequences while it runs when the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Write a diagram (SVG) of the states of congestion control with the number of transitions
    #[arg(long, value_name = "FILE.svg")]
    diagram: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

impl Args {
    fn exports(&self) -> bool {
        self.qlog.is_some() || self.diagram.is_some()
    }

    /// Returns whether to draw on a terminal. A recording that is only converted needs none.
    fn on_screen(&self) -> bool {
        let converts = self.replay.is_some() && self.exports();
        !self.client.json && !converts && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
    }

    fn source(&self, on_screen: bool) -> Result<WatchSource, Exit> {
        if let Some(path) = &self.replay {
            return Ok(WatchSource::Replay(Replay::open(path, on_screen)?));
        }
        let all = !on_screen || self.record.is_some() || self.exports();
        let interval = self
            .interval
            .unwrap_or(Duration::from_millis(if all { 0 } else { 100 }));
        let client = self.client.connect("hawser-watch", 0)?;
        let wanted = WantedSubscription {
            pattern: &self.pattern,
            scope: self.scope.as_deref(),
            interval,
            every: self.every.max(Duration::from_millis(1)),
        };
        Ok(WatchSource::Live(Box::new(LiveSource::start(client, &wanted)?)))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let on_screen = args.on_screen();
    let mut source = args.source(on_screen)?;
    let converts = args.replay.is_some() && args.exports();
    let is_json = args.client.json || !(on_screen || converts);
    let outputs = Outputs::create(
        is_json,
        args.record.as_deref(),
        args.qlog.as_deref(),
        args.diagram.as_deref(),
    )?;
    let screen = if on_screen { Some(Screen::open()?) } else { None };
    let limit = args.duration;
    watch(&mut source, outputs, screen, limit)
}

/// Runs until the source ends, the time is up, or the user quits.
fn watch(
    source: &mut WatchSource,
    mut outputs: Outputs,
    mut screen: Option<Screen>,
    limit: Option<Duration>,
) -> Outcome {
    let interrupted = interruption()?;
    let mut model = Overview::new(Header::default());
    let begin = Instant::now();
    while !interrupted.load(Ordering::Relaxed) && limit.is_none_or(|limit| begin.elapsed() < limit) {
        match source.next(TICK)? {
            SourceItem::Line(line) => {
                if let LineContent::Header(header) = &line.what {
                    model = Overview::new(header.clone());
                }
                if screen.is_some() {
                    model.line(&line);
                }
                if outputs.line(&line)? {
                    break;
                }
            }
            SourceItem::Nothing => {}
            // A recording stays on the screen at its end.
            SourceItem::End if screen.is_some() && matches!(source, WatchSource::Replay(_)) => {
                std::thread::sleep(TICK);
            }
            SourceItem::End => break,
        }
        if let Some(screen) = &mut screen
            && screen.handle_input(&mut model)?
        {
            break;
        }
    }
    drop(screen);
    outputs.finish()
}

/// Returns a flag that a terminating signal sets, so that the files can be completed.
fn interruption() -> Result<Arc<AtomicBool>, Exit> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    signals::at_end(move || set.store(true, Ordering::Relaxed))?;
    Ok(flag)
}
