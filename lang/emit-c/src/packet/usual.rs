//! Rows of options that the program itself adds in one sequence, such as TCP's timestamps behind two
//! no-operations. Almost every packet has exactly such a row, whichever side wrote it. It is therefore
//! compared, read and written as a whole; other options are handled one by one.
//!
//! Invariant: a row's code has the same effect as the general code.

use std::collections::BTreeSet;

use hawser_ir::{ContainerOp, Module, OptListId, Stmt, StmtKind, Ty, WireConstant};

use super::Image;
use super::format::{options, static_len};
use super::options::kinds;
use crate::emitter::Emitter;
use crate::scope::Scope;

/// The maximum number of rows of a list that are used: the longest ones.
const MAX_ROWS: usize = 1;

/// The options in a row, each with its tag and its length in bytes.
struct Row(Vec<(u32, u32)>);

impl Row {
    /// Returns its length in bytes.
    fn len(&self) -> u32 {
        self.0.iter().map(|(_, len)| len).sum()
    }

    /// Returns, for each option, its tag, the number of bytes before it, and its length.
    fn placed(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        self.0.iter().scan(0, |at, (tag, len)| {
            let before = *at;
            *at += len;
            Some((*tag, before, *len))
        })
    }
}

/// The number of tags that have a bit of their own; further tags share bits.
pub(super) const TAGS: u32 = 32;

impl Emitter<'_> {
    /// Returns the rows of a list. They have a fixed length, need no padding, and are no longer than the
    /// list.
    fn rows(&self, id: OptListId, cap: u32) -> Vec<Row> {
        let list = self.module.opt_list(id);
        let len = |tag: &u32| {
            let member = list
                .members
                .get(*tag as usize)
                .filter(|member| !member.ends_list)?;
            static_len(&self.module.blueprints[member.blueprint.0 as usize]).filter(|len| *len > 0)
        };
        let rows = added(self.module, id).into_iter().filter_map(|tags| {
            let row: Option<Vec<(u32, u32)>> = tags.iter().map(|tag| Some((*tag, len(tag)?))).collect();
            row.map(Row)
        });
        let fits = |row: &Row| row.len().is_multiple_of(list.pad.max(1)) && row.0.len() <= cap as usize;
        let mut rows: Vec<Row> = rows.filter(fits).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.len()));
        rows.truncate(MAX_ROWS);
        rows
    }

    /// Reads the `n` bytes at `p` if they are a usual row, for a list whose options state their length.
    pub(super) fn read_rows(&mut self, s: &mut Scope, id: OptListId, cap: u32, len_at: u32, image: Image) {
        for row in self.rows(id, cap) {
            let Some(is_row) = self.looks_like(id, &row) else {
                continue;
            };
            let len = row.len();
            s.out.open(&format!("if (n == {len} && {is_row})"));
            let (mut kept, mut tags) = (0, 0u32);
            let mut read = Vec::new();
            for (tag, at, len) in row.placed().filter(|(_, _, len)| *len > len_at) {
                let entry = format!("list->items[{kept}]");
                let name = self.wire_name(self.module.opt_list(id).members[tag as usize].blueprint);
                let mut argument = String::new();
                if image == Image::There {
                    if !self.is_read_by_tag(id, cap) {
                        s.out.line(&format!("memset(&{entry}, 0, sizeof {entry});"));
                    }
                    s.out.line(&format!("{entry}.tag = {tag};"));
                    argument = format!(", &{entry}.member.{}", self.option_name(id, tag));
                }
                s.out.line(&format!("uint64_t used_{kept} = 0;"));
                read.push(format!(
                    "wire_member_{name}{}(run{argument}, p + {at}, {len}, &used_{kept}) == 0 && used_{kept} == {len}",
                    image.suffix()
                ));
                kept += 1;
                tags |= 1 << (tag % TAGS);
            }
            if !read.is_empty() {
                s.out.open(&format!("if ({})", read.join(" && ")));
            }
            if image == Image::There {
                s.out.line(&format!("list->len = {kept};"));
                if self.is_read_by_tag(id, cap) {
                    s.out.line(&format!("list->pad = {tags};"));
                }
            }
            s.out.line("return 0;");
            if !read.is_empty() {
                s.out.close("");
            }
            s.out.close("");
        }
    }

    /// Writes a list that is a usual row, if `out` has room for it, and returns.
    pub(super) fn write_rows(&mut self, s: &mut Scope, id: OptListId, cap: u32) {
        for row in self.rows(id, cap) {
            let len = row.len();
            let tags = row
                .0
                .iter()
                .enumerate()
                .map(|(i, (tag, _))| format!("list->items[{i}].tag == {tag}"));
            let tags = tags.collect::<Vec<_>>().join(" && ");
            let room = format!("{len} <= limit && start <= out->room && out->room - start >= {len}");
            s.out
                .open(&format!("if (list->len == {} && {tags} && {room})", row.0.len()));
            s.out
                .line(&format!("hw_writer row = {{out->bytes + start, {len}, 0}};"));
            for (i, (tag, len)) in row.0.iter().enumerate() {
                let name = self.wire_name(self.module.opt_list(id).members[*tag as usize].blueprint);
                let member = self.option_name(id, *tag);
                s.out.line(&format!(
                    "wire_put_{name}(run, &list->items[{i}].member.{member}, {len}, &row);"
                ));
            }
            s.out.line(&format!("out->at = start + {len};"));
            s.out.line("return;");
            s.out.close("");
        }
    }

    /// Returns the comparison of the bytes at `p` with the constants of a row; `None` if options cannot be
    /// distinguished by their first bytes.
    fn looks_like(&self, id: OptListId, row: &Row) -> Option<String> {
        let members = &self.module.opt_list(id).members;
        let constants: Vec<_> = members
            .iter()
            .map(|m| self.module.blueprints[m.blueprint.0 as usize].constants())
            .collect();
        kinds(&constants)?;
        let mut bytes = Vec::new();
        for (tag, at, _) in row.placed() {
            let whole = |c: &WireConstant| c.at.is_multiple_of(8) && c.bits.is_multiple_of(8);
            if !constants[tag as usize].iter().all(whole) {
                return None;
            }
            for constant in &constants[tag as usize] {
                let count = constant.bits / 8;
                bytes.extend((0..count).map(|i| {
                    (
                        at + constant.at / 8 + i,
                        (constant.value >> (8 * (count - 1 - i))) as u8,
                    )
                }));
            }
        }
        let mut tests = Vec::new();
        let mut rest = &bytes[..];
        while let Some((first, _)) = rest.first() {
            let beside = rest
                .iter()
                .enumerate()
                .take_while(|(i, (at, _))| *at == first + *i as u32)
                .count();
            let taken = [8, 4, 2, 1]
                .into_iter()
                .find(|width| *width <= beside)
                .unwrap_or(1);
            let value = rest[..taken]
                .iter()
                .fold(0u64, |value, (_, byte)| value << 8 | u64::from(*byte));
            tests.push(format!(
                "hw_wire_get(p + {first}, {taken}) == UINT64_C({value:#x})"
            ));
            rest = &rest[taken..];
        }
        Some(tests.join(" && "))
    }

    /// True if only the length of a received list and the presence of its members are ever read. In that case
    /// the unused half of its length's word shows the members, with a bit for each tag.
    pub(super) fn is_read_by_tag(&self, id: OptListId, cap: u32) -> bool {
        self.module.blueprints.iter().enumerate().all(|(i, blueprint)| {
            let has = options(blueprint).is_some_and(|(list, _, of)| (list, of) == (id, cap));
            !has || self.sparse.holds(hawser_ir::BlueprintId(i as u32))
        })
    }
}

/// Returns the tags of two or more options that a function adds to a list in sequence.
fn added(module: &Module, id: OptListId) -> BTreeSet<Vec<u32>> {
    let mut found = BTreeSet::new();
    module
        .funcs
        .iter()
        .for_each(|func| gather(&func.body, id, &mut found));
    found.retain(|tags| tags.len() > 1);
    found
}

/// Collects sequences of added options. Any statement between two options ends a sequence, except those that
/// prepare values.
fn gather(body: &[Stmt], id: OptListId, found: &mut BTreeSet<Vec<u32>>) {
    let mut tags = Vec::new();
    for stmt in body {
        if let StmtKind::Container { op: ContainerOp::OptionAdd(list, member, _), .. } = &stmt.kind
            && matches!(list.ty, Ty::Options { list, .. } if list == id)
        {
            tags.push(member.0);
            continue;
        }
        if !matches!(
            stmt.kind,
            StmtKind::Init(_) | StmtKind::Store(..) | StmtKind::Copy(..)
        ) {
            found.insert(std::mem::take(&mut tags));
        }
        stmt.kind
            .blocks()
            .into_iter()
            .for_each(|inside| gather(inside, id, found));
    }
    found.insert(tags);
}
