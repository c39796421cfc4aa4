//! Connections begin and end, and report both in order.

use std::time::Duration;

use hawser_connect::Racer;
use hawser_connect::taps::{
    ConnectionEnded, ConnectionError, ConnectionEvent, ConnectionState, EstablishmentError, Preconnection,
    Property, ReceiveError, ReceivedMessage, RemoteEndpoint, SecurityParameters, SendError,
};
use hawser_testing::swallow_at_localhost;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::{framed, pair, rest, words};

#[tokio::test]
async fn messages_go_in_both_directions_until_it_is_closed() {
    let (mut client, mut server, _listener) = pair(&framed()).await;
    assert_eq!(client.next_event().await, Some(ConnectionEvent::Ready));
    client.send("one").await.expect("it is open");
    client.send("two").await.expect("it is open");
    for expected in ["one", "two"] {
        let received = server.receive().await.expect("a message");
        assert!(matches!(received, ReceivedMessage::Complete { .. }));
        assert_eq!(received.data(), expected);
        server.send(received.data().clone()).await.expect("it is open");
        assert_eq!(client.receive().await.expect("an echo").data(), expected);
    }
    client.close();
    assert_eq!(words(&rest(&mut client).await), ["Sent", "Sent", "Closed"]);
    assert_eq!(client.state(), ConnectionState::Closed);
    assert_eq!(server.receive().await, Err(ReceiveError::Finished));
    server.close();
    assert_eq!(words(&rest(&mut server).await), ["Sent", "Sent", "Closed"]);
}

/// Peers of another implementation: plain TCP in both directions.
#[tokio::test]
async fn a_plain_server_of_tcp_is_spoken_with() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let there = RemoteEndpoint::from(listener.local_addr().expect("its address"));
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("all of it");
        stream.write_all(&all).await.expect("it is taken");
    });
    let wanted = Preconnection::new(SecurityParameters::disabled())
        .with_sent_events()
        .with_remote(there);
    let mut client = wanted.initiate().expect("a connection");
    let mut last = hawser_connect::taps::MessageContext::new();
    last.add(Property::Final, true).expect("a message property");
    client.send("hello ").await.expect("it is open");
    client.send_with("world", &last).await.expect("it is open");
    let mut all = Vec::new();
    loop {
        let received = client.receive().await.expect("a part");
        all.extend_from_slice(received.data());
        if received.is_end_of_message() {
            assert!(received.context().is_final());
            break;
        }
    }
    assert_eq!(all, b"hello world");
    assert_eq!(
        words(&rest(&mut client).await),
        ["Ready", "Sent", "Sent", "Closed"],
        "both sides have ended"
    );
    echo.await.expect("the server is done");
}

#[tokio::test]
async fn an_abort_ends_both_ends_at_once() {
    let (mut client, mut server, _listener) = pair(&framed()).await;
    client.abort();
    let events = rest(&mut client).await;
    assert_eq!(
        events.last(),
        Some(&ConnectionEvent::ConnectionError(ConnectionError::LocalAbort))
    );
    assert!(matches!(
        server.receive().await,
        Err(ReceiveError::Ended(ConnectionEnded::Connection(_)))
    ));
    assert_eq!(words(&rest(&mut server).await), ["ConnectionError"]);
}

#[tokio::test]
async fn a_refused_connection_ends_with_an_establishment_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = RemoteEndpoint::from(listener.local_addr().expect("its address"));
    drop(listener);
    let wanted = framed().with_remote(there);
    let mut client = wanted.initiate().expect("nothing contradicts itself");
    client.send("lost").await.expect("it may be given before");
    let events = rest(&mut client).await;
    assert_eq!(words(&events), ["SendError", "EstablishmentError"]);
    let Some(ConnectionEvent::EstablishmentError(EstablishmentError::Unreachable { failure, .. })) =
        events.last()
    else {
        panic!("{events:?}")
    };
    assert_eq!(*failure, hawser_race::Failure::Refused);
    let ended = client.send("late").await.expect_err("it has ended");
    assert!(
        matches!(&ended, ConnectionEnded::Establishment(EstablishmentError::Unreachable { failure, .. })
            if *failure == hawser_race::Failure::Refused),
        "{ended:?}"
    );
    assert_eq!(client.established().await, Err(ended));
    let mut first = wanted
        .initiate_with_send("first", &Default::default(), None)
        .expect("it is begun");
    assert_eq!(
        words(&rest(&mut first).await),
        ["EstablishmentError"],
        "RFC 9622, 9.2.5"
    );
}

#[tokio::test]
async fn contradictions_fail_early() {
    let there = RemoteEndpoint::new()
        .with_ip_address([192, 0, 2, 1])
        .with_port(80);
    let fails = |name: &str, value: &str| {
        let mut wanted = Preconnection::new(SecurityParameters::disabled()).with_remote(there.clone());
        wanted
            .properties_mut()
            .set_by_name(name, value)
            .expect("a property");
        wanted.initiate().err()
    };
    for (name, value) in [
        ("reliability", "prohibit"),
        ("preserveMsgBoundaries", "require"),
        ("perMsgReliability", "require"),
        ("congestionControl", "prohibit"),
        ("zeroRttMsg", "require"),
        ("multistreaming", "require"),
        ("softErrorNotify", "require"),
        ("pvd", "office=require"),
    ] {
        let error = fails(name, value).unwrap_or_else(|| panic!("{name} {value}"));
        assert!(error.to_string().contains(name), "{error}");
    }
    let wanted = Preconnection::new(SecurityParameters::disabled());
    assert!(
        matches!(wanted.initiate(), Err(EstablishmentError::Endpoint(_))),
        "no remote endpoint"
    );
    let group = RemoteEndpoint::new()
        .with_ip_address([224, 0, 0, 1])
        .with_port(80);
    assert!(wanted.clone().with_remote(group).initiate().is_err(), "multicast");
    assert!(
        wanted
            .clone()
            .with_remote(RemoteEndpoint::new().with_port(1))
            .initiate()
            .is_err(),
        "no host"
    );
}

#[tokio::test]
async fn a_changed_preconnection_changes_no_connection() {
    let mut wanted = framed();
    let (client, mut server, _listener) = pair(&wanted).await;
    wanted
        .set_property(Property::ConnPriority, 7u64)
        .expect("a priority");
    wanted
        .set_property(Property::Direction, "Unidirectional receive")
        .expect("a direction");
    let properties = client.properties();
    assert_eq!(properties.get(Property::ConnPriority), Some(&100u64.into()));
    client.send("still").await.expect("it is open");
    assert_eq!(server.receive().await.expect("a message").data(), "still");
}

#[tokio::test]
async fn a_dropped_connection_delivers_its_sent_data() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let message = vec![7u8; 900_000];
    client.send(message.clone()).await.expect("it is open");
    drop(client);
    assert!(*server.receive().await.expect("a message").data() == message);
    assert_eq!(server.receive().await, Err(ReceiveError::Finished));
}

#[tokio::test]
async fn sending_after_close_fails() {
    let (mut client, _server, _listener) = pair(&framed()).await;
    client.close();
    // The Connection is closing, or closed already: in either case the failure is reported.
    if client.send("late").await.is_ok() {
        let events = rest(&mut client).await;
        assert!(events.iter().any(|event| matches!(
            event,
            ConnectionEvent::SendError { why: SendError::Closing | SendError::Ended(_), .. }
        )));
        assert_eq!(events.last(), Some(&ConnectionEvent::Closed));
    }
    rest(&mut client).await;
    assert_eq!(client.send("later").await, Err(ConnectionEnded::Closed));
    assert_eq!(client.next_event().await, None, "nothing after Closed");
}

#[tokio::test]
async fn a_property_that_no_transport_provides_is_refused() {
    let mut wanted = framed().with_remote(RemoteEndpoint::new().with_ip_address([192, 0, 2, 1]).with_port(1));
    wanted
        .properties_mut()
        .require(Property::UseTemporaryLocalAddress)
        .expect("a preference");
    let error = wanted.initiate().err().expect("it cannot be promised");
    assert!(error.to_string().contains("useTemporaryLocalAddress"), "{error}");
}

/// RFC 9623, 4: after a failure the next endpoint is tried at once.
#[tokio::test]
async fn the_next_endpoint_follows_a_dead_one() {
    let mut listener = framed()
        .with_local(crate::here())
        .listen()
        .await
        .expect("a listener");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead = closed.local_addr().expect("its address");
    drop(closed);
    let mut wanted = framed().with_remote(dead);
    wanted.add_remote(listener.addresses()[0]);
    let began = std::time::Instant::now();
    let client = wanted.initiate().expect("a connection");
    client.established().await.expect("the second one is there");
    assert_eq!(client.endpoints().1, Some(listener.addresses()[0]));
    assert!(
        began.elapsed() < std::time::Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert!(listener.accept().await.is_some());
}

#[tokio::test]
async fn an_endpoint_may_be_for_one_protocol() {
    let listener = framed()
        .with_local(crate::here())
        .listen()
        .await
        .expect("a listener");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let of = |protocol: &str| framed().with_remote(there.clone().with_protocol(protocol));
    of("tcp")
        .initiate()
        .expect("a connection")
        .established()
        .await
        .expect("it is established");
    let mut none = of("quic").initiate().expect("a connection");
    assert_eq!(words(&rest(&mut none).await), ["EstablishmentError"]);
}

#[tokio::test]
async fn an_isolated_connection_shares_no_session() {
    let wanted = framed();
    let (_first, _server, listener) = pair(&wanted).await;
    let mut wanted = wanted.with_remote(listener.addresses()[0]);
    wanted
        .set_property(Property::IsolateSession, true)
        .expect("a boolean");
    let client = wanted.initiate().expect("a connection");
    client.established().await.expect("it is established");
    assert!(client.properties().has(Property::IsolateSession));
}

#[tokio::test]
async fn the_first_message_goes_with_it() {
    let mut listener = framed()
        .with_local(crate::here())
        .listen()
        .await
        .expect("a listener");
    let wanted = framed().with_remote(listener.addresses()[0]);
    let mut client = wanted
        .initiate_with_send("first", &Default::default(), None)
        .expect("a connection");
    let mut server = listener.accept().await.expect("a connection");
    assert_eq!(server.receive().await.expect("a message").data(), "first");
    assert_eq!(client.next_event().await, Some(ConnectionEvent::Ready));
    assert!(matches!(
        client.next_event().await,
        Some(ConnectionEvent::Sent { .. })
    ));
}

#[tokio::test]
async fn endpoints_are_resolved() {
    let mut wanted = framed().with_remote(RemoteEndpoint::new().with_host_name("localhost").with_port(7));
    wanted.add_local(crate::here());
    let (locals, remotes) = wanted.resolve().await.expect("localhost has addresses");
    assert!(
        locals
            .iter()
            .all(|local| local.ip_address() == Some([127, 0, 0, 1].into())),
        "{locals:?}"
    );
    assert_eq!(locals.first().and_then(|local| local.interface()), Some("lo"));
    assert!(
        remotes
            .iter()
            .all(|remote| remote.ip_address().is_some_and(|address| address.is_loopback()))
    );
    assert!(!remotes.is_empty() && remotes.iter().all(|remote| remote.port() == Ok(7)));
}

/// Data that arrives at once is handed over only after Ready was reported.
#[tokio::test]
async fn data_is_delivered_only_after_ready() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let there = RemoteEndpoint::from(listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(b"early").await.expect("it is taken");
        stream.read_to_end(&mut Vec::new()).await.expect("the end");
    });
    let wanted = Preconnection::new(SecurityParameters::disabled()).with_remote(there);
    let (_sender, mut receiver, mut events) = wanted.initiate().expect("a connection").split();
    assert_eq!(receiver.receive().await.expect("bytes").data(), "early");
    let first = tokio::time::timeout(std::time::Duration::ZERO, events.next_event()).await;
    assert_eq!(first, Ok(Some(ConnectionEvent::Ready)), "it was there before");
}

/// Closing may take as long as delivery makes progress.
#[tokio::test]
async fn slow_delivery_is_no_timeout() {
    let mut wanted = framed();
    wanted
        .set_property(Property::ConnTimeout, std::time::Duration::from_millis(250))
        .expect("a time");
    wanted
        .set_property(Property::MaxSendRate, 4_000_000u64)
        .expect("a rate");
    let (mut client, mut server, _listener) = pair(&wanted).await;
    client.send(vec![7; 300_000]).await.expect("it is open");
    client.close();
    assert_eq!(server.receive().await.expect("a message").data().len(), 300_000);
    assert_eq!(words(&rest(&mut client).await), ["Ready", "Sent", "Closed"]);
}

/// Both addresses of a name complete handshakes. The preferred one takes data and never answers. The first
/// Connection receives no data, and the second uses the other address.
#[tokio::test]
async fn an_endpoint_that_swallows_data_is_not_preferred_again() {
    let port = swallow_at_localhost(|stream| {
        let mut first = [0];
        std::io::Read::read_exact(stream, &mut first).expect("a byte");
        std::io::Write::write_all(stream, &first).expect("it is taken");
    });
    let port = port.expect("both addresses");
    let there = RemoteEndpoint::new().with_host_name("localhost").with_port(port);
    let wanted = Preconnection::new(SecurityParameters::disabled())
        .with_racer(Racer::open().await.expect("a racer"))
        .with_remote(there);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut client = wanted.initiate().expect("a connection");
        client.send("x").await.expect("it is open");
        let answer = timeout(Duration::from_millis(2_500), client.receive_within(1, 1)).await;
        answers.push(answer.is_ok_and(|received| received.is_ok()));
        client.abort();
    }
    assert_eq!(answers, [false, true]);
}
