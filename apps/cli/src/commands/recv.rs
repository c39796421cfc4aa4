//! `hawser recv`

use std::path::PathBuf;

use hawser::session::Session;
use serde_json::json;

use crate::exit::{Exit, Outcome};
use crate::session::{Meeting, SessionArgs, Watch, receive, runtime};

/// Receive a file over every path at once
///
/// Waits and prints how to be called, or calls the SERVER on which `hawser send` waits. A name that
/// is there already is not overwritten.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArgs,
    /// A file or a directory; `-` is standard output. Otherwise the sender's name of it, here
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Overwrite what is there
    #[arg(long)]
    force: bool,
    /// Go on waiting after the first file
    #[arg(long, conflicts_with_all = ["server", "config"])]
    keep: bool,
    /// One JSON object per line: events, and at the end what came over which path
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.json && args.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Exit::usage("standard output cannot take both the file and --json"));
    }
    runtime()?.block_on(async {
        let meeting = Meeting::arrange(&args.session, "hawser send FILE", args.json).await?;
        loop {
            let outcome = one(args, &meeting.next().await?).await;
            match outcome {
                Err(exit) if args.keep => eprintln!("hawser: {exit}"),
                Ok(()) if args.keep => {}
                outcome => return outcome,
            }
        }
    })
}

async fn one(args: &Args, session: &Session) -> Outcome {
    let watch = Watch::new(session, args.json);
    let mut stream = session.accept().await.map_err(Exit::network)?;
    let received = receive(&mut stream, args.output.as_deref(), args.force, &watch.total).await;
    let seconds = watch.elapsed().as_secs_f64();
    let paths = watch.finish();
    drop(stream);
    // The answer is under way; whether it arrived is the sender's matter.
    let _ = session.close(0).await;
    let received = received?;
    let place = received.path.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
    if args.json {
        println!(
            "{}",
            json!({
                "event": "done", "name": received.name, "file": place, "bytes": received.length,
                "sha256": received.sha256, "seconds": seconds,
                "bits_per_second": received.length as f64 * 8.0 / seconds,
                "longest_pause_ms": received.longest_pause.as_secs_f64() * 1e3, "paths": paths,
            })
        );
    } else {
        eprintln!("{place}: {} bytes, SHA-256 {}", received.length, received.sha256);
    }
    Ok(())
}
