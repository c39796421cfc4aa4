//! Sessions that no way leads to the server for.

use std::time::Duration;

use hawser_session::scheduler::by_name;
use hawser_session::{Candidate, CarrierId, Config, Instruction, Loss, Notice, Session, SessionEnd};

fn client(open_timeout: Duration) -> Session {
    let config = Config {
        candidates: vec![Candidate::new(0), Candidate::new(1)],
        open_timeout,
        ..Config::default()
    };
    Session::client(
        config,
        by_name("ecf").expect("a scheduler"),
        [7; 16],
        Duration::ZERO,
    )
}

/// Lets every attempt fail at `now`; what was told.
fn fail_all(session: &mut Session, now: Duration) -> Vec<Notice> {
    let mut told = Vec::new();
    while let Some(instruction) = session.poll() {
        match instruction {
            Instruction::Connect { carrier, .. } => {
                session.lost(carrier, Loss::Transport("refused".into()), now);
            }
            Instruction::Notify(notice) => told.push(notice),
            Instruction::Send { .. } | Instruction::Close { .. } => {}
        }
    }
    told
}

fn ends(told: &[Notice]) -> bool {
    told.contains(&Notice::Closed(SessionEnd::Unreachable))
}

#[test]
fn it_ends_when_every_way_has_failed() {
    let mut session = client(Duration::ZERO);
    session.timeout(Duration::ZERO);
    let told = fail_all(&mut session, Duration::from_millis(1));
    let lost = |notice: &&Notice| {
        matches!(
            notice,
            Notice::PathLost {
                reason: Loss::Transport(_),
                ..
            }
        )
    };
    assert_eq!(told.iter().filter(lost).count(), 2, "{told:?}");
    assert!(ends(&told), "{told:?}");
    assert_eq!(session.next_timeout(Duration::from_millis(1)), None);
}

#[test]
fn it_goes_on_while_a_way_is_being_tried() {
    let mut session = client(Duration::ZERO);
    session.timeout(Duration::ZERO);
    let first = std::iter::from_fn(|| session.poll()).find_map(|instruction| match instruction {
        Instruction::Connect { carrier, .. } => Some(carrier),
        _ => None,
    });
    assert_eq!(first, Some(CarrierId(0)));
    session.lost(
        CarrierId(0),
        Loss::Transport("refused".into()),
        Duration::from_millis(1),
    );
    let told: Vec<_> = std::iter::from_fn(|| session.poll()).collect();
    assert!(
        told.iter()
            .any(|one| matches!(one, Instruction::Connect { candidate: 1, .. })),
        "{told:?}"
    );
    assert!(
        !told.contains(&Instruction::Notify(Notice::Closed(SessionEnd::Unreachable))),
        "{told:?}"
    );
}

#[test]
fn patience_tries_again_until_it_ends() {
    let mut session = client(Duration::from_secs(5));
    let mut now = Duration::ZERO;
    let mut told = Vec::new();
    while now < Duration::from_secs(60) && !ends(&told) {
        session.timeout(now);
        told.extend(fail_all(&mut session, now));
        now = session
            .next_timeout(now)
            .unwrap_or(now + Duration::from_secs(100));
    }
    let tries = told
        .iter()
        .filter(|notice| matches!(notice, Notice::PathLost { .. }))
        .count();
    assert!(ends(&told) && tries >= 8, "{tries} tries, {told:?}");
    assert!(
        now >= Duration::from_secs(5) && now < Duration::from_secs(120),
        "{now:?}"
    );
}
