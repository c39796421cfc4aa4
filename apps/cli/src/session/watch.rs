//! Shows a running session: a bar per path and a line per event, or JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser::lang::OneLine;
use hawser::session::{CarrierId, Loss, Notice, PathInfo, PathState, Session};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The interval between updates of the bars.
const EVERY: Duration = Duration::from_millis(100);

/// Shows a session until dropped.
pub(crate) struct SessionDisplay {
    session: Session,
    began: Instant,
    bars: Option<MultiProgress>,
    /// The bar of the whole transfer.
    pub(crate) total: ProgressBar,
    paths: Arc<Mutex<BTreeMap<CarrierId, ProgressBar>>>,
    /// Set when the transfer is over, after which only its report is printed. The lock is held during each
    /// output.
    over: Arc<Mutex<bool>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl SessionDisplay {
    pub(crate) fn new(session: &Session, json: bool) -> Self {
        let bars = (!json).then(MultiProgress::new);
        let total = match &bars {
            Some(bars) => bars.add(ProgressBar::no_length()),
            None => ProgressBar::hidden(),
        };
        style(
            &total,
            "{prefix:40} {bar:30} {bytes:>10} {binary_bytes_per_sec:>12} {eta:>4}",
        );
        total.set_prefix("all");
        let began = Instant::now();
        let paths = Arc::default();
        let (over, tasks) = (Arc::default(), Vec::new());
        let mut watch = Self { session: session.clone(), began, bars, total, paths, over, tasks };
        watch.tasks.push(tokio::spawn(events(
            session.clone(),
            watch.bars.clone(),
            began,
            watch.over.clone(),
        )));
        if let Some(bars) = watch.bars.clone() {
            watch.tasks.push(tokio::spawn(move_bars(
                session.clone(),
                bars,
                watch.paths.clone(),
                watch.total.clone(),
                watch.over.clone(),
            )));
        }
        watch
    }

    /// Freezes the bars and returns the statistics of the paths.
    pub(crate) fn finish(self) -> Value {
        self.end();
        let mut seen = self.paths.lock();
        if let Some(bars) = &self.bars {
            update(&self.session, bars, &mut seen, &self.total);
            seen.values().chain([&self.total]).for_each(ProgressBar::abandon);
        }
        paths(&self.session)
    }

    /// Stops all further output, whatever the tasks are doing.
    fn end(&self) {
        *self.over.lock() = true;
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Drop for SessionDisplay {
    fn drop(&mut self) {
        // Aborting a running task takes effect only at its next await point.
        self.end();
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
}

async fn events(session: Session, bars: Option<MultiProgress>, began: Instant, over: Arc<Mutex<bool>>) {
    while let Some(notice) = session.next_event().await {
        let over = over.lock();
        if *over {
            return;
        }
        let seconds = began.elapsed().as_secs_f64();
        match &bars {
            Some(bars) => {
                let Some(text) = describe(&session, &notice) else {
                    continue;
                };
                let line = format!("{seconds:8.3} s  {text}");
                if bars.is_hidden() {
                    eprintln!("{line}");
                } else {
                    // Without a usable terminal the line is lost.
                    let _ = bars.println(OneLine(line).to_string());
                }
            }
            None => {
                if let Some(mut event) = as_json(&notice) {
                    event["seconds"] = json!(seconds);
                    println!("{event}");
                }
            }
        }
    }
}

fn describe(session: &Session, notice: &Notice) -> Option<String> {
    let name = |carrier: &CarrierId| {
        let paths = session.paths();
        let found = paths.iter().find(|(id, _)| id == carrier);
        found.map_or_else(|| format!("carrier {}", carrier.0), |(_, info)| name(info))
    };
    Some(match notice {
        Notice::PathUp(carrier) => format!("{} is up", name(carrier)),
        Notice::PathSuspect(carrier) => format!("{} {}", name(carrier), suspicion(session, *carrier)),
        Notice::PathLive(carrier) => format!("{} is in use again", name(carrier)),
        Notice::PathLost { reason: Loss::Closed, .. } => return None,
        Notice::PathLost { carrier, reason, .. } => format!("{} is lost: {reason}", name(carrier)),
        Notice::QuotaSpent(path) => format!("the quota of path {path} is spent"),
        Notice::Stalled => "the session has no path; waiting for one".to_owned(),
        Notice::Resumed => "going on".to_owned(),
        Notice::Closed(end) if end.is_by_peer() && end.code() != 0 => {
            format!("the other side ended with code {}", end.code())
        }
        Notice::Opened(_)
        | Notice::Closed(_)
        | Notice::StreamOpened(_)
        | Notice::Readable(_)
        | Notice::Writable(_)
        | Notice::Stopped { .. } => return None,
    })
}

/// Describes the reason why a carrier is suspect.
fn suspicion(session: &Session, carrier: CarrierId) -> String {
    let paths = session.paths();
    let report = paths
        .iter()
        .find(|(id, _)| *id == carrier)
        .and_then(|(_, info)| info.report);
    match report {
        Some(report) if report.state == PathState::Failing => "has no link".to_owned(),
        Some(report) => {
            let waited = report.statistics.probe_timeout().as_millis();
            format!("has received nothing for {waited} ms; its data goes elsewhere")
        }
        None => "is suspect".to_owned(),
    }
}

fn as_json(notice: &Notice) -> Option<Value> {
    Some(match notice {
        Notice::Opened(_) => json!({ "event": "opened" }),
        Notice::PathUp(carrier) => json!({ "event": "path up", "carrier": carrier.0 }),
        Notice::PathSuspect(carrier) => json!({ "event": "path suspect", "carrier": carrier.0 }),
        Notice::PathLive(carrier) => json!({ "event": "path live", "carrier": carrier.0 }),
        Notice::PathLost { carrier, reason, .. } => {
            json!({ "event": "path lost", "carrier": carrier.0, "reason": reason.to_string() })
        }
        Notice::QuotaSpent(path) => json!({ "event": "quota spent", "path": path }),
        Notice::Stalled => json!({ "event": "stalled" }),
        Notice::Resumed => json!({ "event": "resumed" }),
        Notice::Closed(end) => {
            json!({ "event": "closed", "code": end.code(), "by_peer": end.is_by_peer() })
        }
        Notice::StreamOpened(_) | Notice::Readable(_) | Notice::Writable(_) | Notice::Stopped { .. } => {
            return None;
        }
    })
}

/// Formats a path for people: `quic wlan0 10.0.0.1 → 10.0.0.2`.
fn name(info: &PathInfo) -> String {
    let description = &info.description;
    let interface = description
        .interface
        .as_deref()
        .map_or_else(String::new, |name| format!(" {name}"));
    // A QUIC socket that is bound to an interface has an unspecified address.
    let local = Some(description.local.ip()).filter(|ip| !ip.is_unspecified());
    let local = local.map_or_else(String::new, |ip| format!(" {ip}"));
    format!(
        "{}{interface}{local} → {}",
        description.transport,
        description.peer.ip()
    )
}

async fn move_bars(
    session: Session,
    bars: MultiProgress,
    seen: Arc<Mutex<BTreeMap<CarrierId, ProgressBar>>>,
    total: ProgressBar,
    over: Arc<Mutex<bool>>,
) {
    let mut clock = tokio::time::interval(EVERY);
    loop {
        clock.tick().await;
        let over = over.lock();
        if *over {
            return;
        }
        update(&session, &bars, &mut seen.lock(), &total);
    }
}

/// Updates each path's bar to its share of the whole.
fn update(
    session: &Session,
    bars: &MultiProgress,
    seen: &mut BTreeMap<CarrierId, ProgressBar>,
    total: &ProgressBar,
) {
    for (id, info) in session.paths() {
        let bar = seen.entry(id).or_insert_with(|| {
            let bar = bars.insert_before(total, ProgressBar::no_length());
            style(
                &bar,
                "{prefix:40} {bar:30} {bytes:>10} {binary_bytes_per_sec:>12} {msg}",
            );
            bar.set_prefix(OneLine(name(&info)).to_string());
            bar
        });
        bar.set_length(total.length().unwrap_or(0).max(1));
        bar.set_position(carried(&info));
        let word = match info.report.map(|report| report.state) {
            Some(PathState::Joining) => "joining".to_owned(),
            Some(PathState::Suspect) => "no answer".to_owned(),
            Some(PathState::Failing) => "link down".to_owned(),
            Some(PathState::Live) => {
                let srtt = info
                    .report
                    .map_or(0.0, |report| report.statistics.srtt.as_secs_f64());
                format!("{:.1} ms", srtt * 1e3)
            }
            None => String::new(),
        };
        bar.set_message(word);
    }
}

/// Returns the number of stream bytes that a carrier has moved, in the busier direction.
fn carried(info: &PathInfo) -> u64 {
    let counts = &info.counts;
    (counts.fresh + counts.again).max(counts.delivered)
}

fn paths(session: &Session) -> Value {
    let of_path = |(id, info): (CarrierId, PathInfo)| {
        let (description, counts) = (&info.description, &info.counts);
        let state = match info.report.map(|report| report.state) {
            Some(PathState::Joining) => "joining",
            Some(PathState::Live) => "live",
            Some(PathState::Suspect) => "suspect",
            Some(PathState::Failing) => "failing",
            None if matches!(info.lost, None | Some(Loss::Closed)) => "closed",
            None => "lost",
        };
        json!({
            "carrier": id.0, "transport": description.transport, "secure": description.secure,
            "interface": description.interface, "local": description.local.to_string(),
            "peer": description.peer.to_string(), "fallback": description.fallback, "state": state,
            "reason": info.lost.as_ref().map(ToString::to_string),
            "sent": counts.sent, "received": counts.received, "fresh": counts.fresh, "again": counts.again,
            "delivered": counts.delivered, "duplicate": counts.duplicate, "suspected": counts.suspected,
            "srtt_ms": info.report.map(|report| report.statistics.srtt.as_secs_f64() * 1e3),
        })
    };
    session.paths().into_iter().map(of_path).collect()
}
