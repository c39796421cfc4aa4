//! `hawser recv`: receives a file over a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hawser::lab::units::Bytes;
use hawser::session::Session;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::exit::{Exit, Outcome};
use crate::session::{
    BEGINNING, Budget, CodeArgs, Opening, Received, SessionArgs, Watch, in_time, receive, runtime,
};

/// Callers at once with `--keep`.
const CALLERS: usize = 16;
/// How long a sender may take for the answer.
const PARTING: Duration = Duration::from_secs(10);

/// Receive a file over every path at once
///
/// The command waits for a sender and prints the command line for the other side, or connects to the
/// SERVER on which `hawser send` waits. A sender needs the one-time code of that line. An existing file
/// is not overwritten. A sender below 1 KiB/s over 600 s is disconnected.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    code: CodeArgs,
    /// The output file or directory; `-` is standard output. By default the name that the sender gives, in
    /// this directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Keep waiting after the first file, and receive from several senders at once
    #[arg(long, conflicts_with_all = ["server", "config"])]
    keep: bool,
    /// Maximum number of bytes over all files of this run; a larger file is rejected before its first byte
    #[arg(long, value_name = "BYTES", default_value = "64GiB")]
    max_bytes: Bytes,
    /// Print events as JSON, one object per line, and at the end the bytes of each path
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.json && args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Exit::usage(
            "standard output cannot take both the file and --json",
        ));
    }
    let one = Arc::new(One {
        output: args.output.clone(),
        force: args.force,
        budget: Budget::new(args.max_bytes.0),
        json: args.json,
    });
    runtime()?.block_on(async {
        let opening = Opening::arrange(&args.session, &args.code, "hawser send FILE", args.json).await?;
        if args.keep {
            go_on(&one, &opening).await
        } else {
            one.receive(opening.next().await?).await
        }
    })
}

/// Takes one caller's file after the other's, several at once: a caller who is slow, or idle,
/// holds up no other.
async fn go_on(one: &Arc<One>, opening: &Opening) -> Outcome {
    let max_files = if one.is_piped() { 1 } else { CALLERS };
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            session = opening.next(), if callers.len() < max_files => {
                let (one, session) = (one.clone(), session?);
                callers.spawn(async move { one.receive(session).await });
            }
            Some(outcome) = callers.join_next() => match outcome {
                Ok(Ok(())) => {}
                Ok(Err(exit)) => eprintln!("hawser: {exit}"),
                Err(panic) => return Err(Exit::failed(panic)),
            },
        }
    }
}

/// What is done with one file.
struct One {
    output: Option<PathBuf>,
    force: bool,
    budget: Budget,
    json: bool,
}

impl One {
    /// Whether it goes to standard output.
    fn is_piped(&self) -> bool {
        self.output.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    async fn receive(&self, session: Session) -> Outcome {
        let watch = Watch::new(&session, self.json);
        let mut stream = in_time(BEGINNING, session.accept())
            .await?
            .map_err(Exit::network)?;
        let (output, force) = (self.output.as_deref(), self.force);
        let received = receive(&mut stream, output, force, &self.budget, &watch.total).await;
        let seconds = watch.elapsed().as_secs_f64();
        let paths = watch.finish();
        drop(stream);
        // The answer is under way; whether it arrived is the sender's matter.
        let _ = tokio::time::timeout(PARTING, session.close(0)).await;
        let received = received?;
        self.report(&received, seconds, &paths);
        Ok(())
    }

    fn report(&self, received: &Received, seconds: f64, paths: &Value) {
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
