//! A session by its document, from C.

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;

use hawser::session::{Identity, Server, ServerConfig, TcpOptions};
use hawser_c::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the client has seen.
struct Seen {
    ready: Option<String>,
    bytes: Vec<u8>,
    is_over: bool,
}

unsafe extern "C" fn answer(user: *mut c_void, event: *const hawser_event) {
    // SAFETY: the test passes a pointer to `Seen`, and the event lives until the callback returns.
    let (seen, event) = unsafe { (&mut *user.cast::<Seen>(), &*event) };
    // SAFETY: the text lives as long as the event.
    let text = unsafe { CStr::from_ptr(event.text) }
        .to_string_lossy()
        .into_owned();
    match event.kind {
        hawser_event_kind::HAWSER_READY => seen.ready = Some(text),
        hawser_event_kind::HAWSER_RECEIVED => {
            // SAFETY: the bytes live as long as the event.
            let bytes = unsafe { std::slice::from_raw_parts(event.data, event.len) };
            seen.bytes.extend(bytes);
            hawser_receive(event.connection, 1, 65_536);
        }
        hawser_event_kind::HAWSER_RECEIVE_ERROR => seen.is_over = true,
        // Both directions have ended. Received bytes may come behind it.
        hawser_event_kind::HAWSER_CLOSED => {}
        hawser_event_kind::HAWSER_SENT | hawser_event_kind::HAWSER_PATH_CHANGE => {}
        kind => panic!("{kind:?}: {text}"),
    }
}

/// A server of sessions in Rust sends each stream back.
async fn serve(server: Server) {
    while let Ok(session) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(mut stream) = session.accept().await {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.expect("the client's bytes");
                stream.write_all(&all).await.expect("the echo is sent");
                stream.shutdown().await.expect("its end is sent");
            }
        });
    }
}

#[test]
fn a_document_opens_a_session() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _guard = runtime.enter();
    let identity = Identity::generate(vec!["localhost".into()]).expect("a certificate");
    let server = Server::open(ServerConfig {
        tcp: vec![("127.0.0.1:0".parse().expect("an address"), TcpOptions::default())],
        tls: Some(identity.server(&[]).expect("a configuration")),
        ..ServerConfig::default()
    })
    .expect("a server");
    let port = server.addresses()[0].1.port();
    runtime.spawn(serve(server));
    let document = format!(
        "remote_host = 'localhost:{port}'\nstate = 'none'\n[[connection_priority]]\ntransport = 'tcp'\nip = 'ipv4'\n\
         [ssl_config]\npin = '{}'\n",
        identity.fingerprint().replace(':', "")
    );
    let document = CString::new(document).expect("no zero byte");

    let mut context = hawser_context { id: 0 };
    let mut preconnection = hawser_preconnection { id: 0 };
    let mut connection = hawser_connection { id: 0 };
    let seen = Box::into_raw(Box::new(Seen { ready: None, bytes: Vec::new(), is_over: false }));
    let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let last = c"{\"final\": true}";
    let ok = hawser_status::HAWSER_OK;
    // SAFETY: all pointers are valid, and what they point to outlives the context.
    unsafe {
        assert_eq!(hawser_context_new(&raw mut context), ok);
        assert_eq!(hawser_preconnection_new(context, &raw mut preconnection), ok);
        let broken = hawser_initiate_session(
            preconnection,
            c"remote_host = 1".as_ptr(),
            0,
            None,
            null_mut(),
            &raw mut connection,
        );
        assert_eq!(broken, hawser_status::HAWSER_ERROR_ARGUMENT);
        let begun = hawser_initiate_session(
            preconnection,
            document.as_ptr(),
            10_000,
            Some(answer),
            seen.cast(),
            &raw mut connection,
        );
        assert_eq!(begun, ok, "{:?}", CStr::from_ptr(hawser_error()));
        let status = hawser_send(
            connection,
            sent.as_ptr(),
            sent.len(),
            true,
            last.as_ptr(),
            null_mut(),
        );
        assert_eq!(status, ok);
        assert_eq!(hawser_receive(connection, 1, 65_536), ok);
        loop {
            assert_eq!(hawser_run_once(context, 20_000, null_mut()), ok);
            if (*seen).is_over {
                break;
            }
        }
    }
    assert_eq!(hawser_context_free(context), ok);
    // SAFETY: the context is gone, so no callback has the pointer any more.
    let seen = unsafe { Box::from_raw(seen) };
    assert_eq!(seen.ready.as_deref(), Some("session"));
    assert!(
        seen.bytes == sent,
        "{} of {} bytes came back",
        seen.bytes.len(),
        sent.len()
    );
}
