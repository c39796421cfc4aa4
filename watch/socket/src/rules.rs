//! The operator's rights file for subscribers at the socket.

use std::io;
use std::path::{Path, PathBuf};

use hawser_bus::{Grant, Rights};
use serde::Deserialize;

/// The reasons for which a rights file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Other users can write to the file.
    #[error("{}: other users can write to the file: run chmod go-w on it", .0.display())]
    WritableByOthers(PathBuf),
    /// The text of the file has a fault.
    #[error("{}: {error}", path.display())]
    Text {
        /// The path of the file.
        path: PathBuf,
        /// The fault, with its place.
        error: RulesTextError,
    },
}

/// The faults of the text of a rights file.
#[derive(Debug, thiserror::Error)]
pub enum RulesTextError {
    /// The text is not TOML, or does not have the form of rules.
    #[error(transparent)]
    Syntax(#[from] hawser_documents::Fault),
    /// The bounds of a rule exclude every value.
    #[error("`{variables}`: min {min} is above max {max}")]
    Bounds {
        /// The variables that the rule names.
        variables: String,
        /// The minimum value.
        min: u64,
        /// The maximum value.
        max: u64,
    },
}

/// The rights of subscribers: the first rule that matches a subscriber applies; a subscriber without a
/// matching rule may only observe. Without a file, every subscriber that is served may do everything.
///
/// ```toml
/// [[rule]]
/// name = "fast*"                    # subscribers, by the name in their hello
/// user = 1000                       # and by the user that they run as
/// observe = ["tcp.*"]
/// modify = [{ variables = "tcp.conn.cc.*", min = 1448, max = 30_000_000 }]
/// attach = true                     # and to put processors into programs
/// priority = 5                      # 1 by default
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Option<Vec<Rule>>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default = "any")]
    name: String,
    user: Option<u32>,
    #[serde(default)]
    observe: Vec<String>,
    #[serde(default)]
    modify: Vec<ModifyRule>,
    #[serde(default)]
    attach: bool,
    #[serde(default = "usual")]
    priority: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModifyRule {
    variables: String,
    #[serde(default)]
    min: u64,
    #[serde(default = "max_value")]
    max: u64,
}

fn any() -> String {
    "*".into()
}

/// The same as the default of a subscription.
fn usual() -> u8 {
    1
}

fn max_value() -> u64 {
    u64::MAX
}

impl Rules {
    /// Loads the rules of a file. Only its owner may have write access to it.
    ///
    /// # Errors
    /// The fault, with its place and a correction.
    pub fn load(path: &Path) -> Result<Rules, RulesError> {
        use std::os::unix::fs::MetadataExt;

        let path = path.to_owned();
        let read = || {
            let text = hawser_documents::files::given(&path, hawser_documents::files::DOCUMENT_MAX)?;
            Ok((text, std::fs::metadata(&path)?.mode()))
        };
        match read() {
            Err(error) => Err(RulesError::Read { path, error }),
            Ok((_, mode)) if mode & 0o022 != 0 => Err(RulesError::WritableByOthers(path)),
            Ok((text, _)) => Rules::parse(&text).map_err(|error| RulesError::Text { path, error }),
        }
    }

    /// Parses the rules of a text.
    ///
    /// # Errors
    /// The fault, with its place.
    pub fn parse(text: &str) -> Result<Rules, RulesTextError> {
        let file: File = hawser_documents::toml(text)?;
        for grant in file.rule.iter().flat_map(|rule| &rule.modify) {
            if grant.min > grant.max {
                return Err(RulesTextError::Bounds {
                    variables: grant.variables.clone(),
                    min: grant.min,
                    max: grant.max,
                });
            }
        }
        Ok(Rules(Some(file.rule)))
    }

    /// Returns the rights of a subscriber.
    #[must_use]
    pub fn rights(&self, name: &str, user: u32) -> Rights {
        let Some(rules) = &self.0 else {
            return Rights::all();
        };
        let fits = |rule: &&Rule| {
            hawser_bus::Pattern::from(rule.name.as_str()).matches(name)
                && rule.user.is_none_or(|wanted| wanted == user)
        };
        let Some(rule) = rules.iter().find(fits) else {
            return Rights::observer();
        };
        let grant = |m: &ModifyRule| Grant { variables: m.variables.as_str().into(), min: m.min, max: m.max };
        Rights {
            observe: rule
                .observe
                .iter()
                .map(|pattern| pattern.as_str().into())
                .collect(),
            modify: rule.modify.iter().map(grant).collect(),
            attach: rule.attach,
            priority: rule.priority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_applies() {
        let rules = Rules::parse(
            r#"
            [[rule]]
            name = "fast*"
            observe = ["tcp.*"]
            modify = [{ variables = "*.cwnd", max = 1000 }]
            priority = 5
            attach = true
            [[rule]]
            user = 7
            observe = ["*"]
            "#,
        )
        .expect("rules");
        let fast = rules.rights("fast-1", 7);
        assert_eq!(
            (
                fast.priority,
                fast.may_observe("tcp.acked"),
                fast.may_observe("session.x")
            ),
            (5, true, false)
        );
        assert_eq!(fast.modify[0].max, 1000);
        assert!(fast.attach);
        assert_eq!(
            rules.rights("other", 7),
            Rights::observer(),
            "with the usual priority"
        );
        assert_eq!(rules.rights("other", 8), Rights::observer());
        assert_eq!(Rules::default().rights("other", 8), Rights::all());
        assert_eq!(
            Rules::parse("").expect("no rules").rights("a", 0),
            Rights::observer()
        );
    }

    #[test]
    fn malformed_rules_are_refused_with_a_reason() {
        for (text, why) in [
            (
                "[[rule]]\nnam = \"x\"",
                "line 2, column 1: `rule[0].nam`: unknown key `nam`",
            ),
            (
                "[[rule]]\nmodify = [{ variables = \"a\", min = 2, max = 1 }]",
                "min 2 is above max 1",
            ),
            (
                "[[rule]]\npriority = 300",
                "line 2, column 12: `rule[0].priority`: expected a whole number from 0 to 255, found 300",
            ),
        ] {
            let error = Rules::parse(text).expect_err("it is wrong");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
