//! `hawser check` takes under 50 ms for 1,000 lines, parsing included, and time grows with the
//! length: eight times the program takes less than forty times as long (a square would take 64).

#![allow(clippy::disallowed_methods)] // a test of time reads the clock

mod common;

use std::time::{Duration, Instant};

use common::check;

/// A program of about 17 lines for each protocol in it.
fn program(protocols: usize) -> String {
    let mut text = String::from("const uint32 MSS = 1400;\n");
    for i in 0..protocols {
        let after = (i + 1) % protocols;
        text.push_str(&format!(
            "event ask{i} : APP_EVENT {{ uint32 n; addr_t addr; }}
            event wake{i} : TIMER_EVENT {{ }}
            event told{i} : EVENT {{ uint64 n; }}
            struct pair{i} {{ uint64 from, to; }}
            context conn{i} {{
                uint64 una, end; list<pair{i}, 4> l; timer_t t -> wake{i};
                observable uint32 cwnd = 10 * MSS; bool busy;
            }}
            pkt_bp hello{i} {{ uint32 a; checksum16_t sum; uint16 b; data_t data; }}
            void send{i}(ask{i} ev, conn{i} c) {{
                if (ev.n == 0 || c.busy) refuse(EINVAL);
                c.end += ev.n;  emit add_tx_data(ev.addr, ev.n, c.self);
                for (x in c.l) if (x.from <= c.una && x.to > c.una) c.una = x.to + MSS;
                IPheader ip;  hello{i} h;  h.a = uint32(c.end - c.una);
                h.data = data(c.self, c.una, min(c.cwnd, ev.n), MSS);
                emit pkt_gen(ip, h);  emit timer_start(c.t, 5ms);  note{i}(c);
            }}
            void note{i}(conn{i} c) {{ emit raise(told{after}{{n: c.una}}, c.self); }}
            void hear{i}(told{i} ev, conn{i} c) {{ c.una = ev.n; }}
            dispatch d{i} {{ ask{i} -> {{send{i}}}; told{i} -> {{hear{i}}}; wake{i} -> {{}}; }}\n"
        ));
    }
    text
}

fn time(text: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        let (module, findings) = check(text);
        assert!(module.is_some(), "{findings:#?}");
        start.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}

#[test]
fn a_thousand_lines_take_under_fifty_milliseconds() {
    let (short, long) = (program(12), program(96));
    let lines = long.lines().count();
    let (short_time, long_time) = (time(&short), time(&long));
    let per_thousand = long_time.as_secs_f64() * 1000.0 / lines as f64;
    assert!(per_thousand < 0.050, "{lines} lines take {long_time:?}");
    assert!(long_time < short_time * 40, "{short_time:?} becomes {long_time:?}");
    println!("{lines} lines: {long_time:?}, an eighth of them: {short_time:?}");
}
