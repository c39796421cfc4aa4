//! The rights of a subscriber to observe and set.

use crate::pattern::Pattern;
use crate::schema::{Access, Schema, VariableId};

/// A right to set variables to values within bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The variables that may be set.
    pub variables: Pattern,
    /// The smallest allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
}

/// The rights of one subscriber, within the limits that the providers declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The events that it may receive and the variables that it may read.
    pub observe: Vec<Pattern>,
    /// The variables that it may set; the first grant whose pattern matches a variable applies.
    pub modify: Vec<Grant>,
    /// True if it may attach texts to programs, and detach those that are attached.
    pub attach: bool,
    /// The highest priority that it may take.
    pub priority: u8,
}

impl Rights {
    /// Returns no rights at all.
    #[must_use]
    pub fn none() -> Rights {
        Rights { observe: Vec::new(), modify: Vec::new(), attach: false, priority: 0 }
    }

    /// Returns the right to observe everything, with the usual priority.
    #[must_use]
    pub fn observer() -> Rights {
        Rights { observe: vec!["*".into()], priority: 1, ..Rights::none() }
    }

    /// Returns the right to do everything that the providers declare, and to attach to them.
    #[must_use]
    pub fn all() -> Rights {
        let all = Grant { variables: "*".into(), min: 0, max: u64::MAX };
        Rights {
            modify: vec![all],
            attach: true,
            priority: u8::MAX,
            ..Rights::observer()
        }
    }

    /// Returns whether the subscriber may receive this event, or read this variable.
    #[must_use]
    pub fn may_observe(&self, name: &str) -> bool {
        self.observe.iter().any(|pattern| pattern.matches(name))
    }

    /// Returns whether the subscriber may put and delete documents of this name ([`crate::Documents`]), which
    /// have no bounds.
    #[must_use]
    pub fn may_put(&self, name: &str) -> bool {
        self.modify.iter().any(|grant| grant.variables.matches(name))
    }

    /// Returns the range of values to which the subscriber may set a variable, within the provider's own
    /// bounds.
    #[must_use]
    pub fn may_set(&self, schema: &Schema, variable: VariableId) -> Option<(u64, u64)> {
        let variable = schema.variable_type(variable)?;
        let Access::Modifiable { min, max } = variable.access else {
            return None;
        };
        let grant = self
            .modify
            .iter()
            .find(|grant| grant.variables.matches(&variable.name))?;
        let (min, max) = (min.max(grant.min), max.min(grant.max));
        (min <= max).then_some((min, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ValueKind, Variable};

    #[test]
    fn a_grant_never_exceeds_the_program() {
        let access = Access::Modifiable { min: 10, max: 100 };
        let variable = |name: &str, access| Variable { name: name.into(), kind: ValueKind::Number, access };
        let schema = Schema::new(
            "tcp",
            vec![],
            vec![
                variable("tcp.conn.cwnd", access),
                variable("tcp.conn.srtt", Access::Observable),
            ],
        )
        .expect("a schema");
        let grant = |variables: &str, min, max| Grant { variables: variables.into(), min, max };
        let with = |modify| Rights { modify, ..Rights::observer() };
        let cwnd = VariableId(0);
        assert_eq!(Rights::all().may_set(&schema, cwnd), Some((10, 100)));
        assert_eq!(Rights::observer().may_set(&schema, cwnd), None);
        assert_eq!(
            with(vec![grant("*.cwnd", 0, 50)]).may_set(&schema, cwnd),
            Some((10, 50))
        );
        assert_eq!(with(vec![grant("*.cwnd", 200, 300)]).may_set(&schema, cwnd), None);
        let first = vec![grant("*", 20, 30), grant("*.cwnd", 0, 1000)];
        assert_eq!(
            with(first).may_set(&schema, cwnd),
            Some((20, 30)),
            "the first counts"
        );
        assert_eq!(
            Rights::all().may_set(&schema, VariableId(1)),
            None,
            "only observable"
        );
    }
}
