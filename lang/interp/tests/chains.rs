//! Chains on hand-built modules: the contents of contexts and records, and the outcome of a chain.

use crate::common;

use common::*;
use hawser_ir::abi::{
    ChainOutcome, ContextHeader, ContextRec, EventHeader, Id, NOTIFY_CLOSED, NotifyRec, ON_FRESH, ON_KEYED,
    RaiseRec, RecordKind, TimerRec,
};
use hawser_ir::buf::{RecordBuf, Regions, event_header, set_event_header};
use hawser_ir::*;

const CONN: ContextId = ContextId(0);
const NOW: u64 = 1_000_000;

/// Builds a chain of one processor on event 0 of [`tcp`]'s module.
fn program(when: Precondition, kind: EventKind, body: impl FnOnce(&Tcp) -> Vec<StmtKind>) -> Tcp {
    let mut tcp = tcp();
    let rtx = field(&tcp.module, tcp.context, Base::Keyed, "rtx").offset;
    tcp.module.contexts.push(Context {
        name: "conn".into(),
        granularity: Granularity::Flow,
        ends: None,
        body: tcp.context,
        timers: vec![Timer { name: "rtx".into(), offset: rtx, event: EventId(0) }],
        invariants: Vec::new(),
    });
    tcp.module.events[0].kind = kind;
    let body = body(&tcp);
    let frame = tcp.module.structure(tcp.event).size;
    let func = function(&mut tcp.module, "processor", frame, &[], body);
    tcp.module.chains[0].processors = vec![Processor { func, when, args: Vec::new() }];
    tcp.module.chains[0].creates = Some(CONN);
    tcp
}

/// The results of a chain.
struct Ran {
    outcome: ChainOutcome,
    keyed: Vec<u8>,
    fresh: Vec<u8>,
    records: RecordBuf,
}

fn id(bytes: &[u8]) -> Id {
    let mut id = Id::NONE;
    id.push_bytes(bytes);
    id
}

/// Runs the chain of event 0 with a keyed context, or without one and with a reserved slot.
fn run(tcp: &Tcp, found: bool, count: u64, rtx: u64) -> Ran {
    let module = &tcp.module;
    let mut event = vec![0; module.event_size(EventId(0))];
    let header = EventHeader { now: NOW, ..event_header(&event) };
    set_event_header(&mut event, &header);
    let mut keyed = vec![0; module.context_size(CONN)];
    keyed[..40].copy_from_slice(&id(b"key").0);
    set_number(module, tcp.context, &mut keyed, "count", count);
    set_number(module, tcp.context, &mut keyed, "rtx", rtx);
    let mut fresh = vec![0; module.context_size(CONN)];
    fresh[..40].copy_from_slice(&id(b"new").0);
    let mut records = RecordBuf::default();
    let mut regions = Regions {
        keyed: found.then_some((CONN, &mut keyed[..])),
        fresh: (!found).then_some(&mut fresh[..]),
        globals: &mut [],
        scratch: &mut [],
    };
    let outcome = interpreter(module.clone()).react(&mut event, &mut regions, &mut records);
    Ran { outcome, keyed, fresh, records }
}

fn count_of(tcp: &Tcp, context: &[u8]) -> u64 {
    number(&tcp.module, tcp.context, context, "count")
}

fn count(tcp: &Tcp, base: Base) -> Place {
    field(&tcp.module, tcp.context, base, "count")
}

fn rtx(tcp: &Tcp, base: Base) -> Place {
    field(&tcp.module, tcp.context, base, "rtx")
}

#[test]
fn a_timer_is_started_and_stopped() {
    let tcp = program(Precondition::Found(CONN), EventKind::Net, |tcp| {
        let dur = constant(500, Ty::Duration);
        vec![StmtKind::Emit(Instr::TimerStart {
            timer: rtx(tcp, Base::Keyed),
            index: 0,
            dur,
        })]
    });
    let ran = run(&tcp, true, 0, 0);
    let record = ran.records.iter().next().unwrap();
    assert_eq!((record.kind, record.on), (RecordKind::TimerStart, ON_KEYED));
    assert_eq!(record.fixed::<TimerRec>().deadline, NOW + 500);
    assert_eq!(number(&tcp.module, tcp.context, &ran.keyed, "rtx"), NOW + 500);

    let tcp = program(Precondition::Always, EventKind::Net, |tcp| {
        let forever = constant(abi::INF, Ty::Duration);
        vec![
            StmtKind::Emit(Instr::TimerStop { timer: rtx(tcp, Base::Keyed), index: 0 }),
            StmtKind::Emit(Instr::TimerStart { timer: rtx(tcp, Base::Keyed), index: 0, dur: forever }),
        ]
    });
    let ran = run(&tcp, true, 0, 7);
    let kinds: Vec<_> = ran.records.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [RecordKind::TimerStop, RecordKind::TimerStart]);
    assert_eq!(
        number(&tcp.module, tcp.context, &ran.keyed, "rtx"),
        u64::MAX,
        "time has an end"
    );
}

#[test]
fn a_timer_reads_unarmed_in_its_own_event_alone() {
    let observe = |tcp: &Tcp| {
        let armed = compare(CmpOp::Ne, load(rtx(tcp, Base::Keyed)), constant(0, Ty::Timer));
        vec![StmtKind::Store(count(tcp, Base::Keyed), armed)]
    };
    for (kind, armed) in [(EventKind::Timer, 0), (EventKind::Net, 1)] {
        let tcp = program(Precondition::Always, kind, observe);
        let ran = run(&tcp, true, 9, 123);
        assert_eq!(count_of(&tcp, &ran.keyed), armed, "{kind:?}");
    }
}

#[test]
fn a_new_context_has_defaults_and_the_reserved_id() {
    let mut tcp = program(Precondition::NotFound, EventKind::Net, |tcp| {
        let dur = constant(1, Ty::Duration);
        vec![
            StmtKind::Emit(Instr::NewCtx { context: CONN }),
            StmtKind::Emit(Instr::TimerStart { timer: rtx(tcp, Base::Fresh), index: 0, dur }),
            StmtKind::Emit(Instr::Notify {
                on: Base::Keyed,
                code: NOTIFY_CLOSED,
                error: None,
                id: None,
                args: vec![constant(5, uint(64))],
            }),
        ]
    });
    let fields = &mut tcp.module.structs[tcp.context.0 as usize].fields;
    fields[0].default = Some(77);
    let ran = run(&tcp, false, 0, 0);
    assert_eq!(ran.outcome, ChainOutcome::Done);
    assert_eq!(count_of(&tcp, &ran.fresh), 77);
    assert_eq!(
        bytemuck::pod_read_unaligned::<ContextHeader>(&ran.fresh[..40]).id,
        id(b"new")
    );
    let records: Vec<_> = ran.records.iter().collect();
    // No context was found, so even the notice refers to the new context.
    assert_eq!(records.iter().map(|r| r.on).collect::<Vec<_>>(), [ON_FRESH; 3]);
    let created = records[0].fixed::<ContextRec>();
    assert_eq!(
        (records[0].kind, created.id, created.context),
        (RecordKind::NewContext, id(b"new"), 0)
    );
    assert_eq!(records[2].fixed::<NotifyRec>().arg, [5, 0, 0, 0]);
    // If a context is found, the same processor does not run.
    assert_eq!(run(&tcp, true, 0, 0).records.iter().count(), 0);
}

#[test]
fn ending_a_chain_keeps_its_earlier_effects() {
    let end_with = |end: fn(&Tcp) -> StmtKind| {
        program(Precondition::Always, EventKind::App, |tcp| {
            vec![
                StmtKind::Store(count(tcp, Base::Keyed), constant(1, uint(32))),
                end(tcp),
                StmtKind::Store(count(tcp, Base::Keyed), constant(2, uint(32))),
            ]
        })
    };
    let fails = |_: &Tcp| StmtKind::Assert(constant(0, Ty::Bool), 3);
    for (tcp, outcome, left) in [
        (end_with(|_| StmtKind::Done), ChainOutcome::Stop, 1),
        (end_with(|_| StmtKind::Return(None)), ChainOutcome::Done, 1),
        (
            end_with(|_| StmtKind::Refuse(constant(98, uint(32)))),
            ChainOutcome::Refused(98),
            1,
        ),
        (end_with(fails), ChainOutcome::Assert(3), 1),
        (
            end_with(|_| StmtKind::Assert(constant(1, Ty::Bool), 3)),
            ChainOutcome::Done,
            2,
        ),
    ] {
        let ran = run(&tcp, true, 0, 0);
        assert_eq!((ran.outcome, count_of(&tcp, &ran.keyed)), (outcome, left));
    }
}

#[test]
fn invariants_hold_after_every_chain() {
    let mut tcp = program(Precondition::Always, EventKind::Net, |tcp| {
        let more = binary(BinOp::Add, load(count(tcp, Base::Keyed)), constant(1, uint(32)));
        vec![StmtKind::Store(count(tcp, Base::Keyed), more), StmtKind::Done]
    });
    let small = compare(CmpOp::Lt, load(count(&tcp, Base::Keyed)), constant(3, uint(32)));
    tcp.module.contexts[0].invariants.push((small, 8));
    assert_eq!(run(&tcp, true, 1, 0).outcome, ChainOutcome::Stop);
    assert_eq!(run(&tcp, true, 2, 0).outcome, ChainOutcome::Assert(8));
}

#[test]
fn a_raised_event_carries_its_ids() {
    let tcp = program(Precondition::Always, EventKind::Net, |tcp| {
        let event = place(Base::Local, 0, Ty::Struct(tcp.event));
        vec![
            StmtKind::Init(event.clone()),
            StmtKind::SetIds { event: event.clone(), ids: vec![place(Base::Keyed, 0, Ty::Id)] },
            StmtKind::Emit(Instr::Raise { event: EventId(0), from: event.clone(), target: None }),
            StmtKind::Emit(Instr::Raise {
                event: EventId(0),
                from: event,
                target: Some(place(Base::Keyed, 0, Ty::Id)),
            }),
        ]
    });
    let ran = run(&tcp, true, 0, 0);
    let records: Vec<_> = ran.records.iter().collect();
    let targets: Vec<_> = records.iter().map(|r| r.fixed::<RaiseRec>().target).collect();
    assert_eq!(targets, [Id::NONE, id(b"key")]);
    let event = records[0].tail::<RaiseRec>();
    assert_eq!(event.len(), tcp.module.event_size(EventId(0)));
    let header = event_header(event);
    assert_eq!(
        (header.event, header.ids, header.id),
        (0, 1, [id(b"key"), Id::NONE, Id::NONE])
    );
}

/// A helper that ends the chain does so in the middle of an expression, too.
#[test]
fn a_helper_may_end_the_chain() {
    let mut tcp = program(Precondition::Always, EventKind::Net, |tcp| {
        let call = Expr { ty: uint(32), kind: ExprKind::Call(FuncId(1), vec![]) };
        vec![StmtKind::Store(count(tcp, Base::Keyed), call)]
    });
    // The parser is function 0; the processor moves from 1 to 2 to make room for its helper.
    let processor = tcp.module.funcs.pop().unwrap();
    function(&mut tcp.module, "helper", 0, &[], vec![StmtKind::Done]);
    tcp.module.funcs.push(processor);
    tcp.module.chains[0].processors[0].func = FuncId(2);
    let ran = run(&tcp, true, 5, 0);
    assert_eq!((ran.outcome, count_of(&tcp, &ran.keyed)), (ChainOutcome::Stop, 5));
}

#[test]
fn reacting_to_any_event_never_panics() {
    let tcp = program(Precondition::Always, EventKind::Timer, |tcp| {
        vec![StmtKind::Emit(Instr::TimerStart {
            timer: rtx(tcp, Base::Keyed),
            index: 0,
            dur: load(rtx(tcp, Base::Event)),
        })]
    });
    let program = interpreter(tcp.module.clone());
    let mut rng = fastrand::Rng::with_seed(99);
    for round in 0..2000 {
        let mut noise = |len: usize| -> Vec<u8> { (0..len).map(|_| rng.u8(..)).collect() };
        // The noise includes short events and unknown numbers.
        let mut event = noise(round % 200);
        if round % 3 == 0 && event.len() > 22 {
            event[20..22].fill(0);
        }
        let mut keyed = noise(round % 77);
        let mut regions = Regions {
            keyed: Some((CONN, &mut keyed)),
            fresh: None,
            globals: &mut [],
            scratch: &mut [],
        };
        program.react(&mut event, &mut regions, &mut RecordBuf::default());
    }
}
