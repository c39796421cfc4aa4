//! Runs commands in the hosts of a lab, with its timeline beside them.
//!
//! The process is meant to be the first of a tree of its own ([`crate::contain()`]). When it ends, all
//! processes that the commands have started end, too.

mod report;

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::lab::Lab;
use crate::process_tree::code;
use crate::spec::Spec;
use crate::sys::{self, Epoll, Signals};
use crate::timeline::TimelineEntry;
use crate::{LabError, LinkReport};

pub use report::{CommandReport, RunReport};

/// The interval at which deadlines are checked while commands run.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time that commands have to end after they are asked to.
const END_GRACE: Duration = Duration::from_secs(2);
/// The largest number of bytes of a line that is passed on in one piece, and of a command's output that a
/// report keeps.
const LINE: u64 = 64 << 10;
const KEPT: usize = 1 << 20;
/// The largest number of samples of the links' counters that a report keeps, and the shortest time between
/// two.
const SAMPLES: usize = 100_000;
const MIN_SAMPLE: Duration = Duration::from_millis(1);

/// An event of a run, for the code that displays it.
#[derive(Debug)]
pub enum RunEvent<'a> {
    /// A command printed a line.
    Line {
        /// The host of the command.
        host: &'a str,
        /// True if the command printed the line to its standard error.
        is_error: bool,
        /// The text of the line, without its end.
        line: &'a str,
    },
    /// A link changed.
    Changed(&'a TimelineEntry),
    /// A command ended.
    Ended(&'a CommandReport),
}

/// A command to be run.
struct Job {
    host: String,
    text: String,
    is_service: bool,
    after: Duration,
    command: Command,
}

/// A command that runs.
struct RunningCommand {
    host: String,
    text: String,
    is_service: bool,
    started: f64,
    child: Child,
    output: String,
}

/// Blocks the signals that ask a process to end from now on. [`run`] and [`run_beside`] read them, and ask
/// the commands to end. It must be called before the first thread is started, including a lab's own: a thread
/// that does not block them would end the process at once.
///
/// # Errors
/// The system rejected the operation.
pub fn hold_signals() -> Result<(), LabError> {
    Signals::hold()
        .map(drop)
        .map_err(LabError::io("let signals wait"))
}

/// Runs the commands of the file in its hosts: services (`serve`), and commands (`run`) until all have ended
/// or the file's `duration` has passed. Then the services are ended. If `every` is given, the counters of all
/// links are read at that interval.
///
/// # Errors
/// A command could not be started, or a change of the timeline failed.
pub fn run(
    lab: &Lab,
    spec: &Spec,
    every: Option<Duration>,
    notify: &mut dyn FnMut(RunEvent<'_>),
) -> Result<RunReport, LabError> {
    let signals = Signals::take().map_err(LabError::io("take the signals over"))?;
    let mut jobs = services(lab, spec)?;
    for host in &spec.host {
        let Some(text) = &host.run else { continue };
        let after = Duration::from_nanos(host.after.0);
        jobs.push(Job { after, is_service: false, ..job(lab, &host.name, text)? });
    }
    let limit = (spec.duration.0 > 0).then(|| Duration::from_nanos(spec.duration.0));
    RunState { every, ..RunState::new(lab, signals) }.run(jobs, limit, notify)
}

/// Runs a command in a host, with this process's input and output, together with the file's timeline and its
/// services. Returns its exit code, as a shell would.
///
/// # Errors
/// The errors of [`run`].
pub fn run_beside(
    lab: &Lab,
    spec: &Spec,
    host: &str,
    program: &str,
    arguments: &[String],
    notify: &mut dyn FnMut(RunEvent<'_>),
) -> Result<u8, LabError> {
    let signals = Signals::take().map_err(LabError::io("take the signals over"))?;
    let jobs = services(lab, spec)?;
    let mut command = lab.host(host)?.command(program)?;
    command.args(arguments);
    let child = command
        .spawn()
        .map_err(LabError::io(format!("start {program}")))?;
    let mut stage = RunState::new(lab, signals);
    stage.foreground = Some(child);
    stage.run(jobs, None, notify)?;
    Ok(stage.code)
}

fn services(lab: &Lab, spec: &Spec) -> Result<Vec<Job>, LabError> {
    let hosts = spec
        .host
        .iter()
        .filter_map(|host| Some((&host.name, host.serve.as_ref()?)));
    hosts.map(|(host, text)| job(lab, host, text)).collect()
}

/// Makes the job of a service, to be started at once.
fn job(lab: &Lab, host: &str, text: &str) -> Result<Job, LabError> {
    let mut command = lab.host(host)?.command("sh")?;
    command
        .args(["-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (host, text) = (host.to_owned(), text.to_owned());
    Ok(Job { host, text, is_service: true, after: Duration::ZERO, command })
}

/// A line of a command: the command's index, whether it is an error, and the text.
type OutputLine = (usize, bool, String);

/// A run in progress.
struct RunState<'a> {
    lab: &'a Lab,
    signals: Signals,
    start: Instant,
    running: Vec<Option<RunningCommand>>,
    /// The command that has the terminal.
    foreground: Option<Child>,
    code: u8,
    /// The interval at which the links' counters are read.
    every: Option<Duration>,
    stopping: Option<Instant>,
    report: RunReport,
}

impl<'a> RunState<'a> {
    fn new(lab: &'a Lab, signals: Signals) -> RunState<'a> {
        RunState {
            lab,
            signals,
            start: Instant::now(),
            running: Vec::new(),
            foreground: None,
            code: 0,
            every: None,
            stopping: None,
            report: RunReport::default(),
        }
    }

    fn run(
        &mut self,
        jobs: Vec<Job>,
        limit: Option<Duration>,
        notify: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<RunReport, LabError> {
        let stop = AtomicBool::new(false);
        let (lines, printed) = mpsc::sync_channel::<OutputLine>(1024);
        let (changes, changed) = mpsc::channel::<Result<TimelineEntry, LabError>>();
        let samples = std::thread::scope(|scope| {
            let (lab, stop) = (self.lab, &stop);
            let watcher = self
                .every
                .map(|every| scope.spawn(move || samples(lab, every, stop)));
            scope.spawn(move || {
                let on_change = |entry: &TimelineEntry| drop(changes.send(Ok(entry.clone())));
                if let Err(error) = lab.play(stop, on_change) {
                    let _ = changes.send(Err(error));
                }
            });
            let result = self.supervise(jobs, limit, lines, &printed, &changed, notify);
            stop.store(true, Ordering::Relaxed);
            // A panic of the watcher was printed when it happened.
            let samples = watcher.map(|watcher| watcher.join().unwrap_or(Err(LabError::Stopped)));
            result.and(samples.transpose())
        })?;
        self.report.samples = samples.unwrap_or_default();
        self.finish()
    }

    /// Starts and ends commands until all have ended.
    fn supervise(
        &mut self,
        jobs: Vec<Job>,
        limit: Option<Duration>,
        lines: mpsc::SyncSender<OutputLine>,
        printed: &mpsc::Receiver<OutputLine>,
        changed: &mpsc::Receiver<Result<TimelineEntry, LabError>>,
        notify: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), LabError> {
        let mut waiting = jobs;
        loop {
            self.start_due(&mut waiting, &lines)?;
            self.sleep();
            while let Ok((who, is_error, line)) = printed.try_recv() {
                self.keep(who, is_error, &line, notify);
            }
            while let Ok(change) = changed.try_recv() {
                notify(RunEvent::Changed(&change?));
            }
            self.reap(printed, notify)?;
            let asked = std::iter::from_fn(|| self.signals.next()).any(|signal| signal != libc::SIGINT);
            let over = limit.is_some_and(|limit| self.start.elapsed() >= limit);
            if asked || over {
                waiting.clear();
                self.stop();
            }
            let running = self.running.iter().flatten();
            let served = running.clone().any(|running| !running.is_service);
            if self.foreground.is_none() && !served && waiting.iter().all(|job| job.is_service) {
                waiting.clear();
                if running.count() == 0 {
                    return Ok(());
                }
                self.stop();
            }
        }
    }

    fn start_due(
        &mut self,
        waiting: &mut Vec<Job>,
        lines: &mpsc::SyncSender<OutputLine>,
    ) -> Result<(), LabError> {
        while let Some(next) = waiting.iter().position(|job| job.after <= self.start.elapsed()) {
            let mut job = waiting.remove(next);
            let action = format!("start `{}` on {}", job.text, job.host);
            let mut child = job.command.spawn().map_err(LabError::io(action))?;
            let who = self.running.len();
            if let Some(output) = child.stdout.take() {
                pass_on(who, false, output, lines.clone()).map_err(LabError::io("start a thread"))?;
            }
            if let Some(output) = child.stderr.take() {
                pass_on(who, true, output, lines.clone()).map_err(LabError::io("start a thread"))?;
            }
            let started = self.start.elapsed().as_secs_f64();
            let Job { host, text, is_service, .. } = job;
            let output = String::new();
            self.running.push(Some(RunningCommand {
                host,
                text,
                is_service,
                started,
                child,
                output,
            }));
        }
        Ok(())
    }

    /// Waits for a signal, for the end of a command, or until the next check is due.
    fn sleep(&self) {
        let children = self.running.iter().flatten().map(|running| &running.child);
        let handles: Vec<_> = children
            .chain(&self.foreground)
            .filter_map(|child| sys::handle_of(child).ok())
            .collect();
        let handles = handles.iter().map(AsFd::as_fd);
        // If waiting fails, the next check comes at once.
        let _ = Epoll::new(handles.chain([self.signals.as_fd()]))
            .and_then(|watch| watch.wait(Some(POLL_INTERVAL)));
    }

    fn keep(&mut self, who: usize, is_error: bool, line: &str, notify: &mut dyn FnMut(RunEvent<'_>)) {
        let Some(Some(running)) = self.running.get_mut(who) else {
            return;
        };
        if running.output.len() + line.len() < KEPT {
            running.output.push_str(line);
            running.output.push('\n');
        }
        notify(RunEvent::Line { host: &running.host, is_error, line });
    }

    /// Reports the commands that have ended.
    fn reap(
        &mut self,
        printed: &mpsc::Receiver<OutputLine>,
        notify: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), LabError> {
        let wait = |child: &mut Child| child.try_wait().map_err(LabError::io("wait for a command"));
        if let Some(child) = &mut self.foreground
            && let Some(status) = wait(child)?
        {
            self.foreground = None;
            self.code = code(status);
            self.stop();
        }
        for who in 0..self.running.len() {
            let Some(running) = &mut self.running[who] else {
                continue;
            };
            let Some(status) = wait(&mut running.child)? else {
                continue;
            };
            // The last lines of the command may still be in the pipe.
            while let Ok((who, is_error, line)) = printed.recv_timeout(POLL_INTERVAL) {
                self.keep(who, is_error, &line, notify);
            }
            let Some(running) = self.running[who].take() else {
                continue;
            };
            let report = CommandReport {
                host: running.host,
                command: running.text,
                code: code(status),
                service: running.is_service,
                stopped: self.stopping.is_some(),
                started: running.started,
                ended: self.start.elapsed().as_secs_f64(),
                output: running.output,
            };
            notify(RunEvent::Ended(&report));
            self.report.commands.push(report);
        }
        Ok(())
    }

    /// Asks all commands to end, and kills them after the grace period.
    fn stop(&mut self) {
        let late = self.stopping.is_some_and(|since| since.elapsed() > END_GRACE);
        if self.stopping.is_some() && !late {
            return;
        }
        self.stopping = self.stopping.or(Some(Instant::now()));
        let signal = if late { Signal::KILL } else { Signal::TERM };
        let children = self.running.iter().flatten().map(|running| &running.child);
        children
            .chain(&self.foreground)
            .for_each(|child| sys::signal(child, signal));
    }

    fn finish(&mut self) -> Result<RunReport, LabError> {
        let mut report = std::mem::take(&mut self.report);
        let mut commands = report.commands.iter().filter(|command| !command.service);
        report.ok = commands.all(|command| command.code == 0 && !command.stopped);
        report.seconds = self.start.elapsed().as_secs_f64();
        report.links = self.lab.reports()?;
        Ok(report)
    }
}

/// Samples the statistics of all links until `stop` is set.
fn samples(lab: &Lab, every: Duration, stop: &AtomicBool) -> Result<Vec<Vec<LinkReport>>, LabError> {
    let mut samples = Vec::new();
    let keep = |sample| {
        if samples.len() < SAMPLES {
            samples.push(sample);
        }
    };
    lab.watch(every.max(MIN_SAMPLE), stop, keep).map(|()| samples)
}

/// Reads lines on a thread of its own, until the output is closed.
fn pass_on(
    who: usize,
    is_error: bool,
    output: impl Read + Send + 'static,
    lines: mpsc::SyncSender<OutputLine>,
) -> io::Result<()> {
    let read = move || {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match output.by_ref().take(LINE).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&bytes)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            if lines.send((who, is_error, line)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("lab-output".to_owned())
        .spawn(read)
        .map(drop)
}
