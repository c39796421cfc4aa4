//! Sessions whose server no path can reach.

use std::time::Duration;

use hawser_session_machine::scheduler::by_name;
use hawser_session_machine::{Candidate, CarrierId, Config, Instruction, Loss, Notice, Session, SessionEnd};
use hawser_time::Instant;

const fn at(ms: u64) -> Instant {
    Instant::after(Duration::from_millis(ms))
}

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
        Instant::ORIGIN,
    )
}

/// Fails every attempt at `now`, and returns the notices that follow.
fn fail_all(session: &mut Session, now: Instant) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let Some(instruction) = session.poll() {
        match instruction {
            Instruction::Connect { carrier, .. } => {
                session.lost(carrier, Loss::Transport("refused".into()), now);
            }
            Instruction::Notify(notice) => notices.push(notice),
            Instruction::Send { .. } | Instruction::Close { .. } => {}
        }
    }
    notices
}

fn ends(notices: &[Notice]) -> bool {
    notices.contains(&Notice::Closed(SessionEnd::Unreachable))
}

#[test]
fn a_session_ends_when_every_candidate_has_failed() {
    let mut session = client(Duration::ZERO);
    session.timeout(at(0));
    let notices = fail_all(&mut session, at(1));
    let lost = |notice: &&Notice| matches!(notice, Notice::PathLost { reason: Loss::Transport(_), .. });
    assert_eq!(notices.iter().filter(lost).count(), 2, "{notices:?}");
    assert!(ends(&notices), "{notices:?}");
    assert_eq!(session.next_timeout(at(1)), None);
}

#[test]
fn a_session_waits_while_a_candidate_is_tried() {
    let mut session = client(Duration::ZERO);
    session.timeout(at(0));
    let first = std::iter::from_fn(|| session.poll()).find_map(|instruction| match instruction {
        Instruction::Connect { carrier, .. } => Some(carrier),
        _ => None,
    });
    assert_eq!(first, Some(CarrierId(0)));
    session.lost(CarrierId(0), Loss::Transport("refused".into()), at(1));
    let notices: Vec<_> = std::iter::from_fn(|| session.poll()).collect();
    assert!(
        notices
            .iter()
            .any(|one| matches!(one, Instruction::Connect { candidate: 1, .. })),
        "{notices:?}"
    );
    assert!(
        !notices.contains(&Instruction::Notify(Notice::Closed(SessionEnd::Unreachable))),
        "{notices:?}"
    );
}

#[test]
fn an_unreachable_server_is_tried_again_until_open_timeout() {
    let mut session = client(Duration::from_secs(5));
    let mut now = at(0);
    let mut notices = Vec::new();
    while now < at(60_000) && !ends(&notices) {
        session.timeout(now);
        notices.extend(fail_all(&mut session, now));
        now = session
            .next_timeout(now)
            .unwrap_or(now + Duration::from_secs(100));
    }
    let tries = notices
        .iter()
        .filter(|notice| matches!(notice, Notice::PathLost { .. }))
        .count();
    assert!(ends(&notices) && tries >= 8, "{tries} tries, {notices:?}");
    assert!(now >= at(5_000) && now < at(120_000), "{now:?}");
}
