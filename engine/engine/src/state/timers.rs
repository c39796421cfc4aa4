//! Timers: exact to the nanosecond, fired in order of (deadline, arming number).
//!
//! An indexed four-way heap with at most one entry per timer. Restarting a timer for later, the common case,
//! only stores the deadline; its entry stays in place and is corrected when it surfaces. Restarting for
//! earlier moves the entry up at once. Stopping only clears the number; when most entries are of stopped
//! timers, those are removed together.
//!
//! Invariants: an entry is never later than its timer. After [`Timers::settle`] the top entry is exact, and
//! therefore [`Timers::next`] is as well. Memory is bounded by the number of timers, and a timer that is not
//! armed takes four bytes.

use hawser_time::Instant;

/// The number of children of a heap position.
const CHILDREN: usize = 4;
/// The node index of a timer without a node.
const NOWHERE: u32 = u32::MAX;

/// The owner of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    /// A `GLOBAL` context, by the index of its type.
    Global(u32),
    /// A context, by the index of its slot.
    Context(u32),
}

/// All timers of a stack.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The maximum number of timers per context. A timer's place is `owner * per_context + timer`, with
    /// `GLOBAL` contexts first.
    per_context: usize,
    /// The number of context types, any of which may be `GLOBAL`.
    types: u32,
    /// The node of each timer, by place, while it has one.
    places: Vec<u32>,
    /// The timers that have an entry in the heap.
    nodes: Vec<Node>,
    free: Vec<u32>,
    heap: Vec<TimerEntry>,
    /// The number of entries of stopped timers.
    stopped: usize,
    /// The last arming number; 0 stands for "not armed".
    armed: u64,
}

/// The number of entries of stopped timers that are tolerated in any case.
const STOPPED_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: Instant,
    /// The number of its arming; 0 if it is not armed.
    number: u64,
    /// The position of its entry in the heap.
    position: u32,
    /// The place of its timer.
    place: u32,
}

#[derive(Clone, Copy, Debug)]
struct TimerEntry {
    deadline: Instant,
    number: u64,
    node: u32,
}

impl TimerEntry {
    fn key(&self) -> (Instant, u64) {
        (self.deadline, self.number)
    }
}

impl Timers {
    /// Creates an empty set of timers, for contexts of `types` types with at most `per_context` timers each.
    pub(crate) fn new(types: u32, per_context: usize) -> Timers {
        Timers {
            per_context,
            types,
            places: vec![],
            nodes: vec![],
            free: vec![],
            heap: vec![],
            stopped: 0,
            armed: 0,
        }
    }

    /// Arms or rearms a timer. `timer` is below the `per_context` given to [`Timers::new`].
    pub(crate) fn start(&mut self, owner: TimerOwner, timer: u32, deadline: Instant) {
        let place = self.place(owner, timer);
        if place >= self.places.len() {
            self.places.resize(place + 1, NOWHERE);
        }
        self.armed += 1;
        let number = self.armed;
        let index = self.places[place];
        if index == NOWHERE {
            let position = self.heap.len() as u32;
            let node = self.add_node(Node { deadline, number, position, place: place as u32 });
            self.places[place] = node;
            self.heap.push(TimerEntry { deadline, number, node });
            self.rise(self.heap.len() - 1);
            return;
        }
        let node = &mut self.nodes[index as usize];
        self.stopped -= usize::from(node.number == 0);
        (node.deadline, node.number) = (deadline, number);
        let position = node.position as usize;
        let entry = TimerEntry { deadline, number, node: index };
        if entry.key() < self.heap[position].key() {
            self.heap[position] = entry;
            self.rise(position);
        }
    }

    /// Disarms a timer; no effect if it is not armed.
    pub(crate) fn stop(&mut self, owner: TimerOwner, timer: u32) {
        let place = self.place(owner, timer);
        let node = self
            .places
            .get(place)
            .and_then(|node| self.nodes.get_mut(*node as usize));
        let Some(node) = node.filter(|node| node.number != 0) else {
            return;
        };
        node.number = 0;
        self.stopped += 1;
        if self.stopped > STOPPED_MAX.max(self.heap.len() / 2) {
            self.purge();
        }
    }

    /// Removes the entries of stopped timers if they are the majority.
    fn purge(&mut self) {
        let mut heap = std::mem::take(&mut self.heap);
        heap.retain_mut(|entry| {
            let node = self.nodes[entry.node as usize];
            if node.number == 0 {
                self.places[node.place as usize] = NOWHERE;
                self.free.push(entry.node);
            }
            (entry.deadline, entry.number) = (node.deadline, node.number);
            node.number != 0
        });
        self.heap = heap;
        self.stopped = 0;
        for at in (0..self.heap.len()).rev() {
            self.sink(at);
        }
    }

    /// Disarms all timers of a context.
    pub(crate) fn stop_all(&mut self, context: u32) {
        for timer in 0..self.per_context {
            self.stop(TimerOwner::Context(context), timer as u32);
        }
    }

    /// Returns the number of the latest arming: see [`Timers::due`].
    pub(crate) fn last_number(&self) -> u64 {
        self.armed
    }

    /// Returns the first timer with a deadline not after `now` and an arming number of at most `last`. It
    /// stays armed until [`Timers::stop`].
    ///
    /// A timer that is armed while others fire gets a deadline not before `now` and a greater number. It thus
    /// comes after all those that were due, and stopping at the first such timer is exact.
    pub(crate) fn due(&mut self, now: Instant, last: u64) -> Option<(TimerOwner, u32)> {
        // No timer is earlier than its entry.
        if self.heap.first()?.deadline > now {
            return None;
        }
        self.settle();
        let top = self.heap.first()?;
        let due = top.deadline <= now && top.number <= last;
        due.then(|| {
            let place = self.nodes[top.node as usize].place as usize;
            let owner = (place / self.per_context) as u32;
            let owner = match owner.checked_sub(self.types) {
                Some(context) => TimerOwner::Context(context),
                None => TimerOwner::Global(owner),
            };
            (owner, (place % self.per_context) as u32)
        })
    }

    /// Corrects the top entry. Needed after changes and before [`Timers::next`].
    pub(crate) fn settle(&mut self) {
        while let Some(top) = self.heap.first() {
            let node = self.nodes[top.node as usize];
            if node.number == top.number {
                return;
            }
            if node.number == 0 {
                self.stopped -= 1;
                self.remove_top();
            } else {
                self.heap[0] = TimerEntry { deadline: node.deadline, number: node.number, node: top.node };
                self.sink(0);
            }
        }
    }

    /// Returns the exact next deadline, given that [`Timers::settle`] ran after the last change.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|top| top.deadline)
    }

    #[inline]
    fn place(&self, owner: TimerOwner, timer: u32) -> usize {
        let owner = match owner {
            TimerOwner::Global(kind) => kind as usize,
            TimerOwner::Context(context) => context as usize + self.types as usize,
        };
        owner * self.per_context + timer as usize
    }

    fn add_node(&mut self, node: Node) -> u32 {
        if let Some(index) = self.free.pop() {
            self.nodes[index as usize] = node;
            return index;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn remove_top(&mut self) {
        let gone = self.heap.swap_remove(0).node;
        self.places[self.nodes[gone as usize].place as usize] = NOWHERE;
        self.free.push(gone);
        if !self.heap.is_empty() {
            self.sink(0);
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let children = at * CHILDREN + 1..(at * CHILDREN + 1 + CHILDREN).min(self.heap.len());
            let Some(smallest) = children.min_by_key(|child| self.heap[*child].key()) else {
                break;
            };
            if self.heap[smallest].key() >= entry.key() {
                break;
            }
            self.put(at, self.heap[smallest]);
            at = smallest;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: TimerEntry) {
        self.heap[at] = entry;
        self.nodes[entry.node as usize].position = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand::Rand;

    /// A model: a plain list of (deadline, arming number, context, timer), searched entirely.
    #[derive(Default)]
    struct Model {
        list: Vec<(Instant, u64, u32, u32)>,
        armed: u64,
    }

    impl Model {
        fn start(&mut self, context: u32, timer: u32, deadline: Instant) {
            self.stop(context, timer);
            self.armed += 1;
            self.list.push((deadline, self.armed, context, timer));
        }

        fn stop(&mut self, context: u32, timer: u32) {
            self.list.retain(|t| (t.2, t.3) != (context, timer));
        }

        fn first(&self) -> Option<(Instant, u64, u32, u32)> {
            self.list.iter().min().copied()
        }
    }

    /// Maps a number to an owner; the first five are `GLOBAL`.
    fn owner(number: u32) -> TimerOwner {
        match number.checked_sub(5) {
            Some(context) => TimerOwner::Context(context),
            None => TimerOwner::Global(number),
        }
    }

    #[test]
    fn timers_agree_with_a_list() {
        for seed in 0..40 {
            let mut rand = Rand::from_seed(seed);
            let (mut timers, mut model) = (Timers::new(5, 3), Model::default());
            let mut now = Instant::ORIGIN;
            for _ in 0..2000 {
                let (context, timer) = (rand.below(20) as u32, rand.below(3) as u32);
                let owner = owner(context);
                match rand.below(10) {
                    0..6 => {
                        let deadline = now.plus_nanos(rand.below(50));
                        timers.start(owner, timer, deadline);
                        model.start(context, timer, deadline);
                    }
                    6 => {
                        timers.stop(owner, timer);
                        model.stop(context, timer);
                    }
                    7 => {
                        let TimerOwner::Context(slot) = owner else {
                            continue;
                        };
                        timers.stop_all(slot);
                        (0..3).for_each(|t| model.stop(context, t));
                    }
                    _ => {
                        now = now.plus_nanos(rand.below(20));
                        let last = timers.last_number();
                        while let Some((due, timer)) = timers.due(now, last) {
                            let first = model.first().expect("the model has a timer, too");
                            assert_eq!((self::owner(first.2), first.3), (due, timer), "seed {seed}");
                            assert!(first.0 <= now);
                            timers.stop(due, timer);
                            model.stop(first.2, timer);
                        }
                        assert!(
                            model.first().is_none_or(|t| t.0 > now),
                            "seed {seed}: one was missed"
                        );
                    }
                }
                timers.settle();
                assert_eq!(timers.next(), model.first().map(|t| t.0), "seed {seed}");
                assert!(timers.heap.len() <= 60, "one entry per timer");
            }
        }
    }

    #[test]
    fn a_timer_armed_while_others_fire_waits_for_the_next_round() {
        let mut timers = Timers::new(1, 1);
        let owner = TimerOwner::Context(0);
        timers.start(owner, 0, Instant::from_nanos(5));
        let last = timers.last_number();
        assert_eq!(timers.due(Instant::from_nanos(5), last), Some((owner, 0)));
        timers.start(owner, 0, Instant::from_nanos(5));
        assert_eq!(timers.due(Instant::from_nanos(5), last), None);
        assert_eq!(
            timers.due(Instant::from_nanos(5), timers.last_number()),
            Some((owner, 0))
        );
    }
}
