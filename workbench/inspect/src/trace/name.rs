//! Shared names: each is stored once.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use hawser_ir::Module;
use serde::{Serialize, Serializer};

/// A name of the language or of a program. Copies share it.
#[derive(Clone, Debug)]
pub enum Name {
    /// A constant name.
    Fixed(&'static str),
    /// A name of a program, or one composed of its names.
    Shared(Arc<str>),
}

impl Name {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }

    /// Creates a program's name.
    pub(crate) fn of(text: &str) -> Name {
        Name::Shared(Arc::from(text))
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Name::Fixed(text) => text,
            Name::Shared(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::Fixed("")
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name::Fixed(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

/// All names of a program, by their places in its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The fields of each structure.
    pub(crate) fields: Vec<Vec<Name>>,
    pub(crate) events: Vec<Name>,
    pub(crate) contexts: Vec<Name>,
    pub(crate) functions: Vec<Name>,
    pub(crate) blueprints: Vec<Name>,
}

impl Names {
    pub(crate) fn of(module: &Module) -> Names {
        let fields = module.structs.iter().map(|structure| {
            let fields = structure.fields.iter();
            fields.map(|field| Name::of(&field.name)).collect()
        });
        Names {
            fields: fields.collect(),
            events: module.events.iter().map(|event| Name::of(&event.name)).collect(),
            contexts: module
                .contexts
                .iter()
                .map(|context| Name::of(&context.name))
                .collect(),
            functions: module.funcs.iter().map(|func| Name::of(&func.name)).collect(),
            blueprints: module
                .blueprints
                .iter()
                .map(|blueprint| Name::of(&blueprint.name))
                .collect(),
        }
    }
}
