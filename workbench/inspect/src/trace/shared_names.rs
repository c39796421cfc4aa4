//! Shared names: each is stored once.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use hawser_ir::Module;
use serde::{Serialize, Serializer};

/// A name of the language or of a program. Copies share it.
#[derive(Clone, Debug)]
pub enum SharedName {
    /// A constant name.
    Fixed(&'static str),
    /// A name of a program, or one composed of its names.
    Shared(Arc<str>),
}

impl SharedName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }

    /// Creates a program's name.
    pub(crate) fn new(text: &str) -> SharedName {
        SharedName::Shared(Arc::from(text))
    }
}

impl Deref for SharedName {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            SharedName::Fixed(text) => text,
            SharedName::Shared(text) => text,
        }
    }
}

impl Default for SharedName {
    fn default() -> SharedName {
        SharedName::Fixed("")
    }
}

impl PartialEq for SharedName {
    fn eq(&self, other: &SharedName) -> bool {
        **self == **other
    }
}

impl Eq for SharedName {}

impl PartialOrd for SharedName {
    fn partial_cmp(&self, other: &SharedName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedName {
    fn cmp(&self, other: &SharedName) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Serialize for SharedName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl From<&'static str> for SharedName {
    fn from(text: &'static str) -> SharedName {
        SharedName::Fixed(text)
    }
}

impl fmt::Display for SharedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

/// All names of a program, by their places in its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramNames {
    /// The fields of each structure.
    pub(crate) fields: Vec<Vec<SharedName>>,
    pub(crate) events: Vec<SharedName>,
    pub(crate) contexts: Vec<SharedName>,
    pub(crate) functions: Vec<SharedName>,
    pub(crate) blueprints: Vec<SharedName>,
}

impl ProgramNames {
    pub(crate) fn from_module(module: &Module) -> ProgramNames {
        let fields = module.structs.iter().map(|structure| {
            let fields = structure.fields.iter();
            fields.map(|field| SharedName::new(&field.name)).collect()
        });
        ProgramNames {
            fields: fields.collect(),
            events: module
                .events
                .iter()
                .map(|event| SharedName::new(&event.name))
                .collect(),
            contexts: module
                .contexts
                .iter()
                .map(|context| SharedName::new(&context.name))
                .collect(),
            functions: module
                .funcs
                .iter()
                .map(|func| SharedName::new(&func.name))
                .collect(),
            blueprints: module
                .blueprints
                .iter()
                .map(|blueprint| SharedName::new(&blueprint.name))
                .collect(),
        }
    }
}
