//! Answers and signals as JSON.

use hawser_bus::{
    Access, Attachment, AuditAction, AuditEntry, EventId, EventType, Field, FlowInfo, Grant, Notice, Rights,
    Schema, Scope, Signal, SourceFlow, SourceInfo, Statistics, Subscribed, Subscriber, ValueKind, Variable,
};
use hawser_time::nanos;
use serde_json::{Map, Value, json};

/// The version of the protocol.
pub(super) const VERSION: u32 = 1;

pub(super) fn hello(name: &str, priority: u8, rights: &Rights) -> Value {
    let grant = |g: &Grant| json!({ "variables": g.variables.as_str(), "min": g.min, "max": g.max });
    let observe: Vec<_> = rights
        .observe
        .iter()
        .map(|pattern| pattern.as_str().to_owned())
        .collect();
    json!({ "hello": {
        "version": VERSION,
        "process": std::process::id(),
        "name": name,
        "priority": priority,
        "rights": {
            "observe": observe,
            "modify": rights.modify.iter().map(grant).collect::<Vec<_>>(),
            "attach": rights.attach,
            "priority": rights.priority,
        },
    } })
}

pub(super) fn offers(sources: &[SourceInfo], rights: &Rights) -> Value {
    let about = |mut shown: Value, schema: &Schema, name: &str| {
        if let Some(text) = schema.about(name) {
            shown["about"] = text.into();
        }
        shown
    };
    let event = |schema: &Schema, number: EventId, e: &EventType| {
        let field = |f: &Field| {
            let shown = with_kind(json!({ "name": f.name }), &f.kind);
            about(shown, schema, &format!("{}.{}", e.name, f.name))
        };
        let fields: Vec<_> = e.fields.iter().map(field).collect();
        let shown = || json!({ "name": e.name, "number": number.0, "fields": fields });
        rights
            .may_observe(&e.name)
            .then(|| about(shown(), schema, &e.name))
    };
    let variable = |schema: &Schema, number: usize, v: &Variable| {
        let mut out = with_kind(json!({ "name": v.name, "number": number }), &v.kind);
        if let Access::Modifiable { min, max } = v.access {
            out["min"] = min.into();
            out["max"] = max.into();
        }
        rights.may_observe(&v.name).then(|| about(out, schema, &v.name))
    };
    let source = |info: &SourceInfo| {
        let schema = &*info.schema;
        let events: Vec<_> = schema
            .offered()
            .filter_map(|(n, e)| event(schema, n, e))
            .collect();
        let variables = schema.variables().iter().enumerate();
        let variables: Vec<_> = variables.filter_map(|(n, v)| variable(schema, n, v)).collect();
        json!({
            "source": info.id.0, "provider": schema.provider(), "events": events, "variables": variables,
        })
    };
    json!({ "offers": sources.iter().map(source).collect::<Vec<_>>() })
}

fn with_kind(mut of: Value, kind: &ValueKind) -> Value {
    of["kind"] = kind.name().into();
    if let ValueKind::Enum(names) = kind {
        of["values"] = names
            .iter()
            .map(|(n, name)| json!({ "value": n, "name": name }))
            .collect();
    }
    of
}

pub(super) fn flow(target: SourceFlow, provider: &str, info: &FlowInfo) -> Value {
    let mut shown = json!({
        "flow": target.to_string(),
        "provider": provider,
        "kind": info.kind,
        "local": info.local,
        "remote": info.remote,
        "label": info.label,
    });
    for (name, value) in &info.attributes {
        shown[name] = match value.parse::<u64>() {
            Ok(number) if matches!(*name, "namespace" | "interface" | "pid") => number.into(),
            _ => value.as_str().into(),
        };
    }
    shown
}

pub(super) fn subscriptions(all: &[Subscribed]) -> Value {
    let one = |s: &Subscribed| {
        let events: Vec<_> = s
            .subscription
            .events
            .iter()
            .map(|pattern| pattern.as_str().to_owned())
            .collect();
        json!({
            "subscription": s.id.0,
            "who": s.who,
            "events": events,
            "with": s.subscription.with,
            "scope": scope(&s.subscription.scope),
            "priority": s.subscription.priority,
            "interval": nanos(s.subscription.filter.interval),
            "frequency": s.subscription.filter.frequency,
        })
    };
    json!({ "subscriptions": all.iter().map(one).collect::<Vec<_>>() })
}

fn scope(scope: &Scope) -> Value {
    match scope {
        Scope::All => json!(""),
        Scope::One(target) => json!({ "flow": target.to_string() }),
        Scope::Rule(rule) => json!(rule.as_str()),
    }
}

pub(super) fn audit(entries: &[AuditEntry], forgotten: u64) -> Value {
    let entry = |e: &AuditEntry| {
        let mut out = json!({
            "first": e.first.as_nanos(),
            "last": e.last.as_nanos(),
            "count": e.count,
            "who": e.who,
            "flow": e.target.to_string(),
            "variable": e.variable,
            "before": e.before,
            "act": e.act.name(),
        });
        if let Some((began, ended)) = e.wall {
            out["began"] = (began.as_nanos() / NANOS_PER_MS).into();
            out["ended"] = (ended.as_nanos() / NANOS_PER_MS).into();
        }
        if let Some(user) = e.origin.user {
            out["user"] = user.into();
        }
        if let Some(process) = e.origin.process {
            out["process"] = process.into();
        }
        match &e.act {
            AuditAction::Set(value) => out["value"] = json!(value),
            AuditAction::Refused(why) | AuditAction::Panicked(why) => out["why"] = json!(why),
            AuditAction::Attached(text) => out["sha256"] = json!(text),
            AuditAction::Detached(why) if !why.is_empty() => out["why"] = json!(why),
            _ => {}
        }
        out
    };
    json!({ "audit": entries.iter().map(entry).collect::<Vec<_>>(), "forgotten": forgotten })
}

/// Wall time is in milliseconds.
const NANOS_PER_MS: u64 = 1_000_000;

/// Writes the notice of a lease that ended before its time.
pub(super) fn ended(notice: &Notice, schema: &Schema) -> Value {
    let variable = schema
        .variable_type(notice.variable)
        .map_or("?", |variable| variable.name.as_str());
    json!({ "ended": { "flow": notice.target.to_string(), "variable": variable, "why": notice.why } })
}

/// Writes the attachments of all sources that take attachments.
pub(super) fn attachments(sources: &[SourceInfo], subscriber: &Subscriber) -> Value {
    let one = |a: &Attachment| json!({ "name": a.name, "who": a.who, "places": a.places });
    let of = |info: &SourceInfo| {
        let list = subscriber.attachments(info.id).ok()??;
        let attached: Vec<_> = list.iter().map(one).collect();
        Some(json!({ "source": info.id.0, "provider": info.schema.provider(), "attached": attached }))
    };
    json!({ "attachments": sources.iter().filter_map(of).collect::<Vec<_>>() })
}

pub(super) fn statistics(s: &Statistics) -> Value {
    json!({ "statistics": { "events": s.events, "passed": s.passed, "lost": s.lost, "crowded": s.crowded } })
}

/// Writes a signal, with names. `with` has the names of the variables as the subscriber gave them.
pub(super) fn signal(signal: &Signal<'_>, schema: &Schema, with: &[String]) -> Value {
    let event = schema.event_type(signal.event());
    let fields = event.map_or(&[][..], |event| &event.fields);
    let named = |(field, value): (&Field, &u64)| (field.name.clone(), json!(value));
    let fields: Map<String, Value> = fields.iter().zip(signal.fields()).map(named).collect();
    let named = |(name, value): (&String, &u64)| (name.clone(), json!(value));
    let with: Map<String, Value> = with.iter().zip(signal.variables()).map(named).collect();
    let mut out = json!({
        "subscription": signal.subscription().0,
        "event": event.map_or("?", |event| event.name.as_str()),
        "flow": signal.target().to_string(),
        "time": signal.time().as_nanos(),
        "fields": fields,
    });
    if !with.is_empty() {
        out["with"] = Value::Object(with);
    }
    if signal.lost() > 0 {
        out["lost"] = signal.lost().into();
    }
    json!({ "signal": out })
}
