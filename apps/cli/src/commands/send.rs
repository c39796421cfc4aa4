//! `hawser send FILE`: sends a file over a session.

use std::path::PathBuf;

use hawser::session::Session;
use serde_json::json;

use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupts;
use crate::session::{CodeArgs, Opening, SessionArgs, SessionDisplay, runtime, send};

/// Send a file over every path at once
///
/// One side waits and prints the command line for the other; the other side connects:
///
///   there:  hawser recv
///   here:   hawser send FILE 192.0.2.7:4433 --pin 3f… --code 7-crossword-anvil --over quic:wlan0,tcp:wwan0
///
/// Without SERVER, `hawser send` waits. The command ends with 0 when the receiver has the file and
/// the SHA-256 of both is the same.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The file
    file: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    code: CodeArgs,
    /// Print events as JSON, one object per line, and at the end the bytes of each path
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let readable = std::fs::metadata(&args.file).and_then(|data| match data.is_file() {
        true => Ok(data.len()),
        false => Err(std::io::Error::other(
            "the path is not a file; `hawser cat` sends data from a pipe",
        )),
    });
    let length =
        readable.map_err(|error| Exit::input(format!("cannot send {}: {error}", args.file.display())))?;
    let asked = Opening::prepare(&args.session, args.json)?;
    runtime()?.block_on(async {
        let interrupts = Interrupts::new()?;
        let arranged = Opening::arrange(asked, &args.code, "hawser recv", args.json);
        let opening = interrupts.end(arranged).await?;
        let session = interrupts.end(opening.next()).await?;
        interrupts
            .end_session(&session, transfer(args, &session, length))
            .await
    })
}

/// Sends the file and reports that the receiver has it.
async fn transfer(args: &Args, session: &Session, length: u64) -> Outcome {
    let watch = SessionDisplay::new(session, args.json);
    watch.total.set_length(length);
    let mut stream = session.open().map_err(Exit::network)?;
    let sent = send(&mut stream, &args.file, &watch.total).await?;
    let seconds = watch.elapsed().as_secs_f64();
    let paths = watch.finish();
    drop(stream);
    // The receiver has the file, so a failure of the session no longer matters.
    let _ = session.close(0).await;
    if args.json {
        println!(
            "{}",
            json!({
                "event": "done", "file": args.file.display().to_string(), "bytes": sent.length,
                "sha256": sent.sha256, "seconds": seconds,
                "bits_per_second": sent.length as f64 * 8.0 / seconds, "paths": paths,
            })
        );
    } else {
        println!("{} bytes, SHA-256 {}", sent.length, sent.sha256);
    }
    Ok(())
}
