//! Programs of arbitrary length, for checking that work grows no faster than they do. Each shape repeats a
//! different element that programs have many of.

/// The element that a program repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Small protocols: declarations of every kind, calls, packets.
    Protocols,
    /// Statements of one function: variables, instructions.
    Statements,
    /// Fields of one context.
    Fields,
    /// Unknown names that resemble known ones.
    Slips,
}

pub(crate) const SHAPES: [Shape; 4] = [Shape::Protocols, Shape::Statements, Shape::Fields, Shape::Slips];

impl Shape {
    /// Returns a program of this shape with about `lines` lines.
    pub(crate) fn program(self, lines: usize) -> String {
        match self {
            Shape::Protocols => protocols(lines / 22),
            Shape::Statements => statements(lines / 8),
            Shape::Fields => fields(lines / 2),
            Shape::Slips => slips(lines / 2),
        }
    }
}

/// Repeats `part` for each number. `@` stands for the number, `#` for the next one; the last is followed by
/// the first.
fn repeat(count: usize, part: &str) -> String {
    let one = |i: usize| {
        part.replace('@', &i.to_string())
            .replace('#', &((i + 1) % count).to_string())
    };
    (0..count).map(one).collect()
}

fn protocols(count: usize) -> String {
    let protocol = "\
event ask@ : APP_EVENT { uint32 n; addr_t addr; }
event wake@ : TIMER_EVENT { }
event reported@ : EVENT { uint64 n; }
struct pair@ { uint64 from, to; }
context conn@ {
    uint64 una, end;
    list<pair@, 4> l;
    timer_t t -> wake@;
    observable uint32 cwnd = 10 * MSS;
    bool busy;
}
pkt_bp hello@ { uint32 a; checksum16_t sum; uint16 b; data_t data; }
void send@(ask@ ev, conn@ c) {
    if (ev.n == 0 || c.busy) refuse(EINVAL);
    c.end += ev.n;  emit add_tx_data(ev.addr, ev.n, c.self);
    for (x in c.l) if (x.from <= c.una && x.to > c.una) c.una = x.to + MSS;
    IPheader ip;  hello@ h;  h.a = uint32(c.end - c.una);
    h.data = data(c.self, c.una, min(c.cwnd, ev.n), MSS);
    emit pkt_gen(ip, h);  emit timer_start(c.t, 5ms);  note@(c);
}
void note@(conn@ c) { emit raise(reported#{n: c.una}, c.self); }
void follow@(reported@ ev, conn@ c) { c.una = ev.n; }
dispatch d@ { ask@ -> {send@}; reported@ -> {follow@}; wake@ -> {}; }
";
    let deploy = repeat(count, "    register_ep_chains(d@);\n");
    format!(
        "const uint32 MSS = 1400;\n{}deploy {{\n{deploy}}}\n",
        repeat(count, protocol)
    )
}

fn statements(count: usize) -> String {
    let part = "    uint32 v@ = ev.n + @;
    if (v@ > c.total) {
        IPheader ip;
        hello h;
        h.a = v@;
        emit pkt_gen(ip, h);
    }
    c.total = v@ * 2;
";
    format!(
        "event go : APP_EVENT {{ uint32 n; }}\ncontext conn {{ uint32 total; }}\npkt_bp hello {{ uint32 a; }}\n\
         void f(go ev, conn c) {{\n{}}}\n{ONE_CHAIN}",
        repeat(count, part)
    )
}

fn fields(count: usize) -> String {
    format!(
        "event go : APP_EVENT {{ uint32 n; }}\ncontext conn {{\n{}}}\nvoid f(go ev, conn c) {{\n{}}}\n{ONE_CHAIN}",
        repeat(count, "    uint32 field@;\n"),
        repeat(count, "    c.field@ = ev.n;\n")
    )
}

fn slips(count: usize) -> String {
    format!(
        "event go : APP_EVENT {{ uint32 n; }}\ncontext conn {{ uint32 total; }}\n{}\
         void f(go ev, conn c) {{\n{}}}\n{ONE_CHAIN}",
        repeat(count, "const uint32 KNOWN_CONSTANT_@ = @;\n"),
        repeat(count, "    c.total += KNOWN_CONSTANT@;\n")
    )
}

const ONE_CHAIN: &str = "dispatch d { go -> {f}; }\ndeploy { register_ep_chains(d); }\n";
