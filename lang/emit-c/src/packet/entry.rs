//! The functions that the engine calls: `mtp_parse`, `mtp_build`, `mtp_coalesce`. All functions over
//! blueprints that they need are printed here, too.

use std::collections::BTreeSet;

use hawser_ir::{BlueprintId, Coalesce, FuncId, FuncParam, OptListId, ParserInput, WireFact};

use super::format::{inner, options, options_behind};
use super::{Image, Used};
use crate::emitter::Emitter;
use crate::scope::{ContextSlot, FoundContext, Instance, ParamBinding, Scope};
use crate::writer::Writer;

/// Prints the code that parsers and headers need. Returns the functions that the program's table names, which
/// stand behind all others.
pub(crate) fn functions(emitter: &mut Emitter<'_>) -> String {
    let mut used = Used::default();
    emitter.module.funcs.iter().for_each(|func| used.by(&func.body));
    emitter.readers(&used.read);
    emitter.writers(&used.sent);
    let mut out = Writer::default();
    emitter.parse_entry(&mut out);
    emitter.build_entry(&mut out, &used.sent);
    emitter.coalesce_entry(&mut out);
    out.finish()
}

/// Prints the end of a parser with a counted drop.
pub(crate) fn drop_input(e: &mut Emitter<'_>, s: &mut Scope) {
    e.end_run(s, "HW_OUTCOME(HW_DROPPED, HW_FRAME)");
}

/// Returns a quantity of the packet at the parser's cursor.
pub(crate) fn cursor_fact(fact: WireFact) -> String {
    match fact {
        WireFact::TotalLen => "run->packet->cursor.end".into(),
        WireFact::HeaderLen => "run->packet->cursor.at".into(),
        WireFact::DataLen => "hw_left(run->packet->cursor.at, run->packet->cursor.end)".into(),
    }
}

/// Returns the arguments of a parser, by its source.
fn views(source: ParserInput) -> &'static [&'static str] {
    match source {
        ParserInput::Ip(_) | ParserInput::Udp(_) | ParserInput::Trimmed(_) => &["HW_AT(packet->net)"],
        ParserInput::IcmpError => &["HW_AT(packet->net)", "icmp"],
        ParserInput::App(_) => &["op"],
        ParserInput::Start => &[],
    }
}

impl Emitter<'_> {
    /// Prints functions that parse blueprints, and those nested in them.
    fn readers(&mut self, extracted: &BTreeSet<(BlueprintId, Image)>) {
        let all = self.closure(extracted);
        let mut lists: BTreeSet<(OptListId, u32, Image)> = BTreeSet::new();
        for (id, image) in &all {
            let module = self.module;
            self.read_function(*id, *image);
            self.verify_function(*id, *image);
            self.nested_function(*id, *image);
            if let Some((list, _, cap)) = options(&module.blueprints[id.0 as usize]) {
                lists.insert((list, cap, *image));
            }
        }
        let mut members: BTreeSet<(BlueprintId, Image)> = BTreeSet::new();
        for (list, cap, image) in lists {
            self.options_read_function(list, cap, image);
            members.extend(
                self.module
                    .opt_list(list)
                    .members
                    .iter()
                    .map(|member| (member.blueprint, image)),
            );
        }
        members
            .into_iter()
            .for_each(|(id, image)| self.member_function(id, image));
        extracted
            .iter()
            .for_each(|(id, image)| self.extract_function(*id, *image));
    }

    /// Prints functions that write blueprints, and those nested in them.
    fn writers(&mut self, sent: &BTreeSet<BlueprintId>) {
        let there = sent.iter().map(|id| (*id, Image::There)).collect();
        let mut lists: BTreeSet<(OptListId, u32)> = BTreeSet::new();
        for (id, _) in self.closure(&there) {
            let module = self.module;
            self.measure_function(id);
            self.write_function(id);
            self.put_function(id);
            if let Some((list, _, cap)) = options(&module.blueprints[id.0 as usize]) {
                lists.insert((list, cap));
            }
        }
        lists
            .into_iter()
            .for_each(|(list, cap)| self.options_write_functions(list, cap));
        for id in sent {
            if options_behind(&self.module.blueprints[id.0 as usize]).is_some() {
                self.fields_function(*id);
            }
            self.build_function(*id);
        }
    }

    /// Returns blueprints together with all that are nested in them.
    fn closure(&self, roots: &BTreeSet<(BlueprintId, Image)>) -> BTreeSet<(BlueprintId, Image)> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<_> = roots.iter().copied().collect();
        while let Some((id, image)) = waiting.pop() {
            if found.insert((id, image)) {
                waiting.extend(inner(self.module, id).into_iter().map(|inside| (inside, image)));
            }
        }
        found
    }

    fn parse_entry(&mut self, out: &mut Writer) {
        out.line(
            "HW_PART uint32_t mtp_parse(const uint64_t *params, uint32_t parser, const hw_packet *packet,",
        );
        out.open("                          const hw_icmp *icmp, const hw_op *op, hw_events *out)");
        self.begin_run(out, Some("{.events = out}"));
        out.open("switch (parser)");
        let module = self.module;
        for (index, parser) in module.parsers.iter().enumerate() {
            // The kernel sees packets of IP protocols only.
            if self.is_ebpf() && !matches!(parser.source, ParserInput::Ip(_) | ParserInput::Udp(_)) {
                continue;
            }
            out.line(&format!("case {index}:"));
            if !matches!(parser.source, ParserInput::App(_) | ParserInput::Start) {
                out.line("    run->packet->cursor = hw_cursor_over(packet);");
            }
            let call = self.view_call(parser.func, views(parser.source));
            out.line(&format!("    {call};"));
            out.line("    break;");
        }
        out.line("default:");
        out.line("    return HW_FRAME;");
        out.close("");
        out.line("return hw_parse_error(run->outcome);");
        out.close("");
        out.line("");
    }

    /// Begins a run with the data that a parser needs.
    fn begin_run(&self, out: &mut Writer, packet: Option<&str>) {
        if self.is_ebpf() {
            let packet = packet.map_or(String::new(), |packet| format!(", .packet = {{{packet}}}"));
            out.line("hw_run *run = HW_RUN;");
            out.line(&format!("*run = (hw_run){{.params = params{packet}}};"));
            return;
        }
        let packet = packet.map(|packet| out.line(&format!("struct hw_packet_run input = {packet};")));
        let field = if packet.is_some() {
            ", .packet = &input"
        } else {
            ""
        };
        out.line(&format!(
            "hw_run state = {{.params = params{field}}}, *run = &state;"
        ));
    }

    /// Lists the parsers of packets: the IP protocol or the UDP port, the parser, and its maximum number of
    /// events.
    pub(crate) fn packet_parsers(&self, out: &mut Writer) {
        let (mut ip, mut udp, mut first) = (String::new(), String::new(), 0);
        for (index, parser) in self.module.parsers.iter().enumerate() {
            let max = parser.max_events;
            match parser.source {
                ParserInput::Ip(protocol) => ip += &format!(" X({protocol}, {index}, {max})"),
                ParserInput::Udp(port) => {
                    udp += &format!(" X({port}, {index}, {max})");
                    first = if first == 0 { port } else { first };
                }
                _ => {}
            }
        }
        out.directive(&format!("#define HW_IP_PARSERS(X){ip}"));
        out.directive(&format!("#define HW_UDP_PARSERS(X){udp}"));
        out.directive(&format!("#define HW_UDP_PORT {first}"));
    }

    /// True if a function is a parser whose sources provide all that it takes.
    pub(crate) fn views_are_there(&self, func: FuncId) -> bool {
        let params = &self.func(func).params;
        let refs = params
            .iter()
            .filter(|param| matches!(param, FuncParam::Ref { .. }))
            .count();
        let mut uses = self
            .module
            .parsers
            .iter()
            .filter(|parser| parser.func == func)
            .peekable();
        uses.peek().is_some() && uses.all(|parser| views(parser.source).len() >= refs)
    }

    /// Returns the call of a function with read-only references.
    fn view_call(&mut self, func: hawser_ir::FuncId, views: &[&str]) -> String {
        let params = self.func(func).params.clone();
        let summary = &self.summaries[func.0 as usize];
        let result = summary.halts && self.func(func).ret.is_some();
        let refs = params
            .iter()
            .filter(|param| matches!(param, FuncParam::Ref { .. }))
            .count();
        let instance = Instance {
            func,
            refs: vec![ParamBinding::View; refs],
            found: FoundContext::Nothing,
            slot: ContextSlot::Absent,
        };
        let name = self.instance(instance);
        let args: String = (0..refs)
            .map(|i| format!(", {}", views.get(i).unwrap_or(&"HW_NOTHING")))
            .collect();
        format!("{name}(run{args}{})", if result { ", &result" } else { "" })
    }

    fn build_entry(&mut self, out: &mut Writer, sent: &BTreeSet<BlueprintId>) {
        out.line(
            "HW_PART hw_built mtp_build(const uint64_t *params, const hw_packet_rec *packet, uint8_t *image,",
        );
        out.line("                          uint32_t index, uint32_t count, uint32_t len, uint8_t *header,");
        out.open("                          uint32_t room)");
        self.begin_run(out, None);
        out.line("const hw_segment segment = {index, count, len};");
        out.open("switch (packet->blueprint)");
        for id in sent {
            let (name, image) = (self.wire_name(*id), self.image_type(*id));
            out.line(&format!("case {}:", id.0));
            out.line(&format!(
                "    return wire_build_{name}(run, packet, ({image} *)image, segment, header, room);"
            ));
        }
        out.line("default:");
        out.line("    return (hw_built){0, 0, 0, 0};");
        out.close("");
        out.close("");
        out.line("");
    }

    fn coalesce_entry(&mut self, out: &mut Writer) {
        out.line("HW_PART uint32_t mtp_coalesce(const uint64_t *params, uint32_t blueprint, const uint8_t *earlier,");
        out.open("                             const uint8_t *later)");
        self.begin_run(out, None);
        out.open("switch (blueprint)");
        let module = self.module;
        let mut seen = BTreeSet::new();
        for rule in module.coalesce.iter().filter(|rule| seen.insert(rule.blueprint)) {
            out.open(&format!("case {}:", rule.blueprint.0));
            self.coalesce_case(out, rule);
            out.close("");
        }
        out.line("default:");
        out.line("    return 0;");
        out.close("");
        out.close("");
        out.line("");
    }

    fn coalesce_case(&mut self, out: &mut Writer, rule: &Coalesce) {
        let image = self.image_type(rule.blueprint);
        let views = ["earlier", "later"].map(|view| format!("(const {image} *){view}"));
        let call = self.view_call(rule.func, &[&views[0], &views[1]]);
        if self.summaries[rule.func.0 as usize].halts {
            out.line("bool result = false;");
            out.line(&format!("return !{call} && result;"));
        } else {
            out.line(&format!("return {call};"));
        }
    }
}
