//! Types in C: scalars, structures with every byte accounted for, containers.
//!
//! A structure has no padding that C could leave unset. Gaps are fields of their own, and static assertions
//! compare sizes and offsets with the module's layout.

use hawser_ir::{Field, Items, LIST_HEADER, OptListId, StructId, Ty};

use crate::emitter::Emitter;

/// The structures that the runtime declares. They are the first ones of every module.
const BUILTIN: [(&str, &str); 4] = [
    ("event_t", "hw_event"),
    ("IPheader", "hw_net"),
    ("op_t", "hw_op"),
    ("icmp_t", "hw_icmp"),
];

/// Returns the type of a scalar in a variable.
pub(crate) fn scalar(ty: &Ty) -> &'static str {
    let (bits, signed) = ty.width().unwrap_or((64, false));
    match (bits, signed) {
        _ if *ty == Ty::Bool => "bool",
        (0..=8, false) => "uint8_t",
        (9..=16, false) => "uint16_t",
        (17..=32, false) => "uint32_t",
        (_, false) => "uint64_t",
        (0..=8, true) => "int8_t",
        (9..=16, true) => "int16_t",
        (17..=32, true) => "int32_t",
        (_, true) => "int64_t",
    }
}

/// Returns the type of a scalar in memory.
pub(crate) fn stored(ty: &Ty) -> &'static str {
    if *ty == Ty::Bool { "hw_bool" } else { scalar(ty) }
}

/// Returns a word for a type, for messages of the emitter and for names of containers.
fn word(ty: &Ty) -> String {
    match ty {
        Ty::Bool => "bool".into(),
        Ty::Int { bits, signed } => format!("{}{bits}", if *signed { "int" } else { "uint" }),
        Ty::Enum { index, .. } => format!("enum{index}"),
        Ty::Seq { bits } => format!("seq{bits}"),
        Ty::Duration => "duration".into(),
        Ty::Time => "time".into(),
        Ty::Varint => "varint".into(),
        Ty::Ip => "ip".into(),
        Ty::Id => "id".into(),
        Ty::Addr => "addr".into(),
        Ty::Timer => "timer".into(),
        Ty::Data => "data".into(),
        Ty::Bytes { len } => format!("bytes{len}"),
        Ty::Struct(id) => format!("s{}", id.0),
        Ty::Array { elem, len } => format!("array{len}_{}", word(elem)),
        Ty::List { elem, cap } => format!("list{cap}_{}", word(elem)),
        Ty::Sorted { elem, cap, .. } => format!("sorted{cap}_{}", word(elem)),
        Ty::Window { runs, elem } => format!("window{runs}_{}", word(elem)),
        Ty::Options { list, cap } => format!("options{}_{cap}", list.0),
    }
}

impl Emitter<'_> {
    /// Returns a type as it stands before a variable's name.
    pub(crate) fn type_of(&mut self, ty: &Ty) -> String {
        match ty {
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Addr
            | Ty::Timer => stored(ty).to_owned(),
            Ty::Ip => "hw_ip".into(),
            Ty::Id => "hw_id".into(),
            Ty::Data => "hw_data".into(),
            Ty::Bytes { len } => self.declare_once(ty, &format!("struct hw_bytes{len}"), |_, name| {
                format!("{name} {{\n    uint8_t bytes[{len}];\n}};\n")
            }),
            Ty::Struct(id) => self.structure(*id),
            Ty::Array { elem, len } => self.array(ty, elem, *len),
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => self.list(ty, elem, *cap),
            Ty::Window { runs, .. } => {
                let name = format!("struct hw_{}", word(ty));
                self.declare_once(ty, &name, |_, name| {
                    format!(
                        "{name} {{\n    uint64_t head;\n    uint32_t len;\n    uint32_t pad;\n    hw_span runs[{runs}];\n}};\n"
                    )
                })
            }
            Ty::Options { list, cap } => self.options_type(ty, *list, *cap),
        }
    }

    /// Returns the type of an element with the bytes behind it.
    fn spaced(&mut self, elem: &Ty) -> String {
        let item = self.type_of(elem);
        let behind = self.layout().stride(elem) - self.layout().size(elem);
        if behind == 0 {
            item
        } else {
            format!("struct {{\n        {item} value;\n        uint8_t pad[{behind}];\n    }}")
        }
    }

    fn array(&mut self, ty: &Ty, elem: &Ty, len: u32) -> String {
        let item = self.spaced(elem);
        let size = self.layout().size(ty);
        self.declare_once(ty, &format!("struct hw_{}", word(ty)), |_, name| {
            format!(
                "{name} {{\n    {item} items[{len}];\n}};\n_Static_assert(sizeof({name}) == {size}, \"layout\");\n"
            )
        })
    }

    fn list(&mut self, ty: &Ty, elem: &Ty, cap: u32) -> String {
        let item = self.spaced(elem);
        let size = self.layout().size(ty);
        let name = format!("struct hw_{}", word(ty));
        // If the last item does not end at a word boundary, the next field may begin directly behind it.
        let (first, last) = if size.is_multiple_of(8) {
            ("_Alignas(8) ", "")
        } else {
            ("", " __attribute__((packed))")
        };
        self.declare_once(ty, &name, |_, name| {
            format!(
                "{name} {{\n    {first}uint32_t len;\n    uint32_t pad;\n    {item} items[{cap}];\n}}{last};\n\
                 _Static_assert(offsetof({name}, items) == {LIST_HEADER} && sizeof({name}) == {size}, \"layout\");\n"
            )
        })
    }

    fn options_type(&mut self, ty: &Ty, list: OptListId, cap: u32) -> String {
        let member_fields: Vec<String> = (0..self.module.opt_list(list).members.len())
            .map(|tag| {
                let id = self.option_body(list, tag as u32);
                let (text, name) = (self.structure(id), self.option_name(list, tag as u32));
                format!("        {text} {name};\n")
            })
            .collect();
        let (size, stride) = (self.layout().size(ty), self.layout().option_stride(list));
        let name = format!("struct hw_{}", word(ty));
        self.declare_once(ty, &name, |_, name| {
            format!(
                "{name}_entry {{\n    uint64_t tag;\n    union {{\n{}    }} member;\n}};\n\
                 {name} {{\n    _Alignas(8) uint32_t len;\n    uint32_t pad;\n    {name}_entry items[{cap}];\n}};\n\
                 _Static_assert(sizeof({name}_entry) == {stride} && sizeof({name}) == {size}, \"layout\");\n",
                member_fields.concat()
            )
        })
    }

    /// Returns the type of the items of a list or an array.
    pub(crate) fn item_type(&mut self, list: &Ty) -> String {
        if let Ty::Array { elem, .. } = list {
            return self.type_of(elem);
        }
        match list.items() {
            Some((Items::Values(elem), _)) => self.type_of(elem),
            Some((Items::Options(_), _)) => format!("{}_entry", self.type_of(list)),
            None => "void".into(),
        }
    }

    /// Returns the member of a list that holds the item with an index.
    pub(crate) fn item(&self, list: &Ty, index: &str) -> String {
        let value = match list {
            Ty::Array { elem, .. } | Ty::List { elem, .. }
                if self.layout().stride(elem) != self.layout().size(elem) =>
            {
                ".value"
            }
            _ => "",
        };
        format!("items[{index}]{value}")
    }

    /// Returns the structure of an option list's member.
    pub(crate) fn option_body(&self, list: OptListId, tag: u32) -> StructId {
        let member = &self.module.opt_list(list).members[tag as usize];
        self.module.blueprints[member.blueprint.0 as usize].body
    }

    /// Returns the header with which a structure of this kind begins, as ABI type and size.
    pub(crate) fn header(&self, id: StructId) -> Option<(&'static str, u32)> {
        self.headers[id.0 as usize]
    }

    /// Returns a structure, which is declared on first use.
    pub(crate) fn structure(&mut self, id: StructId) -> String {
        let wanted = &self.module.structure(id).name;
        if let Some((name, builtin)) = BUILTIN.get(id.0 as usize)
            && name == wanted
        {
            return (*builtin).to_owned();
        }
        let ty = Ty::Struct(id);
        if let Some(name) = self.declared.get(&ty) {
            return name.clone();
        }
        let tag = self.tags.take(wanted);
        let name = format!("struct {tag}");
        self.declared_tags.insert(tag);
        let text = self.structure_text(id, &name);
        self.types.push_str(&text);
        self.types.push('\n');
        self.declared.insert(ty, name.clone());
        name
    }

    /// True if the runtime declares this structure.
    pub(crate) fn is_builtin(&self, id: StructId) -> bool {
        BUILTIN
            .get(id.0 as usize)
            .is_some_and(|(name, _)| *name == self.module.structure(id).name)
    }

    fn structure_text(&mut self, id: StructId, name: &str) -> String {
        let structure = self.module.structure(id);
        let mut body = Vec::new();
        let mut end = 0;
        if let Some((header, size)) = self.header(id) {
            body.push(format!("{header} head;"));
            end = size;
        }
        let names = self.field_names(id);
        let mut asserts = String::new();
        let mut fields: Vec<_> = structure.fields.iter().zip(names.iter()).collect();
        // A field of size zero comes before the field that begins at the same offset.
        fields.sort_by_key(|(field, _)| (field.offset, self.layout().size(&field.ty)));
        for (field, field_name) in fields {
            gap(&mut body, end, field.offset);
            let text = self.type_of(&field.ty);
            body.push(format!("{text} {field_name};{}", note(field)));
            asserts += &format!(
                "_Static_assert(offsetof({name}, {field_name}) == {}, \"layout\");\n",
                field.offset
            );
            end = field.offset + self.layout().size(&field.ty);
        }
        gap(&mut body, end, structure.size);
        let align = format!("_Alignas({}) ", hawser_ir::alignment_of(structure.size));
        let mut text = format!("{name} {{\n");
        for (i, line) in body.iter().enumerate() {
            let align = if i == 0 { align.as_str() } else { "" };
            text += &format!("    {align}{line}\n");
        }
        text + &format!(
            "}};\n_Static_assert(sizeof({name}) == {}, \"layout\");\n{asserts}",
            structure.size
        )
    }

    /// Declares a type on first use.
    fn declare_once(&mut self, ty: &Ty, name: &str, text: impl Fn(&Self, &str) -> String) -> String {
        if let Some(name) = self.declared.get(ty) {
            return name.clone();
        }
        // Different types with the same word (sorted lists by other fields) get a number.
        let tag = name.trim_start_matches("struct ");
        let free = self.declared_tags.insert(tag.to_owned());
        let name = if free {
            name.to_owned()
        } else {
            format!("{name}_v{}", self.declared.len())
        };
        let text = text(self, &name);
        self.types.push_str(&text);
        self.types.push('\n');
        self.declared.insert(ty.clone(), name.clone());
        name
    }

    /// Returns the size in bytes of the largest value that a read of a missing place can yield.
    pub(crate) fn largest(&self) -> u32 {
        let structs = self.module.structs.iter().map(|s| s.size).max().unwrap_or(0);
        let declared = self
            .declared
            .keys()
            .map(|ty| self.layout().size(ty))
            .max()
            .unwrap_or(0);
        structs
            .max(declared)
            .max(size_of::<hawser_ir::abi::EventHeader>() as u32)
            .next_multiple_of(8)
            + 8
    }
}

/// Adds the bytes that belong to no field.
fn gap(body: &mut Vec<String>, from: u32, to: u32) {
    if to > from {
        body.push(format!("uint8_t pad_{from}[{}];", to - from));
    }
}

/// Describes the properties of a field that its C type does not show.
fn note(field: &Field) -> String {
    match &field.ty {
        Ty::Int { bits, .. } | Ty::Enum { bits, .. } if !matches!(bits, 8 | 16 | 32 | 64) => {
            format!(" /* {bits} bits */")
        }
        Ty::Seq { bits } => format!(" /* seq<{bits}> */"),
        Ty::Duration | Ty::Time => " /* ns */".into(),
        Ty::Timer => " /* timer: deadline in ns, 0: not armed */".into(),
        _ => String::new(),
    }
}
