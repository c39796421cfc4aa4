//! Types and their layout in memory.
//!
//! All integers are stored in native byte order at their natural alignment, in the smallest of
//! 1, 2, 4 or 8 bytes that holds them, so that the emitted C declares the same `struct`. Events,
//! signals and blueprints hold their fields in order, as C does. Contexts, the scratchpad and what
//! stands in others hold them in the order that leaves the fewest bytes between them. What stands
//! alone has a size that is a multiple of 8; what stands in others takes no more than its fields need.

/// Index of a [`Struct`] in [`crate::Module::structs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructId(pub u32);

/// A type of the language, as far as memory is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// One byte, 0 or 1.
    Bool,
    /// `uintN` or `intN`, 1 to 64 bits.
    Int { bits: u8, signed: bool },
    /// An `enum`, by its index in [`Module::enums`](crate::Module::enums), and the integer behind it.
    Enum { index: u32, bits: u8, signed: bool },
    /// `seq<W>`: an unsigned W-bit number whose order is circular.
    Seq { bits: u8 },
    /// `duration_t`: unsigned nanoseconds.
    Duration,
    /// `time_t`: unsigned nanoseconds since the engine's epoch.
    Time,
    /// `varint_t`: at most 62 bits (RFC 9000, section 16), held in 8 bytes.
    Varint,
    /// `ip_addr_t`: 16 bytes, IPv4 as an IPv4-mapped IPv6 address.
    Ip,
    /// `id_t` / `flow_id`: see [`crate::abi::Id`].
    Id,
    /// `addr_t`: an opaque reference to bytes; see [`crate::abi::Addr`].
    Addr,
    /// `timer_t`: the deadline in nanoseconds, 0 when it is not armed.
    Timer,
    /// `data_t`: which bytes a packet carries; see [`crate::abi::Data`].
    Data,
    /// `bytes<N>`.
    Bytes { len: u32 },
    /// A structure: user structs, events, contexts, blueprints, scratchpads, parts.
    Struct(StructId),
    /// `list<T, N>`: `{ u32 len; u32 _; T items[N]; }`.
    List { elem: Box<Ty>, cap: u32 },
    /// `sorted_list<T, N, by (a, b), key k>`: laid out like a list, kept in order.
    Sorted { elem: Box<Ty>, cap: u32, by: Vec<FieldRef>, key: FieldRef },
    /// `sliding_wnd<N, T>`: `{ u64 head; u32 len; u32 _; struct { u64 from, to; } runs[N]; }`,
    /// half-open runs of set positions, in order, never touching each other.
    Window { runs: u32, elem: Box<Ty> },
    /// A decoded option or frame list: `{ u32 len; u32 _; struct { u64 tag; U member; } items[cap]; }`
    /// where `U` is the largest member of the union, and `tag` the member's index in it.
    Options { list: OptListId, cap: u32 },
}

/// Index of an [`crate::OptList`] in [`crate::Module::opt_lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OptListId(pub u32);

/// A scalar field of a list element: what a sorted list orders by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRef {
    /// Byte offset inside the element.
    pub offset: u32,
    /// Its (scalar) type.
    pub ty: Box<Ty>,
}

/// A structure with its layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// The name in the source; parts and generated structures get a name of their own.
    pub name: String,
    /// In order of declaration.
    pub fields: Vec<Field>,
    /// Size in bytes; a multiple of 8 for what is no part of others.
    pub size: u32,
}

/// One field of a [`Struct`]: a row of the field table.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in the source.
    pub name: String,
    /// Its type.
    pub ty: Ty,
    /// Byte offset inside the structure.
    pub offset: u32,
    /// The initial value, for scalars that have one.
    pub default: Option<u64>,
    /// What the interactive layer may see and do.
    pub access: Access,
}

/// The outside's rights on a field; without one it is not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// Declared `observable` (or `modifiable`, which implies it).
    pub observable: bool,
    /// Declared `modifiable(min, max)`, both inclusive.
    pub modifiable: Option<(u64, u64)>,
}

/// What a list, a sorted list or an option list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items<'t> {
    /// Values of this type.
    Values(&'t Ty),
    /// Entries of this option list: each a tag and a member.
    Options(OptListId),
}

/// Bytes before the items of a list or of an option list.
pub const LIST_HEADER: u32 = 8;
/// Bytes before the runs of a sliding window.
pub const WINDOW_HEADER: u32 = 16;
/// Bytes before the member in an entry of an option list.
pub const OPTION_TAG: u32 = 8;

impl Ty {
    /// A `uintN`.
    #[must_use]
    pub fn uint(bits: u8) -> Ty {
        Ty::Int { bits, signed: false }
    }

    /// True for what fits in a register: everything that an expression can yield.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        match self {
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Timer
            | Ty::Addr => true,
            Ty::Ip
            | Ty::Id
            | Ty::Data
            | Ty::Bytes { .. }
            | Ty::Struct(_)
            | Ty::List { .. }
            | Ty::Sorted { .. }
            | Ty::Window { .. }
            | Ty::Options { .. } => false,
        }
    }

    /// What a list holds, and for how many of them it has room; nothing for what is no list.
    #[must_use]
    pub fn items(&self) -> Option<(Items<'_>, u32)> {
        match self {
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => Some((Items::Values(elem), *cap)),
            Ty::Options { list, cap } => Some((Items::Options(*list), *cap)),
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Ip
            | Ty::Id
            | Ty::Addr
            | Ty::Timer
            | Ty::Data
            | Ty::Bytes { .. }
            | Ty::Struct(_)
            | Ty::Window { .. } => None,
        }
    }

    /// The width in bits of a scalar's value, and whether it is signed.
    #[must_use]
    #[inline]
    pub fn width(&self) -> Option<(u8, bool)> {
        match self {
            Ty::Bool => Some((1, false)),
            Ty::Int { bits, signed } | Ty::Enum { bits, signed, .. } => Some((*bits, *signed)),
            Ty::Seq { bits } => Some((*bits, false)),
            Ty::Duration | Ty::Time | Ty::Varint | Ty::Timer | Ty::Addr => Some((64, false)),
            _ => None,
        }
    }
}

/// The alignment of a structure, which follows from its size: the largest power of two, at most 8, that
/// divides it. That is no less than any field's, since the size is a multiple of each of those.
#[must_use]
pub fn alignment_of(size: u32) -> u32 {
    1 << size.trailing_zeros().min(if size == 0 { 0 } else { 3 })
}

/// Bytes that processors fetch at a time. Larger fields come behind the others.
const CACHE_LINE: u32 = 64;

/// Sizes and alignments, given the structures and the option lists' entry sizes.
pub struct Layout<'a> {
    /// All structures laid out so far.
    pub structs: &'a [Struct],
    /// For each option list, the size in bytes of its largest member.
    pub member_size: &'a [u32],
}

impl Layout<'_> {
    /// Size of a value in bytes.
    #[must_use]
    pub fn size(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Bool => 1,
            Ty::Int { bits, .. } | Ty::Enum { bits, .. } | Ty::Seq { bits } => match bits {
                0..=8 => 1,
                9..=16 => 2,
                17..=32 => 4,
                _ => 8,
            },
            Ty::Duration | Ty::Time | Ty::Varint | Ty::Addr | Ty::Timer => 8,
            Ty::Ip => 16,
            Ty::Id => size_of::<crate::abi::Id>() as u32,
            Ty::Data => size_of::<crate::abi::Data>() as u32,
            Ty::Bytes { len } => *len,
            Ty::Struct(id) => self.structs[id.0 as usize].size,
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => LIST_HEADER + cap * self.stride(elem),
            Ty::Window { runs, .. } => WINDOW_HEADER + 16 * runs,
            Ty::Options { list, cap } => LIST_HEADER + cap * self.option_stride(*list),
        }
    }

    /// Alignment of a value in bytes.
    #[must_use]
    pub fn align(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Bool | Ty::Int { .. } | Ty::Enum { .. } | Ty::Seq { .. } => self.size(ty),
            Ty::Ip | Ty::Bytes { .. } => 1,
            Ty::Struct(_) => alignment_of(self.size(ty)),
            _ => 8,
        }
    }

    /// Distance in bytes between two items of a list of `elem`.
    #[must_use]
    pub fn stride(&self, elem: &Ty) -> u32 {
        self.size(elem).next_multiple_of(self.align(elem))
    }

    /// Distance in bytes between two entries of an option list.
    #[must_use]
    pub fn option_stride(&self, list: OptListId) -> u32 {
        (OPTION_TAG + self.member_size[list.0 as usize]).next_multiple_of(8)
    }

    /// Distance in bytes between two items.
    #[must_use]
    pub fn item_stride(&self, items: Items<'_>) -> u32 {
        match items {
            Items::Values(elem) => self.stride(elem),
            Items::Options(list) => self.option_stride(list),
        }
    }

    /// Lays out the fields of what goes over the border in their order, after `header` bytes; sets their
    /// offsets and returns the size, a multiple of 8.
    pub fn place(&self, header: u32, fields: &mut [Field]) -> u32 {
        self.set_offsets(header, fields.iter_mut()).next_multiple_of(8)
    }

    /// Lays out the fields of what the program alone reads, after `header` bytes, so that no byte lies
    /// between two but where large ones begin: those that fill no more than a cache line come first, by
    /// alignment. Sets their offsets and returns the size, a multiple of 8.
    pub fn place_closely(&self, header: u32, fields: &mut [Field]) -> u32 {
        let mut order: Vec<&mut Field> = fields.iter_mut().collect();
        order.sort_by_key(|f| {
            (
                self.size(&f.ty) > CACHE_LINE,
                std::cmp::Reverse(self.align(&f.ty)),
            )
        });
        self.set_offsets(header, order.into_iter()).next_multiple_of(8)
    }

    /// Lays out the fields of what stands in other structures and in lists, as closely as
    /// [`Layout::place_closely`] does: the size is a multiple of the fields' alignment alone.
    pub fn place_part(&self, fields: &mut [Field]) -> u32 {
        let align = fields.iter().map(|f| self.align(&f.ty)).max().unwrap_or(1);
        let mut order: Vec<&mut Field> = fields.iter_mut().collect();
        order.sort_by_key(|f| std::cmp::Reverse(self.align(&f.ty)));
        self.set_offsets(0, order.into_iter()).next_multiple_of(align)
    }

    /// Sets offsets; gives the end of the last field.
    fn set_offsets<'f>(&self, header: u32, fields: impl Iterator<Item = &'f mut Field>) -> u32 {
        let mut end = header;
        for f in fields {
            f.offset = end.next_multiple_of(self.align(&f.ty));
            end = f.offset + self.size(&f.ty);
        }
        end
    }
}
