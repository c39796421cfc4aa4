//! The socket's file, and lines of peers that are too long or empty.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener as Listener;
use std::path::{Path, PathBuf};

use hawser_documents::temporary::Folder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;

/// A folder for one test.
struct TestFolder(Folder);

impl TestFolder {
    fn new() -> TestFolder {
        TestFolder(Folder::new().expect("the folder for tests can be written"))
    }

    fn socket(&self) -> PathBuf {
        self.0.join("run/s.sock")
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

/// Returns the lengths of the received lines, `None` for one that is too long, and the reason for which the
/// conversation ended.
async fn lines_of(stream: UnixStream) -> (Vec<Option<usize>>, Option<String>) {
    let (mut lines, mut taken) = (Lines::new(stream.into_split().0), Vec::new());
    loop {
        match lines.next().await {
            Ok(Some(PeerLine::Whole(line))) => taken.push(Some(line.len())),
            Ok(Some(PeerLine::TooLong(_))) => taken.push(None),
            Ok(None) | Err(LineError::Slow | LineError::Gone) => return (taken, None),
            Err(LineError::Refused(why)) => return (taken, Some(why)),
        }
    }
}

/// Lines of several lengths in one connection: lines that are too long are reported, and the others are
/// complete.
#[tokio::test]
async fn a_line_that_is_too_long_is_dropped_and_the_next_is_accepted() {
    let lengths = [LINE, LINE + 1, 5, 3 * LINE, LINE, 10 * LINE + 7, 1];
    let (mut peer, stream) = UnixStream::pair().expect("sockets");
    let writing = tokio::spawn(async move {
        for bytes in lengths {
            peer.write_all(&vec![b'x'; bytes]).await.expect("it reads");
            peer.write_all(b"\n").await.expect("it reads");
        }
    });
    let (taken, why) = lines_of(stream).await;
    let want = lengths.map(|bytes| (bytes <= LINE).then_some(bytes));
    assert_eq!((taken, why), (want.to_vec(), None));
    writing.await.expect("it ends");
}

/// A reader that is interrupted in the middle of a line that is too long goes on dropping it.
#[tokio::test]
async fn an_interrupted_reader_drops_the_whole_line() {
    let (mut peer, stream) = UnixStream::pair().expect("sockets");
    let mut lines = Lines::new(stream.into_split().0);
    for _ in 0..40 {
        peer.write_all(&[b'x'; 4_000]).await.expect("it reads");
        tokio::select! {
            biased;
            _ = lines.next_or_idle(true) => panic!("the line has no end yet"),
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => {}
        }
    }
    peer.write_all(b"\nnext\n").await.expect("it reads");
    assert_eq!(
        lines.next().await.ok(),
        Some(Some(PeerLine::TooLong(vec![b'x'; 64])))
    );
    assert_eq!(
        lines.next().await.ok(),
        Some(Some(PeerLine::Whole(b"next".to_vec())))
    );
}

/// The paused clock advances by itself when no task can run.
#[tokio::test(start_paused = true)]
async fn peer_that_does_not_end_its_line_is_disconnected_after_30_s() {
    let (mut peer, stream) = UnixStream::pair().expect("sockets");
    peer.write_all(b"{\"li").await.expect("it reads");
    let begin = tokio::time::Instant::now();
    let why = lines_of(stream).await.1;
    assert_eq!(why.as_deref(), Some("no command in 30 s"));
    assert_eq!(begin.elapsed().as_secs(), 30);
    assert_eq!(peer.read(&mut [0]).await.ok(), Some(0), "it is closed");
}

#[tokio::test]
async fn the_socket_file_is_always_private_to_its_owner() {
    let place = TestFolder::new();
    let path = place.socket();
    let (stop, is_over) = std::sync::mpsc::channel::<()>();
    let watched = path.clone();
    let looking = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while is_over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            std::thread::yield_now();
            seen.extend(fs::symlink_metadata(&watched).map(|file| file.permissions().mode() & 0o777));
        }
        seen
    });
    for _ in 0..50 {
        let socket = Socket::open(&path).expect("there is room");
        assert_eq!(mode(&path), 0o600);
        drop(socket);
    }
    drop(stop);
    let seen = looking.join().expect("it looks");
    assert!(seen.iter().all(|mode| *mode == 0o600), "{seen:?}");
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    let left: Vec<_> = fs::read_dir(path.parent().expect("a folder"))
        .expect("it is ours")
        .collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
}

#[tokio::test]
async fn only_a_stale_socket_file_is_replaced() {
    let place = TestFolder::new();
    let path = place.socket();
    fs::create_dir(path.parent().expect("a folder")).expect("it is ours");
    // A listener that is dropped leaves its file.
    drop(Listener::bind(&path).expect("it is free"));
    assert!(path.exists());
    let socket = Socket::open(&path).expect("no process listens there");
    assert!(matches!(Socket::open(&path), Err(SocketError::InUse(_))));
    UnixStream::connect(&path)
        .await
        .expect("the living is undisturbed");
    // Another file that has taken its place is not removed.
    fs::remove_file(&path).expect("it is ours");
    fs::write(&path, "notes").expect("it is ours");
    drop(socket);
    assert!(matches!(Socket::open(&path), Err(SocketError::NoSocket(_))));
    assert_eq!(fs::read_to_string(&path).expect("it is left alone"), "notes");
    let left = fs::read_dir(path.parent().expect("a folder"))
        .expect("it is ours")
        .count();
    assert_eq!(left, 1, "nothing else is left behind");
    fs::remove_file(&path).expect("it is ours");
    // A symbolic link to a socket is not a socket.
    let elsewhere = place.0.join("elsewhere");
    let _living = Listener::bind(&elsewhere).expect("it is free");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("it is ours");
    assert!(matches!(Socket::open(&path), Err(SocketError::NoSocket(_))));
    assert!(
        fs::symlink_metadata(&elsewhere)
            .expect("it is there")
            .file_type()
            .is_socket()
    );
}
