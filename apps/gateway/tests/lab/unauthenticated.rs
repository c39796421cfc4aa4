//! Sessions that do not authenticate get no service and do not obstruct others.

use std::time::{Duration, Instant};

use hawser::session::relay::wire::{ACCEPTED, Greeting, REFUSED, Request};
use hawser::session::relay::{ClientError, Destination, Gateway, Token};
use hawser::session::{Session, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use hawser_gateway::GatewayLimits;

use crate::TestResult;
use crate::testbed::{Testbed, limits};

/// Waits for the end of a session.
async fn ended(session: &Session) -> TestResult {
    let end = async { while session.next_event().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(8), end)
        .await
        .map_err(|_| "the session was not closed")?;
    assert!(session.is_closed());
    Ok(())
}

pub(crate) fn sessions_are_refused() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["public"], limits())?;
    let (document, token) = (stage.document()?, stage.token.clone());
    stage.as_client(async move {
        // A wrong token.
        let wrong = Gateway::open(document.clone(), Token::generate()?).await;
        assert!(matches!(wrong, Err(ClientError::Unauthenticated)));
        // A session without a greeting, and one with an incomplete greeting.
        let (idle, _) = open(&document).await?;
        let (slow, _) = open(&document).await?;
        let mut half = slow.open()?;
        half.write_all(&Greeting { token: token.clone() }.encode()[..32])
            .await?;
        idle.opened().await?;
        let began = Instant::now();
        ended(&idle).await?;
        ended(&slow).await?;
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        // An unsupported version with a valid token.
        let (session, _) = open(&document).await?;
        let mut bytes = Greeting { token: token.clone() }.encode();
        bytes[0] = 2;
        let mut first = session.open()?;
        first.write_all(&bytes).await?;
        assert_eq!(first.read_u8().await?, REFUSED);
        ended(&session).await?;
        // A correct session succeeds.
        Gateway::open(document, token).await?;
        Ok(())
    })?;
    stage.expect_event("no client has this token")?;
    stage.expect_event("in time")?;
    stage.expect_event("version 2")
}

pub(crate) fn requests_are_served_only_after_the_session_is_accepted() -> TestResult {
    let mut stage = Testbed::up(&[])?;
    stage.serve(&["public"], limits())?;
    let listener = stage
        .server
        .block_on(stage.server.spawn(TcpListener::bind(("0.0.0.0", 80))))??;
    let visitors = stage.server.spawn(async move {
        let mut count = 0;
        while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_secs(6), listener.accept()).await {
            count += 1;
        }
        count
    });
    let (document, token) = (stage.document()?, stage.token.clone());
    let request = Request { destination: Destination::parse("web.example:80")? }.encode();
    stage.as_client(async move {
        // A request instead of a greeting.
        let (session, _) = open(&document).await?;
        let mut first = session.open()?;
        first.write_all(&request).await?;
        first.shutdown().await?;
        assert_eq!(first.read_u8().await?, REFUSED);
        ended(&session).await?;
        // Streams with requests are reset when the greeting is refused.
        let (session, _) = open(&document).await?;
        let (mut first, mut second) = (session.open()?, session.open()?);
        second.write_all(&request).await?;
        first
            .write_all(&Greeting { token: Token::generate()? }.encode())
            .await?;
        assert!(second.read_u8().await.is_err(), "it was given up");
        ended(&session).await?;
        // Requests that wait for the session to be accepted are then served. Those beyond the limit are
        // reset.
        let (session, _) = open(&document).await?;
        let mut first = session.open()?;
        let mut others = Vec::new();
        for _ in 0..18 {
            let mut stream = session.open()?;
            stream.write_all(&request).await?;
            others.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        first.write_all(&Greeting { token }.encode()).await?;
        assert_eq!(first.read_u8().await?, ACCEPTED);
        let mut served = Vec::new();
        for stream in &mut others {
            served.push(stream.read_u8().await.is_ok_and(|answer| answer == 0));
        }
        assert_eq!(served, [[true; 16].as_slice(), &[false; 2]].concat());
        Ok(())
    })?;
    assert_eq!(stage.server.block_on(visitors)?, 16);
    Ok(())
}

/// 17 silent sessions per second come from the client's own network, while the client opens a session every
/// half second. With 5 s for a greeting, the silent ones would hold 85 places, but there are 64.
pub(crate) fn sessions_do_not_lock_out_the_holders_of_tokens() -> TestResult {
    const FOR: Duration = Duration::from_secs(10);
    let mut stage = Testbed::up(&[])?;
    stage.serve(
        &["public"],
        GatewayLimits { request_timeout: Duration::from_secs(5), ..limits() },
    )?;
    let (document, token) = (stage.document()?, stage.token.clone());
    let anonymous = stage.document()?;
    let attacker = stage.another_client()?;
    let attack = attacker.spawn(async move {
        let mut sessions = Vec::new();
        let mut pace = tokio::time::interval(Duration::from_secs(1) / 17);
        let began = Instant::now();
        while began.elapsed() < FOR {
            pace.tick().await;
            sessions.extend(open(&anonymous).await.ok());
        }
        sessions.len()
    });
    let opened = stage.as_client(async move {
        // By then the attack has begun and filled the places.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let mut took = Vec::new();
        for _ in 0..10 {
            let began = Instant::now();
            let opened = Gateway::open(document.clone(), token.clone()).await;
            let (gateway, _) = opened.map_err(|error| format!("after {} others: {error}", took.len()))?;
            took.push(began.elapsed());
            let _ = gateway.close().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        took.sort();
        Ok(took)
    })?;
    let sessions = attacker.block_on(attack)?;
    attacker.shutdown_background();
    println!(
        "  beside {sessions} anonymous sessions: median {:?}, longest {:?}",
        opened[5], opened[9]
    );
    assert!(sessions > 100, "{sessions} sessions in {FOR:?}");
    assert!(opened[9] < Duration::from_secs(3), "{opened:?}");
    Ok(())
}
