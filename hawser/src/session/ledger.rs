//! What a session uses of its metered paths, counted in the state file.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::client::Way;
use super::document::{Meter, Warning};
use super::handle::Shared;
use super::state::StateFile;
use hawser_session::Candidate;

/// How often it is looked for something to count.
const EVERY: Duration = Duration::from_secs(1);

/// What metered paths of one session had left at its beginning, and what of it was counted.
pub(super) struct Ledger {
    file: StateFile,
    accounts: Vec<Account>,
}

struct Account {
    meter: Meter,
    /// Bytes that were left when the session began.
    left: u64,
    counted: u64,
}

impl Ledger {
    /// Opens the accounts of `meters`, and takes what is used already off the quotas of `ways`.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read or written.
    pub(super) fn open(
        file: StateFile,
        meters: Vec<Meter>,
        ways: &mut [(Way, Candidate)],
        warnings: &mut Vec<Warning>,
    ) -> io::Result<Self> {
        let mut accounts = Vec::new();
        for meter in meters {
            let metered = file.used(&meter.key, meter.period)?;
            let left = meter.quota.saturating_sub(metered.used);
            if left == 0 {
                let message = format!(
                    "{} bytes went over {} since {}: it is not used",
                    metered.used, meter.key, metered.since
                );
                warnings.push(Warning { path: meter.place.clone(), message });
            }
            for (_, candidate) in ways.iter_mut().filter(|(_, candidate)| candidate.path == meter.path) {
                candidate.quota = Some(left);
            }
            accounts.push(Account { meter, left, counted: 0 });
        }
        let mut ledger = Self { file, accounts };
        // A file that cannot be written is known before anything is used.
        ledger.write(&BTreeMap::new())?;
        Ok(ledger)
    }

    /// Counts what was used, given what is left of each path's quota.
    pub(super) fn book(&mut self, left: &BTreeMap<u32, u64>) -> io::Result<()> {
        if self.accounts.iter().all(|account| account.uncounted(left) == 0) {
            return Ok(());
        }
        self.write(left)
    }

    fn write(&mut self, left: &BTreeMap<u32, u64>) -> io::Result<()> {
        let line =
            |account: &Account| (account.meter.key.clone(), account.meter.period, account.uncounted(left));
        let lines: Vec<_> = self.accounts.iter().map(line).collect();
        self.file.book(&lines)?;
        for (account, (_, _, bytes)) in self.accounts.iter_mut().zip(lines) {
            account.counted += bytes;
        }
        Ok(())
    }
}

impl Account {
    fn uncounted(&self, left: &BTreeMap<u32, u64>) -> u64 {
        let left = left.get(&self.meter.path).copied().unwrap_or(self.left);
        self.left.saturating_sub(left).saturating_sub(self.counted)
    }
}

/// Counts once a second for as long as the session goes on. Its end is counted where it is told.
pub(super) async fn keep(session: Weak<Shared>, ledger: Arc<Mutex<Ledger>>) {
    let mut clock = tokio::time::interval(EVERY);
    loop {
        clock.tick().await;
        let Some(shared) = session.upgrade() else { return };
        let (left, is_over) = {
            let inner = shared.lock();
            (inner.session.quotas(), inner.session.is_closed())
        };
        drop(shared);
        let ledger = ledger.clone();
        // A file that cannot be written now may be later.
        let _ = tokio::task::spawn_blocking(move || book(&ledger, &left)).await;
        if is_over {
            return;
        }
    }
}

pub(super) fn book(ledger: &Mutex<Ledger>, left: &BTreeMap<u32, u64>) -> io::Result<()> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner).book(left)
}
