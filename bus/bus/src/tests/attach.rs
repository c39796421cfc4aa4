//! Attachments: the right to make them, their entries in the log, and their end when the source or the
//! subscriber is gone.

use super::*;

/// The names of attachments; a text that contains `wrong` is refused.
#[derive(Default)]
struct Names(Mutex<Vec<Attachment>>);

/// The step of the provider's thread.
type Put = Box<dyn FnOnce() -> Result<(), Refusal> + Send>;

impl Attachable for Arc<Names> {
    fn prepare(&self, change: AttachmentChange<'_>) -> Result<(Step, String), Refusal> {
        let names = self.clone();
        let put: Put = match change {
            AttachmentChange::Attach { text, .. } if text.contains("wrong") => {
                return Err(Refusal::unable("line 1:\n  wrong"));
            }
            AttachmentChange::Attach { name, who, text, .. } => {
                let one = Attachment { name: name.into(), who: who.into(), places: vec![text.into()] };
                Box::new(move || {
                    let mut list = names.0.lock();
                    list.retain(|there| there.name != one.name);
                    list.push(one);
                    Ok(())
                })
            }
            AttachmentChange::Detach { name, .. } => {
                let name = name.to_owned();
                Box::new(move || {
                    let mut list = names.0.lock();
                    let at = list.iter().position(|there| there.name == name);
                    at.map(|at| drop(list.remove(at)))
                        .ok_or_else(|| Refusal::Unable(format!("there is no {name}")))
                })
            }
        };
        Ok((Box::new(put), String::new()))
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.0.lock().clone()
    }
}

/// A provider that takes attachments.
fn provider(bus: &Bus) -> Provider {
    let names = Arc::new(Arc::new(Names::default()));
    let source = bus.attachable_source(schema(), None, names);
    Provider { source, flows: Flows([10, 20]), now: 0 }
}

impl Provider {
    /// Polls, and takes the queued steps.
    fn step(&mut self) {
        self.poll(self.now + 1);
        while let Some((stepping, step)) = self.source.next_step() {
            let put = step.downcast::<Put>().expect("it is of this provider's form");
            self.source.stepped(at(self.now), stepping, put());
        }
    }
}

fn names(subscriber: &Subscriber, tcp: &Provider) -> Vec<String> {
    let list = subscriber
        .attachments(tcp.source.id())
        .expect("it is there")
        .expect("it takes some");
    list.into_iter().map(|one| one.name).collect()
}

#[test]
fn an_attachment_stays_until_it_is_detached() {
    let bus = Bus::new();
    let mut tcp = provider(&bus);
    let source = tcp.source.id();
    let [first, other] = ["first", "other"].map(|who| bus.join(who, Rights::all(), 1).expect("it may"));
    let pending = first
        .attach(source, "cap", "after cc", &[])
        .expect("there is a source");
    assert_eq!(pending.ready(), None, "the provider has taken no order");
    assert_eq!(names(&first, &tcp), [""; 0]);
    tcp.step();
    assert_eq!(pending.ready(), Some(Ok(String::new())));
    let there = Attachment {
        name: "cap".into(),
        who: "first".into(),
        places: vec!["after cc".into()],
    };
    assert_eq!(other.attachments(source), Ok(Some(vec![there])));
    drop(first);
    tcp.step();
    assert_eq!(names(&other, &tcp), ["cap"], "its subscriber is gone");
    let pending = other.detach(source, "cap", "").expect("there is a source");
    tcp.step();
    assert_eq!(
        (pending.ready(), names(&other, &tcp).len()),
        (Some(Ok(String::new())), 0)
    );
    assert_eq!(
        acts(&bus),
        [("first".into(), "attached", 1), ("other".into(), "detached", 1)]
    );
    let (entries, _) = bus.audit();
    assert!(
        entries
            .iter()
            .all(|e| e.variable == "cap" && e.target == SourceFlow { source, flow: FlowId::ALL })
    );
}

#[test]
fn a_refused_attachment_is_answered_and_logged() {
    let bus = Bus::new();
    let mut tcp = provider(&bus);
    let source = tcp.source.id();
    let may = bus.join("may", Rights::all(), 1).expect("it may");
    let not = bus
        .join("not", Rights { attach: false, ..Rights::all() }, 1)
        .expect("it may");
    let cases = [
        (not.attach(source, "cap", "x", &[]), Refusal::NotToAttach),
        (not.detach(source, "cap", ""), Refusal::NotToAttach),
        (
            may.attach(source, "cap", "wrong", &[]),
            Refusal::Unable("line 1:\n  wrong".into()),
        ),
        (
            may.detach(source, "cap", ""),
            Refusal::Unable("there is no cap".into()),
        ),
    ];
    tcp.step();
    for (pending, refusal) in cases {
        assert_eq!(pending.expect("there is a source").ready(), Some(Err(refusal)));
    }
    assert_eq!(names(&may, &tcp), [""; 0]);
    let (entries, _) = bus.audit();
    let logged: Vec<_> = entries
        .iter()
        .map(|e| (e.who.as_str(), e.act.clone(), e.count))
        .collect();
    let refused = |why: &str| AuditAction::Refused(why.into());
    let want = [
        (
            "not",
            refused("the subscriber has no right to attach or to detach"),
            2,
        ),
        ("may", refused("line 1: wrong"), 1),
        ("may", refused("there is no cap"), 1),
    ];
    assert_eq!(logged, want);
}

#[test]
fn an_ended_or_unattachable_source_refuses_attachments() {
    let bus = Bus::new();
    let subscriber = bus.join("subscriber", Rights::all(), 1).expect("it may");
    let mut plain = Provider::new(&bus);
    let source = plain.source.id();
    assert_eq!(subscriber.attachments(source), Ok(None));
    let pending = subscriber
        .attach(source, "cap", "x", &[])
        .expect("there is a source");
    plain.poll(1);
    assert_eq!(pending.ready(), Some(Err(Refusal::NotAttachable("tcp".into()))));
    for name in ["", "a b", "../x", &"a".repeat(65)] {
        assert!(
            matches!(subscriber.attach(source, name, "x", &[]), Err(BusError::Name(_))),
            "{name}"
        );
    }
    let tcp = provider(&bus);
    let gone = tcp.source.id();
    let pending = subscriber
        .attach(gone, "cap", "x", &[])
        .expect("it is there still");
    drop(tcp);
    assert_eq!(
        pending.wait(Duration::from_secs(5)),
        Err(BusError::Timeout),
        "it answers no more"
    );
    assert_eq!(
        subscriber.attach(gone, "cap", "x", &[]).err(),
        Some(BusError::NoSource(gone.0))
    );
    assert_eq!(
        subscriber.detach(SourceId(77), "cap", "").err(),
        Some(BusError::NoSource(77))
    );
}

/// A provider that polls without taking steps has a bounded number of them.
#[test]
fn untaken_steps_are_bounded() {
    let bus = Bus::new();
    let mut tcp = provider(&bus);
    let subscriber = bus.join("subscriber", Rights::all(), 1).expect("it may");
    let mut all = Vec::new();
    for _ in 0..40 {
        all.push(
            subscriber
                .attach(tcp.source.id(), "cap", "x", &[])
                .expect("there is a source"),
        );
        tcp.poll(tcp.now + 1);
    }
    let refused = all
        .iter()
        .filter(|pending| matches!(pending.ready(), Some(Err(_))))
        .count();
    assert_eq!(refused, 40 - 16);
}
