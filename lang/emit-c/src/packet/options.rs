//! Option and frame lists on the wire, in both directions: `wire_options_L`, `wire_put_options_L`.
//!
//! A list whose members carry a length byte (TCP options) tolerates any contents. Unknown or wrong members
//! are skipped by their length, a bad length ends the list, and members that find no room are ignored. A list
//! without length bytes (frames) is read completely or not at all.

use hawser_ir::{BlueprintId, OptListId, Ty, WireConstant};

use super::Image;
use super::format::static_len;
use super::read::{bits_at, fail};
use super::usual::TAGS;
use crate::emitter::Emitter;
use crate::names::ScopeNames;
use crate::scope::Scope;

impl Emitter<'_> {
    /// Returns the name of an option list of some capacity, as used in the names of its functions.
    fn options_name(&self, list: OptListId, cap: u32) -> String {
        let mut names = ScopeNames::default();
        let earlier = self.module.opt_lists.iter().take(list.0 as usize + 1);
        let name = earlier
            .map(|list| names.take(&list.name))
            .last()
            .unwrap_or_default();
        format!("{name}_{cap}")
    }

    /// Returns the name of the function that reads an option list.
    pub(super) fn options_reader(&self, list: OptListId, cap: u32, image: Image) -> String {
        format!("wire_options_{}{}", self.options_name(list, cap), image.suffix())
    }

    /// Returns the name of the function that writes an option list.
    pub(super) fn options_writer(&self, list: OptListId, cap: u32) -> String {
        format!("wire_put_options_{}", self.options_name(list, cap))
    }

    /// Returns the name of the function that measures an option list.
    pub(super) fn options_measure(&self, list: OptListId, cap: u32) -> String {
        format!("wire_measure_options_{}", self.options_name(list, cap))
    }

    /// Prints the function that reads the options in `n` bytes at `p`.
    pub(super) fn options_read_function(&mut self, id: OptListId, cap: u32, image: Image) {
        let mut s = self.list_scope();
        let list_type = self.type_of(&Ty::Options { list: id, cap });
        let there = image == Image::There;
        let head = format!(
            "HW_PART uint32_t {}(hw_run *run{}, const uint8_t *p, uint64_t n)",
            self.options_reader(id, cap, image),
            if there {
                format!(", {list_type} *list")
            } else {
                String::new()
            }
        );
        s.out.open(&head);
        if let Some(len_at) = self.module.opt_list(id).unknown_len_at {
            self.read_rows(&mut s, id, cap, len_at, image);
        }
        s.out.line("uint32_t count = 0;");
        let marks = there && self.is_read_by_tag(id, cap);
        if marks {
            s.out.line("uint32_t tags = 0;");
        }
        s.out.open("while (HW_MORE(n > 0))");
        self.select_member(&mut s, id);
        let list = self.module.opt_list(id);
        let stop: Vec<String> = (0..list.members.len())
            .filter(|tag| list.members[*tag].ends_list)
            .map(|tag| format!("tag == {tag}"))
            .collect();
        if !stop.is_empty() {
            s.out.open(&format!("if ({})", stop.join(" || ")));
            s.out.line("break;");
            s.out.close("");
        }
        match list.unknown_len_at {
            Some(len_at) => self.read_with_length(&mut s, id, cap, len_at, image, marks),
            None => self.read_without_length(&mut s, id, cap, image, marks),
        }
        s.out.close("");
        if there {
            s.out.line("list->len = count;");
        }
        if marks {
            s.out.line("list->pad = tags;");
        }
        s.out.line("return 0;");
        s.out.close("");
        self.wire_function(&head, s);
    }

    fn list_scope(&self) -> Scope {
        let mut scope = Scope::new();
        for name in super::TAKEN {
            scope.names.take(name);
        }
        scope
    }

    /// Sets `tag` to the first member whose constants match the bytes at `p`, or to the number of members if
    /// no member matches.
    fn select_member(&mut self, s: &mut Scope, id: OptListId) {
        let members = &self.module.opt_list(id).members;
        s.out.line(&format!("uint32_t tag = {};", members.len()));
        let constants: Vec<Vec<WireConstant>> = members
            .iter()
            .map(|m| self.module.blueprints[m.blueprint.0 as usize].constants())
            .collect();
        if let Some(kinds) = kinds(&constants) {
            s.out.open("switch (p[0])");
            for (tag, (kind, member)) in kinds.iter().zip(members).enumerate() {
                s.out.line(&format!("case {kind}: /* {} */", member.name));
                let rest = &constants[tag][1..];
                if rest.is_empty() {
                    s.out.line(&format!("    tag = {tag};"));
                } else {
                    s.out.line(&format!("    if ({})", condition(rest)));
                    s.out.line(&format!("        tag = {tag};"));
                }
                s.out.line("    break;");
            }
            s.out.close("");
            return;
        }
        for (tag, member) in members.iter().enumerate() {
            let constants = &constants[tag];
            let condition = if constants.is_empty() {
                "true".to_owned()
            } else {
                condition(constants)
            };
            let otherwise = if tag == 0 { "" } else { "else " };
            s.out.line(&format!("{otherwise}if ({condition})"));
            s.out.line(&format!("    tag = {tag}; /* {} */", member.name));
        }
    }

    /// Reads a frame, whose member determines its length.
    fn read_without_length(&mut self, s: &mut Scope, id: OptListId, cap: u32, image: Image, marks: bool) {
        let members = self.module.opt_list(id).members.len();
        fail(s, &format!("tag == {members} || count == {cap}"), "HW_FRAME");
        s.out.line("uint64_t used = 0;");
        self.read_members(s, id, image, "n");
        fail(s, "error", "error");
        s.out.line("count++;");
        if marks {
            s.out.line(&format!("tags |= UINT32_C(1) << tag % {TAGS};"));
        }
        fail(s, "used == 0", "HW_FRAME");
        s.out.line("p += used;");
        s.out.line("n -= used;");
    }

    /// Reads an option. Its length byte states its length, even for unknown kinds.
    fn read_with_length(
        &mut self,
        s: &mut Scope,
        id: OptListId,
        cap: u32,
        len_at: u32,
        image: Image,
        marks: bool,
    ) {
        let members = &self.module.opt_list(id).members;
        for (tag, member) in members.iter().enumerate() {
            let short = static_len(&self.module.blueprints[member.blueprint.0 as usize]);
            if let Some(short) = short.filter(|n| (1..=len_at).contains(n) && !member.ends_list) {
                // Padding: a member without a length has no contents to keep.
                s.out.open(&format!("if (tag == {tag} && n >= {short})"));
                s.out.line(&format!("p += {short};"));
                s.out.line(&format!("n -= {short};"));
                s.out.line("continue;");
                s.out.close("");
            }
        }
        s.out.open(&format!(
            "if (n <= {len_at} || p[{len_at}] <= {len_at} || p[{len_at}] > n)"
        ));
        s.out.line("break;");
        s.out.close("");
        s.out.line(&format!("const uint64_t len = p[{len_at}];"));
        s.out
            .open(&format!("if (tag < {} && count < {cap})", members.len()));
        if image == Image::There {
            // The bytes behind the last option need not be zero if they are never read.
            s.out
                .line("memset(&list->items[count], 0, sizeof list->items[count]);");
        }
        s.out.line("uint64_t used = 0;");
        self.read_members(s, id, image, "len");
        s.out.open("if (!error && used == len)");
        s.out.line("count++;");
        if marks {
            s.out.line(&format!("tags |= UINT32_C(1) << tag % {TAGS};"));
        }
        if image == Image::There {
            s.out.otherwise();
            s.out
                .line("memset(&list->items[count], 0, sizeof list->items[count]);");
        }
        s.out.close("");
        s.out.close("");
        s.out.line("p += len;");
        s.out.line("n -= len;");
    }

    /// Reads the member `tag` into the next entry.
    fn read_members(&mut self, s: &mut Scope, id: OptListId, image: Image, len: &str) {
        s.out.line("uint32_t error = HW_FRAME;");
        if image == Image::There {
            s.out.line("list->items[count].tag = tag;");
        }
        s.out.open("switch (tag)");
        let members = &self.module.opt_list(id).members;
        for (tag, member) in members.iter().enumerate().filter(|(_, member)| !member.ends_list) {
            let entry = format!(
                ", &list->items[count].member.{}",
                self.option_name(id, tag as u32)
            );
            let entry = if image == Image::There { entry.as_str() } else { "" };
            let name = self.wire_name(member.blueprint);
            s.out.line(&format!("case {tag}:"));
            s.out.line(&format!(
                "    error = wire_member_{name}{}(run{entry}, p, {len}, &used);",
                image.suffix()
            ));
            s.out.line("    break;");
        }
        s.out.close("");
    }

    /// Prints `wire_member_X`, which reads one member and returns its length in bytes.
    pub(super) fn member_function(&mut self, id: BlueprintId, image: Image) {
        let mut s = self.wire_scope(id, image);
        let (name, suffix) = (self.wire_name(id), image.suffix());
        let head = format!(
            "HW_PART uint32_t wire_member_{name}{suffix}(hw_run *run{}, const uint8_t *p, uint64_t len, uint64_t *used)",
            self.image_param(id, image, false)
        );
        s.out.open(&head);
        let argument = if image == Image::There { ", h" } else { "" };
        s.out.line("uint64_t header = 0;");
        s.out.line(&format!(
            "uint32_t error = wire_read_{name}{suffix}(run{argument}, p, len, &header);"
        ));
        fail(&mut s, "error", "error");
        let data_at = self.module.blueprints[id.0 as usize].data_at;
        // A frame with a payload takes the rest of its packet.
        s.out.line(&format!(
            "const uint64_t data = {};",
            if data_at.is_some() { "len - header" } else { "0" }
        ));
        let verified = self.verify_call(id, image, "(hw_facts){header + data, header, data}");
        if let Some(call) = verified {
            s.out.line(&format!("error = {call};"));
            fail(&mut s, "error", "error");
        }
        if data_at.is_some() {
            s.out.line("const hw_cursor *cursor = &run->packet->cursor;");
            s.out
                .line("const uint64_t end = hw_min(cursor->end, HW_AT(cursor->packet)->head_len);");
            self.set_data(&mut s, id, "HW_AT(cursor->packet)", "hw_left(data, end)", "data");
        }
        s.out.line("*used = header + data;");
        s.out.line("return 0;");
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Prints the functions that write the part of a list that fits in `room` bytes, padded, and that measure
    /// that part.
    pub(super) fn options_write_functions(&mut self, id: OptListId, cap: u32) {
        let list_type = self.type_of(&Ty::Options { list: id, cap });
        let pad = self.module.opt_list(id).pad.max(1);

        let mut s = self.list_scope();
        let head = format!(
            "HW_PART void {}(hw_run *run, const {list_type} *list, uint64_t room, hw_writer *out)",
            self.options_writer(id, cap)
        );
        s.out.open(&head);
        s.out.line("const uint64_t start = out->at;");
        s.out
            .line(&format!("const uint64_t limit = room / {pad} * {pad};"));
        self.write_rows(&mut s, id, cap);
        self.each_entry(&mut s, id, cap, |s, name, entry| {
            s.out
                .line(&format!("const uint64_t n = wire_measure_{name}(run, {entry});"));
            s.out.line("if (out->at - start + n <= limit)");
            s.out.line(&format!("    wire_put_{name}(run, {entry}, n, out);"));
            s.out.line("HW_STAY(out->at);");
        });
        s.out.line(&format!(
            "hw_zeros_to(out, start + hw_round_up(out->at - start, {pad}));"
        ));
        s.out.close("");
        self.wire_function(&head, s);

        let mut s = self.list_scope();
        let head = format!(
            "HW_PART uint64_t {}(hw_run *run, const {list_type} *list, uint64_t room)",
            self.options_measure(id, cap)
        );
        s.out.open(&head);
        s.out.line("uint64_t at = 0;");
        s.out
            .line(&format!("const uint64_t limit = room / {pad} * {pad};"));
        self.each_entry(&mut s, id, cap, |s, name, entry| {
            s.out
                .line(&format!("const uint64_t n = wire_measure_{name}(run, {entry});"));
            s.out.line("if (at + n <= limit)");
            s.out.line("    at += n;");
            s.out.line("HW_STAY(at);");
        });
        s.out.line(&format!("return hw_round_up(at, {pad});"));
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Prints a loop over a list's entries, with a case for each member.
    fn each_entry(&mut self, s: &mut Scope, id: OptListId, cap: u32, print: impl Fn(&mut Scope, &str, &str)) {
        s.out.line(&format!(
            "const uint32_t count = (uint32_t)hw_min(list->len, {cap});"
        ));
        s.out
            .open("for (uint32_t i = HW_ZERO; HW_MORE(i < count); HW_NEXT(i))");
        s.out.open("switch (list->items[i].tag)");
        let members = &self.module.opt_list(id).members;
        for (tag, member) in members.iter().enumerate() {
            let entry = format!("&list->items[i].member.{}", self.option_name(id, tag as u32));
            s.out.open(&format!("case {tag}:"));
            print(s, &self.wire_name(member.blueprint), &entry);
            s.out.line("break;");
            s.out.close("");
        }
        s.out.line("default:");
        s.out.line("    break;");
        s.out.close("");
        s.out.close("");
    }
}

/// Returns the first bytes of members, if these distinguish them.
pub(super) fn kinds(members: &[Vec<WireConstant>]) -> Option<Vec<u64>> {
    let kind = |constants: &Vec<WireConstant>| match constants.first() {
        Some(WireConstant { at: 0, bits: 8, value }) => Some(*value),
        Some(_) | None => None,
    };
    let kinds: Vec<u64> = members.iter().map(kind).collect::<Option<_>>()?;
    let unlike = kinds
        .iter()
        .enumerate()
        .all(|(i, kind)| !kinds[..i].contains(kind));
    unlike.then_some(kinds)
}

/// Returns a condition that constants match the `n` bytes at `p`.
fn condition(constants: &[WireConstant]) -> String {
    let test = |c: &WireConstant| {
        let bytes = (c.at + c.bits).div_ceil(8);
        format!(
            "n >= {bytes} && {} == {}",
            bits_at("p", c.at, c.bits),
            number(c.value)
        )
    };
    constants.iter().map(test).collect::<Vec<_>>().join(" && ")
}

fn number(value: u64) -> String {
    if value <= u64::from(u32::MAX >> 1) {
        value.to_string()
    } else {
        format!("UINT64_C({value})")
    }
}
