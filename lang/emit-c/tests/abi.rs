//! Checks that both declarations of the interface between generated code and an engine agree. It compares the
//! header's sizes and offsets, as the C compiler reports them, with Rust's.

use crate::common;

use std::path::Path;
use std::process::Command;

use hawser_emit_c::abi::{Events, Memory, RawBuilt, RawPacket, RawProgram, Records};
use hawser_emit_c::{Options, emit};
use hawser_ir::abi::{
    ContextHeader, ContextRec, Data, EventHeader, ExternRec, Icmp, Id, Net, NotifyRec, Op, PacketRec,
    QueueRec, RaiseRec, RecordHeader, SignalRec, TimerRec, UnitRec,
};

/// Lists, for each structure and each of its fields, the expression for the C compiler and the value in Rust.
macro_rules! layouts {
    ($($rust:ident is $c:literal { $($field:ident $(as $name:literal)?),* })*) => {
        vec![$(
            (format!("sizeof({})", $c), size_of::<$rust>()),
            (format!("_Alignof({})", $c), align_of::<$rust>()),
            $((
                format!("offsetof({}, {})", $c, [stringify!($field) $(, $name)?].last().unwrap_or(&"")),
                std::mem::offset_of!($rust, $field),
            ),)*
        )*]
    };
}

fn layouts() -> Vec<(String, usize)> {
    layouts! {
        Memory is "hw_memory" { keyed, fresh, globals, scratch, keyed_type, pad }
        Records is "hw_records" { at, end, wanted }
        Events is "hw_events" { at, end, count, capacity }
        RawPacket is "hw_packet" { net, head, head_len, tail, tail_len, merged, addr, verify, crc }
        RawBuilt is "hw_built" { len, trailer, csum_at, has_csum }
        RawProgram is "hawser_program" { abi, size, name, digest, react, parse, build, coalesce }
        Id is "hw_id" {}
        Data is "hw_data" { uid, off, addr, len, seg_size }
        EventHeader is "hw_event" { now, rand, hash, event, ids, pad, id }
        ContextHeader is "hw_context" { id }
        Net is "hw_net" {
            src_ip, dst_ip, tot_len, flow_label, hdr_len, segs, seg_size, protocol, ttl, ecn, dscp, prio,
            version, path_mtu
        }
        Op is "hw_op" {
            self_id as "self", local_ip, remote_ip, addr, len, sub, arg, path_mtu, backlog, local_port,
            remote_port, option, code, flags, key, remote_key, at, remote_at, value, swap, link_mtu,
            receive_limit
        }
        Icmp is "hw_icmp" { kind, mtu, icmp_type, icmp_code, pad }
        RecordHeader is "hw_record" { kind, on, global, len }
        UnitRec is "hw_unit_rec" { header, uid, addr, len, off }
        PacketRec is "hw_packet_rec" {
            header, net, rank, args, queue, blueprint, rules, rule, data_at, bytes
        }
        TimerRec is "hw_timer_rec" { header, deadline, timer, pad }
        ContextRec is "hw_context_rec" { header, id, context, pad }
        NotifyRec is "hw_notify_rec" { header, id, code, error, arg }
        RaiseRec is "hw_raise_rec" { header, target, event, bytes }
        SignalRec is "hw_signal_rec" { header, signal, bytes }
        QueueRec is "hw_queue_rec" { header, value, queue, pad }
        ExternRec is "hw_extern_rec" { header, extern_, args }
    }
}

#[test]
fn rust_and_c_declare_the_same_layouts() {
    let layouts = layouts();
    let module = common::module(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/numbers.mtp"));
    let asked: Vec<&str> = layouts.iter().map(|(question, _)| question.as_str()).collect();
    let text = format!(
        "{}\nconst unsigned abi_layouts[] = {{\n{}\n}};\n",
        emit(&module, &Options::default()).c,
        asked.join(",\n")
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, object) = (folder.join("abi_layouts.c"), folder.join("abi_layouts.so"));
    std::fs::write(&source, text).expect("the folder can be written");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-shared", "-fPIC", "-o"])
        .args([&object, &source]);
    let out = compiler.output().expect("a C compiler is installed");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // SAFETY: the library was built just now from our own text; it has no constructors.
    let library = unsafe { libloading::Library::new(&object) }.expect("what was linked can be loaded");
    // SAFETY: the symbol is an array of as many numbers as were asked for, alive as long as `library`.
    let found = unsafe {
        let start = library.get::<*const u32>(b"abi_layouts").expect("it is exported");
        std::slice::from_raw_parts(*start, layouts.len())
    };
    for ((question, rust), c) in layouts.iter().zip(found) {
        assert_eq!(*rust, *c as usize, "{question}");
    }
}
