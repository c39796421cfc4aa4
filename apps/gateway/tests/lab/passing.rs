//! Traffic through a gateway: data, ends and resets.

use std::io;
use std::time::Duration;

use hawser::session::relay::Destination;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::TestResult;
use crate::testbed::{Testbed, limits};

fn content(length: u64) -> Vec<u8> {
    (0..length / 8)
        .flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

pub(crate) fn a_download_survives_the_loss_of_a_path() -> TestResult {
    const LENGTH: u64 = 4 << 20;
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["web.example:80"], limits())?;
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind(("0.0.0.0", 80))))??;
    stage.server.spawn(async move {
        let (mut peer, _) = listener.accept().await?;
        let mut question = [0; 4];
        peer.read_exact(&mut question).await?;
        peer.write_all(&content(LENGTH)).await?;
        peer.shutdown().await
    });
    let near = stage.near()?;
    let wifi = stage.lab.link("wifi")?;
    let half = std::sync::Arc::new(tokio::sync::Notify::new());
    let all = std::thread::scope(|scope| {
        let signal = half.clone();
        let runtime = &stage.client;
        scope.spawn(move || {
            let half = async { tokio::time::timeout(Duration::from_secs(15), signal.notified()).await };
            runtime.block_on(half).is_ok().then(|| wifi.silence(true))
        });
        stage.as_client(async move {
            let mut stream = near.connect(&Destination::parse("web.example:80")?).await?;
            stream.write_all(b"GIVE").await?;
            let mut all = vec![0; LENGTH as usize / 4];
            stream.read_exact(&mut all).await?;
            half.notify_one();
            stream.read_to_end(&mut all).await?;
            let session = near.session().await.ok_or("the session lives")?;
            for (_, path) in session.paths() {
                println!("  {}: {:?}", path.description.transport, path.counts.delivered);
                assert!(path.counts.delivered > 0, "both paths carried");
            }
            Ok(all)
        })
    })?;
    assert_eq!(all.len() as u64, LENGTH);
    assert_eq!(Sha256::digest(&all), Sha256::digest(content(LENGTH)));
    stage.expect_event("end: Finished")
}

pub(crate) fn ends_and_resets_are_relayed() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["web.example:*", "93.184.216.0/24:7"], limits())?;
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind(("0.0.0.0", 7))))??;
    let served = stage.server.spawn(async move {
        // The server answers when it has received everything: the end of one direction does not end the
        // other.
        let (mut peer, _) = listener.accept().await?;
        let mut received = Vec::new();
        peer.read_to_end(&mut received).await?;
        peer.write_all(&received).await?;
        drop(peer);
        let (mut peer, _) = listener.accept().await?;
        peer.read_exact(&mut [0]).await?;
        peer.set_zero_linger()?;
        drop(peer);
        // The client abandons two streams: it resets one, and drops one with unread data.
        let (mut peer, _) = listener.accept().await?;
        peer.read_exact(&mut [0]).await?;
        let by_reset = peer.read(&mut [0]).await.map_err(|error| error.kind());
        let (mut peer, _) = listener.accept().await?;
        let flood = async {
            loop {
                peer.write_all(&[0; 65_536]).await?;
            }
        };
        let by_drop: io::Result<()> = tokio::time::timeout(Duration::from_secs(10), flood).await?;
        Ok::<_, io::Error>((by_reset, by_drop.map_err(|error| error.kind())))
    });
    let near = stage.near()?;
    stage.as_client(async move {
        let by_name = Destination::parse("web.example:7")?;
        let mut stream = near.connect(&by_name).await?;
        stream.write_all(b"half").await?;
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, "half");

        let mut stream = near.connect(&Destination::parse("93.184.216.34:7")?).await?;
        stream.write_all(b"x").await?;
        let error = stream.read(&mut [0]).await.expect_err("it was reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let mut stream = near.connect(&by_name).await?;
        stream.write_all(b"x").await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        stream.reset();

        let mut stream = near.connect(&by_name).await?;
        stream.read_exact(&mut [0; 1_000]).await?;
        drop(stream);

        let nobody = near.connect(&Destination::parse("web.example:9")?).await;
        assert!(
            io::Error::from(nobody.err().ok_or("nobody listens")?).kind() == io::ErrorKind::ConnectionRefused
        );
        Ok(())
    })?;
    let (by_reset, by_drop) = stage.server.block_on(served)??;
    assert_eq!(by_reset, Err(io::ErrorKind::ConnectionReset));
    let is_gone = matches!(
        by_drop,
        Err(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    );
    assert!(is_gone, "{by_drop:?}");
    Ok(())
}

pub(crate) fn a_session_that_ended_is_opened_again() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["public:80"], limits())?;
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind(("0.0.0.0", 80))))??;
    stage.server.spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            peer.write_all(b"hello").await?;
        }
        Ok::<_, io::Error>(())
    });
    let near = stage.near()?;
    stage.as_client(async move {
        let web = Destination::parse("web.example:80")?;
        let greeted = async || -> TestResult<u32> {
            let mut hello = String::new();
            near.connect(&web).await?.read_to_string(&mut hello).await?;
            assert_eq!(hello, "hello");
            Ok(0)
        };
        greeted().await?;
        let first = near.session().await.ok_or("a session")?;
        greeted().await?;
        assert!(!first.is_closed(), "it was used again");
        near.close().await?;
        assert!(first.is_closed());
        greeted().await?;
        // The session was closed without the knowledge of `near`.
        let second = near.session().await.ok_or("a session")?;
        let _ = second.close(9).await;
        greeted().await?;
        Ok(())
    })?;
    let accepted = stage
        .events()
        .iter()
        .filter(|event| event.starts_with("Accepted"))
        .count();
    assert_eq!(accepted, 3, "{:?}", stage.events());
    Ok(())
}
