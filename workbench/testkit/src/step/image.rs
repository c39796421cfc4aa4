//! Converts written values to the memory of a blueprint, and back.

use std::collections::BTreeMap;

use hawser_engine::net::{from_bytes, to_bytes};
use hawser_ir::{Items, LIST_HEADER, Layout, Module, OPTION_TAG, OptListId, StructId, Ty, WireField};

use crate::step::cursor::{Error, LineParse};
use crate::step::literal::{Field, Literal, ValueLiteral};
use crate::step::payload::{self, Payload};
use crate::step::span;

/// Integers of at most this many bits are not shown if they are zero, because they are reserved bits and
/// flags.
const FLAG_BITS: u8 = 4;

/// Values found in packets, by name.
pub(crate) type BoundNames = BTreeMap<String, u64>;

/// A packet does not match its written form.
pub(crate) enum ImageMismatch {
    /// The written form is invalid.
    Wrong(Error),
    /// The packet differs.
    Differs(String),
}

impl From<Error> for ImageMismatch {
    fn from(error: Error) -> ImageMismatch {
        ImageMismatch::Wrong(error)
    }
}

/// The tables of a program.
pub(crate) struct Types<'a> {
    pub(crate) module: &'a Module,
    pub(crate) layout: Layout<'a>,
}

impl<'a> Types<'a> {
    /// Writes values of fields into a structure. Returns the payload, if one is written.
    pub(crate) fn write_fields(
        &self,
        structure: StructId,
        fields: &[Field],
        into: &mut [u8],
        names: &BoundNames,
    ) -> LineParse<Option<Payload>> {
        let mut payload = None;
        for field in fields {
            let (ty, at) = self.field(structure, &field.name, field.column)?;
            let part = into.get_mut(at..).unwrap_or_default();
            payload = self.write(ty, &field.value, part, names)?.or(payload);
        }
        Ok(payload)
    }

    /// Returns a field's type and its offset in the structure.
    pub(crate) fn field(&self, structure: StructId, name: &str, column: u32) -> LineParse<(&'a Ty, usize)> {
        let structure = self.module.structure(structure);
        let field = structure.fields.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| {
            let known: Vec<&str> = structure.fields.iter().map(|field| field.name.as_str()).collect();
            Error::new(column, format!("`{}` has no field `{name}`", structure.name))
                .hint(format!("it has: {}", known.join(", ")))
        })?;
        Ok((&field.ty, field.offset as usize))
    }

    fn write(
        &self,
        ty: &'a Ty,
        value: &ValueLiteral,
        into: &mut [u8],
        names: &BoundNames,
    ) -> LineParse<Option<Payload>> {
        if ty.width().is_some() {
            let number = self.number(ty, value, names)?;
            store(into, number, self.layout.size(ty) as usize);
            return Ok(None);
        }
        let mut put = |bytes: &[u8]| {
            let room = into.len().min(bytes.len());
            into[..room].copy_from_slice(&bytes[..room]);
        };
        match (ty, &value.literal) {
            (Ty::Data, _) => return Payload::parse(value).map(Some),
            (Ty::Ip, Literal::Word(word)) => {
                let address = word.parse().map_err(|_| expected(value, "an address"))?;
                put(&to_bytes(address));
            }
            (Ty::Bytes { len }, _) => {
                let bytes = Payload::parse(value)?.bytes(0);
                if bytes.len() != *len as usize {
                    return Err(expected(
                        value,
                        &format!("{len} bytes as in `0x00ff` or `\"text\"`"),
                    ));
                }
                put(&bytes);
            }
            (Ty::Struct(id), Literal::Fields(fields)) => {
                return self.write_fields(*id, fields, into, names);
            }
            (Ty::Struct(_), _) => return Err(expected(value, "fields as in `{from: 1, to: 2}`")),
            _ => match (ty.items(), &value.literal) {
                (Some((items, cap)), Literal::List(elements, false)) => {
                    self.write_list(items, cap as usize, (elements, value), into, names)?;
                }
                (Some(_), _) => return Err(expected(value, "a list as in `[1, 2]`")),
                (None, _) => return Err(expected(value, "no value: this type cannot be written")),
            },
        }
        Ok(None)
    }

    fn write_list(
        &self,
        items: Items<'a>,
        cap: usize,
        (elements, value): (&[ValueLiteral], &ValueLiteral),
        into: &mut [u8],
        names: &BoundNames,
    ) -> LineParse<()> {
        if elements.len() > cap {
            return Err(expected(value, &format!("a list of at most {cap}")));
        }
        store(into, elements.len() as u64, 4);
        let stride = self.layout.item_stride(items) as usize;
        for (index, element) in elements.iter().enumerate() {
            let part = into
                .get_mut(LIST_HEADER as usize + index * stride..)
                .unwrap_or_default();
            match items {
                Items::Values(ty) => drop(self.write(ty, element, part, names)?),
                Items::Options(list) => {
                    let (tag, structure, fields) = self.member(list, element)?;
                    store(part, tag as u64, 8);
                    let body = part.get_mut(OPTION_TAG as usize..).unwrap_or_default();
                    self.write_fields(structure, fields, body, names)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the member of an option list that is written.
    fn member<'v>(
        &self,
        list: OptListId,
        value: &'v ValueLiteral,
    ) -> LineParse<(usize, StructId, &'v [Field])> {
        let members = &self.module.opt_list(list).members;
        let (name, fields) = match &value.literal {
            Literal::Named(name, fields) => (name, fields.as_slice()),
            Literal::Word(name) => (name, &[][..]),
            _ => return Err(expected(value, "an option as in `window_scale{shift: 7}`")),
        };
        let tag = members
            .iter()
            .position(|member| member.name == *name)
            .ok_or_else(|| {
                let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
                Error::new(value.column, format!("unknown option `{name}`"))
                    .hint(format!("there are: {}", known.join(", ")))
            })?;
        let blueprint = &self.module.blueprints[members[tag].blueprint.0 as usize];
        Ok((tag, blueprint.body, fields))
    }

    /// Returns the number that is written for a scalar.
    pub(crate) fn number(&self, ty: &Ty, value: &ValueLiteral, names: &BoundNames) -> LineParse<u64> {
        let Literal::Word(word) = &value.literal else {
            return Err(expected(value, "a number"));
        };
        let (bits, signed) = ty.width().unwrap_or((64, false));
        let mask = u64::MAX >> (64 - u32::from(bits.max(1)));
        if let Some(name) = word.strip_prefix('$') {
            return self.named(name, value, names).map(|number| number & mask);
        }
        let number = match ty {
            Ty::Bool => match word.as_str() {
                "true" | "1" => Some(1),
                "false" | "0" => Some(0),
                _ => return Err(expected(value, "true or false")),
            },
            Ty::Enum { index, .. } => {
                let names = &self.module.enums[*index as usize];
                let variant = names.variants.iter().find(|(_, name)| name == word);
                let number = variant.map(|(number, _)| number & mask);
                let number = number.or_else(|| integer(word, bits, signed));
                return number.filter(|number| number & !mask == 0).ok_or_else(|| {
                    let known: Vec<&str> = names.variants.iter().map(|(_, name)| name.as_str()).collect();
                    expected(value, &format!("a {}: {}", names.name, known.join(", ")))
                });
            }
            Ty::Duration | Ty::Time | Ty::Timer => span::parse(word).map(hawser_time::nanos),
            _ => integer(word, bits, signed),
        };
        let number = number.filter(|number| number & !mask == 0);
        number.ok_or_else(|| expected(value, &format!("a number of {bits} bits")))
    }

    /// Evaluates `iss`, `iss+1` or `iss-1`.
    fn named(&self, expression: &str, value: &ValueLiteral, names: &BoundNames) -> LineParse<u64> {
        let at = expression.find(['+', '-']).unwrap_or(expression.len());
        let (name, rest) = expression.split_at(at);
        let known = names.get(name).copied().ok_or_else(|| {
            Error::new(value.column, format!("`${name}` has no value yet"))
                .hint("a packet out gives a name its value: `> SW{seq: $first}`")
        })?;
        let offset =
            || plain(&rest[1..]).ok_or_else(|| expected(value, "a name with a number added: `$iss+1`"));
        Ok(match rest.chars().next() {
            Some('+') => known.wrapping_add(offset()?),
            Some(_) => known.wrapping_sub(offset()?),
            None => known,
        })
    }

    /// Returns the fields of a structure in written form, without computed fields and unset flags.
    pub(crate) fn show_fields(&self, structure: StructId, bytes: &[u8], payload: &[u8]) -> Vec<Field> {
        let computed = self.computed(structure);
        let structure = self.module.structure(structure);
        let written = structure.fields.iter().filter_map(|field| {
            let part = bytes.get(field.offset as usize..).unwrap_or_default();
            let size = self.layout.size(&field.ty) as usize;
            let zero = part.iter().take(size).all(|byte| *byte == 0);
            let flag = match field.ty {
                Ty::Bool | Ty::Struct(_) => true,
                Ty::Int { bits, .. } => bits <= FLAG_BITS,
                _ => false,
            };
            // Padding is long and has no meaning.
            let padding =
                matches!(field.ty, Ty::Bytes { len } if len > 16) && part.iter().all(|byte| *byte == 0);
            let shown = !(computed.contains(&field.name.as_str()) || flag && zero || padding);
            shown.then(|| Field {
                name: field.name.clone(),
                column: 0,
                value: unplaced(self.show(&field.ty, part, payload)),
            })
        });
        written.collect()
    }

    /// Returns the numbers of a structure's own fields, without computed fields and flags.
    pub(crate) fn numbers(&self, structure: StructId, bytes: &[u8]) -> Vec<(String, u64)> {
        let computed = self.computed(structure);
        let fields = self.module.structure(structure).fields.iter();
        let numbers = fields.filter(|field| match field.ty {
            Ty::Int { bits, .. } => bits > FLAG_BITS,
            Ty::Seq { .. } | Ty::Varint => true,
            _ => false,
        });
        numbers
            .filter(|field| !computed.contains(&field.name.as_str()))
            .map(|field| {
                let part = bytes.get(field.offset as usize..).unwrap_or_default();
                (
                    field.name.clone(),
                    load(part, self.layout.size(&field.ty) as usize),
                )
            })
            .collect()
    }

    /// Returns the names of the fields that a header computes, if the structure is a header's.
    fn computed(&self, structure: StructId) -> Vec<&str> {
        let blueprint = self
            .module
            .blueprints
            .iter()
            .find(|known| known.body == structure);
        let fields = blueprint
            .into_iter()
            .flat_map(|known| known.header.iter().chain(&known.trailer));
        fields
            .filter_map(|field| match field {
                WireField::Bits { name, fill: Some(_), .. } => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn show(&self, ty: &Ty, bytes: &[u8], payload: &[u8]) -> Literal {
        let word = |text: String| Literal::Word(text);
        if let Some((bits, signed)) = ty.width() {
            return word(self.show_number(ty, load(bytes, self.layout.size(ty) as usize), bits, signed));
        }
        match ty {
            Ty::Data => payload::show(payload),
            Ty::Ip => {
                let mut address = [0; 16];
                address.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                word(from_bytes(address).to_string())
            }
            Ty::Bytes { len } => {
                let digits = bytes.iter().take(*len as usize).map(|byte| format!("{byte:02x}"));
                word(format!("0x{}", digits.collect::<String>()))
            }
            Ty::Struct(id) => Literal::Fields(self.show_fields(*id, bytes, &[])),
            _ => match ty.items() {
                Some((items, cap)) => {
                    let len = (load(bytes, 4) as usize).min(cap as usize);
                    let stride = self.layout.item_stride(items) as usize;
                    let element = |index: usize| {
                        let part = bytes
                            .get(LIST_HEADER as usize + index * stride..)
                            .unwrap_or_default();
                        unplaced(match items {
                            Items::Values(ty) => self.show(ty, part, &[]),
                            Items::Options(list) => self.show_option(list, part),
                        })
                    };
                    Literal::List((0..len).map(element).collect(), false)
                }
                None => word("?".to_owned()),
            },
        }
    }

    fn show_option(&self, list: OptListId, bytes: &[u8]) -> Literal {
        let tag = load(bytes, 8) as usize;
        let Some(member) = self.module.opt_list(list).members.get(tag) else {
            return Literal::Word(tag.to_string());
        };
        let body = self.module.blueprints[member.blueprint.0 as usize].body;
        let part = bytes.get(OPTION_TAG as usize..).unwrap_or_default();
        Literal::Named(member.name.clone(), self.show_fields(body, part, &[]))
    }

    fn show_number(&self, ty: &Ty, number: u64, bits: u8, signed: bool) -> String {
        match ty {
            Ty::Bool => (number != 0).to_string(),
            Ty::Enum { index, .. } => {
                let names = &self.module.enums[*index as usize];
                match names.name_of(number, bits) {
                    Some(name) => name.to_owned(),
                    None => show_integer(number, bits, signed),
                }
            }
            Ty::Duration | Ty::Time | Ty::Timer => span::show(std::time::Duration::from_nanos(number)),
            _ => show_integer(number, bits, signed),
        }
    }

    /// Compares written fields with those of a structure. A name that is written for the first time gets the
    /// value found.
    pub(crate) fn compare_fields(
        &self,
        structure: StructId,
        fields: &[Field],
        (bytes, payload): (&[u8], &[u8]),
        names: &mut BoundNames,
    ) -> Result<(), ImageMismatch> {
        for field in fields {
            let (ty, at) = self.field(structure, &field.name, field.column)?;
            let part = bytes.get(at..).unwrap_or_default();
            self.compare(&field.name, ty, &field.value, (part, payload), names)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        name: &str,
        ty: &'a Ty,
        value: &ValueLiteral,
        (bytes, payload): (&[u8], &[u8]),
        names: &mut BoundNames,
    ) -> Result<(), ImageMismatch> {
        let differs = || {
            let found = self.show(ty, bytes, payload);
            Err(ImageMismatch::Differs(format!(
                "{name} is {found}, not {}",
                value.literal
            )))
        };
        match (ty, &value.literal) {
            (Ty::Data, _) => match Payload::parse(value)?.matches(payload) {
                true => Ok(()),
                false => differs(),
            },
            (Ty::Struct(id), Literal::Fields(fields)) => {
                self.compare_fields(*id, fields, (bytes, &[]), names)
            }
            (_, Literal::List(elements, more)) if ty.items().is_some() => {
                let Some((items, _)) = ty.items() else {
                    return differs();
                };
                let len = load(bytes, 4) as usize;
                if len < elements.len() || len > elements.len() && !more {
                    return differs();
                }
                let stride = self.layout.item_stride(items) as usize;
                for (index, element) in elements.iter().enumerate() {
                    let part = bytes
                        .get(LIST_HEADER as usize + index * stride..)
                        .unwrap_or_default();
                    match items {
                        Items::Values(ty) => self.compare(name, ty, element, (part, &[]), names)?,
                        Items::Options(list) => {
                            let (tag, structure, fields) = self.member(list, element)?;
                            if load(part, 8) as usize != tag {
                                return differs();
                            }
                            let body = part.get(OPTION_TAG as usize..).unwrap_or_default();
                            self.compare_fields(structure, fields, (body, &[]), names)?;
                        }
                    }
                }
                Ok(())
            }
            (_, Literal::Word(word)) if ty.width().is_some() => {
                let size = self.layout.size(ty) as usize;
                let found = load(bytes, size);
                let new = word.strip_prefix('$').filter(|new| !new.contains(['+', '-']));
                if let Some(new) = new.filter(|new| !names.contains_key(*new)) {
                    names.insert(new.to_owned(), found);
                    return Ok(());
                }
                let number = self.number(ty, value, names)?;
                let mut wanted = [0; 8];
                store(&mut wanted, number, size);
                if load(&wanted, size) == found {
                    Ok(())
                } else {
                    differs()
                }
            }
            _ => {
                let size = self.layout.size(ty) as usize;
                let mut wanted = vec![0; size];
                self.write(ty, value, &mut wanted, names)?;
                if bytes.get(..size) == Some(&wanted) {
                    Ok(())
                } else {
                    differs()
                }
            }
        }
    }
}

fn plain(word: &str) -> Option<u64> {
    match word.starts_with(|c: char| c.is_ascii_digit()) {
        true => hawser_load::parse_value("", word)
            .ok()
            .filter(|_| span::parse(word).is_none()),
        false => None,
    }
}

/// Reads an integer of this many bits, a negative one as its lowest bits.
fn integer(word: &str, bits: u8, signed: bool) -> Option<u64> {
    if !(signed && word.starts_with('-')) {
        return plain(word);
    }
    let unused = 64 - u32::from(bits.clamp(1, 64));
    let number = word.parse::<i64>().ok();
    let number = number.filter(|number| *number >= i64::MIN >> unused)?;
    Some((number as u64) << unused >> unused)
}

fn show_integer(number: u64, bits: u8, signed: bool) -> String {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    match signed {
        true => ((number << unused) as i64 >> unused).to_string(),
        false => number.to_string(),
    }
}

fn expected(value: &ValueLiteral, what: &str) -> Error {
    Error::new(value.column, format!("`{}` is not {what}", value.literal))
}

fn unplaced(literal: Literal) -> ValueLiteral {
    ValueLiteral { column: 0, literal }
}

/// Stores a number in `size` bytes in this machine's byte order.
fn store(into: &mut [u8], number: u64, size: usize) {
    let bytes = number.to_le_bytes();
    let ordered: Vec<u8> = if cfg!(target_endian = "big") {
        bytes[..size].iter().rev().copied().collect()
    } else {
        bytes[..size].to_vec()
    };
    into.iter_mut().zip(ordered).for_each(|(to, from)| *to = from);
}

/// Loads a number of `size` bytes in this machine's byte order.
pub(crate) fn load(bytes: &[u8], size: usize) -> u64 {
    let mut ordered = [0; 8];
    let part = bytes.get(..size).unwrap_or_default();
    if cfg!(target_endian = "big") {
        ordered
            .iter_mut()
            .zip(part.iter().rev())
            .for_each(|(to, from)| *to = *from);
    } else {
        ordered.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
    }
    u64::from_le_bytes(ordered)
}
