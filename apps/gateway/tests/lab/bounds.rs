//! Clients that demand more than their share.

use std::io;
use std::time::{Duration, Instant};

use hawser::session::relay::wire::Greeting;
use hawser::session::relay::{ClientError, Destination, Gateway, Reply};
use hawser::session::{SessionError, StreamError, open};
use hawser_gateway::GatewayLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::TestResult;
use crate::testbed::{SERVER, Testbed, limits};

pub(crate) fn slow_and_oversized_requests_are_closed() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["public"], limits())?;
    let near = stage.near()?;
    stage.as_client(async move {
        // This opens an accepted session, which is then used directly.
        let _ = near.connect(&Destination::parse("127.0.0.1:1")?).await;
        let session = near.session().await.ok_or("a session")?;
        let began = Instant::now();
        let mut slow = session.open()?;
        let drip = async {
            for byte in b"\x01\x03\xff".iter().chain(std::iter::repeat_n(&b'a', 255)) {
                slow.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok::<_, io::Error>(())
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), drip).await;
        assert_eq!(slow.read_u8().await?, Reply::Failure.code());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());

        // A name of the maximum length of its length byte, followed by 10 MB of data that must not be read.
        let mut long = session.open()?;
        long.write_all(&[1, 3, 255]).await?;
        let flood = async {
            for _ in 0..10 {
                long.write_all(&vec![b'a'; 1 << 20]).await?;
            }
            Ok::<_, io::Error>(())
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), flood).await;
        assert_eq!(long.read_u8().await?, Reply::Failure.code());
        // The session is still open.
        assert!(!session.is_closed());
        let denied = near.connect(&Destination::parse("127.0.0.1:1")?).await;
        assert!(matches!(denied, Err(ClientError::Denied(Reply::NotAllowed))));
        Ok(())
    })
}

pub(crate) fn a_client_that_was_killed_makes_room_for_its_next_session() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["public"], GatewayLimits { sessions_per_client: 2, ..limits() })?;
    for _ in 0..2 {
        let (document, token) = (stage.document()?, stage.token.clone());
        let process = stage.another_client()?;
        let opened =
            process.spawn(async move { Gateway::open(document, token).await.map(|(gateway, _)| gateway) });
        // The gateway is leaked, so that it dies with its process and closes no session.
        std::mem::forget(process.block_on(opened)??);
        process.shutdown_background();
    }
    // An idle path is noticed after its keep-alive of 15 s, but a session is kept for 300 s.
    let began = Instant::now();
    loop {
        let (document, token) = (stage.document()?, stage.token.clone());
        let opened = stage.as_client(async move { Ok(Gateway::open(document, token).await.map(drop)) })?;
        if opened.is_ok() {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "{opened:?}; {:?}",
            stage.events()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("  a place after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn a_client_with_a_million_streams_is_limited() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(
        &["public"],
        GatewayLimits {
            streams_per_client: 100,
            request_timeout: Duration::from_secs(4),
            ..limits()
        },
    )?;
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind((SERVER, 80))))??;
    stage.server.spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut peer, _)) = listener.accept().await {
            peer.write_all(b"!").await?;
            kept.push(peer);
        }
        Ok::<_, io::Error>(())
    });
    let (document, token, near) = (stage.document()?, stage.token.clone(), stage.near()?);
    stage.as_client(async move {
        let (session, _) = open(&document).await?;
        session.opened().await?;
        let mut first = session.open()?;
        first.write_all(&Greeting { token }.encode()).await?;
        assert_eq!(first.read_u8().await?, 0);
        drop(first);
        let mut streams = Vec::new();
        for _ in 0..1_000_000 {
            match session.open() {
                Ok(stream) => streams.push(stream),
                Err(error) => {
                    assert!(
                        matches!(error, SessionError::Stream(StreamError::Limit(_))),
                        "{error}"
                    );
                    break;
                }
            }
        }
        println!("  {} streams at once", streams.len());
        assert!(streams.len() <= 512);
        // All streams send a first byte. As many as one client may have are kept waiting, and the others are
        // refused at once.
        for stream in &mut streams {
            stream.write_all(&[1]).await?;
        }
        let mut refused = 0;
        for stream in streams.iter_mut().skip(100) {
            let answer = tokio::time::timeout(Duration::from_secs(3), stream.read_u8()).await??;
            assert_eq!(answer, Reply::Failure.code());
            refused += 1;
        }
        println!("  {refused} refused");
        assert!(refused > 100);
        // Their places are released when they have gone.
        drop(streams);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut stream = near
            .connect(&Destination::parse(&format!("{SERVER}:80"))?)
            .await?;
        assert_eq!(stream.read_u8().await?, b'!');
        Ok(())
    })
}
