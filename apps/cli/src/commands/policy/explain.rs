//! Formats a ranking as text and as JSON, with the policies that changed each property.

use std::fmt::Write as _;

use hawser::connect::policy::document::property_json;
use hawser::connect::policy::{
    Candidate, ChangeSource, Effect, Key, Merge, NameTable, Precedence, Properties, Property, PropertyChange,
    Ranking, Rejection, RejectionReason, Step, keys, socket_option,
};
use serde_json::{Map, Value, json};

/// Formats a ranking for people.
pub(super) fn describe(ranking: &Ranking, names: &NameTable, explain: bool) -> String {
    let mut text = String::new();
    for (place, candidate) in ranking.candidates.iter().enumerate() {
        let (evaluated, rest) = (candidate.score.evaluated, candidate.score.rest);
        let title = transport(&candidate.properties);
        let _ = writeln!(text, "{}. {title}  score {evaluated} | {rest}", place + 1);
        for (key, property) in candidate.properties.iter() {
            let _ = writeln!(text, "   {}", line(key, property, names));
            if explain {
                origin(&mut text, candidate, key);
            }
        }
    }
    if explain && !ranking.rejections.is_empty() {
        let _ = writeln!(text, "\nrejected:");
        for rejection in &ranking.rejections {
            let _ = writeln!(text, "   {}", refused(rejection, names));
        }
        if ranking.unlisted > 0 {
            let _ = writeln!(text, "   and {} more", ranking.unlisted);
        }
    }
    text
}

/// Lists the sources that affected one property of a candidate.
fn origin(text: &mut String, candidate: &Candidate, key: Key) {
    for Step { source, changes } in candidate.steps() {
        for change in changes.iter().filter(|change| change.key == key) {
            let after = match &change.after {
                Some(after) => format!(": {}", stand(after)),
                None => String::new(),
            };
            let _ = writeln!(
                text,
                "        {} {}{after}",
                place(source),
                effect(source, change)
            );
        }
    }
}

/// Describes the effect of a source on a property. The request is merged onto a row, so for a row the roles
/// are reversed: the request replaces it, or gives way.
fn effect(source: &ChangeSource, change: &PropertyChange) -> &'static str {
    let is_row = matches!(source, ChangeSource::Row(..));
    match change.effect {
        Effect::Added => "says",
        Effect::Merged(Merge::Agreed) => "agrees",
        Effect::Merged(Merge::Replaced) if is_row => "gives way",
        Effect::Merged(Merge::Replaced) => "replaces it",
        Effect::Merged(Merge::Kept) if is_row => "stands against it",
        Effect::Merged(Merge::Kept) => "differs and gives way",
        Effect::Removed => "takes it away",
    }
}

fn place(source: &ChangeSource) -> String {
    match source {
        ChangeSource::Request(number) => format!("request {}", number + 1),
        ChangeSource::Profile(uid) => format!("profile {uid}"),
        ChangeSource::Row(path, beside) => {
            let path: Vec<&str> = path.iter().map(|uid| &**uid).collect();
            let beside = beside
                .as_ref()
                .map_or_else(String::new, |uid| format!(" beside which {uid} stands"));
            format!("row {}{beside}", path.join(" ← "))
        }
        ChangeSource::Policy(uid) => format!("policy {uid}"),
        ChangeSource::Transports => "one of its transports".into(),
        ChangeSource::Banned => "what is banned".into(),
        ChangeSource::Cleaning => "the end".into(),
    }
}

/// Formats a property: its name, value and attributes.
fn line(key: Key, property: &Property, names: &NameTable) -> String {
    let name = names.text(key);
    let option = socket_option(name).map_or_else(String::new, |option| format!(" ({option})"));
    format!("{name}{option} = {}", stand(property))
}

fn stand(property: &Property) -> String {
    let precedence = match property.precedence {
        Precedence::Base => "base",
        Precedence::Optional => "optional",
        Precedence::Immutable => "immutable",
    };
    let score = match property.score {
        0.0 => String::new(),
        score => format!(", score {score}"),
    };
    let evaluated = if property.evaluated { ", evaluated" } else { "" };
    format!("{}  [{precedence}{score}{evaluated}]", property.value)
}

fn transport(properties: &Properties) -> String {
    properties
        .find(keys::TRANSPORT)
        .map_or_else(|| "any transport".into(), |one| one.value.to_string())
}

/// Describes, in a line, the reason why a candidate was rejected.
fn refused(rejection: &Rejection, names: &NameTable) -> String {
    let interface = rejection.candidate.find(keys::INTERFACE);
    let interface = interface.map_or_else(String::new, |one| format!(" over {}", one.value));
    let who = format!("{}{interface}", transport(&rejection.candidate));
    let by = rejection
        .by
        .as_ref()
        .map_or_else(String::new, |source| format!(" by {}", place(source)));
    format!("{who}{by}: {}", reason(&rejection.why, names))
}

fn reason(why: &RejectionReason, names: &NameTable) -> String {
    match why {
        RejectionReason::Conflict(conflict) => {
            let (mine, theirs) = (&conflict.mine.value, &conflict.theirs.value);
            format!("{} is {mine}, and must be {theirs}", names.text(conflict.key))
        }
        RejectionReason::Missing(key) => format!("it has no {}, which the request demands", names.text(*key)),
        RejectionReason::Banned(key) => format!("every value that {} may have is banned", names.text(*key)),
        RejectionReason::Duplicate => "the same candidate exists already".into(),
        RejectionReason::Rank(better) => format!("{better} other candidates are better"),
    }
}

/// Formats a ranking as JSON.
pub(super) fn report(ranking: &Ranking, names: &NameTable, explain: bool) -> Value {
    let candidates: Vec<Value> = ranking
        .candidates
        .iter()
        .map(|one| described(one, names, explain))
        .collect();
    let mut report = json!({ "candidates": candidates });
    if explain {
        let rejected = ranking.rejections.iter().map(|rejection| {
            json!({
                "properties": object(&rejection.candidate, names),
                "by": rejection.by.as_ref().map(place),
                "why": reason(&rejection.why, names),
            })
        });
        report["rejected"] = rejected.collect();
        report["unlisted"] = json!(ranking.unlisted);
    }
    report
}

fn described(candidate: &Candidate, names: &NameTable, explain: bool) -> Value {
    let mut object = json!({
        "score": [candidate.score.evaluated, candidate.score.rest],
        "properties": object(&candidate.properties, names),
    });
    if explain {
        let step = |step: &&Step| {
            let change = |change: &PropertyChange| {
                json!({
                    "property": names.text(change.key), "effect": effect(&step.source, change),
                    "after": change.after.as_ref().map(property_json),
                })
            };
            json!({
                "source": place(&step.source),
                "changes": step.changes.iter().map(change).collect::<Vec<_>>(),
            })
        };
        object["steps"] = candidate.steps().iter().map(step).collect();
    }
    object
}

fn object(properties: &Properties, names: &NameTable) -> Value {
    let named = properties
        .iter()
        .map(|(key, property)| (names.text(key).to_owned(), property_json(property)));
    Value::Object(named.collect::<Map<String, Value>>())
}
