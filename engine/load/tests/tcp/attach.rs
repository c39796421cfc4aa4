//! Processors that are attached to TCP while it runs. They take part from the next event on. Attaching and
//! detaching loses no data, and changes that would break the running program are refused.

use std::sync::Arc;

use parking_lot::Mutex;
use hawser_engine::program::Program;
use hawser_engine::{StackConfigError, SwapError, EventTap};
use hawser_ir::abi::{RecordKind, SignalRec};

use crate::bench::{Connection, NEWRENO, module, program, with_attached, with_params};
use crate::transfer::{CALM, Conditions, transfer_while};

const CAP: &str = include_str!("../../../../examples/attach/cap.mtp");

/// The params of the stacks in [`transfer_while`].
const PARAMS: [&str; 2] = ["MIN_RTO=200ms", "MSL=1s"];

fn attached(text: &str, params: &[&str]) -> Arc<dyn Program> {
    with_attached(text, params).unwrap_or_else(|error| panic!("{error}"))
}

/// An attachment caps a window that had grown, keeps it there, and lets it grow again after detachment. Every
/// byte arrives.
#[test]
fn an_attachment_caps_a_window_until_it_is_detached() {
    let len = 3_000_000;
    let capped = attached(CAP, &[&PARAMS[..], &["CAP=30000"]].concat());
    // The original program, and the time of each swap, as the number acknowledged by then.
    let (mut own, mut at) = (None, Vec::new());
    let mut largest = [0; 3];
    transfer_while(false, CALM, 1, [len, 0], |world, apps| {
        let Some(handle) = apps[0].handle else { return };
        let phase = apps[1].received * 3 / (len + 1);
        let see = |field| world.stacks[0].observe(handle, field);
        let (Some(una), Some(cwnd)) = (see("snd_una"), see("cc.cwnd")) else { return };
        if phase > at.len() {
            at.push(una);
            let next = if phase == 1 { capped.clone() } else { own.clone().expect("the program before") };
            own = Some(world.stacks[0].swap_program(next).expect("the same tables"));
        } else if at.last().is_none_or(|at| una > *at) {
            // Counted from the first ACK after the swap on.
            largest[phase] = largest[phase].max(cwnd);
        }
    });
    assert!(largest[0] > 60_000 && largest[2] > 60_000, "{largest:?}");
    assert_eq!(largest[1], 30_000);
}

/// A processor before another sees the earlier window, and a processor after it the later one. Several on one
/// side run in the order of their declarations.
#[test]
fn attachments_run_before_and_after_their_processor() {
    let text = "
        signal seen { uint8 step; uint64 cwnd; }
        void one(tcp_seg ev, tcp_conn c) { emit signal(seen{step: 1, cwnd: c.cc.cwnd}); }
        void two(tcp_seg ev, tcp_conn c) { emit signal(seen{step: 2, cwnd: c.cc.cwnd}); }
        void three(tcp_seg ev, tcp_conn c) { emit signal(seen{step: 3, cwnd: c.cc.cwnd}); }
        void four(event_t ev, tcp_conn c) { emit signal(seen{step: 4, cwnd: c.cc.cwnd}); }
        attach three after cc;   attach one before cc;   attach four after cc;   attach two before cc;";
    let mut c = Connection::plain(&[]);
    let program = attached(text, &[]);
    let number = program.module().signals.len() as u32 - 1;
    assert_eq!(number as usize, module().signals.len(), "behind the program's own");
    c.bench.stack.swap_program(program).expect("the same tables");
    let received: Arc<Mutex<Vec<(u8, u64)>>> = Arc::default();
    let signals = received.clone();
    let tap: EventTap = Box::new(move |event| {
        for record in event.records.iter().filter(|record| record.kind == RecordKind::Signal) {
            if record.fixed::<SignalRec>().signal == number {
                let bytes = record.tail::<SignalRec>();
                let cwnd = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight bytes"));
                signals.lock().push((bytes[0], cwnd));
            }
        }
    });
    c.bench.stack.set_event_tap(Some(tap));
    c.bench.stack.want_signals(u64::MAX);
    c.bench.send(c.handle, 20_000);
    let on_send = std::mem::take(&mut *received.lock());
    assert_eq!(on_send, [(4, 10_000)], "those that take segments do not run on requests");
    c.acknowledge(1000);
    let on_ack = received.lock().clone();
    assert_eq!(on_ack, [(1, 10_000), (2, 10_000), (3, 11_000), (4, 11_000)]);
}

/// Attaches and detaches a thousand times under load over a bad link, with another program at every step.
#[test]
fn attaching_and_detaching_under_load_loses_no_bytes() {
    let capped = attached(CAP, &[&PARAMS[..], &["CAP=40000"]].concat());
    let conditions = Conditions { lost: 10, late: 20, doubled: 10, changed: 5 };
    let mut other = [Some(capped.clone()), Some(capped)];
    let mut swaps = [0; 2];
    transfer_while(true, conditions, 3, [1_500_000, 500_000], |world, _| {
        for ((stack, other), swaps) in world.stacks.iter_mut().zip(&mut other).zip(&mut swaps) {
            let next = other.take().expect("the other program");
            *other = Some(stack.swap_program(next).expect("the same tables"));
            *swaps += 1;
        }
    });
    assert!(swaps[0] >= 1000, "{swaps:?} swaps");
}

/// Chains that an attachment does not change run as before, and all else stays the same.
#[test]
fn an_empty_attachment_has_no_effect() {
    let idle = attached("void idle(tcp_seg ev, tcp_conn c) { }  attach idle before read_segment;", &PARAMS);
    let conditions = Conditions { lost: 30, late: 50, doubled: 20, changed: 10 };
    let len = [200_000, 50_000];
    let plain = transfer_while(false, conditions, 9, len, |_, _| {});
    let mut swapped = false;
    let with = transfer_while(false, conditions, 9, len, |world, _| {
        if !std::mem::replace(&mut swapped, true) {
            for stack in &mut world.stacks {
                stack.swap_program(idle.clone()).expect("the same tables");
            }
        }
    });
    assert_eq!(plain, with);
}

/// Each text, with its place, fault and hint in the diagnostic.
#[test]
fn an_attachment_that_does_not_fit_is_refused() {
    let cases = [
        (
            "void cap(event_t ev, tcp_conn c) { }\nattach cap after reduse;",
            &["E0201", "attached.mtp:2:18", "`reduse` is unknown", "did you mean `reduce`?"][..],
        ),
        ("attach cap after cc;", &["E0201", "attached.mtp:1:8", "`cap` is unknown"]),
        (
            "void cap(tcp_icmp ev, tcp_conn c) { }\nattach cap after cc;",
            &["E0711", "attached.mtp:2:8", "no chain of `tcp_icmp` has `cc`"],
        ),
        (
            "void cap(event_t ev, tcp_conn c) { }\nattach cap after set_rto;",
            &["E0711", "attached.mtp:2:8", "no chain has `set_rto`", "rto.mtp"],
        ),
        (
            "context mine { uint64 n; }",
            &["E0711", "attached.mtp:1:1", "an attachment cannot contain a context", "memory layout"],
        ),
        ("import \"cubic.mtp\";", &["E0711", "attached.mtp:1:1", "an attachment cannot contain an import"]),
        (
            "void cap(event_t ev, tcp_conn c) { c.cc.cwnd = \"much\"; }\nattach cap after cc;",
            &["attached.mtp:1:48"],
        ),
        (
            "void send(event_t ev, tcp_conn c) { }\nvoid send(event_t ev, tcp_conn c) { }\nattach send after cc;",
            &["E0202", "attached.mtp:2:6", "`send` is defined twice", "first defined here"],
        ),
        ("attach cap under cc;", &["attached.mtp:1:12", "`before` or `after`"]),
        (
            "void cap(event_t ev, tcp_conn c) {\n    for (i in 0..9, 9) for (k in 0..9999, 9999) send_ack(ev.now, c);\n}\n\
             attach cap after cc;",
            &["E0710", "the chain's worst case is too large"],
        ),
        (
            "void slow(event_t ev, tcp_conn c) {\n    for (i in 0..1000) for (k in 0..1000) c.cc.cwnd += i;\n}\n\
             attach slow after cc;",
            &["E0712", "attached.mtp:1:6", "the attachment adds up to 6,002,003 steps, the limit is 100,000"],
        ),
    ];
    for (text, parts) in cases {
        let Err(error) = with_attached(text, &[]) else { panic!("it is taken: {text}") };
        for part in parts {
            assert!(error.contains(part), "no `{part}` in:\n{error}");
        }
    }
}

/// A program that passes the checker but cannot continue in this stack is refused, and the stack goes on
/// unchanged.
#[test]
fn a_stack_refuses_incompatible_programs() {
    let mut c = Connection::plain(&[]);
    let newreno = c.bench.stack.swap_program(with_params(&[NEWRENO])).err();
    assert_eq!(newreno, Some(SwapError::Tables("structures")), "its window has other fields");
    // Each adds fewer steps than an attachment may. Together they raise more events than a stack keeps.
    let many = (0..5).fold(program().clone(), |program, n| {
        let text = format!(
            "void many{n}(event_t ev, tcp_conn c) {{ for (i in 0..1000) emit raise(orphaned{{}}, c.self); }}
             attach many{n} after cc;"
        );
        let path = format!("many{n}.mtp");
        program.attach(path.as_ref(), &text).unwrap_or_else(|error| panic!("{error}"))
    });
    let error = c.bench.stack.swap_program(many.with(&[]).expect("it has no params")).err();
    let Some(SwapError::Program(StackConfigError::Limit { name, value, min })) = error else {
        panic!("{error:?}")
    };
    assert_eq!((name, value), ("raised", 4096));
    assert!(min >= 5000);
    c.bench.send(c.handle, 1000);
    assert_eq!(c.ranges(), [(0, 1000)]);
}
