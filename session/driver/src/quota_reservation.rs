//! The quota bytes that a session may use, set aside in the state file before they are used.
//!
//! Quotas are used in slices. A slice counts as used from the moment at which it is set aside. Concurrent
//! sessions, in whatever processes, therefore never use more than the quota, and a process that dies has
//! counted too much rather than too little. The unused rest of the slices is given back when the
//! [`QuotaReservation`] is dropped. The file is locked and written where blocking is allowed, and never while
//! the session is locked.

use std::sync::Weak;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::document::{MeteredPath, Warning};
use super::shared::{EndWatcher, Quotas, Shared};
use super::state::{Slice, StateError, StateFile};

/// The interval at which slices are checked for being half used. It is much shorter than the fastest access
/// networks need for the other half.
const EVERY: Duration = Duration::from_millis(100);
/// The pause after a request that failed because the quota was spent or the file could not be written.
/// Another session may give bytes back, or a new period may begin.
const PAUSE: Duration = Duration::from_secs(10);
/// The minimum and maximum size of a slice, in bytes. Between them, a slice is half of the remaining quota.
const SLICES: (u64, u64) = (1 << 20, 64 << 20);

/// The bytes that are set aside for one session. When it is dropped, it gives the unused ones back.
pub(super) struct QuotaReservation {
    file: StateFile,
    accounts: Vec<Account>,
    /// The session that it serves, once that has begun.
    session: Option<(Weak<Shared>, EndWatcher)>,
    /// Dropped with the ledger. Its receivers then know that everything is written.
    settled: watch::Sender<()>,
}

struct Account {
    meter: MeteredPath,
    /// Bytes set aside in the period that began at `since`.
    reserved: u64,
    since: String,
    /// The part of them that the session does not know of yet.
    unknown: u64,
    /// The size of the last slice, in bytes.
    slice: u64,
    /// Bytes that all sessions have set aside or used.
    used: u64,
    asks_again: Option<Instant>,
}

impl QuotaReservation {
    /// Sets a first slice aside for each of `meters`. Blocks.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read or written.
    pub(super) fn open(file: StateFile, meters: Vec<MeteredPath>) -> Result<Self, StateError> {
        let account = |meter| Account {
            meter,
            reserved: 0,
            since: String::new(),
            unknown: 0,
            slice: 0,
            used: 0,
            asks_again: None,
        };
        let accounts = meters.into_iter().map(account).collect();
        let mut ledger = Self { file, accounts, session: None, settled: watch::Sender::new(()) };
        ledger.reserve(|_| true)?;
        Ok(ledger)
    }

    /// Returns the slice of each path, and adds a warning for each path whose quota is spent.
    pub(super) fn limits(&mut self, warnings: &mut Vec<Warning>) -> Quotas {
        let mut limits = Quotas::new();
        for account in &mut self.accounts {
            if account.reserved == 0 {
                let message = format!(
                    "{} bytes were sent over {} since {}, or are reserved; the path is not used",
                    account.used, account.meter.key, account.since
                );
                warnings.push(Warning { path: account.meter.place.clone(), message });
            }
            limits.insert(account.meter.path, account.reserved);
            account.unknown = 0;
        }
        limits
    }

    /// Sets the session that it serves. The session's unused bytes are given back at its end.
    pub(super) fn serve(&mut self, session: Weak<Shared>, end: EndWatcher) -> watch::Receiver<()> {
        self.session = Some((session, end));
        self.settled.subscribe()
    }

    /// Sets the next slices aside for the accounts that `of` selects.
    fn reserve(&mut self, of: impl Fn(&Account) -> bool) -> Result<(), StateError> {
        let mut asking: Vec<&mut Account> = self.accounts.iter_mut().filter(|account| of(account)).collect();
        let asked_at = Instant::now();
        asking
            .iter_mut()
            .for_each(|account| account.asks_again = Some(asked_at + PAUSE));
        let meters: Vec<&MeteredPath> = asking.iter().map(|account| &account.meter).collect();
        let slices = self.file.reserve(&meters, share)?;
        for (account, Slice { bytes, used, since }) in asking.into_iter().zip(slices) {
            // The rest of an earlier period may be used, but is not given back to this one.
            let kept = if account.since == since {
                account.reserved
            } else {
                0
            };
            (account.reserved, account.since, account.used) = (kept + bytes, since, used);
            account.unknown += bytes;
            if bytes > 0 {
                (account.slice, account.asks_again) = (bytes, None);
            }
        }
        Ok(())
    }

    /// Returns the session's remaining bytes, as far as they are known.
    fn left(&self) -> Option<Quotas> {
        let (session, end) = self.session.as_ref()?;
        Some(
            session
                .upgrade()
                .map_or_else(|| end.quotas(), |session| session.lock().session.quotas()),
        )
    }
}

/// Returns the size of the next slice when `left` bytes remain.
fn share(left: u64) -> u64 {
    left.min((left / 2).clamp(SLICES.0, SLICES.1))
}

impl Account {
    /// Returns true if it is time for another slice.
    fn is_low(&self, left: &Quotas) -> bool {
        let left = left.get(&self.meter.path).copied().unwrap_or(self.slice);
        left <= self.slice / 2 && self.asks_again.is_none_or(|at| at <= Instant::now())
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        let left = self.left();
        let of_account = |account: &Account| {
            let known = left.as_ref().map_or(Some(account.reserved), |left| {
                left.get(&account.meter.path).copied()
            });
            let bytes = known
                .unwrap_or(0)
                .saturating_add(account.unknown)
                .min(account.reserved);
            (account.meter.clone(), account.since.clone(), bytes)
        };
        let rest: Vec<_> = self
            .accounts
            .iter()
            .map(of_account)
            .filter(|(_, _, bytes)| *bytes > 0)
            .collect();
        if !rest.is_empty() {
            // An error at the end cannot be reported. The bytes count as used.
            let _ = self.file.give_back(&rest);
        }
    }
}

/// Sets more bytes aside for as long as the session exists.
pub(super) async fn keep(mut ledger: QuotaReservation, session: Weak<Shared>, mut end: EndWatcher) {
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = end.come() => break,
            _ = clock.tick() => {}
        }
        let Some(left) = session.upgrade().map(|shared| shared.lock().session.quotas()) else {
            break;
        };
        if !ledger.accounts.iter().any(|account| account.is_low(&left)) {
            continue;
        }
        let asked = tokio::task::spawn_blocking(move || {
            // The file may become writable later.
            let _ = ledger.reserve(|account| account.is_low(&left));
            ledger
        });
        let Ok(back) = asked.await else { return };
        ledger = back;
        let Some(shared) = session.upgrade() else { break };
        for account in ledger.accounts.iter_mut().filter(|account| account.unknown > 0) {
            if shared.grant(account.meter.path, account.unknown) {
                account.unknown = 0;
            }
        }
    }
    let _ = tokio::task::spawn_blocking(move || drop(ledger)).await;
}

#[cfg(test)]
mod tests {
    use hawser_documents::temporary::Folder;

    use super::super::document::Period;
    use super::*;

    /// A state file that is deleted with the test.
    struct TestStateFile(Folder);

    impl TestStateFile {
        fn new() -> Self {
            Self(Folder::new().unwrap())
        }

        fn file(&self) -> StateFile {
            StateFile::at(self.0.join("state.json"))
        }

        fn open(&self, quota: u64) -> QuotaReservation {
            let meter = MeteredPath {
                path: 0,
                key: "wwan0".into(),
                quota,
                period: Period::Ever,
                place: "here".into(),
            };
            QuotaReservation::open(self.file(), vec![meter]).unwrap()
        }

        fn used(&self) -> u64 {
            let text = std::fs::read_to_string(self.file().path()).unwrap();
            let state: serde_json::Value = serde_json::from_str(&text).unwrap();
            state["metered"]["wwan0"]["used"].as_u64().unwrap()
        }
    }

    const QUOTA: u64 = 500 << 20;

    #[test]
    fn concurrent_sessions_never_exceed_the_quota() {
        let place = TestStateFile::new();
        let greedy = |place: &TestStateFile| {
            let mut ledger = place.open(QUOTA);
            loop {
                let before = ledger.accounts[0].reserved;
                ledger.reserve(|_| true).unwrap();
                if ledger.accounts[0].reserved == before {
                    return ledger;
                }
            }
        };
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| greedy(&place));
            let two = scope.spawn(|| greedy(&place));
            (one.join().unwrap(), two.join().unwrap())
        });
        let sum = one.accounts[0].reserved + two.accounts[0].reserved;
        assert_eq!((sum, place.used()), (QUOTA, QUOTA));
        let mut warnings = Vec::new();
        place.open(QUOTA).limits(&mut warnings);
        assert!(
            warnings[0]
                .message
                .starts_with("524288000 bytes were sent over wwan0"),
            "{warnings:?}"
        );
        drop((one, two));
        assert_eq!(place.used(), 0, "what was not used is given back");
    }

    #[test]
    fn a_quota_slice_is_stored_before_it_is_used() {
        let place = TestStateFile::new();
        let ledger = place.open(QUOTA);
        assert_eq!(place.used(), ledger.accounts[0].reserved);
        // A process that dies does not give its slice back.
        std::mem::forget(ledger);
        assert_eq!(place.used(), SLICES.1);
        // The smallest slice is not halved.
        let ledger = place.open(SLICES.1 + 1_000);
        assert_eq!(ledger.accounts[0].reserved, 1_000);
    }
}
