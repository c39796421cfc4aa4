//! Groups: clones, shared state, and their ends.

use std::time::Duration;

use hawser_connect::taps::{
    CloneError, Connection, ConnectionError, ConnectionEvent, Property, PropertyError, PropertyValue,
};

use crate::{framed, pair, rest, secured, secured_pair, words};

fn number(connection: &Connection, property: Property) -> Option<PropertyValue> {
    connection.properties().get(property).cloned()
}

/// Over a transport without streams, a clone is a separate transport connection.
#[tokio::test]
async fn a_clone_is_another_connection_where_there_are_no_streams() {
    let (client, _server, mut listener) = pair(&framed()).await;
    let mut clone = client.clone_connection().expect("a clone");
    let mut server = listener.accept().await.expect("its other side");
    assert_eq!(clone.next_event().await, Some(ConnectionEvent::Ready));
    assert_ne!(client.endpoints().0, clone.endpoints().0, "a port of its own");
    clone.send("framed as well").await.expect("it is open");
    assert_eq!(
        server.receive().await.expect("a message").data(),
        "framed as well"
    );
    assert!(client.is_grouped_with(&clone) && client.grouped_connections() == 2);
}

#[tokio::test]
async fn properties_are_shared_except_the_priority() {
    let (client, _server, _listener) = pair(&framed()).await;
    client
        .set_property(Property::ConnPriority, 7u64)
        .expect("a priority");
    let clone = client.clone_connection().expect("a clone");
    clone.established().await.expect("it is established");
    assert_eq!(
        number(&clone, Property::ConnPriority),
        Some(7u64.into()),
        "it is copied"
    );
    clone
        .set_property(Property::ConnPriority, 9u64)
        .expect("a priority");
    assert_eq!(number(&client, Property::ConnPriority), Some(7u64.into()));
    clone.set_property_by_name("CONNTIMEOUT", "5000").expect("a time");
    assert_eq!(
        number(&client, Property::ConnTimeout),
        Some(Duration::from_secs(5).into())
    );
    let profile = "Low Latency/Interactive";
    client
        .set_property(Property::ConnCapacityProfile, profile)
        .expect("a profile");
    assert_eq!(
        number(&clone, Property::ConnCapacityProfile),
        Some(PropertyValue::Word(profile))
    );
}

#[tokio::test]
async fn a_refused_property_has_no_effect() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let set = |name: &str, value: &str| client.set_property_by_name(name, value).err();
    assert!(matches!(
        set("reliability", "avoid"),
        Some(PropertyError::Fixed(_))
    ));
    assert!(matches!(
        set("connState", "Closed"),
        Some(PropertyError::ReadOnly(_))
    ));
    assert!(matches!(set("final", "true"), Some(PropertyError::OfMessages(_))));
    assert!(matches!(
        set("connTimeout", "never"),
        Some(PropertyError::Value { .. })
    ));
    assert!(matches!(
        set("tcp.userTimeoutValue", "5"),
        Some(PropertyError::Transport { .. })
    ));
    assert!(matches!(set("nothing", "1"), Some(PropertyError::Unknown(_))));
    client.send("still there").await.expect("it is open");
    assert_eq!(server.receive().await.expect("a message").data(), "still there");
}

#[tokio::test]
async fn selection_properties_match_the_transport() {
    let (client, _server, _listener) = pair(&framed()).await;
    let properties = client.properties();
    for (name, expected) in [
        ("Reliability", true),
        ("preserveMsgBoundaries", false),
        ("multistreaming", false),
    ] {
        let value = properties.get_by_name(name).expect("a property");
        assert_eq!(value, Some(&PropertyValue::Boolean(expected)), "{name}");
    }
    assert_eq!(
        properties.get(Property::ConnState),
        Some(&PropertyValue::Word("Established"))
    );
    assert_eq!(
        properties.get(Property::RecvMsgMaxLen),
        Some(&PropertyValue::Integer(1 << 20))
    );
}

#[tokio::test]
async fn a_group_is_closed_and_aborted_as_one() {
    let (mut client, _server, _listener) = pair(&framed()).await;
    let mut clone = client.clone_connection().expect("a clone");
    clone.established().await.expect("it is established");
    client.close_group();
    assert_eq!(words(&rest(&mut client).await), ["Ready", "Closed"]);
    assert_eq!(words(&rest(&mut clone).await), ["Ready", "Closed"]);
    assert!(matches!(
        client.clone_connection(),
        Err(CloneError::NotEstablished)
    ));

    let (mut client, _server, _listener) = pair(&framed()).await;
    let mut clone = client.clone_connection().expect("a clone");
    clone.established().await.expect("it is established");
    clone.abort_group();
    for connection in [&mut client, &mut clone] {
        let last = rest(connection).await.pop();
        assert_eq!(
            last,
            Some(ConnectionEvent::ConnectionError(ConnectionError::LocalAbort))
        );
    }
}

#[tokio::test]
async fn aborting_one_leaves_the_others() {
    let (client, mut server, _listener) = pair(&framed()).await;
    let clone = client.clone_connection().expect("a clone");
    clone.established().await.expect("it is established");
    clone.abort();
    client.send("still there").await.expect("it is open");
    assert_eq!(server.receive().await.expect("a message").data(), "still there");
}

/// Over a session, Connections of a group are its streams, in both directions, and the peer sees a group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_the_streams_of_one_session() {
    let (mut has, mut wants) = secured(&[]);
    wants
        .properties_mut()
        .require(Property::Multistreaming)
        .expect("a preference");
    has.set_property(Property::GroupConnLimit, 1u64).expect("a limit");
    let (mut client, mut server, mut listener) = secured_pair((has, wants), "hello").await;
    assert_eq!((client.transport(), server.transport()), ("session", "session"));
    let clone = client.clone_connection().expect("a clone");
    clone
        .send("from another stream")
        .await
        .expect("it may be given before");
    let mut other = listener.accept().await.expect("its other side");
    assert_eq!(
        other.receive().await.expect("a message").data(),
        "from another stream"
    );
    assert!(server.is_grouped_with(&other) && server.grouped_connections() == 2);
    assert_eq!(client.endpoints(), clone.endpoints(), "one transport connection");

    // A Connection beyond groupConnLimit is rejected.
    let mut third = client.clone_connection().expect("it is known only to the peer");
    third.send("one too many").await.expect("it may be given before");
    assert!(third.receive().await.is_err());

    server.send("back").await.expect("it is open");
    assert_eq!(client.receive().await.expect("a message").data(), "back");
    client.close_group();
    assert_eq!(rest(&mut client).await.pop(), Some(ConnectionEvent::Closed));
    assert!(server.receive().await.is_err());
    drop(clone);
}

/// Clones of a peer find the group when all its known Connections have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_survives_the_end_of_all_earlier_connections() {
    let (has, mut wants) = secured(&[]);
    wants
        .properties_mut()
        .require(Property::Multistreaming)
        .expect("a preference");
    let (client, mut server, mut listener) = secured_pair((has, wants), "hello").await;
    server.close();
    assert_eq!(rest(&mut server).await.pop(), Some(ConnectionEvent::Closed));
    let clone = client.clone_connection().expect("a clone");
    clone.send("on its way").await.expect("it may be given before");
    let mut other = listener.accept().await.expect("its other side");
    assert_eq!(other.receive().await.expect("a message").data(), "on its way");
    assert!(server.is_grouped_with(&other));
}

/// With `multipath` Active, a session is used with a peer that supports it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_paths_are_a_session_with_a_peer_of_ours() {
    let (has, mut wants) = secured(&[]);
    wants.set_property(Property::Multipath, "Active").expect("a word");
    wants
        .properties_mut()
        .interface("lo", hawser_connect::taps::Preference::Require);
    let (mut client, server, _listener) = secured_pair((has, wants), "hello").await;
    assert_eq!(client.transport(), "session");
    server.send(vec![7; 900_000]).await.expect("it is open");
    assert_eq!(client.receive().await.expect("a message").data().len(), 900_000);
}

#[tokio::test]
async fn a_listener_takes_as_many_as_its_limit_and_stops() {
    let wanted = framed();
    let (_client, _server, mut listener) = pair(&wanted).await;
    listener.set_new_connection_limit(Some(1));
    let there = listener.addresses()[0];
    let second = wanted
        .clone()
        .with_remote(there)
        .initiate()
        .expect("a connection");
    second.established().await.expect("it is established");
    assert!(listener.accept().await.is_some());
    let third = wanted.with_remote(there).initiate().expect("a connection");
    third.established().await.expect("the kernel has it");
    let late = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(late.is_err(), "the limit is reached");
    listener.set_new_connection_limit(None);
    assert!(listener.accept().await.is_some());
    listener.stop();
    assert!(matches!(
        listener.next_event().await,
        Some(hawser_connect::taps::ListenerEvent::Stopped)
    ));
    assert!(listener.next_event().await.is_none(), "nothing after Stopped");
}

/// RFC 9622, 7.2: a remote endpoint restricts the accepted peers.
#[tokio::test]
async fn a_listener_accepts_only_the_expected_peers() {
    let wanted =
        framed().with_remote(hawser_connect::taps::RemoteEndpoint::new().with_ip_address([127, 0, 0, 2]));
    let mut listener = wanted
        .with_local(crate::here())
        .listen()
        .await
        .expect("a listener");
    let mut unexpected = framed()
        .with_remote(listener.addresses()[0])
        .initiate()
        .expect("a connection");
    assert!(unexpected.receive().await.is_err());
    assert!(
        tokio::time::timeout(Duration::from_millis(50), listener.accept())
            .await
            .is_err()
    );
}
