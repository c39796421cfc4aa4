//! The declarations of a program: the tables that bodies use.

use super::call::Helper;
use super::types::{StructureDecl, StructureKind, Type, builtin_records};
use crate::rng::Rng;

/// A program's declarations so far.
#[derive(Clone, Debug)]
pub(super) struct ProgramPlan {
    pub(super) records: Vec<StructureDecl>,
    /// Constants and params: name and type.
    pub(super) constants: Vec<(String, Type)>,
    /// Tables: name, type of the values, number of values.
    pub(super) tables: Vec<(String, Type, usize)>,
    /// The width of the enum.
    pub(super) enum_bits: u8,
    pub(super) helpers: Vec<Helper>,
    pub(super) options: Vec<Options>,
    pub(super) blueprints: Vec<Blueprint>,
    pub(super) externs: Vec<Extern>,
    /// The policy of each queue.
    pub(super) queues: Vec<&'static str>,
    /// The structure of the program's own notices.
    pub(super) notice: usize,
    /// Types of local variables that are not scalars.
    pub(super) locals: Vec<Type>,
    pub(super) contexts: Vec<usize>,
    pub(super) globals: Vec<usize>,
    pub(super) scratch: Option<usize>,
    /// Structures that are parts of the contexts and of the scratchpad.
    pub(super) parts: Vec<usize>,
    /// True if contexts have two parts of one type.
    pub(super) twins: bool,
    /// True if declarations are extended, as other files of a program can do.
    pub(super) extends: bool,
    /// Separate random numbers for `twins` and `extends`, so that programs without these keep their text.
    pub(super) additions: Rng,
    /// Chains: the event, and the processors beside which others may be attached.
    pub(super) chains: Vec<(usize, Vec<String>)>,
    pub(super) text: String,
}

/// An option list: the union's members.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) members: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Blueprint {
    pub(super) record: usize,
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) args: usize,
    pub(super) ty: Type,
}

/// An extern with effects.
#[derive(Clone, Debug)]
pub(super) struct Extern {
    pub(super) name: String,
    pub(super) params: Vec<Type>,
    pub(super) answer: String,
}

impl ProgramPlan {
    pub(super) fn new(seed: u64) -> ProgramPlan {
        let mut additions = Rng::new(seed, "additions");
        ProgramPlan {
            records: builtin_records(),
            constants: Vec::new(),
            tables: Vec::new(),
            enum_bits: 8,
            helpers: Vec::new(),
            options: Vec::new(),
            blueprints: Vec::new(),
            externs: Vec::new(),
            queues: Vec::new(),
            notice: 0,
            locals: Vec::new(),
            contexts: Vec::new(),
            globals: Vec::new(),
            scratch: None,
            parts: Vec::new(),
            twins: additions.one_in(2),
            extends: additions.one_in(2),
            additions,
            chains: Vec::new(),
            text: String::new(),
        }
    }

    /// Returns a type as it is written.
    pub(super) fn written(&self, ty: &Type) -> String {
        match ty {
            Type::Bool => "bool".to_owned(),
            Type::Uint(bits) => format!("uint{bits}"),
            Type::Int(bits) => format!("int{bits}"),
            Type::Seq(bits) => format!("seq<{bits}>"),
            Type::Duration => "duration_t".to_owned(),
            Type::Time => "time_t".to_owned(),
            Type::Varint => "varint_t".to_owned(),
            Type::Enum => "kinds".to_owned(),
            Type::Addr => "addr_t".to_owned(),
            Type::Ip => "ip_addr_t".to_owned(),
            Type::Id => "id_t".to_owned(),
            Type::Bytes(len) => format!("bytes<{len}>"),
            Type::Data => "data_t".to_owned(),
            Type::Record(record) => self.records[*record].name.clone(),
            Type::Array(elem, len) => format!("array<{}, {len}>", self.written(elem)),
            Type::List(elem, cap) => format!("list<{}, {cap}>", self.written(elem)),
            Type::Sorted(row, cap, by, key) => {
                let row = &self.records[*row];
                let by: Vec<&str> = by.iter().map(|f| row.fields[*f].name.as_str()).collect();
                let key = &row.fields[*key].name;
                format!(
                    "sorted_list<{}, {cap}, by ({}), key {key}>",
                    row.name,
                    by.join(", ")
                )
            }
            Type::Window(runs, elem) if **elem == Type::Uint(64) => format!("sliding_wnd<{runs}>"),
            Type::Window(runs, elem) => format!("sliding_wnd<{runs}, {}>", self.written(elem)),
            Type::Options(list, _) => format!("opts{list}"),
        }
    }

    /// True if a record is copied as a whole.
    pub(super) fn is_copied(&self, record: usize) -> bool {
        matches!(self.records[record].kind, StructureKind::Struct)
    }

    /// Adds a record and returns its index.
    pub(super) fn add(&mut self, record: StructureDecl) -> usize {
        self.records.push(record);
        self.records.len() - 1
    }

    /// Returns the number of members that a declaration has itself; an extension adds the others.
    pub(super) fn own_members(&mut self, count: usize) -> usize {
        if !self.extends || count < 2 || self.additions.one_in(3) {
            return count;
        }
        1 + self.additions.below(count - 1)
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.text += text.as_ref();
        self.text.push('\n');
    }

    /// Returns all events of a kind, by index in [`ProgramPlan::records`].
    pub(super) fn events(&self, kind: &'static str) -> Vec<usize> {
        let all = self.records.iter().enumerate();
        all.filter(|(_, r)| r.kind == StructureKind::Event(kind))
            .map(|(i, _)| i)
            .collect()
    }
}
