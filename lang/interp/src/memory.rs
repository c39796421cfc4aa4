//! The memory that a program can address, as a set of regions.
//!
//! A [`Loc`] is the run-time form of a place: a region and an offset. Memory is total: reading outside a
//! region yields zero, and writing there has no effect (docs/language.md, Expressions).

use std::cmp::min;

use crate::steps::Steps;

/// One contiguous piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// The region of a list element that does not exist.
    Nowhere,
    /// The frames of the running functions.
    Stack,
    /// The chain's event.
    Event,
    /// The chain's keyed context.
    Keyed,
    /// The context that the chain creates.
    Fresh,
    /// A `GLOBAL` context, by its type's index.
    Global(u32),
    Scratch,
    /// The blueprint of the packet that is built.
    Image,
    /// The blueprint of the previous packet.
    Previous,
    /// An argument of a parser or a coalescing rule, read-only.
    View(u8),
}

/// A region and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loc {
    pub(crate) region: Region,
    pub(crate) at: usize,
}

impl Loc {
    /// A location that reads as zero and ignores writes.
    pub(crate) const NOWHERE: Loc = Loc { region: Region::Nowhere, at: 0 };

    pub(crate) fn start(region: Region) -> Loc {
        Loc { region, at: 0 }
    }

    pub(crate) fn plus(self, bytes: usize) -> Loc {
        Loc { region: self.region, at: self.at.saturating_add(bytes) }
    }
}

/// All regions of one run. Regions that a run does not use stay empty.
#[derive(Default)]
pub(crate) struct RunMemory<'a> {
    pub(crate) stack: Vec<u8>,
    pub(crate) event: &'a mut [u8],
    pub(crate) keyed: &'a mut [u8],
    pub(crate) fresh: &'a mut [u8],
    pub(crate) globals: &'a mut [Vec<u8>],
    pub(crate) scratch: &'a mut [u8],
    pub(crate) image: &'a mut [u8],
    pub(crate) previous: Vec<u8>,
    pub(crate) views: [&'a [u8]; 2],
    /// The record of an observed run.
    pub(crate) steps: Option<&'a mut Steps>,
}

impl RunMemory<'_> {
    #[inline]
    fn region(&self, region: Region) -> &[u8] {
        match region {
            Region::Nowhere => &[],
            Region::Stack => &self.stack,
            Region::Event => self.event,
            Region::Keyed => self.keyed,
            Region::Fresh => self.fresh,
            Region::Global(i) => self.globals.get(i as usize).map_or(&[], Vec::as_slice),
            Region::Scratch => self.scratch,
            Region::Image => self.image,
            Region::Previous => &self.previous,
            Region::View(i) => self.views[usize::from(i)],
        }
    }

    /// Returns the bytes of a region mutably; empty for a read-only region.
    #[inline]
    fn region_mut(&mut self, region: Region) -> &mut [u8] {
        match region {
            Region::Nowhere | Region::View(_) => &mut [],
            Region::Stack => &mut self.stack,
            Region::Event => self.event,
            Region::Keyed => self.keyed,
            Region::Fresh => self.fresh,
            Region::Global(i) => self
                .globals
                .get_mut(i as usize)
                .map_or(&mut [], Vec::as_mut_slice),
            Region::Scratch => self.scratch,
            Region::Image => self.image,
            Region::Previous => &mut self.previous,
        }
    }

    /// Returns up to `len` bytes at a location: fewer if the region ends before.
    #[inline]
    pub(crate) fn bytes(&self, loc: Loc, len: usize) -> &[u8] {
        let all = self.region(loc.region);
        let start = min(loc.at, all.len());
        &all[start..min(start.saturating_add(len), all.len())]
    }

    /// Returns up to `len` bytes at a location, mutably.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, loc: Loc, len: usize) -> &mut [u8] {
        if let Some(steps) = &mut self.steps {
            steps.written(loc, len);
        }
        let all = self.region_mut(loc.region);
        let start = min(loc.at, all.len());
        let end = min(start.saturating_add(len), all.len());
        &mut all[start..end]
    }

    /// Reads a number of 1, 2, 4 or 8 bytes in native order, zero-extended.
    #[inline]
    pub(crate) fn read(&self, loc: Loc, size: usize) -> u64 {
        let all = self.region(loc.region);
        match (size, all.get(loc.at..loc.at.saturating_add(size))) {
            (1, Some(&[a])) => u64::from(a),
            (2, Some(&[a, b])) => u64::from(u16::from_ne_bytes([a, b])),
            (4, Some(&[a, b, c, d])) => u64::from(u32::from_ne_bytes([a, b, c, d])),
            (8, Some(&[a, b, c, d, e, f, g, h])) => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => 0,
        }
    }

    /// Writes the low 1, 2, 4 or 8 bytes of a number.
    #[inline]
    pub(crate) fn write(&mut self, loc: Loc, size: usize, value: u64) {
        if let Some(steps) = &mut self.steps {
            steps.written(loc, size);
        }
        let all = self.region_mut(loc.region);
        let Some(room) = all.get_mut(loc.at..loc.at.saturating_add(size)) else {
            return;
        };
        match size {
            1 => room.copy_from_slice(&(value as u8).to_ne_bytes()),
            2 => room.copy_from_slice(&(value as u16).to_ne_bytes()),
            4 => room.copy_from_slice(&(value as u32).to_ne_bytes()),
            8 => room.copy_from_slice(&value.to_ne_bytes()),
            _ => {}
        }
    }

    /// Reads a plain structure; bytes beyond the end of memory are zero.
    pub(crate) fn pod<T: bytemuck::Pod>(&self, loc: Loc) -> T {
        let mut value = T::zeroed();
        let found = self.bytes(loc, size_of::<T>());
        bytemuck::bytes_of_mut(&mut value)[..found.len()].copy_from_slice(found);
        value
    }

    pub(crate) fn put(&mut self, loc: Loc, bytes: &[u8]) {
        let room = self.bytes_mut(loc, bytes.len());
        let len = room.len();
        room.copy_from_slice(&bytes[..len]);
    }

    /// Sets `len` bytes to zero.
    pub(crate) fn zero(&mut self, loc: Loc, len: usize) {
        self.bytes_mut(loc, len).fill(0);
    }

    /// Copies `len` bytes; bytes beyond the end of the source are zero. The ranges may overlap.
    pub(crate) fn copy(&mut self, to: Loc, from: Loc, len: usize) {
        let found = self.bytes(from, len).len();
        if to.region == from.region {
            let room = self.bytes_mut(to, found).len();
            if room > 0 {
                self.region_mut(to.region)
                    .copy_within(from.at..from.at + room, to.at);
            }
        } else {
            self.copy_across(to, from, found);
        }
        self.zero(to.plus(found), len - found);
    }

    /// Copies in pieces between regions, because they cannot be borrowed together.
    fn copy_across(&mut self, to: Loc, from: Loc, len: usize) {
        let mut piece = [0; 256];
        let mut done = 0;
        while done < len {
            let n = min(len - done, piece.len());
            piece[..n].copy_from_slice(self.bytes(from.plus(done), n));
            self.put(to.plus(done), &piece[..n]);
            done += n;
        }
    }

    /// True if the same `len` bytes are at both locations.
    pub(crate) fn same(&self, a: Loc, b: Loc, len: usize) -> bool {
        let (a, b) = (self.bytes(a, len), self.bytes(b, len));
        let common = min(a.len(), b.len());
        let zero_beyond = |bytes: &[u8]| bytes[common..].iter().all(|b| *b == 0);
        a[..common] == b[..common] && zero_beyond(a) && zero_beyond(b)
    }
}
