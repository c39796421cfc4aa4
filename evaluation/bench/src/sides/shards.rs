//! Several stacks on the queues of one device, each in a thread and on a core of its own, and their combined
//! measurements.

use std::io;
use std::thread;

use super::bulk::Arrivals;
use super::spec::{Measured, Spec, Work};
use super::transport::Transport;
use super::{apply, listen, wait_for_the_sign};
use crate::sys;

/// Runs the application on all stacks, each on one of the cores. A single stack runs in this thread.
///
/// # Errors
/// A stack failed, or the application supports only one.
pub(super) fn work<T: Transport + Send>(
    mut stacks: Vec<T>,
    spec: &Spec,
    cores: &[usize],
) -> io::Result<Measured> {
    if stacks.len() == 1
        && let Some(stack) = stacks.pop()
    {
        return super::work(stack, spec);
    }
    if !matches!(spec.work, Work::Send(_) | Work::Receive(_)) {
        return Err(io::Error::other("only bulk transfer runs in several shards"));
    }
    for stack in &mut stacks {
        listen(stack, spec)?;
    }
    wait_for_the_sign()?;
    let (count, arrivals) = (stacks.len() as u32, Arrivals::default());
    let measured = thread::scope(|scope| {
        let shards = (0..).zip(stacks).map(|(shard, mut stack)| {
            // If the flows cannot be divided evenly, the first shards have one more.
            let flows = spec.work.flows() / count + u32::from(shard < spec.work.flows() % count);
            let (core, arrivals) = (core(spec, cores, shard as usize), &arrivals);
            scope.spawn(move || {
                core.map_or(Ok(()), sys::pin)?;
                apply(&mut stack, spec, flows, arrivals)
            })
        });
        let shards: Vec<_> = shards.collect();
        let ended = shards.into_iter().map(|shard| {
            let panicked = |_| Err(io::Error::other("a shard panicked"));
            shard.join().unwrap_or_else(panicked)
        });
        ended.collect::<io::Result<Vec<Measured>>>()
    })?;
    Ok(measured.into_iter().fold(Measured::default(), together))
}

/// Returns the core of a shard: the first has the side's core, the others have the following ones.
fn core(spec: &Spec, cores: &[usize], shard: usize) -> Option<usize> {
    let first = cores.iter().position(|core| Some(*core) == spec.core)?;
    Some(cores[(first + shard) % cores.len()])
}

/// Combines the measurements of shards. They measure at the same time, and each has the processor time of
/// them all.
fn together(mut sum: Measured, shard: Measured) -> Measured {
    sum.bytes += shard.bytes;
    sum.counted_bytes += shard.counted_bytes;
    sum.seconds = sum.seconds.max(shard.seconds);
    sum.user_s = sum.user_s.max(shard.user_s);
    sum.system_s = sum.system_s.max(shard.system_s);
    for (name, count) in shard.notes {
        match sum.notes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known += count,
            None => sum.notes.push((name, count)),
        }
    }
    sum
}
