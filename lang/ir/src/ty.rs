//! Types and their layout in memory.
//!
//! Every integer is stored in native byte order at its natural alignment, in the smallest of 1, 2, 4 or 8
//! bytes that holds it. The emitted C can therefore declare the same `struct`. Events, signals and blueprints
//! keep their fields in order, as C does. Contexts, the scratchpad and nested structures order their fields
//! so that the fewest padding bytes remain. The size of a structure that stands alone is a multiple of 8; a
//! nested structure takes no more than its fields need.

/// Index of a [`Struct`] in [`crate::Module::structs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructId(pub u32);

/// A type of the language, as far as its memory is concerned.
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
    /// `timer_t`: the deadline in nanoseconds; 0 if the timer is not armed.
    Timer,
    /// `data_t`: the bytes that a packet carries; see [`crate::abi::Data`].
    Data,
    /// `bytes<N>`.
    Bytes { len: u32 },
    /// A structure: a user structure, event, context, blueprint, scratchpad or part.
    Struct(StructId),
    /// `list<T, N>`: `{ u32 len; u32 _; T items[N]; }`.
    List { elem: Box<Ty>, cap: u32 },
    /// `array<T, N>`: `{ T items[N]; }`. All its elements exist.
    Array { elem: Box<Ty>, len: u32 },
    /// `sorted_list<T, N, by (a, b), key k>`: laid out like a list and kept in order.
    Sorted { elem: Box<Ty>, cap: u32, by: Vec<FieldRef>, key: FieldRef },
    /// `sliding_wnd<N, T>`: `{ u64 head; u32 len; u32 _; struct { u64 from, to; } runs[N]; }`. The runs are
    /// half-open ranges of set positions, in order, and never adjacent.
    Window { runs: u32, elem: Box<Ty> },
    /// A decoded option or frame list: `{ u32 len; u32 _; struct { u64 tag; U member; } items[cap]; }`. `U`
    /// is the largest member of the union, and `tag` the member's index in it.
    Options { list: OptListId, cap: u32 },
}

/// Index of an [`crate::OptList`] in [`crate::Module::opt_lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OptListId(pub u32);

/// A scalar field of a list element, by which a sorted list orders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRef {
    /// Byte offset inside the element.
    pub offset: u32,
    /// Its type, which is scalar.
    pub ty: Box<Ty>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// The name in the source; parts and generated structures receive a generated name.
    pub name: String,
    /// The fields, in order of declaration.
    pub fields: Vec<Field>,
    /// The size in bytes; a multiple of 8 unless the structure is part of others.
    pub size: u32,
}

/// One field of a [`Struct`]: a row of the field table.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name in the source.
    pub name: String,
    pub ty: Ty,
    /// Byte offset inside the structure.
    pub offset: u32,
    /// The initial value, for scalars that have one.
    pub default: Option<u64>,
    /// The access that the interactive layer has.
    pub access: AccessRights,
}

/// The rights of the interactive layer on a field. Without any, the field is not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccessRights {
    /// Declared `observable` (or `modifiable`, which implies it).
    pub observable: bool,
    /// Declared `modifiable(min, max)`, both inclusive.
    pub modifiable: Option<(u64, u64)>,
}

/// The contents of a list, a sorted list or an option list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items<'t> {
    /// Values of this type.
    Values(&'t Ty),
    /// Entries of this option list, each with a tag and a member.
    Options(OptListId),
}

/// The number of bytes before the items of a list or of an option list.
pub const LIST_HEADER: u32 = 8;
/// The number of bytes before the runs of a sliding window.
pub const WINDOW_HEADER: u32 = 16;
/// The number of bytes before the member in an entry of an option list.
pub const OPTION_TAG: u32 = 8;

impl Ty {
    #[must_use]
    pub fn uint(bits: u8) -> Ty {
        Ty::Int { bits, signed: false }
    }

    /// True for a type that fits in a register, which includes every type that an expression can yield.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.width().is_some()
    }

    /// Returns the contents and the capacity of a list, or `None` for other types.
    #[must_use]
    pub fn items(&self) -> Option<(Items<'_>, u32)> {
        match self {
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => Some((Items::Values(elem), *cap)),
            Ty::Options { list, cap } => Some((Items::Options(*list), *cap)),
            _ => None,
        }
    }

    /// Returns the width of a scalar in bits, and whether it is signed.
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

/// Returns the alignment of a structure, given its size: the largest power of two, at most 8, that divides
/// the size. It is at least each field's alignment, because the size is a multiple of all of them.
#[must_use]
pub fn alignment_of(size: u32) -> u32 {
    1 << size.trailing_zeros().min(if size == 0 { 0 } else { 3 })
}

/// The number of bytes that processors fetch at a time. Fields larger than this come behind the others.
const CACHE_LINE: u32 = 64;

/// Computes sizes and alignments, given the structures and the option lists' entry sizes.
pub struct Layout<'a> {
    pub structs: &'a [Struct],
    /// For each option list, the size in bytes of its largest member.
    pub member_size: &'a [u32],
}

impl Layout<'_> {
    /// Returns the size of a value in bytes.
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
            Ty::Array { elem, len } => len * self.stride(elem),
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => LIST_HEADER + cap * self.stride(elem),
            Ty::Window { runs, .. } => WINDOW_HEADER + 16 * runs,
            Ty::Options { list, cap } => LIST_HEADER + cap * self.option_stride(*list),
        }
    }

    /// Returns the alignment of a value in bytes.
    #[must_use]
    pub fn align(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Bool | Ty::Int { .. } | Ty::Enum { .. } | Ty::Seq { .. } => self.size(ty),
            Ty::Ip | Ty::Bytes { .. } => 1,
            Ty::Struct(_) => alignment_of(self.size(ty)),
            Ty::Array { elem, .. } => self.align(elem),
            _ => 8,
        }
    }

    /// Returns the distance in bytes between two items of a list of `elem`.
    #[must_use]
    pub fn stride(&self, elem: &Ty) -> u32 {
        self.size(elem).next_multiple_of(self.align(elem))
    }

    /// Returns the distance in bytes between two entries of an option list.
    #[must_use]
    pub fn option_stride(&self, list: OptListId) -> u32 {
        (OPTION_TAG + self.member_size[list.0 as usize]).next_multiple_of(8)
    }

    /// Returns the distance in bytes between two items.
    #[must_use]
    pub fn item_stride(&self, items: Items<'_>) -> u32 {
        match items {
            Items::Values(elem) => self.stride(elem),
            Items::Options(list) => self.option_stride(list),
        }
    }

    /// Lays out, in order, the fields of a structure that crosses the border to the engine, after `header`
    /// bytes. Sets their offsets and returns the size, a multiple of 8.
    pub fn place(&self, header: u32, fields: &mut [Field]) -> u32 {
        self.set_offsets(header, fields.iter_mut()).next_multiple_of(8)
    }

    /// Lays out the fields of a structure that only the program reads, after `header` bytes. Fields of at
    /// most a cache line come first, by alignment, so that padding occurs only where larger fields begin.
    /// Sets their offsets and returns the size, a multiple of 8.
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

    /// Lays out the fields of a structure that is nested in other structures and in lists, as closely as
    /// [`Layout::place_closely`] does. The size is a multiple only of the fields' alignment.
    pub fn place_part(&self, fields: &mut [Field]) -> u32 {
        let align = fields.iter().map(|f| self.align(&f.ty)).max().unwrap_or(1);
        let mut order: Vec<&mut Field> = fields.iter_mut().collect();
        order.sort_by_key(|f| std::cmp::Reverse(self.align(&f.ty)));
        self.set_offsets(0, order.into_iter()).next_multiple_of(align)
    }

    /// Sets the offsets and returns the end of the last field.
    fn set_offsets<'f>(&self, header: u32, fields: impl Iterator<Item = &'f mut Field>) -> u32 {
        let mut end = header;
        for f in fields {
            f.offset = end.next_multiple_of(self.align(&f.ty));
            end = f.offset + self.size(&f.ty);
        }
        end
    }
}
