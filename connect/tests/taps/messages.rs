//! Messages: their events, their order, their parts.

use std::time::Duration;

use hawser_connect::taps::{
    Connection, ConnectionEvent, LengthPrefix, MessageContext, Preconnection, Property, ReceiveError,
    ReceivedMessage, SecurityParameters, SendError,
};

use crate::{framed, pair, plain, rest, words};

fn with(property: Property, value: impl Into<hawser_connect::taps::PropertyValue>) -> MessageContext {
    let mut context = MessageContext::new();
    context.add(property, value).expect("a message property");
    context
}

/// Returns the Sends of the events, with the kind of each event.
fn outcomes(events: &[ConnectionEvent]) -> Vec<(hawser_connect::taps::SendId, &'static str)> {
    let of = |event: &ConnectionEvent| match event {
        ConnectionEvent::Sent { send, .. } => Some((*send, "Sent")),
        ConnectionEvent::Expired { send, .. } => Some((*send, "Expired")),
        ConnectionEvent::SendError { send, .. } => Some((*send, "SendError")),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test]
async fn each_send_has_one_outcome_in_order() {
    let (mut client, mut server, _listener) = pair(&framed()).await;
    let reader = tokio::spawn(async move { while server.receive().await.is_ok() {} });
    client.sender().start_batch();
    let mut sent = Vec::new();
    for count in 0..300u32 {
        let context = match count % 7 {
            // Contradicts the Connection's reliability.
            3 => with(Property::MsgReliable, false),
            5 => with(Property::MsgLifetime, Duration::from_nanos(1)),
            _ => MessageContext::new(),
        };
        let expected = match count % 7 {
            3 => "SendError",
            5 => "Expired",
            _ => "Sent",
        };
        let id = client
            .send_with(vec![7; 1_000], &context)
            .await
            .expect("it is open");
        sent.push((id, expected));
    }
    client.sender().end_batch();
    client.close();
    let events = rest(&mut client).await;
    assert_eq!(outcomes(&events), sent);
    assert_eq!(events.last(), Some(&ConnectionEvent::Closed));
    reader.await.expect("the reader is done");
}

#[tokio::test]
async fn a_send_after_the_final_message_fails() {
    let (mut client, mut server, _listener) = pair(&framed()).await;
    client
        .send_with("last", &with(Property::Final, true))
        .await
        .expect("it is open");
    let late = client.send("late").await.expect("it is open");
    assert!(!client.properties().has(Property::CanSend));
    assert_eq!(server.receive().await.expect("a message").data(), "last");
    assert_eq!(server.receive().await, Err(ReceiveError::Finished));
    server.send("answer").await.expect("the other direction is open");
    assert_eq!(client.receive().await.expect("a message").data(), "answer");
    client.close();
    let events = rest(&mut client).await;
    assert_eq!(words(&events), ["Ready", "Sent", "SendError", "Closed"]);
    assert!(events.iter().any(
        |event| matches!(event, ConnectionEvent::SendError { send, why: SendError::AfterFinal, .. } if *send == late)
    ));
}

#[tokio::test]
async fn parts_make_one_message() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let (context, other) = (MessageContext::new(), MessageContext::new());
    client
        .send_part("hel", &context, false)
        .await
        .expect("it is open");
    client.send_with("other", &other).await.expect("it is open");
    client.send_part("lo", &context, true).await.expect("it is open");
    for expected in ["hello", "other"] {
        assert_eq!(server.receive().await.expect("a message").data(), expected);
    }
}

/// A message that was begun before the final one is finished.
#[tokio::test]
async fn a_message_begun_before_the_final_one_is_finished() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let context = MessageContext::new();
    client
        .send_part("hel", &context, false)
        .await
        .expect("it is open");
    client
        .send_with("last", &with(Property::Final, true))
        .await
        .expect("it is open");
    client.send_part("lo", &context, true).await.expect("it is open");
    for expected in ["hello", "last"] {
        assert_eq!(server.receive().await.expect("a message").data(), expected);
    }
    assert_eq!(server.receive().await, Err(ReceiveError::Finished));
}

/// No part of a refused message is sent, whenever it is given.
#[tokio::test]
async fn the_rest_of_a_refused_message_is_refused() {
    let short = Preconnection::new(SecurityParameters::disabled())
        .with_framer(LengthPrefix::new(10))
        .with_sent_events();
    let (mut client, mut server, _listener) = pair(&short).await;
    assert_eq!(client.next_event().await, Some(ConnectionEvent::Ready));
    let context = MessageContext::new();
    for is_refused in [false, true] {
        client
            .send_part("12345678", &context, false)
            .await
            .expect("it is open");
        let event = client.next_event().await.expect("an outcome");
        assert_eq!(
            matches!(event, ConnectionEvent::SendError { .. }),
            is_refused,
            "{event:?}"
        );
    }
    client.send_part("9.", &context, true).await.expect("it is open");
    assert!(matches!(
        client.next_event().await,
        Some(ConnectionEvent::SendError { .. })
    ));
    client.send("next").await.expect("it is open");
    assert_eq!(server.receive().await.expect("a message").data(), "next");
}

/// RFC 9622, 9.3.2.2.
#[tokio::test]
async fn long_messages_are_received_in_parts() {
    let (client, mut server, _listener) = pair(&framed()).await;
    client.send(vec![7; 1_500]).await.expect("it is open");
    client.send("next").await.expect("it is open");
    let mut lengths = Vec::new();
    let mut contexts = Vec::new();
    loop {
        let received = server.receive_within(1_000, 1_000).await.expect("a part");
        assert!(matches!(received, ReceivedMessage::Partial { .. }));
        lengths.push(received.data().len());
        contexts.push(received.context().id());
        if received.is_end_of_message() {
            break;
        }
    }
    assert_eq!(lengths, [1_000, 500]);
    assert_eq!(contexts[0], contexts[1]);
    assert!(matches!(
        server.receive().await,
        Ok(ReceivedMessage::Complete { .. })
    ));
}

#[tokio::test]
async fn a_cancelled_receive_loses_no_message() {
    let (client, mut server, _listener) = pair(&framed()).await;
    for _ in 0..3 {
        assert!(
            tokio::time::timeout(Duration::from_millis(5), server.receive())
                .await
                .is_err()
        );
    }
    client.send("whole").await.expect("it is open");
    assert_eq!(server.receive().await.expect("a message").data(), "whole");
}

async fn fill(client: &Connection) -> usize {
    let mut count = 0;
    while let Ok(result) =
        tokio::time::timeout(Duration::from_millis(200), client.send(vec![7; 100_000])).await
    {
        result.expect("it is open");
        count += 1;
        assert!(count < 1_000, "nothing holds the sender back");
    }
    count
}

#[tokio::test]
async fn a_slow_receiver_holds_the_sender_back() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let count = fill(&client).await;
    for _ in 0..count {
        assert_eq!(server.receive().await.expect("a message").data().len(), 100_000);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(50), server.receive())
            .await
            .is_err()
    );
}

/// Messages that do not fit are sent before the batch ends.
#[tokio::test]
async fn a_batch_may_be_longer_than_there_is_room() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let reader = tokio::spawn(async move { while server.receive().await.is_ok() {} });
    client.sender().start_batch();
    for _ in 0..30 {
        let sent = tokio::time::timeout(Duration::from_secs(5), client.send(vec![7; 100_000])).await;
        sent.expect("there is room again").expect("it is open");
    }
    drop(client);
    reader.await.expect("the reader is done");
}

/// Ten times as many messages as outcomes are kept, and no event is ever taken.
#[tokio::test]
async fn sends_without_sent_events_never_wait_for_events_to_be_taken() {
    let (mut client, mut server, _listener) = pair(&plain()).await;
    let reader = tokio::spawn(async move {
        let mut count = 0;
        while server.receive().await.is_ok() {
            count += 1;
        }
        count
    });
    let all = async {
        for _ in 0..10_240 {
            client.send("x").await.expect("it is open");
        }
        // Refusals are events in any case, and they do not block the sender either.
        for _ in 0..10_240 {
            client
                .send_with("x", &with(Property::MsgReliable, false))
                .await
                .expect("it is open");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .expect("no send waits for ever");
    client.close();
    // All Sends have been handled before the first event is taken.
    assert_eq!(reader.await.expect("the reader is done"), 10_240);
    let events = rest(&mut client).await;
    let reported = words(&events);
    assert_eq!(
        (reported.first(), reported.last()),
        (Some(&"Ready"), Some(&"Closed"))
    );
    let failures = reported.iter().filter(|word| **word == "SendError").count();
    assert_eq!(failures, 1_024, "the oldest of those that nobody took");
    assert_eq!(reported.len(), failures + 2);
}

#[tokio::test]
async fn unread_outcomes_block_the_sender() {
    let (mut client, mut server, _listener) = pair(&framed()).await;
    let reader = tokio::spawn(async move { while server.receive().await.is_ok() {} });
    for _ in 0..1_024 {
        client.send("x").await.expect("it is open");
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(100), client.send("x"))
            .await
            .is_err()
    );
    while client.next_event().await != Some(ConnectionEvent::Ready) {}
    client.next_event().await.expect("an outcome");
    client.send("x").await.expect("there is room");
    drop(client);
    reader.await.expect("the reader is done");
}

#[tokio::test]
async fn acceptance_and_acknowledgement_of_a_message_are_two_events() {
    let (client, mut server, _listener) = pair(&framed()).await;
    client.send("x").await.expect("it is open");
    assert_eq!(client.sender().acked().await, Ok(true));
    // More data than the kernels buffer is accepted up to that limit, and not acknowledged.
    let count = fill(&client).await;
    let asked = tokio::time::timeout(Duration::from_millis(100), client.sender().acked()).await;
    assert!(asked.is_err(), "nobody has read it");
    for _ in 0..=count {
        server.receive().await.expect("a message");
    }
    assert_eq!(client.sender().acked().await, Ok(true));
}

#[tokio::test]
async fn a_one_way_connection_refuses_the_other_direction() {
    let mut wanted = framed();
    wanted
        .set_property(Property::Direction, "unidirectional send")
        .expect("a direction");
    let (mut client, _server, _listener) = pair(&wanted).await;
    assert_eq!(client.receive().await, Err(ReceiveError::SendsOnly));
    let properties = client.properties();
    assert!(properties.has(Property::CanSend) && !properties.has(Property::CanReceive));
}

#[tokio::test]
async fn a_connection_is_a_stream_of_bytes_as_well() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let wanted = Preconnection::new(SecurityParameters::disabled());
    let (client, server, _listener) = pair(&wanted).await;
    let (sender, receiver, mut events) = client.split();
    let data: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
    let (mut writer, mut reader) = (sender.into_writer(), receiver.into_reader());
    let echo = tokio::spawn(async move {
        let (sender, receiver, _events) = server.split();
        let (mut reader, mut writer) = (receiver.into_reader(), sender.into_writer());
        tokio::io::copy(&mut reader, &mut writer)
            .await
            .expect("it is copied");
        writer.shutdown().await.expect("it ends");
    });
    let sent = data.clone();
    tokio::spawn(async move {
        writer.write_all(&sent).await.expect("it is taken");
        writer.shutdown().await.expect("it ends");
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await.expect("all of it");
    assert!(back == data, "{} bytes", back.len());
    echo.await.expect("the server is done");
    assert_eq!(events.next_event().await, Some(ConnectionEvent::Ready));
    assert_eq!(
        events.next_event().await,
        Some(ConnectionEvent::Closed),
        "bytes have no outcomes"
    );
}

#[tokio::test]
async fn a_rate_is_not_exceeded() {
    let mut wanted = framed();
    wanted
        .set_property(Property::MaxSendRate, 4_000_000u64)
        .expect("a rate");
    let (client, mut server, _listener) = pair(&wanted).await;
    let began = std::time::Instant::now();
    client.send(vec![7; 250_000]).await.expect("it is open");
    server.receive().await.expect("a message");
    let took = began.elapsed().as_secs_f64();
    assert!((0.4..1.5).contains(&took), "2 Mbit at 4 Mbit/s in {took} s");
}

/// A sender that writes a valid length, and fewer bytes than that.
#[tokio::test]
async fn a_message_that_is_cut_short_is_an_error() {
    use tokio::io::AsyncWriteExt;
    let mut listener = framed()
        .with_local(crate::here())
        .listen()
        .await
        .expect("a listener");
    for (bytes, is_framing) in [(&b"\0\0\0\x05hel"[..], false), (b"\xff\xff\xff\xffhello", true)] {
        let mut client = tokio::net::TcpStream::connect(listener.addresses()[0])
            .await
            .expect("it is taken");
        client.write_all(bytes).await.expect("it is taken");
        client.shutdown().await.expect("it ends");
        let mut server = listener.accept().await.expect("a connection");
        match server.receive().await {
            Err(ReceiveError::Framing(_)) if is_framing => {
                assert_eq!(words(&rest(&mut server).await), ["ConnectionError"]);
            }
            Err(ReceiveError::Truncated) if !is_framing => {}
            other => panic!("{other:?}"),
        }
    }
}
