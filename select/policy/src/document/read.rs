//! Converts trees to policies, nodes and requests, and reports all their faults.

use std::sync::Arc;

use super::object::{Object, join};
use super::tree::{Tree, parse};
use super::{Diagnostic, Format, Read};
use crate::cib::{Expiry, Node};
use crate::limits;
use crate::names::{KNOWN, Key, NameTable, nearest};
use crate::pib::{Policy, PolicyStage};
use crate::properties::Properties;
use crate::property::{Precedence, Property};
use crate::request::Request;
use crate::socket::{self, NameForm};
use crate::value::{Scalar, Value};

/// The limit on scores and priorities, which keeps sums of them finite and sufficiently exact.
const MAX_NUMBER: f64 = 1e9;

const POLICY: &[&str] = &[
    "uid",
    "priority",
    "description",
    "policy_type",
    "replace_matched",
    "match",
    "properties",
    "filename",
    "time",
];
const NODE: &[&str] = &[
    "uid",
    "root",
    "link",
    "priority",
    "expire",
    "expires",
    "description",
    "filename",
    "match",
    "properties",
];
const PROPERTY: &[&str] = &[
    "value",
    "precedence",
    "score",
    "evaluated",
    "banned",
    "description",
];
const RANGE: [&str; 2] = ["start", "end"];

/// A list of groups, from each of which one alternative is chosen.
type Groups = Vec<Vec<Properties>>;

/// Reads trees and collects diagnostics.
pub(super) struct Reader<'n> {
    names: &'n mut NameTable,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl<'n> Reader<'n> {
    pub(super) fn new(names: &'n mut NameTable) -> Self {
        Self { names, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn finish<T>(self, value: Option<T>) -> super::Result<T> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(Read { value, warnings: self.warnings }),
            _ => Err(self.errors),
        }
    }

    pub(super) fn document(&mut self, text: &str, format: Format) -> Option<Tree> {
        parse(text, format)
            .map_err(|error| self.error("", error.to_string(), None))
            .ok()
    }

    pub(super) fn policies(&mut self, tree: &Tree, name: &str, kind: Option<PolicyStage>) -> Vec<Policy> {
        let items = items(tree);
        let policy = |(path, item)| self.policy(item, path, name, kind);
        items.into_iter().filter_map(policy).collect()
    }

    pub(super) fn nodes(&mut self, tree: &Tree, name: &str) -> Vec<Node> {
        items(tree)
            .into_iter()
            .filter_map(|(path, item)| self.node(item, path, name))
            .collect()
    }

    fn policy(&mut self, tree: &Tree, path: String, name: &str, kind: Option<PolicyStage>) -> Option<Policy> {
        let object = self.object(tree, path, POLICY, "a policy")?;
        let uid = self.uid(&object, name).to_lowercase();
        let stated = match self.text(&object, "policy_type").as_deref() {
            None => None,
            Some("profile") => Some(PolicyStage::Profile),
            Some("policy") => Some(PolicyStage::Policy),
            Some(other) => {
                let message = format!("unknown type {other:?}");
                self.error(
                    &object.path_of("policy_type"),
                    message,
                    Some("`policy` or `profile`"),
                );
                None
            }
        };
        if let (Some(kind), Some(stated)) = (kind, stated)
            && kind != stated
        {
            let message = format!(
                "the type is {:?}, but the file is for a {}",
                stated.name(),
                kind.name()
            );
            self.error(
                &object.path_of("policy_type"),
                message,
                Some("rename the file, or remove the key"),
            );
        }
        let matches = match object.value("match") {
            None => Properties::default(),
            Some(tree) => self.properties(tree, &object.path_of("match")),
        };
        // NEAT's manager writes this key into files, but no reader uses it.
        self.text(&object, "filename");
        self.number(&object, "time", f64::MAX);
        Some(Policy {
            uid: uid.into(),
            kind: kind.or(stated).unwrap_or(PolicyStage::Policy),
            priority: self.number(&object, "priority", MAX_NUMBER).unwrap_or(0.0),
            description: self.text(&object, "description").unwrap_or_default().into(),
            replace_matched: self.truth(&object, "replace_matched"),
            matches,
            alternatives: self.alternatives(&object),
        })
    }

    fn node(&mut self, tree: &Tree, path: String, name: &str) -> Option<Node> {
        let object = self.object(tree, path, NODE, "a node")?;
        let uid = self.uid(&object, name);
        let key = if object.value("expire").is_some() {
            "expire"
        } else {
            "expires"
        };
        let expire = match self.number(&object, key, f64::MAX) {
            None => Expiry::Unsaid,
            Some(-1.0) => Expiry::Never,
            Some(time) => Expiry::At(time),
        };
        let link = self.truth(&object, "link");
        let matches = self.matches(&object);
        if link && matches.is_empty() {
            self.warn(&object.path_of("link"), "the link needs a `match`", None);
        }
        let root = self.truth(&object, "root");
        if !root && !link && matches.is_empty() {
            self.warn(
                &object.path,
                "the node is in no row: it is not a root and has no `match`",
                None,
            );
        }
        self.text(&object, "filename");
        Some(Node {
            uid: uid.into(),
            root,
            link,
            priority: self.number(&object, "priority", MAX_NUMBER).unwrap_or(0.0),
            expire,
            description: self.text(&object, "description").unwrap_or_default().into(),
            matches: matches.into(),
            alternatives: self.alternatives(&object),
        })
    }

    fn matches(&mut self, object: &Object<'_>) -> Vec<Properties> {
        let path = object.path_of("match");
        match object.value("match") {
            None => Vec::new(),
            Some(Tree::List(list)) if list.len() <= limits::MATCHES => {
                let one = |(n, tree)| self.properties(tree, &format!("{path}[{n}]"));
                list.iter().enumerate().map(one).collect()
            }
            Some(Tree::List(_)) => {
                self.error(&path, format!("there are more than {}", limits::MATCHES), None);
                Vec::new()
            }
            Some(other) => {
                let hint = "write a list of objects: an entry matches if one of them matches";
                self.error(&path, format!("{} is not a list", other.kind()), Some(hint));
                Vec::new()
            }
        }
    }

    /// Reads a request. In it, a list in the place of a property means alternatives.
    pub(super) fn request(&mut self, tree: &Tree) -> Option<Request> {
        let mut all = Vec::new();
        for (path, item) in items(tree) {
            let mut groups = Groups::new();
            let parts = match item {
                Tree::List(_) => items(item),
                one => vec![(String::new(), one)],
            };
            for (place, part) in parts {
                match part {
                    Tree::List(_) => groups.push(self.group(part, &format!("{path}{place}"))),
                    part => self.alternative(part, &format!("{path}{place}"), &mut groups),
                }
            }
            all.extend(self.expand(&groups, &path));
            if all.len() > limits::ALTERNATIVES {
                self.error(
                    &path,
                    format!("there are more than {} alternatives", limits::ALTERNATIVES),
                    None,
                );
                return None;
            }
        }
        if all.is_empty() {
            self.error(
                "",
                "the request is empty",
                Some("write `[{}]` to request any connection"),
            );
            return None;
        }
        Some(Request::any_of(all))
    }

    /// Reads an object of a request: single properties are one group, and each list is a group.
    fn alternative(&mut self, tree: &Tree, path: &str, groups: &mut Groups) {
        let Some(named) = self.named(tree, path) else {
            return;
        };
        let mut single = Properties::default();
        for (key, mut properties) in named {
            match properties.len() {
                1 => properties
                    .drain(..)
                    .for_each(|property| single.set(key, property)),
                _ => {
                    let alone = |property| Properties::from_iter([(key, property)]);
                    groups.push(properties.into_iter().map(alone).collect());
                }
            }
        }
        groups.push(vec![single]);
    }

    /// Reads `properties` of a policy or a node, and expands them.
    fn alternatives(&mut self, object: &Object<'_>) -> Arc<[Properties]> {
        let path = object.path_of("properties");
        let groups = match object.value("properties") {
            None => Groups::new(),
            Some(Tree::List(list)) => {
                let group = |(n, tree)| self.group(tree, &format!("{path}[{n}]"));
                list.iter().enumerate().map(group).collect()
            }
            Some(one) => vec![self.group(one, &path)],
        };
        self.expand(&groups, &path).into()
    }

    /// Reads alternatives: a list of objects, or one object.
    fn group(&mut self, tree: &Tree, path: &str) -> Vec<Properties> {
        let Tree::List(list) = tree else {
            return vec![self.properties(tree, path)];
        };
        if list.is_empty() {
            self.error(
                path,
                "the list of alternatives is empty",
                Some("remove the list, or add objects to it"),
            );
        }
        if list.len() > limits::ALTERNATIVES {
            self.error(
                path,
                format!("there are more than {} alternatives", limits::ALTERNATIVES),
                None,
            );
            return Vec::new();
        }
        let one = |(n, tree)| self.properties(tree, &format!("{path}[{n}]"));
        list.iter().enumerate().map(one).collect()
    }

    /// Returns every combination of one alternative of each group, merged in the order of the groups.
    fn expand(&mut self, groups: &Groups, path: &str) -> Vec<Properties> {
        let mut all = vec![Properties::default()];
        for group in groups {
            let choices = all.len().saturating_mul(group.len());
            let weight = all.iter().chain(group).map(Properties::len).max().unwrap_or(0) * 2;
            if choices > limits::ALTERNATIVES || choices.saturating_mul(weight) > 2 * limits::EXPANDED {
                let (alternatives, properties) = (limits::ALTERNATIVES, limits::EXPANDED);
                let message = format!(
                    "there are more than {alternatives} alternatives, or more than {properties} \
                             properties in them"
                );
                self.error(path, message, Some("write several policies or nodes"));
                return Vec::new();
            }
            let mut next = Vec::with_capacity(choices);
            for (so_far, more) in all
                .iter()
                .flat_map(|so_far| group.iter().map(move |more| (so_far, more)))
            {
                let mut merged = so_far.clone();
                for (key, property) in more.iter() {
                    if merged.add(key, property).is_err() {
                        let message = format!("`{}` contradicts itself", self.names.text(key));
                        self.error(path, message, None);
                        return Vec::new();
                    }
                }
                next.push(merged);
            }
            all = next;
        }
        all
    }

    /// Reads an object of properties. A list in the place of a property is merged, as in NEAT.
    fn properties(&mut self, tree: &Tree, path: &str) -> Properties {
        let mut all = Properties::default();
        for (key, properties) in self.named(tree, path).unwrap_or_default() {
            for property in &properties {
                if all.add(key, property).is_err() {
                    let message = format!("`{}` contradicts itself", self.names.text(key));
                    self.error(path, message, None);
                }
            }
        }
        all
    }

    /// Reads the names of an object, each with its properties.
    fn named(&mut self, tree: &Tree, path: &str) -> Option<Vec<(Key, Vec<Property>)>> {
        let Tree::Table(entries) = tree else {
            let message = format!("{} is not an object of properties", tree.kind());
            self.error(path, message, Some(r#"{ "NAME": { "value": … } }"#));
            return None;
        };
        if entries.len() > limits::OBJECT {
            self.error(
                path,
                format!("there are more than {} properties", limits::OBJECT),
                None,
            );
            return None;
        }
        let mut all: Vec<(Key, Vec<Property>)> = Vec::with_capacity(entries.len());
        for (name, tree) in entries {
            let path = join(path, name);
            let Some(key) = self.name(name, &path) else {
                continue;
            };
            let mut properties = Vec::new();
            self.listed(tree, &path, &mut properties);
            if properties.is_empty() {
                continue;
            }
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some((_, same)) => same.extend(properties),
                None => all.push((key, properties)),
            }
        }
        Some(all)
    }

    fn listed(&mut self, tree: &Tree, path: &str, properties: &mut Vec<Property>) {
        match tree {
            Tree::List(list) if list.is_empty() => {
                self.error(path, "the list of alternatives is empty", None)
            }
            Tree::List(list) => {
                for (n, tree) in list.iter().enumerate() {
                    if properties.len() >= limits::ALTERNATIVES {
                        let message = format!("there are more than {}", limits::ALTERNATIVES);
                        return self.error(path, message, None);
                    }
                    self.listed(tree, &format!("{path}[{n}]"), properties);
                }
            }
            one => properties.extend(self.property(one, path)),
        }
    }

    fn name(&mut self, name: &str, path: &str) -> Option<Key> {
        if name.is_empty() || name.len() > limits::NAME_BYTES {
            let message = format!("a name has 1 to {} bytes", limits::NAME_BYTES);
            self.error(path, message, None);
            return None;
        }
        match socket::form(name) {
            NameForm::Malformed => {
                self.error(
                    path,
                    "the name of a socket option has three parts",
                    Some("`SO/SOL_SOCKET/SO_KEEPALIVE`"),
                );
                return None;
            }
            NameForm::Unknown => {
                let hint = "the property affects the ranking only; to set the option, write its numbers: \
                            `SO/6/13`";
                self.warn(path, "Linux has no socket option of this name", Some(hint));
            }
            NameForm::Option => {}
            NameForm::Other => self.check_unknown_name(name, path)?,
        }
        match self.names.intern(name) {
            Ok(key) => Some(key),
            Err(limit) => {
                self.error(path, limit.to_string(), None);
                None
            }
        }
    }

    /// Reports an unknown name. Returns `None` if it looks like a misspelling of a known one.
    fn check_unknown_name(&mut self, name: &str, path: &str) -> Option<()> {
        let is_known = KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_known || name.contains('/') || name.starts_with("__") {
            return Some(());
        }
        if let Some(near) = nearest(name) {
            let hint = format!("did you mean `{near}`? Write a `/` in a name of your own: `own/{name}`");
            self.error(path, "this property does not exist", Some(&hint));
            return None;
        }
        let hint = format!("write `own/{name}`, with a `/`, if this is intended");
        self.warn(path, "only these documents use this property", Some(&hint));
        Some(())
    }

    fn property(&mut self, tree: &Tree, path: &str) -> Option<Property> {
        let Tree::Table(_) = tree else {
            let message = format!("{} is not a property", tree.kind());
            self.error(path, message, Some(r#"{ "value": … }"#));
            return None;
        };
        let object = self.object(tree, path.to_owned(), PROPERTY, "a property")?;
        let value = match object.value("value") {
            None => Some(Value::Any),
            Some(tree) => self.value(tree, &object.path_of("value")),
        };
        let precedence = match self.number(&object, "precedence", 2.0) {
            None => Precedence::Optional,
            Some(0.0) => Precedence::Base,
            Some(1.0) => Precedence::Optional,
            Some(2.0) => Precedence::Immutable,
            Some(_) => {
                let hint = "2: immutable, 1: optional, 0: base";
                self.error(
                    &object.path_of("precedence"),
                    "this precedence does not exist",
                    Some(hint),
                );
                return None;
            }
        };
        self.text(&object, "description");
        Some(Property {
            value: value?,
            precedence,
            score: self.number(&object, "score", MAX_NUMBER).unwrap_or(0.0),
            evaluated: self.truth(&object, "evaluated"),
            banned: self.banned(&object).into(),
        })
    }

    fn banned(&mut self, object: &Object<'_>) -> Vec<Value> {
        let path = object.path_of("banned");
        match object.value("banned") {
            None => Vec::new(),
            Some(Tree::List(list)) if list.len() <= limits::SET => {
                let one = |(n, tree)| self.value(tree, &format!("{path}[{n}]"));
                list.iter().enumerate().filter_map(one).collect()
            }
            Some(Tree::List(_)) => {
                self.error(&path, format!("there are more than {}", limits::SET), None);
                Vec::new()
            }
            Some(other) => {
                self.error(&path, format!("{} is not a list of values", other.kind()), None);
                Vec::new()
            }
        }
    }

    fn value(&mut self, tree: &Tree, path: &str) -> Option<Value> {
        match tree {
            Tree::Null => Some(Value::Any),
            Tree::List(list) if list.is_empty() => {
                self.error(
                    path,
                    "an empty set matches no value",
                    Some("write `null` for any value"),
                );
                None
            }
            Tree::List(list) if list.len() > limits::SET => {
                self.error(path, format!("there are more than {} values", limits::SET), None);
                None
            }
            Tree::List(list) => {
                let one = |(n, tree)| self.scalar(tree, &format!("{path}[{n}]"));
                let members: Vec<Option<Scalar>> = list.iter().enumerate().map(one).collect();
                Value::from_members(members.into_iter().collect::<Option<Vec<Scalar>>>()?)
            }
            Tree::Table(_) => self.range(tree, path),
            one => self.scalar(one, path).map(Value::One),
        }
    }

    fn range(&mut self, tree: &Tree, path: &str) -> Option<Value> {
        let object = self.object(tree, path.to_owned(), &RANGE, "a range")?;
        let ends = RANGE.map(|key| match object.value(key) {
            Some(Tree::Number(number)) => Some(*number),
            Some(Tree::Text(text)) => infinite(text),
            _ => None,
        });
        let [Some(start), Some(end)] = ends else {
            let hint = r#"{ "start": 10, "end": "Inf" }"#;
            self.error(path, "a range needs the numbers `start` and `end`", Some(hint));
            return None;
        };
        if start > end {
            self.error(path, format!("a range from {start} to {end} is empty"), None);
            return None;
        }
        Some(Value::Range(start, end))
    }

    fn scalar(&mut self, tree: &Tree, path: &str) -> Option<Scalar> {
        match tree {
            Tree::Bool(truth) => Some(Scalar::Bool(*truth)),
            Tree::Number(number) if number.is_finite() => Some(Scalar::Number(*number)),
            Tree::Text(text) if text.len() <= limits::TEXT_BYTES => Some(Scalar::Text(text.as_str().into())),
            Tree::Text(_) => {
                self.error(
                    path,
                    format!("a text has at most {} bytes", limits::TEXT_BYTES),
                    None,
                );
                None
            }
            Tree::Number(_) => {
                self.error(path, "only the ends of ranges can be infinite", None);
                None
            }
            other => {
                let hint = "expected a boolean, a number, a text, or a list of these";
                self.error(path, format!("{} is not a value here", other.kind()), Some(hint));
                None
            }
        }
    }

    fn object<'t>(
        &mut self,
        tree: &'t Tree,
        path: String,
        known: &'static [&'static str],
        what: &str,
    ) -> Option<Object<'t>> {
        let Tree::Table(entries) = tree else {
            self.error(&path, format!("{} is not {what}", tree.kind()), None);
            return None;
        };
        let object = Object::new(entries, path, known);
        for (key, near) in object.unknown() {
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            self.error(
                &object.path_of(key),
                format!("{what} has no such key"),
                hint.as_deref(),
            );
        }
        Some(object)
    }

    fn uid(&mut self, object: &Object<'_>, name: &str) -> String {
        match object.value("uid") {
            // NEAT also accepts numbers.
            Some(Tree::Number(number)) => number.to_string(),
            Some(Tree::Text(text)) if text.is_empty() => {
                self.error(&object.path_of("uid"), "the name is empty", None);
                String::new()
            }
            Some(_) => self.text(object, "uid").unwrap_or_default(),
            None => format!("{name}{}", object.path),
        }
    }

    fn text(&mut self, object: &Object<'_>, key: &'static str) -> Option<String> {
        match object.value(key) {
            None | Some(Tree::Null) => None,
            Some(Tree::Text(text)) if text.len() <= limits::TEXT_BYTES => Some(text.clone()),
            Some(Tree::Text(_)) => {
                let message = format!("a text has at most {} bytes", limits::TEXT_BYTES);
                self.error(&object.path_of(key), message, None);
                None
            }
            Some(other) => {
                self.error(
                    &object.path_of(key),
                    format!("{} is not a text", other.kind()),
                    None,
                );
                None
            }
        }
    }

    fn number(&mut self, object: &Object<'_>, key: &'static str, max: f64) -> Option<f64> {
        match object.value(key) {
            None | Some(Tree::Null) => None,
            Some(Tree::Number(number)) if number.is_finite() && number.abs() <= max => Some(*number),
            Some(Tree::Number(number)) => {
                let message = format!("{number} is not between -{max} and {max}");
                self.error(&object.path_of(key), message, None);
                None
            }
            Some(other) => {
                self.error(
                    &object.path_of(key),
                    format!("{} is not a number", other.kind()),
                    None,
                );
                None
            }
        }
    }

    fn truth(&mut self, object: &Object<'_>, key: &'static str) -> bool {
        match object.value(key) {
            None | Some(Tree::Null) => false,
            Some(Tree::Bool(truth)) => *truth,
            Some(other) => {
                let message = format!("{} is not a boolean", other.kind());
                self.error(&object.path_of(key), message, None);
                false
            }
        }
    }

    fn error(&mut self, path: &str, message: impl Into<String>, hint: Option<&str>) {
        note(&mut self.errors, path, message, hint);
    }

    fn warn(&mut self, path: &str, message: impl Into<String>, hint: Option<&str>) {
        note(&mut self.warnings, path, message, hint);
    }
}

fn note(diagnostics: &mut Vec<Diagnostic>, path: &str, message: impl Into<String>, hint: Option<&str>) {
    if diagnostics.len() < limits::DIAGNOSTICS {
        diagnostics.push(Diagnostic {
            path: path.into(),
            message: message.into(),
            hint: hint.map(Into::into),
        });
    }
}

/// Returns the items of a list with their paths, or a single value that is not a list.
fn items(tree: &Tree) -> Vec<(String, &Tree)> {
    match tree {
        Tree::List(list) => list
            .iter()
            .enumerate()
            .map(|(n, item)| (format!("[{n}]"), item))
            .collect(),
        one => vec![(String::new(), one)],
    }
}

fn infinite(text: &str) -> Option<f64> {
    match text.trim().to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
