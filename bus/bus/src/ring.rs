//! A bounded queue of signals in plain words, which may lie in memory that processes share.
//!
//! There are many producers and one consumer. Each slot has a sequence number that tells the producers and
//! the consumer whose turn it is (Vyukov's bounded queue). A producer never waits: a full ring refuses the
//! signal.
//!
//! The consumer may be a process that is not trusted. Whatever it writes into the words, a producer ends
//! after a bounded number of steps and touches no memory outside. At worst, signals are lost or garbled, and
//! [`Signal::new`](crate::Signal::new) checks every word that it uses.
//!
//! In memory, in words of 8 bytes:
//!
//! * 0: [`MAGIC`]
//! * 1: the number of slots (a power of two)
//! * 2: the words of a slot
//! * 8: the producers' next number
//! * 16: the consumer's next number
//! * 24: not 0 while the consumer sleeps
//! * from 32 on: the slots, each with its number and then the signal's words
//!
//! Slot `n` of `N` begins with the number `n`. When the number is `k`, the producer that takes number `k` may
//! write the slot. It is then `k + 1`, and the consumer may read the slot, which sets the number to `k + N`.

use std::sync::Arc;
#[cfg(not(all(test, hawser_loom)))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(all(test, hawser_loom))]
use loom::sync::atomic::{AtomicU64, Ordering, fence};

use crate::signal::MAX_WORDS;

/// The first word of a ring: `HAWSER` and a version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HAWSER\0\x01");
/// The words of a slot: its number and a signal.
pub const SLOT: usize = 1 + MAX_WORDS;
/// The number of words before the slots.
const HEAD: usize = 32;
const TAIL_AT: usize = 8;
const HEAD_AT: usize = 16;
const SLEEP_AT: usize = 24;
/// The maximum number of attempts of a producer that other producers overtake.
const ATTEMPTS: usize = 64;
/// The maximum number of slots: 16 MiB.
pub const MAX_SLOTS: usize = 1 << 16;

/// The words that a ring lies in.
pub trait RingMemory: Send + Sync {
    /// Returns the words, the same slice at each call.
    fn words(&self) -> &[AtomicU64];
}

impl RingMemory for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// Called when a signal was queued for a consumer that sleeps.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Returns the words that a ring takes, for this many slots rounded up to a power of two and capped at
/// [`MAX_SLOTS`].
#[must_use]
pub fn words_for(slots: usize) -> usize {
    HEAD + rounded(slots) * SLOT
}

fn rounded(slots: usize) -> usize {
    slots.clamp(2, MAX_SLOTS).next_power_of_two()
}

/// The producers' end.
#[derive(Clone)]
pub struct Ring {
    memory: Arc<dyn RingMemory>,
    slots: usize,
    waker: Option<Waker>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring in this process's memory, with its consumer.
    #[must_use]
    pub fn new(slots: usize, waker: Option<Waker>) -> (Ring, Consumer) {
        let words: Box<[AtomicU64]> = (0..words_for(slots)).map(|_| AtomicU64::new(0)).collect();
        let memory: Arc<dyn RingMemory> = Arc::new(words);
        (
            Ring::create(memory.clone(), slots, waker),
            Consumer::over(memory, rounded(slots)),
        )
    }

    /// Makes a ring in memory of [`words_for`] words, whatever the memory contains.
    ///
    /// # Panics
    /// When the memory has fewer words.
    #[must_use]
    pub fn create(memory: Arc<dyn RingMemory>, slots: usize, waker: Option<Waker>) -> Ring {
        let slots = rounded(slots);
        let words = memory.words();
        assert!(
            words.len() >= HEAD + slots * SLOT,
            "a ring needs memory of words_for(slots) words"
        );
        words[..HEAD]
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
        for (n, slot) in words[HEAD..].chunks_exact(SLOT).take(slots).enumerate() {
            slot[0].store(n as u64, Ordering::Relaxed);
        }
        words[1].store(slots as u64, Ordering::Relaxed);
        words[2].store(SLOT as u64, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Ring { memory, slots, waker }
    }

    /// Returns the number of signals that the ring can hold.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Appends up to [`MAX_WORDS`] words, and wakes the consumer if it sleeps; returns false when the ring is
    /// full.
    pub fn push(&self, words: &[u64]) -> bool {
        let there_is_room = self.put(words);
        self.wake();
        there_is_room
    }

    /// Does the same as [`Ring::push`] without waking the consumer; the caller uses [`Ring::wake`] after
    /// several.
    pub fn put(&self, words: &[u64]) -> bool {
        let memory = self.memory.words();
        let tail = &memory[TAIL_AT];
        for _ in 0..ATTEMPTS {
            let number = tail.load(Ordering::Relaxed);
            let at = HEAD + (number as usize & (self.slots - 1)) * SLOT;
            let slot = &memory[at..at + SLOT];
            let turn = slot[0].load(Ordering::Acquire).wrapping_sub(number) as i64;
            if turn < 0 {
                return false;
            }
            if turn > 0
                || tail
                    .compare_exchange_weak(
                        number,
                        number.wrapping_add(1),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    )
                    .is_err()
            {
                continue;
            }
            for (word, value) in slot[1..].iter().zip(words) {
                word.store(*value, Ordering::Relaxed);
            }
            slot[0].store(number.wrapping_add(1), Ordering::Release);
            return true;
        }
        false
    }

    /// Wakes the consumer if it sleeps.
    pub fn wake(&self) {
        let Some(waker) = &self.waker else { return };
        // The signal must be visible before the sleep mark is read. The consumer sets the mark before it
        // checks for signals a last time.
        fence(Ordering::SeqCst);
        let sleeping = &self.memory.words()[SLEEP_AT];
        if sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::Relaxed) != 0 {
            waker();
        }
    }
}

/// The consumer's end.
pub struct Consumer {
    memory: Arc<dyn RingMemory>,
    slots: usize,
    next: u64,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("slots", &self.slots)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Consumer {
    fn over(memory: Arc<dyn RingMemory>, slots: usize) -> Consumer {
        Consumer { memory, slots, next: 0 }
    }

    /// Opens the consumer's end of a ring that another process made; `None` when the memory is not a ring.
    #[must_use]
    pub fn open(memory: Arc<dyn RingMemory>) -> Option<Consumer> {
        let words = memory.words();
        let slots = words.get(1)?.load(Ordering::Relaxed) as usize;
        let right = words[0].load(Ordering::Acquire) == MAGIC
            && words.get(2)?.load(Ordering::Relaxed) == SLOT as u64
            && slots.is_power_of_two()
            && slots <= MAX_SLOTS
            && words.len() >= HEAD + slots * SLOT;
        let next = words.get(HEAD_AT)?.load(Ordering::Relaxed);
        right.then(|| Consumer { memory, slots, next })
    }

    /// Takes the next signal's words into `out`; returns false when the ring is empty.
    pub fn pop(&mut self, out: &mut [u64; MAX_WORDS]) -> bool {
        let memory = self.memory.words();
        let at = HEAD + (self.next as usize & (self.slots - 1)) * SLOT;
        let slot = &memory[at..at + SLOT];
        if slot[0].load(Ordering::Acquire) != self.next.wrapping_add(1) {
            return false;
        }
        for (word, value) in slot[1..].iter().zip(out.iter_mut()) {
            *value = word.load(Ordering::Relaxed);
        }
        slot[0].store(self.next.wrapping_add(self.slots as u64), Ordering::Release);
        self.next = self.next.wrapping_add(1);
        memory[HEAD_AT].store(self.next, Ordering::Relaxed);
        true
    }

    /// Returns whether a signal is queued.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let at = HEAD + (self.next as usize & (self.slots - 1)) * SLOT;
        self.memory.words()[at].load(Ordering::Acquire) == self.next.wrapping_add(1)
    }

    /// Announces that the consumer is about to sleep: from now on the next signal wakes it. Returns false
    /// when a signal is queued already, so that the consumer should not sleep.
    #[must_use]
    pub fn doze(&self) -> bool {
        let sleeping = &self.memory.words()[SLEEP_AT];
        sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let empty = !self.is_ready();
        if !empty {
            sleeping.store(0, Ordering::Relaxed);
        }
        empty
    }
}

#[cfg(all(test, hawser_loom))]
mod orders;

#[cfg(all(test, not(hawser_loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn pop(consumer: &mut Consumer) -> Option<u64> {
        let mut out = [0; MAX_WORDS];
        consumer.pop(&mut out).then_some(out[0])
    }

    #[test]
    fn a_ring_keeps_order_and_refuses_when_full() {
        let (ring, mut consumer) = Ring::new(4, None);
        for round in 0..10 {
            assert!((0..4).all(|n| ring.push(&[round * 4 + n])));
            assert!(!ring.push(&[99]));
            for n in 0..4 {
                assert_eq!(pop(&mut consumer), Some(round * 4 + n));
            }
            assert_eq!(pop(&mut consumer), None);
        }
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let waker: Waker = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (ring, mut consumer) = Ring::new(8, Some(waker));
        assert!(ring.push(&[1]));
        assert!(!consumer.doze(), "there is something");
        assert_eq!(pop(&mut consumer), Some(1));
        assert!(consumer.doze());
        assert!(ring.push(&[2]) && ring.push(&[3]));
        assert_eq!(woken.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn several_producers_lose_no_accepted_signals() {
        let (ring, mut consumer) = Ring::new(64, None);
        let each = if cfg!(miri) { 300 } else { 20_000 };
        let producers: Vec<_> = (0..3u64)
            .map(|who| {
                let ring = ring.clone();
                std::thread::Builder::new()
                    .spawn(move || {
                        for n in 0..each {
                            while !ring.push(&[who, n]) {
                                std::thread::yield_now();
                            }
                        }
                    })
                    .expect("a thread")
            })
            .collect();
        let (mut next, mut out) = ([0; 3], [0; MAX_WORDS]);
        while next.iter().sum::<u64>() < 3 * each {
            if consumer.pop(&mut out) {
                assert_eq!(out[1], next[out[0] as usize], "in each producer's order");
                next[out[0] as usize] += 1;
            } else {
                std::thread::yield_now();
            }
        }
        producers.into_iter().for_each(|p| p.join().expect("it ends"));
    }

    #[test]
    fn a_producer_survives_arbitrary_words_of_the_consumer() {
        let words: Box<[AtomicU64]> = (0..words_for(4)).map(|_| AtomicU64::new(0)).collect();
        let memory: Arc<dyn RingMemory> = Arc::new(words);
        let ring = Ring::create(memory.clone(), 4, None);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..if cfg!(miri) { 300 } else { 10_000 } {
            let value = rng.u64(..);
            rng.choice(memory.words())
                .expect("some")
                .store(value, Ordering::Relaxed);
            ring.push(&[value; MAX_WORDS]);
        }
    }

    #[test]
    fn memory_without_a_valid_ring_is_refused() {
        let zero: Box<[AtomicU64]> = (0..words_for(4)).map(|_| AtomicU64::new(0)).collect();
        assert!(Consumer::open(Arc::new(zero)).is_none());
        let words: Box<[AtomicU64]> = (0..words_for(4)).map(|_| AtomicU64::new(0)).collect();
        let memory: Arc<dyn RingMemory> = Arc::new(words);
        let ring = Ring::create(memory.clone(), 4, None);
        let mut consumer = Consumer::open(memory.clone()).expect("a ring");
        assert!(ring.push(&[5]));
        assert_eq!(pop(&mut consumer), Some(5));
        memory.words()[1].store(1 << 40, Ordering::Relaxed);
        assert!(Consumer::open(memory).is_none());
    }
}
