//! Measures filters in the kernel: the acknowledgements of Linux's TCP without a filter, and through each
//! filter at the same time.

use std::time::Duration;

use hawser::interact::Filter;
use hawser::time::Instant;
use hawser_linux::{FlowEvent, Kernel, Options, SUBSCRIPTIONS};

use super::emulated::{PORT, Sender, transfer};
use super::run::Path;
use crate::Error;

/// Linux's name for the congestion control that is observed. Its events are complete, because it follows
/// rules of its own.
const CONGESTION_CONTROL: &str = "hawser_filter";
/// The bytes of the ring. The signals between two samples, a tenth of a second apart, take some 2 MB.
const RING: u32 = 32 << 20;
/// The longest interval of a filter, and the lateness of a timer.
const REST: Duration = Duration::from_millis(300);

/// The signals through one filter in a transfer.
pub(super) struct Through {
    pub(super) filter: Filter,
    /// The times of all events that the filter could let through.
    pub(super) happened: Vec<Instant>,
    /// The times of the events that it let through.
    pub(super) delivered: Vec<Instant>,
    /// The number of records that did not fit the ring, filtered or not.
    pub(super) lost: u64,
}

/// Runs transfers of this duration until every filter has been measured, with one unfiltered subscription in
/// each transfer.
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
    // The other end has the same port, but it sends no data that could be acknowledged.
    let only = hawser_linux::Filter { port: Some(PORT), ..hawser_linux::Filter::default() };
    let mut ids = vec![kernel.subscribe(FlowEvent::Acked, only)?];
    for filter in filters {
        ids.push(kernel.subscribe(
            FlowEvent::Acked,
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
