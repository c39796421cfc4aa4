//! Attachments to TCP that are added, replaced and removed in any order. An invalid change is refused with
//! its place and has no effect.

use std::sync::Arc;

use hawser_engine::StepError;
use hawser_engine::program::Program;
use hawser_load::{Attachments, CheckedChange};

use crate::bench::{Connection, with_params};
use crate::transfer::{Conditions, transfer_while};

/// Returns a text that caps the window at this many bytes, by a processor of this name.
fn cap(name: &str, bytes: u32) -> String {
    format!(
        "void {name}(event_t ev, tcp_conn c) {{\n    if (c.cc.cwnd > {bytes}) c.cc.cwnd = {bytes};\n}}\n\
         attach {name} after cc;\n"
    )
}

/// Returns a connection and the attachments of its stack.
fn begin() -> (Connection, Attachments, Arc<dyn Program>) {
    let own = with_params(&[]);
    let c = Connection::plain(&[]);
    let attachments = Attachments::new(own.clone());
    (c, attachments, own)
}

impl Connection {
    fn attach(&mut self, to: &Attachments, name: &str, text: &str) -> Result<(), String> {
        let next = to.attach(name, text, &[], "test").map_err(|error| error.to_string())?;
        self.go(to, next)
    }

    fn detach(&mut self, from: &Attachments, name: &str) -> Result<(), String> {
        let next = from.detach(name).map_err(|error| error.to_string())?;
        self.go(from, next)
    }

    fn go(&mut self, list: &Attachments, next: CheckedChange) -> Result<(), String> {
        list.go(next, &mut |program| self.bench.stack.swap_program(program)).map_err(|error| error.to_string())
    }

    /// Returns the window after one more ACK.
    fn window(&mut self) -> u64 {
        self.bench.send(self.handle, 1000);
        self.acknowledge(1000);
        self.bench.stack.observe(self.handle, "cc.cwnd").expect("it is open")
    }
}

#[test]
fn attachments_come_and_go_in_any_order() {
    let (mut c, list, _) = begin();
    let names = || list.list().into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert!(c.window() >= 10_000);
    c.attach(&list, "one", &cap("one", 6000)).expect("it is right");
    assert_eq!(c.window(), 6000);
    c.attach(&list, "two", &cap("two", 5000)).expect("it is right");
    assert_eq!((c.window(), names()), (5000, vec!["one".to_owned(), "two".to_owned()]));
    assert_eq!(list.list()[1].places, ["two after cc"]);
    // The first is removed and the second stays. It was checked together with the first, and now runs without
    // it.
    c.detach(&list, "one").expect("it is there");
    assert_eq!((c.window(), names()), (5000, vec!["two".to_owned()]));
    // Another text of the same name replaces it.
    c.attach(&list, "two", &cap("other", 4000)).expect("it is right");
    assert_eq!((c.window(), names()), (4000, vec!["two".to_owned()]));
    c.detach(&list, "two").expect("it is there");
    assert_eq!(names(), [""; 0]);
    c.bench.send(c.handle, 20_000);
    c.acknowledge(4000);
    let grown = c.bench.stack.observe(c.handle, "cc.cwnd");
    assert!(grown > Some(4000), "{grown:?}");
}

/// Without attachments, the program is the original one, machine code included.
#[test]
fn detaching_all_restores_the_original_program() {
    let own = with_params(&[]);
    let list = Attachments::new(own.clone());
    let mut runs = own.clone();
    let mut take = |next| {
        list.go(next, &mut |program| Ok(std::mem::replace(&mut runs, program))).expect("it is taken");
        Arc::ptr_eq(&runs, &own)
    };
    assert!(!take(list.attach("cap", &cap("cap", 5000), &[], "test").expect("it is right")));
    assert!(take(list.detach("cap").expect("it is there")));
}

#[test]
fn a_wrong_attachment_is_refused_with_its_place() {
    let (mut c, list, _) = begin();
    c.attach(&list, "one", &cap("one", 6000)).expect("it is right");
    let cases = [
        ("bad", cap("bad", 1).replace("c.cc.cwnd = 1", "c.cc.cwnd = \"much\""), &["bad.mtp:2:"][..]),
        ("bad", cap("bad", 1).replace("after cc", "after cb"), &["E0201", "bad.mtp:4:18", "`cb` is unknown"]),
        ("two", cap("one", 1).repeat(2), &["E0202", "two.mtp:5:6", "`one` is defined twice"]),
        ("two", String::from("context mine { uint64 n; }"), &["E0711", "two.mtp:1:1"]),
        ("two", String::from("void x("), &["two.mtp:1:8"]),
    ];
    for (name, text, parts) in cases {
        let error = c.attach(&list, name, &text).expect_err("it is wrong");
        for part in parts {
            assert!(error.contains(part), "no `{part}` in:\n{error}");
        }
    }
    assert_eq!(c.detach(&list, "two").expect_err("it is not attached"), "`two` is not attached; one");
    assert_eq!((c.window(), list.list().len()), (6000, 1), "nothing has changed");
    // Names of another attachment are not visible.
    c.attach(&list, "one", &format!("param uint64 CAP = 6000;\n{}", cap("one", 7000))).expect("it is right");
    let upon = "void upon(event_t ev, tcp_conn c) { if (c.cc.cwnd > CAP) c.cc.cwnd = CAP; }\nattach upon after cc;";
    let error = c.attach(&list, "upon", upon).expect_err("it has no CAP");
    assert!(error.contains("upon.mtp:1:5") && error.contains("`CAP` is unknown"), "{error}");
    c.detach(&list, "one").expect("it is there");
    for n in 0..16 {
        c.attach(&list, &format!("n{n}"), &cap(&format!("n{n}"), 9000)).expect("there is room");
    }
    let error = c.attach(&list, "more", &cap("more", 1)).expect_err("there is no room");
    assert!(error.contains("the limit of 16 attached files"), "{error}");
}

/// Of two changes that were checked at the same time, the second is refused, because its check did not
/// include the first.
#[test]
fn a_change_that_is_out_of_date_is_refused() {
    let (mut c, list, _) = begin();
    let [first, second] =
        ["one", "two"].map(|name| list.attach(name, &cap(name, 5000), &[], "test").expect("it is right"));
    let mut swap = |program| c.bench.stack.swap_program(program);
    list.go(second, &mut swap).expect("it is the first to go");
    assert_eq!(list.go(first, &mut swap), Err(StepError::OutOfDate));
    assert_eq!(list.list().iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["two"]);
}

/// The stack refuses a program with which it cannot continue, and the list stays correct.
#[test]
fn an_attachment_refused_by_the_stack_is_not_listed() {
    let (mut c, list, _) = begin();
    // One alone is within the stack's limit of 4,096 raised events; two are not.
    let many = |name: &str| {
        format!(
            "void {name}(event_t ev, tcp_conn c) {{ for (i in 0..2100) emit raise(orphaned{{}}, c.self); }}
             attach {name} after cc;"
        )
    };
    c.attach(&list, "one", &many("one")).expect("it is right");
    let error = c.attach(&list, "two", &many("two")).expect_err("the chains need more than the limits allow");
    assert!(error.contains("raised"), "{error}");
    let names: Vec<_> = list.list().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["one"]);
    c.detach(&list, "one").expect("it is there");
    assert!(c.window() >= 10_000);
}

/// Changes of the list under load, over a bad link: every byte arrives.
#[test]
fn a_transfer_lives_through_changes_of_the_list() {
    let own = with_params(&["MIN_RTO=200ms", "MSL=1s"]);
    let lists = [Attachments::new(own.clone()), Attachments::new(own)];
    let conditions = Conditions { lost: 10, late: 20, doubled: 10, changed: 5 };
    let texts = [cap("one", 40_000), cap("one", 30_000)];
    let mut changes = 0;
    transfer_while(true, conditions, 5, [1_000_000, 300_000], |world, _| {
        for (stack, list) in world.stacks.iter_mut().zip(&lists) {
            let next = match changes / 2 % 3 {
                2 => list.detach("one"),
                at => list.attach("one", &texts[at], &[], "test"),
            };
            let mut swap = |program| stack.swap_program(program);
            list.go(next.expect("it is right"), &mut swap).expect("the same tables");
            changes += 1;
        }
    });
    assert!(changes > 1000, "{changes}");
}

/// Returns a file that caps the window, with a param, a helper, a structure and a signal whose names other
/// files may also use.
fn with_names(signal: &str, bytes: u32) -> String {
    format!(
        "param uint64 CAP = {bytes};
         param duration_t MSL = 1s;
         struct pair {{ uint64 a; uint64 b; }}
         signal {signal} {{ uint64 cwnd; }}
         uint64 limit(uint64 n) {{ pair p = pair{{a: n, b: CAP}}; return min(p.a, p.b); }}
         void cc(event_t ev, tcp_conn c) {{
             if (c.cc.cwnd > CAP) emit signal({signal}{{cwnd: c.cc.cwnd}});
             c.cc.cwnd = limit(c.cc.cwnd);
         }}
         attach cc after cc;"
    )
}

/// TCP itself has a processor `cc` and a param `MSL`.
#[test]
fn names_of_attachments_do_not_collide() {
    let (mut c, list, _) = begin();
    c.attach(&list, "one", &with_names("reached", 6000)).expect("it is right");
    c.attach(&list, "two", &with_names("reached", 5000)).expect("its names are its own");
    assert_eq!(c.window(), 5000);
    let names = |c: &Connection| -> Vec<String> {
        let of_attachments = c.bench.stack.module().signals.iter().filter(|(name, _)| name.contains('.'));
        of_attachments.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&c), ["one.reached", "two.reached"]);
    c.detach(&list, "two").expect("it is there");
    c.bench.send(c.handle, 20_000);
    c.acknowledge(2000);
    assert_eq!(c.window(), 6000, "the first goes on with values of its own");
    // Another text, with another signal and other structures, replaces it.
    let other = with_names("met", 4000).replace("uint64 b", "uint32 c; uint64 b");
    c.attach(&list, "one", &other).expect("it is right");
    assert_eq!((c.window(), names(&c)), (4000, vec!["one.met".to_owned()]));
}

#[test]
fn params_of_an_attachment_are_set_by_name() {
    let (mut c, list, _) = begin();
    let text = with_names("reached", 9000);
    let set = |c: &mut Connection, settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&one| one.to_owned()).collect();
        let next = list.attach("cap", &text, &settings, "test").map_err(|error| error.to_string())?;
        c.go(&list, next)
    };
    assert_eq!(set(&mut c, &["CAP=7000"]), Ok(()));
    assert_eq!(c.window(), 7000);
    assert_eq!(set(&mut c, &["CAP=6000", "MSL=2s"]), Ok(()));
    assert_eq!(c.window(), 6000, "other values take the place of those before");
    for (setting, message) in [
        ("CUP=1", "cap.mtp: unknown param `CUP`: the program has CAP, MSL"),
        ("MIN_RTO=1s", "cap.mtp: unknown param `MIN_RTO`: the program has CAP, MSL"),
        ("CAP=1s", "cap.mtp: CAP takes a number, not `1s`"),
        ("CAP", "cap.mtp: `CAP` is not a setting of a param: write NAME=VALUE"),
    ] {
        assert_eq!(set(&mut c, &[setting]), Err(message.to_owned()));
    }
    assert_eq!(c.window(), 6000, "nothing has changed");
}

/// For an assertion in a file, the suspect is that file. For an invariant of the program, all attachments in
/// the chain are suspects.
#[test]
fn suspects_of_a_false_assertion_are_known() {
    let (mut c, list, _) = begin();
    let asserts = "void watch(event_t ev, tcp_conn c) { assert(c.cc.cwnd > 0); }\nattach watch after cc;";
    for name in ["first", "second"] {
        c.attach(&list, name, asserts).expect("it is right");
    }
    let module = c.bench.stack.module();
    let number = |text: &str| module.asserts.iter().rposition(|(_, there)| there == text).expect("it is there") as u32;
    let event = |name: &str| module.events.iter().position(|event| event.name == name).expect("it is there") as u32;
    let (chain, other) = (event("tcp_seg"), event("tcp_listen"));
    assert_eq!(list.suspects(chain, number("c.cc.cwnd > 0")), ["second"]);
    assert_eq!(list.suspects(other, number("c.cc.cwnd > 0")), ["second"]);
    assert_eq!(list.suspects(chain, number("smss > 0")), ["first", "second"]);
    assert_eq!(list.suspects(other, number("smss > 0")), [""; 0]);
}
