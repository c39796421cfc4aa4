//! Logs of Connections and Listeners.

use hawser_connect::taps::{Preconnection, RemoteEndpoint, SecurityParameters};
use hawser_testing::Log;
use tokio::net::TcpListener;

use crate::{here, pair, plain};

#[tokio::test]
async fn connection_states_are_logged_at_debug_and_listeners_at_info() {
    let log = Log::start();
    let (mut client, _server, listener) = pair(&plain()).await;
    let address = listener.addresses()[0];
    client.close();
    while client.next_event().await.is_some() {}
    log.expect(&["INFO hawser_connect::taps", "listening", &address.to_string()]);
    for is_initiated in ["is_initiated=true", "is_initiated=false"] {
        log.expect(&[
            "DEBUG hawser_connect::taps",
            "established",
            "transport=\"tcp\"",
            is_initiated,
        ]);
    }
    log.expect(&["DEBUG hawser_connect::taps", "closed", &format!("peer={address}")]);
}

#[tokio::test]
async fn an_unexpected_peer_of_a_listener_is_logged_with_the_reason() {
    let log = Log::start();
    let expected = RemoteEndpoint::new().with_ip_address([127, 0, 0, 2]);
    let listener = plain()
        .with_remote(expected)
        .with_local(here())
        .listen()
        .await
        .expect("a listener");
    let mut client = plain()
        .with_remote(listener.addresses()[0])
        .initiate()
        .expect("a connection");
    client.receive().await.expect_err("it is aborted");
    log.expect(&["DEBUG", "connection rejected", "not one of the remote endpoints"]);
}

/// RFC 9622, 6.3.1: an application that asks for opportunistic security may get no protection.
#[tokio::test]
async fn a_fall_back_to_no_protection_is_logged_at_info() {
    let log = Log::start();
    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = plain.local_addr().expect("its address");
    tokio::spawn(async move {
        drop(plain.accept().await);
        plain.accept().await
    });
    let wanted = Preconnection::new(SecurityParameters::opportunistic()).with_remote(address);
    let client = wanted.initiate().expect("a connection");
    client.established().await.expect("it is established");
    log.expect(&["INFO", "no candidate with protection connected"]);
}
