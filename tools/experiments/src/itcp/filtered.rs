//! Filters in the kernel: acknowledgements of Linux's TCP, all of them and through each filter beside.

use std::time::Duration;

use hawser::interact::Filter;
use hawser::time::Instant;
use hawser_linux::{Event, Kernel, Options, SUBSCRIPTIONS};

use super::emulated::{PORT, Sender, transfer};
use super::run::Path;
use crate::Error;

/// What Linux calls the congestion control, whose events are complete: it follows its own rules.
const CONGESTION_CONTROL: &str = "hawser_filter";
/// What is received between two samples, a tenth of a second apart, takes some 2 MB.
const RING: u32 = 32 << 20;
/// The longest interval, and what a timer may be late.
const REST: Duration = Duration::from_millis(300);

/// What came through one filter in a transfer.
pub(super) struct Through {
    pub(super) filter: Filter,
    /// When all happened that it could let through.
    pub(super) happened: Vec<Instant>,
    /// And what it did let through.
    pub(super) delivered: Vec<Instant>,
    /// Records that found no room in the ring, filtered or not.
    pub(super) lost: u64,
}

/// Transfers for so long, as often as it takes to have all filters and one open subscription in each.
pub(super) fn listen(path: Path, time: Duration, filters: &[Filter]) -> Result<Vec<Through>, Error> {
    let mut all = Vec::with_capacity(filters.len());
    for some in filters.chunks(SUBSCRIPTIONS - 1) {
        all.extend(one_transfer(path, time, some)?);
    }
    Ok(all)
}

fn one_transfer(path: Path, time: Duration, filters: &[Filter]) -> Result<Vec<Through>, Error> {
    let name = Some(CONGESTION_CONTROL.to_owned());
    let mut kernel =
        Kernel::load(&Options { congestion_control: name, ring_bytes: RING, ..Options::default() })?;
    // The other end has the port as well, and nothing that is acknowledged.
    let only = hawser_linux::Filter { port: Some(PORT), ..hawser_linux::Filter::default() };
    let mut ids = vec![kernel.subscribe(Event::Acked, only)?];
    for filter in filters {
        ids.push(kernel.subscribe(
            Event::Acked,
            hawser_linux::Filter { interval: filter.interval, frequency: filter.frequency, ..only },
        )?);
    }
    let mut delivered: Vec<Vec<Instant>> = vec![Vec::new(); ids.len()];
    let mut take = |kernel: &mut Kernel| loop {
        let taken = kernel.take(|record| {
            if let Some(place) = ids.iter().position(|id| *id == record.subscription) {
                delivered[place].push(Instant::from_nanos(record.time));
            }
        })?;
        if taken == 0 {
            return Ok::<(), Error>(());
        }
    };
    let mut wrong = None;
    let sample = &mut |_: f64| wrong = wrong.take().or_else(|| take(&mut kernel).err());
    transfer("Linux", Sender::Linux(CONGESTION_CONTROL), path, time, sample)?;
    if let Some(error) = wrong {
        return Err(error);
    }
    std::thread::sleep(REST);
    take(&mut kernel)?;
    let lost = ids.iter().map(|id| kernel.lost(*id)).sum::<Result<u64, _>>()?;
    let mut delivered = delivered.into_iter();
    let happened = delivered.next().unwrap_or_default();
    let through = |(filter, delivered): (&Filter, _)| Through {
        filter: *filter,
        happened: happened.clone(),
        delivered,
        lost,
    };
    Ok(filters.iter().zip(delivered).map(through).collect())
}
