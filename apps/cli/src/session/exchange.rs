//! Connects standard input and output with a stream.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::exit::{Exit, Outcome};

/// Copies between a stream and standard input and output until the peer has sent all its data.
pub(crate) async fn exchange(stream: impl AsyncRead + AsyncWrite) -> Outcome {
    let (mut receive, mut send) = tokio::io::split(stream);
    let up = async {
        tokio::io::copy(&mut tokio::io::stdin(), &mut send).await?;
        send.shutdown().await
    };
    let down = async {
        let mut output = tokio::io::stdout();
        tokio::io::copy(&mut receive, &mut output).await?;
        output.flush().await
    };
    tokio::pin!(up, down);
    let done = tokio::select! {
        biased;
        done = &mut down => done,
        // A peer that accepts no more data may still have data to send.
        _ = &mut up => down.await,
    };
    done.map_err(Exit::network)
}
