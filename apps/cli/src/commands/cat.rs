//! `hawser cat`: connects standard input and output with those of the other side.

use std::time::Duration;

use hawser::session::{INTERRUPTED, Session, SessionStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupts;
use crate::session::{CodeArgs, Met, Opening, SessionArgs, exchange, runtime};

/// Connect standard input and output with those of the other side, over every path at once
///
///   there:  hawser cat > copy
///   here:   hawser cat 192.0.2.7:4433 --pin 3f… --code 7-crossword-anvil < original
///
/// If the server does not speak Hawser, the command uses one connection, provided that `fallback` in the
/// session document names its protocol; the end of its data then ends the command.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    code: CodeArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let asked = Opening::prepare(&args.session, false)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let interrupts = Interrupts::new()?;
        let arranged = Opening::arrange_any(asked, &args.code, "hawser cat", false);
        let session = match interrupts.end(arranged).await? {
            Met::Opening(opening) => interrupts.end(opening.next()).await?,
            Met::Plain(stream) => return interrupts.end(exchange(*stream)).await,
        };
        let work = async {
            let kept = tokio::try_join!(speak(&session), listen(&session));
            // If both sides have sent all data, it does not matter which closes first. If one side has
            // failed, the code reports this to the other.
            let code = if kept.is_ok() { 0 } else { INTERRUPTED };
            let _ = tokio::time::timeout(CLOSING, session.close(code)).await;
            kept.map(|_| ())
        };
        interrupts.end_session(&session, work).await
    });
    // A thread may still be blocked on standard input.
    runtime.shutdown_background();
    outcome
}

/// The time in which the close of a session must reach the peer.
const CLOSING: Duration = Duration::from_secs(30);
/// The error code of a stream whose input could not be read to its end.
const INPUT_FAILED: u64 = 1;

/// Sends standard input on a stream of this side. The stream is returned so that closing the session delivers
/// the rest.
async fn speak(session: &Session) -> Result<SessionStream, Exit> {
    let mut stream = session.open().map_err(Exit::network)?;
    let mut input = tokio::io::stdin();
    let mut buffer = bytes::BytesMut::new();
    loop {
        buffer.reserve(65_536);
        let read = input.read_buf(&mut buffer).await;
        match read.map_err(Exit::environment) {
            Ok(0) => break,
            Ok(_) => {}
            Err(exit) => {
                // The bytes sent so far are incomplete, so the stream is reset.
                let _ = stream.reset(INPUT_FAILED);
                return Err(exit);
            }
        }
        stream
            .write_bytes(buffer.split().freeze())
            .await
            .map_err(Exit::network)?;
    }
    stream.shutdown().await.map_err(Exit::network)?;
    Ok(stream)
}

/// Copies the other side's stream to standard output.
async fn listen(session: &Session) -> Outcome {
    let mut stream = session.accept().await.map_err(Exit::network)?;
    let mut output = tokio::io::stdout();
    loop {
        let bytes = stream.read_bytes().await.map_err(Exit::network)?;
        if bytes.is_empty() {
            return output.flush().await.map_err(Exit::environment);
        }
        output.write_all(&bytes).await.map_err(Exit::environment)?;
        output.flush().await.map_err(Exit::environment)?;
    }
}
