//! `hawser recv`: receives a file over a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser::lab::units::DataSize;
use hawser::session::Session;
use hawser::session::admission::{AdmissionGate, AdmissionPermit, IDLE_TIMEOUT, ProgressReporter, Shares};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupts;
use crate::session::{
    BEGINNING, Budget, CodeArgs, Intake, Opening, ReceiveResult, SessionArgs, SessionDisplay, address,
    in_time, receive, runtime,
};

/// The maximum number of concurrent callers with `--keep`; one network may have a quarter of them.
const CALLERS: usize = 64;
/// The interval at which the command checks that a caller has a path.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// The time in which a sender must take the answer.
const PARTING: Duration = Duration::from_secs(10);

/// Receive a file over every path at once
///
/// The command waits for a sender and prints the command line for the other side, or connects to the
/// SERVER on which `hawser send` waits. A sender needs the one-time code of that line. An existing file
/// is not overwritten. A sender below 1 KiB/s over 600 s is disconnected.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The output file or directory; `-` is standard output. By default the sender's name of the file, in
    /// this directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Keep waiting after the first file, and receive from several senders at once: up to 64, of which one
    /// network (an IPv4 address, or an IPv6 /64) has up to 16. A further sender replaces the one without
    /// progress for longest, for 5 s or more; otherwise it is refused with LIMIT
    #[arg(long, conflicts_with_all = ["server", "config"])]
    keep: bool,
    /// The maximum number of bytes over all files of this run; a larger file is rejected before its first byte
    #[arg(long, value_name = "BYTES", default_value = "64GiB")]
    max_bytes: DataSize,
    /// Print events as JSON, one object per line, and at the end the bytes of each path
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    code: CodeArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.json && args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Exit::usage(
            "standard output cannot take both the file and --json",
        ));
    }
    let one = Arc::new(FileReceiver {
        intake: Intake {
            output: args.output.clone(),
            force: args.force,
            budget: Budget::new(args.max_bytes.0),
        },
        json: args.json,
    });
    one.intake.check()?;
    let asked = Opening::prepare(&args.session, args.json)?;
    runtime()?.block_on(async {
        let interrupts = Interrupts::new()?;
        let arranged = Opening::arrange(asked, &args.code, "hawser send FILE", args.json);
        let opening = interrupts.end(arranged).await?;
        if args.keep {
            one.go_on(&opening, &interrupts).await
        } else {
            let session = interrupts.end(opening.next()).await?;
            let alone = AdmissionGate::new(Shares::unshared(1)).enter(address(&session));
            one.receive(session, alone, &interrupts).await
        }
    })
}

/// The receiver of files.
struct FileReceiver {
    intake: Intake,
    json: bool,
}

impl FileReceiver {
    /// The limits of concurrent callers. On standard output, only one file is received at a time.
    fn shares(&self) -> Shares {
        let is_piped = self
            .intake
            .output
            .as_ref()
            .is_some_and(|path| path.as_os_str() == "-");
        match is_piped {
            true => Shares::unshared(1),
            false => Shares::new(CALLERS),
        }
    }

    /// Receives files from several callers at once until a signal arrives. A caller without progress is
    /// dropped to admit another.
    async fn go_on(self: &Arc<Self>, opening: &Opening, interrupts: &Interrupts) -> Outcome {
        let gate = AdmissionGate::new(self.shares());
        let mut callers = JoinSet::new();
        let exit = loop {
            tokio::select! {
                biased;
                exit = interrupts.next() => break exit,
                session = opening.next() => {
                    let session = session?;
                    let Some(place) = gate.enter_if_idle(address(&session), IDLE_TIMEOUT) else {
                        session.reject();
                        eprintln!("hawser: refused {}: too many callers at once", address(&session));
                        continue;
                    };
                    let (one, interrupts) = (self.clone(), interrupts.clone());
                    callers.spawn(async move { one.receive(session, place, &interrupts).await });
                }
                Some(outcome) = callers.join_next() => match outcome {
                    Ok(Ok(())) => {}
                    Ok(Err(exit)) => eprintln!("hawser: {exit}"),
                    Err(panic) => return Err(Exit::failed(panic)),
                },
            }
        };
        // Each task notifies its caller and removes the incomplete file.
        let left = async { while callers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(PARTING, left).await;
        Err(exit)
    }

    /// Receives a caller's file, unless the caller loses its place or a signal arrives.
    async fn receive(
        &self,
        session: Session,
        mut place: AdmissionPermit,
        interrupts: &Interrupts,
    ) -> Outcome {
        let progress = place.progress();
        let work = async {
            tokio::select! {
                outcome = self.take(&session, &progress) => outcome,
                () = yield_while_cut_off(&session, &progress) => Ok(()),
            }
        };
        match place.hold(interrupts.end_session(&session, work)).await {
            Some(outcome) => outcome,
            None => {
                session.reject();
                Err(Exit::network(
                    "a caller was idle, and another one needed its place",
                ))
            }
        }
    }

    async fn take(&self, session: &Session, progress: &ProgressReporter) -> Outcome {
        let watch = SessionDisplay::new(session, self.json);
        let mut stream = in_time(BEGINNING, session.accept())
            .await?
            .map_err(Exit::network)?;
        let received = receive(&mut stream, &self.intake, &watch.total, || progress.moved()).await;
        let seconds = watch.elapsed().as_secs_f64();
        let paths = watch.finish();
        drop(stream);
        // The answer has been sent. Its arrival is the sender's concern.
        let _ = tokio::time::timeout(PARTING, session.close(0)).await;
        let received = received?;
        self.report(&received, seconds, &paths);
        Ok(())
    }

    fn report(&self, received: &ReceiveResult, seconds: f64, paths: &Value) {
        let path = received.path.as_ref();
        let place = path.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
        if !self.json {
            eprintln!("{place}: {} bytes, SHA-256 {}", received.length, received.sha256);
            return;
        }
        println!(
            "{}",
            json!({
                "event": "done", "name": received.name, "file": place, "bytes": received.length,
                "sha256": received.sha256, "seconds": seconds,
                "bits_per_second": received.length as f64 * 8.0 / seconds,
                "longest_pause_ms": received.longest_pause.as_secs_f64() * 1e3, "paths": paths,
            })
        );
    }
}

/// Gives the session's place to others while the session has no path. It never completes.
async fn yield_while_cut_off(session: &Session, progress: &ProgressReporter) {
    let observer = session.observer();
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        if observer.is_cut_off() {
            progress.give_way();
        }
    }
}
