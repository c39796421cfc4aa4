//! Option and frame lists: how members are distinguished, and how unknown ones are skipped.

use hawser_ir::{Fill, OptKind, OptListId, Ty, WireConstant, WireField};
use hawser_syntax::ast::{Field, Span};

use crate::codes;
use crate::fold::value_of;
use crate::state::Checker;

impl<'a> Checker<'a> {
    /// Fills in the option list that a blueprint's field has created, and returns the length of the longest
    /// member on the wire in bytes.
    pub(crate) fn fill_option_list(&mut self, list: OptListId, record: usize, at: Span) -> Option<u32> {
        let used = &self.opt_list_uses[list.0 as usize];
        let (decl, union) = (used.decl, used.union?);
        let records = self.union_records(union)?;
        let select_bits = self.select_bits(decl);
        let mut members = Vec::new();
        let mut selectors: Vec<Vec<WireConstant>> = Vec::new();
        let mut max_len = 0;
        for (i, member) in records.iter().enumerate() {
            let ident = &self.unions[union].members[i];
            let blueprint = self.blueprint_of(*member)?;
            let found = self.module.blueprints[blueprint.0 as usize].constants();
            let selected =
                matches!(found.first(), Some(first) if first.at == 0 && first.bits == u32::from(select_bits));
            if !selected {
                let name = ident.name.clone();
                let ident_at = self.records[*member].span;
                self.error_hint(
                    codes::OPTION_MEMBER,
                    ident_at,
                    format!("no constant distinguishes `{name}` from other members"),
                    format!("expected its first field to be a constant of {select_bits} bits"),
                    format!("begin it with `uint{select_bits} kind = …;`"),
                );
                return None;
            }
            if let Some(earlier) = selectors
                .iter()
                .position(|other| other.iter().all(|s| found.contains(s)))
            {
                let earlier_name = self.unions[union].members[earlier].name.clone();
                let (name, span) = (ident.name.clone(), ident.span);
                self.error_hint(
                    codes::OPTION_MEMBER,
                    span,
                    format!("`{name}` is never chosen"),
                    format!("`{earlier_name}` comes first, and no constant of it differs"),
                    "declare the member with more constants first",
                );
            }
            self.check_own_length(*member, blueprint);
            let wire = &self.module.blueprints[blueprint.0 as usize];
            max_len = max_len.max(wire.max_len);
            members.push(OptKind { name: self.records[*member].name.clone(), blueprint, ends_list: false });
            selectors.push(found);
        }
        let unknown_len_at = self.unknown_length_at(&members);
        for (member, selector) in members.iter_mut().zip(&selectors) {
            let one_byte = self.module.blueprints[member.blueprint.0 as usize].max_len == 1;
            member.ends_list = unknown_len_at.is_some()
                && one_byte
                && selector.first() == Some(&WireConstant { at: 0, bits: 8, value: 0 });
        }
        let len = self.list_length(decl, record);
        let pad = self.padding(decl, record, at);
        let opt_list = &mut self.module.opt_lists[list.0 as usize];
        opt_list.members = members;
        opt_list.len = len;
        opt_list.select_bits = select_bits;
        opt_list.unknown_len_at = unknown_len_at;
        opt_list.pad = pad;
        Some(max_len)
    }

    fn list_field(&self, decl: usize, name: &str) -> Option<&'a Field> {
        self.opt_lists[decl].fields.iter().find(|f| f.name.name == name)
    }

    fn select_bits(&mut self, decl: usize) -> u8 {
        let init = self.list_field(decl, "type_select").and_then(|f| f.init.as_ref());
        let Some(init) = init else { return 8 };
        match self.constant_expr(init, &Ty::uint(32)) {
            Some(bits @ 1..=64) => bits as u8,
            Some(bits) => {
                self.error(
                    codes::OPTION_LIST,
                    init.span,
                    format!("{bits} bits cannot select a member"),
                    "expected 1 to 64",
                );
                8
            }
            None => 8,
        }
    }

    /// Lowers the list's length in bytes, over the blueprint that contains it.
    fn list_length(&mut self, decl: usize, record: usize) -> Option<hawser_ir::Expr> {
        let init = self.list_field(decl, "len").and_then(|f| f.init.as_ref())?;
        Some(self.wire_expr(record, init, &Ty::uint(32)))
    }

    fn padding(&mut self, decl: usize, record: usize, at: Span) -> u32 {
        let pad = match self.opt_lists[decl].pad {
            None => 0,
            Some(pad) => match self.constant_expr(pad, &Ty::uint(32)) {
                Some(pad @ 0..=64) => pad as u32,
                Some(_) => {
                    self.error(
                        codes::OPTION_LIST,
                        pad.span,
                        "this padding is out of range",
                        "expected 0 to 64 bytes",
                    );
                    0
                }
                None => 0,
            },
        };
        let counts_words = self.records[record].members.iter().any(|member| {
            member
                .field
                .is_some_and(|field| field.ty.name.name == "hdrlen4_t")
        });
        if counts_words && (pad == 0 || pad % 4 != 0) {
            let name = self.opt_lists[decl].name.name.clone();
            self.error_hint(
                codes::OPTION_LIST,
                at,
                "these options may end inside a 4-byte word",
                "the header's length is counted in 4-byte words",
                format!("add `pad 4;` to `{name}`"),
            );
        }
        pad
    }

    /// Checks that a member with a constant length states the length of its fields.
    fn check_own_length(&mut self, member: usize, blueprint: hawser_ir::BlueprintId) {
        let wire = &self.module.blueprints[blueprint.0 as usize];
        let stated = match wire.header.get(1) {
            Some(WireField::Bits { name, fill: Some(Fill::Value(value)), .. }) if name == "len" => {
                value_of(value)
            }
            _ => None,
        };
        let actual = u64::from(wire.fixed_len);
        let (fixed, max) = (wire.fixed_len, wire.max_len);
        if let Some(stated) = stated.filter(|stated| fixed == max && *stated != actual) {
            let (name, at) = (self.records[member].name.clone(), self.records[member].span);
            self.error_hint(
                codes::OPTION_MEMBER,
                at,
                format!("`{name}` states a length of {stated} bytes"),
                format!("its fields take {actual} bytes"),
                format!("write `len = {actual}`, or correct the fields"),
            );
        }
    }

    /// Returns the offset of the length if every member of more than one byte has it in the byte after the
    /// kind.
    fn unknown_length_at(&self, members: &[OptKind]) -> Option<u32> {
        let mut at = None;
        for member in members {
            let wire = &self.module.blueprints[member.blueprint.0 as usize];
            match &wire.header[..] {
                [WireField::Bits { bits, .. }] if wire.data_at.is_none() && *bits == 8 => {}
                [
                    WireField::Bits { bits: first, .. },
                    WireField::Bits { name, bits: 8, .. },
                    ..,
                ] if name == "len" && first % 8 == 0 => {
                    at = Some(u32::from(*first) / 8);
                }
                _ => return None,
            }
        }
        at
    }
}
