//! One-time codes over sessions on loopback, and callers that try to do without one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_carriers::tcp::TcpOptions;
use hawser_session::{
    Candidate, ClientConfig, Code, CodeError, CodeGate, Config, EXCHANGE_TIMEOUT, Identity, MAX_GUESSES,
    PathCandidate, Server, ServerConfig, Session, Trust, connect, scheduler,
};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use spake2::{Ed25519Group, Identity as Name, Password, Spake2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const RIGHT: &str = "7-crossword-anvil";
const WRONG: &str = "7-crossword-acorn";

fn code(text: &str) -> Code {
    text.parse().expect("a code")
}

/// A server, and the trust that its clients need.
struct CodeServer {
    server: Server,
    trust: Trust,
}

impl CodeServer {
    fn open() -> CodeServer {
        let identity = Identity::generate(vec!["localhost".into()]).expect("random bytes");
        let fingerprint = identity.fingerprint();
        let pin: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&fingerprint[2 * at..2 * at + 2], 16).expect("hexadecimal"))
            .collect();
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let server = Server::open(ServerConfig {
            tcp: vec![(any, TcpOptions::default())],
            tls: Some(identity.server(&[]).expect("a configuration")),
            ..ServerConfig::default()
        });
        CodeServer {
            server: server.expect("a server"),
            trust: Trust::Pin(pin.try_into().expect("32 bytes")),
        }
    }

    /// Returns both ends of a session, the client's and the server's.
    async fn session(&self) -> (Session, Session) {
        let peer = self.server.addresses()[0].1;
        let candidate = PathCandidate::Tcp { peer, local: None, options: TcpOptions::default() };
        let client = connect(ClientConfig {
            session: Config::default(),
            name: None,
            scheduler: scheduler::by_name("ecf").expect("it comes with Hawser"),
            candidates: vec![(candidate, Candidate::new(0))],
            tls: Some((
                self.trust.client(&[]).expect("a configuration"),
                "localhost".into(),
            )),
        });
        (
            client.expect("a session"),
            self.server.accept().await.expect("a session"),
        )
    }
}

#[tokio::test]
async fn only_the_two_ends_of_a_session_export_the_same_keys() {
    let place = CodeServer::open();
    let ((client, server), (other, _served)) = (place.session().await, place.session().await);
    client.opened().await.expect("a session");
    other.opened().await.expect("a session");
    assert!(client.export(b"a").is_some() && client.export(b"a") == server.export(b"a"));
    assert_ne!(client.export(b"a"), client.export(b"b"));
    assert_ne!(client.export(b"a"), other.export(b"a"));
}

#[tokio::test]
async fn the_right_code_is_admitted_and_the_session_goes_on() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    let (client, server) = place.session().await;
    let right = code(RIGHT);
    let (proved, admitted) = tokio::join!(right.prove(&client), gate.admit(&server));
    proved.expect("the server knows it");
    admitted.expect("the client knows it");
    assert_eq!(gate.guesses_left(), MAX_GUESSES);
    // The client's next stream belongs to the application.
    let mut stream = client.open().expect("a stream");
    stream.write_all(b"hello").await.expect("room");
    stream.shutdown().await.expect("it is open");
    let mut received = Vec::new();
    server
        .accept()
        .await
        .expect("a stream")
        .read_to_end(&mut received)
        .await
        .expect("all of it");
    assert_eq!(received, b"hello");
}

#[tokio::test]
async fn a_wrong_code_is_rejected_until_guesses_are_exhausted() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    for left in (0..MAX_GUESSES).rev() {
        let (client, server) = place.session().await;
        let wrong = code(WRONG);
        let (proved, admitted) = tokio::join!(wrong.prove(&client), gate.admit(&server));
        assert!(matches!(proved, Err(CodeError::Wrong)), "{proved:?}");
        assert!(matches!(admitted, Err(CodeError::Wrong)), "{admitted:?}");
        assert_eq!(gate.guesses_left(), left);
        assert!(server.is_closed());
    }
    let (client, server) = place.session().await;
    let right = code(RIGHT);
    let (proved, admitted) = tokio::join!(right.prove(&client), gate.admit(&server));
    assert!(matches!(proved, Err(CodeError::Exhausted)), "{proved:?}");
    assert!(matches!(admitted, Err(CodeError::Exhausted)), "{admitted:?}");
}

#[tokio::test]
async fn a_client_that_gives_no_code_learns_that_one_is_asked_for() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    let (client, server) = place.session().await;
    let mut stream = client.open().expect("a stream");
    stream
        .write_all(b"{ the first line of a file }\n")
        .await
        .expect("room");
    let admitted = gate.admit(&server).await;
    assert!(matches!(admitted, Err(CodeError::Missing)), "{admitted:?}");
    let errors = [stream.read_u8().await.map(drop), stream.write_all(b"more").await];
    for error in errors {
        let error = error.expect_err("the session has ended").to_string();
        assert!(error.contains("one-time code"), "{error}");
    }
}

/// Concurrent callers get no more guesses than sequential ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_once_are_counted_like_guesses_in_turn() {
    let place = CodeServer::open();
    let gate = Arc::new(CodeGate::new(code(RIGHT)));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..2 * MAX_GUESSES {
        let ((client, server), gate) = (place.session().await, gate.clone());
        callers.spawn(async move {
            let wrong = code(WRONG);
            let (_, admitted) = tokio::join!(wrong.prove(&client), gate.admit(&server));
            admitted.expect_err("it is wrong")
        });
    }
    let errors = callers.join_all().await;
    let judged = errors
        .iter()
        .filter(|error| matches!(error, CodeError::Wrong))
        .count();
    assert_eq!(
        (judged, gate.guesses_left()),
        (MAX_GUESSES as usize, 0),
        "{errors:?}"
    );
}

/// Performs a client's exchange, written from `docs/session-protocol.md` independently of the code under
/// test. Returns the server's answer to the proof, if there was one.
async fn exchange_by_hand(session: &Session, password: &str, proof_of: &str) -> Option<Vec<u8>> {
    session.opened().await.expect("a session");
    let binding = session.export(b"one-time code 1").expect("it is open");
    let names = ["hawser code client", "hawser code server"]
        .map(|role| Name::new(&[role.as_bytes(), &binding[..]].concat()));
    let (exchange, message) = Spake2::<Ed25519Group>::start_a(&Password::new(password), &names[0], &names[1]);
    let mut stream = session.open().expect("a stream");
    stream.write_all(b"hawser code 1\n").await.expect("room");
    stream.write_all(&message).await.expect("room");
    let mut answer = [0; 33];
    stream.read_exact(&mut answer).await.expect("a message");
    let key = exchange.finish(&answer).expect("a point");
    let confirmation = |role: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
        mac.update(role.as_bytes());
        mac.update(&binding);
        mac.finalize().into_bytes().to_vec()
    };
    stream.write_all(&confirmation(proof_of)).await.expect("room");
    let mut proof = vec![0; 32];
    stream.read_exact(&mut proof).await.ok()?;
    assert_eq!(proof, confirmation("hawser code server"));
    Some(proof)
}

#[tokio::test]
async fn the_exchange_is_the_one_of_the_documents() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    for (password, proof_of, is_right) in [
        (RIGHT, "hawser code client", true),
        // The other side's proof is not accepted. The answer to a wrong code contains no data against which
        // codes could be tried.
        (RIGHT, "hawser code server", false),
        (WRONG, "hawser code client", false),
    ] {
        let (client, server) = place.session().await;
        let by_hand = exchange_by_hand(&client, password, proof_of);
        let (answered, admitted) = tokio::join!(by_hand, gate.admit(&server));
        assert_eq!(answered.is_some(), is_right, "{password} {proof_of}");
        assert_eq!(admitted.is_ok(), is_right, "{password} {proof_of}");
    }
}

/// A man in the middle holds a session with each side and relays the exchange. Both sides know the code, and
/// neither is deceived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_is_relayed_between_two_sessions_fails() {
    let (near, far) = (CodeServer::open(), CodeServer::open());
    let (victim, middle_server) = near.session().await;
    let (middle_client, server) = far.session().await;
    let gate = CodeGate::new(code(RIGHT));
    let relay = tokio::spawn(async move {
        middle_client.opened().await.expect("a session");
        let mut left = middle_server.accept().await.expect("a stream");
        let mut right = middle_client.open().expect("a stream");
        let _ = tokio::io::copy_bidirectional(&mut left, &mut right).await;
        let _ = middle_server.close(7).await;
    });
    let right = code(RIGHT);
    let (proved, admitted) = tokio::join!(right.prove(&victim), gate.admit(&server));
    assert!(proved.is_err(), "the client's end");
    assert!(
        matches!(admitted, Err(CodeError::Wrong)),
        "the server's end: {admitted:?}"
    );
    relay.abort();
}

/// A client that sends other bytes, none, or half of the exchange, or leaves after the server's message, has
/// not guessed and is not admitted.
#[tokio::test]
async fn a_client_without_a_proof_is_rejected_without_a_guess() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    let point_of_small_order = [&b"hawser code 1\nA\x01"[..], &[0; 31]].concat();
    let no_point = [&b"hawser code 1\nA"[..], &[0xff; 32]].concat();
    for (sent, is_missing) in [
        (&b"{\"name\":\"film\",\"length\":1}\n"[..], true),
        (b"", true),
        (b"hawser code 1\n", false),
        (&no_point, false),
        (&point_of_small_order, false),
    ] {
        let (client, server) = place.session().await;
        let mut stream = client.open().expect("a stream");
        stream.write_all(sent).await.expect("room");
        stream.shutdown().await.expect("it is open");
        let error = gate.admit(&server).await.expect_err("it is not admitted");
        assert_eq!(
            matches!(error, CodeError::Missing),
            is_missing,
            "{sent:?}: {error:?}"
        );
        assert_eq!(gate.guesses_left(), MAX_GUESSES);
        assert!(server.is_closed());
    }
}

#[tokio::test]
async fn an_idle_client_makes_room_in_time() {
    let place = CodeServer::open();
    let gate = CodeGate::new(code(RIGHT));
    let (client, server) = place.session().await;
    client.opened().await.expect("a session");
    let began = tokio::time::Instant::now();
    let error = gate.admit(&server).await.expect_err("nothing was sent");
    assert!(matches!(error, CodeError::Late), "{error:?}");
    assert!(
        began.elapsed() < EXCHANGE_TIMEOUT + Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // The client learns the reason.
    let reason = client.accept().await.err().expect("it was closed").to_string();
    assert!(reason.contains("one-time code"), "{reason}");
}

/// 6,553,600 codes are 22.6 bits: log2(100 · 256²).
#[test]
fn new_codes_are_a_number_and_two_words_of_all_kinds() {
    let mut seen = [
        std::collections::BTreeSet::new(),
        Default::default(),
        Default::default(),
    ];
    for _ in 0..4_000 {
        let code = Code::generate().expect("random bytes").to_string();
        assert_eq!(code.parse::<Code>().expect("it can be typed").to_string(), code);
        let parts: Vec<String> = code.split('-').map(str::to_owned).collect();
        assert!(
            parts.len() == 3 && parts[0].parse::<u8>().expect("a number") < 100,
            "{code}"
        );
        for (part, seen) in parts.into_iter().zip(&mut seen) {
            seen.insert(part);
        }
    }
    // In 4,000 draws, one of 256 equally likely words is missing once in 25,000 runs, and two almost never.
    assert!(
        seen[0].len() == 100 && seen[1].len() >= 255 && seen[2].len() >= 255,
        "{:?}",
        seen.map(|s| s.len())
    );
    assert_eq!(code(" 7 Crossword ANVIL ").to_string(), RIGHT);
    for wrong in [
        "",
        "7-a",
        "7_crossword_anvil",
        "7-crossword-anvil;",
        "é-crossword",
        &"a".repeat(65),
    ] {
        assert!(wrong.parse::<Code>().is_err(), "{wrong}");
    }
    assert_eq!(format!("{:?}", code(RIGHT)), "Code", "it does not get into logs");
}
