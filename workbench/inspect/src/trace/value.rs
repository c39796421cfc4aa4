//! Bytes as values, by their type in the language.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;

use hawser_ir::abi::{Data, Id};
use hawser_ir::{Items, LIST_HEADER, Layout, Module, OPTION_TAG, Ty, WINDOW_HEADER};
use hawser_time::Instant;

use serde::{Serialize, Serializer};

use crate::trace::digits;
use crate::trace::shared_names::{ProgramNames, SharedName};

/// The maximum number of shown elements of a list.
const MAX_ELEMENTS: usize = 16;

/// A value. In JSON, spans and points in time are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceValue {
    /// A truth value.
    Flag(bool),
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A span of time in nanoseconds.
    Span(u64),
    /// A point in time, in nanoseconds since the start of the run.
    Time(u64),
    /// A timer that is not armed, or a point in time that is not set.
    None,
    /// An address, an identity, the name of an enum's number, or raw bytes in hexadecimal digits.
    Text(String),
    /// Fields by name.
    Fields(Vec<(SharedName, TraceValue)>),
    /// Elements, and the number of omitted ones.
    List(Vec<TraceValue>, usize),
}

impl TraceValue {
    /// Returns whether the value is that of unwritten memory. Text output omits such fields.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            TraceValue::Flag(flag) => !flag,
            TraceValue::Number(number) | TraceValue::Span(number) | TraceValue::Time(number) => *number == 0,
            TraceValue::Signed(number) => *number == 0,
            TraceValue::None => true,
            TraceValue::Text(text) => text.is_empty(),
            TraceValue::Fields(fields) => fields.iter().all(|(_, value)| value.is_zero()),
            TraceValue::List(elements, more) => elements.is_empty() && *more == 0,
        }
    }
}

impl Serialize for TraceValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TraceValue::Flag(flag) => serializer.serialize_bool(*flag),
            TraceValue::Number(number) | TraceValue::Span(number) | TraceValue::Time(number) => {
                serializer.serialize_u64(*number)
            }
            TraceValue::Signed(number) => serializer.serialize_i64(*number),
            TraceValue::None => serializer.serialize_none(),
            TraceValue::Text(text) => serializer.serialize_str(text),
            TraceValue::Fields(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
            TraceValue::List(elements, _) => serializer.collect_seq(elements),
        }
    }
}

impl TraceValue {
    /// Appends the value as text.
    pub(crate) fn text(&self, to: &mut Vec<u8>) {
        match self {
            TraceValue::Flag(flag) => to.extend_from_slice(if *flag { b"true" } else { b"false" }),
            TraceValue::Number(value) => digits::number(*value, to),
            TraceValue::Signed(value) => digits::signed(*value, to),
            TraceValue::Span(nanos) => span(*nanos, to),
            TraceValue::Time(nanos) => {
                digits::seconds(*nanos, 0, to);
                to.extend_from_slice(b" s");
            }
            TraceValue::None => to.extend_from_slice(b"none"),
            TraceValue::Text(text) => to.extend_from_slice(text.as_bytes()),
            TraceValue::Fields(fields) => {
                to.push(b'{');
                let set = fields.iter().filter(|(_, value)| !value.is_zero());
                for (number, (name, value)) in set.enumerate() {
                    if number > 0 {
                        to.extend_from_slice(b", ");
                    }
                    to.extend_from_slice(name.as_bytes());
                    to.push(b' ');
                    value.text(to);
                }
                to.push(b'}');
            }
            TraceValue::List(elements, more) => {
                to.push(b'[');
                for (number, value) in elements.iter().enumerate() {
                    if number > 0 {
                        to.extend_from_slice(b", ");
                    }
                    value.text(to);
                }
                if *more > 0 {
                    to.extend_from_slice(b", and ");
                    digits::number(*more as u64, to);
                    to.extend_from_slice(b" more");
                }
                to.push(b']');
            }
        }
    }
}

impl fmt::Display for TraceValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// Appends a span in the largest unit that shows it exactly, or with three decimal places.
fn span(nanos: u64, to: &mut Vec<u8>) {
    let (unit, name) = match nanos {
        u64::MAX => return to.extend_from_slice(b"never"),
        1_000_000_000.. => (1_000_000_000, " s"),
        1_000_000.. => (1_000_000, " ms"),
        1_000.. => (1_000, " us"),
        _ => (1, " ns"),
    };
    if unit == 1 {
        digits::number(nanos, to);
    } else {
        let last = unit / 1_000;
        let rounded = nanos / last + u64::from(nanos % last * 2 >= last && last > 1);
        digits::number(rounded / 1_000, to);
        to.push(b'.');
        digits::padded(rounded % 1_000, 3, b'0', to);
    }
    to.extend_from_slice(name.as_bytes());
}

/// A reader of a program's values.
pub struct Reader<'a> {
    pub(crate) module: &'a Module,
    pub(crate) layout: Layout<'a>,
    pub(crate) names: Cow<'a, ProgramNames>,
    /// The start of the run on the program's clock.
    pub(crate) start: Instant,
}

impl<'a> Reader<'a> {
    /// Creates a reader for a program with its [`Module::member_sizes`]. `start` is the time on its clock
    /// when the run began.
    #[must_use]
    pub fn new(module: &'a Module, member_size: &'a [u32], start: Instant) -> Reader<'a> {
        let layout = Layout { structs: &module.structs, member_size };
        Reader {
            module,
            layout,
            names: Cow::Owned(ProgramNames::from_module(module)),
            start,
        }
    }
}

impl Reader<'_> {
    /// Returns the value of a type at the start of `bytes`. Missing bytes read as zero.
    #[must_use]
    pub fn value(&self, ty: &Ty, bytes: &[u8]) -> TraceValue {
        if let Some((bits, signed)) = ty.width() {
            return self.scalar(ty, number(bytes, self.layout.size(ty) as usize), bits, signed);
        }
        match ty {
            Ty::Ip => TraceValue::Text(address(bytes)),
            Ty::Id => TraceValue::Text(identity(&pod(bytes))),
            Ty::Data => data(&pod(bytes)),
            Ty::Bytes { len } => TraceValue::Text(hexadecimal(bytes.get(..*len as usize).unwrap_or(bytes))),
            Ty::Struct(id) => TraceValue::Fields(
                self.module
                    .structure(*id)
                    .fields
                    .iter()
                    .zip(&self.names.fields[id.0 as usize])
                    .map(|(field, name)| {
                        let at = bytes.get(field.offset as usize..).unwrap_or(&[]);
                        (name.clone(), self.value(&field.ty, at))
                    })
                    .collect(),
            ),
            Ty::Window { runs, .. } => self.window(bytes, *runs as usize),
            Ty::Array { elem, len } => {
                let stride = self.layout.stride(elem) as usize;
                shortened(*len as usize, |index| {
                    self.value(elem, bytes.get(index * stride..).unwrap_or(&[]))
                })
            }
            _ => match ty.items() {
                Some((items, cap)) => self.list(bytes, items, cap as usize),
                None => TraceValue::Text(String::new()),
            },
        }
    }

    fn scalar(&self, ty: &Ty, raw: u64, bits: u8, signed: bool) -> TraceValue {
        match ty {
            Ty::Bool => TraceValue::Flag(raw != 0),
            Ty::Duration => TraceValue::Span(raw),
            Ty::Time | Ty::Timer if raw == 0 => TraceValue::None,
            Ty::Time | Ty::Timer => self.time(raw),
            Ty::Enum { index, .. } => {
                let names = self.module.enums.get(*index as usize);
                match names.and_then(|names| names.name_of(raw, bits)) {
                    Some(name) => TraceValue::Text(name.to_owned()),
                    None => integer(raw, bits, signed),
                }
            }
            _ => integer(raw, bits, signed),
        }
    }

    /// Converts the program's representation of a point in time.
    pub(crate) fn time(&self, raw: u64) -> TraceValue {
        TraceValue::Time(hawser_time::nanos(Instant::from_nanos(raw) - self.start))
    }

    fn list(&self, bytes: &[u8], items: Items<'_>, cap: usize) -> TraceValue {
        let len = (number(bytes, 4) as usize).min(cap);
        let stride = self.layout.item_stride(items) as usize;
        let element = |index: usize| {
            let at = bytes.get(LIST_HEADER as usize + index * stride..).unwrap_or(&[]);
            match items {
                Items::Values(ty) => self.value(ty, at),
                Items::Options(list) => self.option(list, at),
            }
        };
        shortened(len, element)
    }

    /// Reads an entry of an option list, whose tag selects the member.
    fn option(&self, list: hawser_ir::OptListId, bytes: &[u8]) -> TraceValue {
        let tag = number(bytes, 8) as usize;
        let Some(member) = self.module.opt_list(list).members.get(tag) else {
            return TraceValue::Number(tag as u64);
        };
        let body = self.module.blueprints[member.blueprint.0 as usize].body;
        let at = bytes.get(OPTION_TAG as usize..).unwrap_or(&[]);
        TraceValue::Fields(vec![(
            SharedName::new(&member.name),
            self.value(&Ty::Struct(body), at),
        )])
    }

    /// Returns the set ranges of a sliding window, each `from..to`.
    fn window(&self, bytes: &[u8], cap: usize) -> TraceValue {
        let len = (number(bytes.get(8..).unwrap_or(&[]), 4) as usize).min(cap);
        let range = |index: usize| {
            let at = bytes.get(WINDOW_HEADER as usize + 16 * index..).unwrap_or(&[]);
            let (from, to) = (number(at, 8), number(at.get(8..).unwrap_or(&[]), 8));
            TraceValue::Text(format!("{from}..{to}"))
        };
        let head = (SharedName::from("head"), TraceValue::Number(number(bytes, 8)));
        TraceValue::Fields(vec![head, (SharedName::from("ranges"), shortened(len, range))])
    }
}

fn shortened(len: usize, element: impl Fn(usize) -> TraceValue) -> TraceValue {
    let shown = len.min(MAX_ELEMENTS);
    TraceValue::List((0..shown).map(element).collect(), len - shown)
}

/// Reads a number of at most 8 bytes in this machine's byte order.
pub(crate) fn number(bytes: &[u8], size: usize) -> u64 {
    match *bytes.get(..size).unwrap_or(&[]) {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Reads a plain structure. Missing bytes are zero.
pub(crate) fn pod<T: bytemuck::Pod>(bytes: &[u8]) -> T {
    let mut value = T::zeroed();
    let len = bytes.len().min(size_of::<T>());
    bytemuck::bytes_of_mut(&mut value)[..len].copy_from_slice(&bytes[..len]);
    value
}

/// Formats an IP address of 16 bytes.
pub(crate) fn address(bytes: &[u8]) -> String {
    Ipv6Addr::from(pod::<[u8; 16]>(bytes)).to_canonical().to_string()
}

pub(crate) fn identity(id: &Id) -> String {
    if id.is_none() {
        "none".to_owned()
    } else {
        hexadecimal(id.bytes())
    }
}

/// Describes the bytes of its unit that a packet carries.
pub(crate) fn data(data: &Data) -> TraceValue {
    let mut fields = vec![
        (SharedName::from("off"), TraceValue::Number(data.off)),
        (SharedName::from("len"), TraceValue::Number(data.len.into())),
    ];
    if data.seg_size > 0 {
        fields.push((
            SharedName::from("seg_size"),
            TraceValue::Number(data.seg_size.into()),
        ));
    }
    TraceValue::Fields(fields)
}

/// An integer of this many bits.
fn integer(raw: u64, bits: u8, signed: bool) -> TraceValue {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    match signed {
        true => TraceValue::Signed((raw << unused) as i64 >> unused),
        false => TraceValue::Number(raw),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use hawser_ir::EnumNames;

    use super::*;

    fn module() -> Module {
        Module {
            enums: vec![EnumNames {
                name: "state_t".to_owned(),
                variants: vec![(0, "CLOSED".to_owned()), (1, "OPEN".to_owned())],
            }],
            ..Module::default()
        }
    }

    /// Shows a value as text, on a clock that showed 1 s when the run began.
    fn shown(ty: &Ty, bytes: &[u8]) -> String {
        let module = module();
        let names = ProgramNames::from_module(&module);
        let reader = Reader {
            module: &module,
            layout: Layout { structs: &module.structs, member_size: &[] },
            names: Cow::Borrowed(&names),
            start: Instant::from_nanos(1_000_000_000),
        };
        reader.value(ty, bytes).to_string()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn numbers_have_their_width_and_sign() {
        let signed = |bits| Ty::Int { bits, signed: true };
        assert_eq!(shown(&Ty::uint(8), &[255]), "255");
        assert_eq!(shown(&signed(8), &[255]), "-1");
        assert_eq!(shown(&signed(12), &0xfff_u16.to_ne_bytes()), "-1");
        assert_eq!(
            shown(&signed(64), &words(&[i64::MIN as u64])),
            i64::MIN.to_string()
        );
        assert_eq!(shown(&Ty::Bool, &[1]), "true");
    }

    #[test]
    fn numbers_of_an_enum_are_shown_by_name() {
        let state = Ty::Enum { index: 0, bits: 8, signed: false };
        assert_eq!(shown(&state, &[1]), "OPEN");
        assert_eq!(shown(&state, &[7]), "7");
    }

    #[test]
    fn times_are_relative_to_the_start_and_zero_is_none() {
        assert_eq!(shown(&Ty::Timer, &words(&[0])), "none");
        assert_eq!(shown(&Ty::Timer, &words(&[1_250_000_000])), "0.250000000 s");
        assert_eq!(shown(&Ty::Duration, &words(&[20_096_000])), "20.096 ms");
    }

    #[test]
    fn spans_are_rounded_to_three_digits_of_the_largest_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (999_999, "999.999 us"),
            (1_000_499, "1.000 ms"),
            (1_000_501, "1.001 ms"),
            (999_999_999, "1000.000 ms"),
            (61_234_567_890, "61.235 s"),
            (u64::MAX - 1, "18446744073.710 s"),
            (u64::MAX, "never"),
        ] {
            assert_eq!(shown(&Ty::Duration, &words(&[nanos])), text);
        }
    }

    #[test]
    fn addresses_have_their_own_form() {
        let v4 = std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
        assert_eq!(shown(&Ty::Ip, &v4), "10.0.0.1");
    }

    #[test]
    fn long_lists_are_shortened() {
        let list = Ty::List { elem: Box::new(Ty::uint(64)), cap: 20 };
        let mut bytes = words(&[18]);
        bytes.extend(words(&(0..20).collect::<Vec<_>>()));
        let text = shown(&list, &bytes);
        assert!(
            text.starts_with("[0, 1, 2,") && text.ends_with("15, and 2 more]"),
            "{text}"
        );
    }

    #[test]
    fn missing_bytes_read_as_zero() {
        assert_eq!(shown(&Ty::uint(64), &[1, 2]), "0");
        let window = Ty::Window { runs: 4, elem: Box::new(Ty::uint(32)) };
        assert_eq!(shown(&window, &[]), "{}");
        let mut bytes = words(&[10, 1, 12, 15]);
        assert_eq!(shown(&window, &bytes), "{head 10, ranges [12..15]}");
        bytes.truncate(20);
        assert_eq!(shown(&window, &bytes), "{head 10, ranges [0..0]}");
    }
}
