//! Parses lab files, and checks them together with their plans.

use std::path::{Path, PathBuf};

use crate::names;
use crate::plan::LabPlan;
use crate::spec::{self, ReadError, Spec, SpecError};

impl Spec {
    /// Parses and checks a lab file.
    ///
    /// # Errors
    /// The text is invalid; the error has the place and the fault.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let spec: Spec = hawser_documents::toml(text)?;
        spec.check().map_err(|error| error.located(text))?;
        Ok(spec)
    }

    /// Checks the rules that the types cannot express. [`Spec::parse`] has done so already.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        let plan = LabPlan::new(self)?;
        names::check(self, &plan)
    }

    /// Reads a lab file. Paths of traces in it are relative to the file.
    ///
    /// # Errors
    /// The file could not be read, or its text is invalid.
    pub fn read(path: &Path) -> Result<Spec, ReadError> {
        let text = hawser_documents::files::given(path, hawser_documents::files::DOCUMENT_MAX)
            .map_err(|error| ReadError::System(path.into(), error))?;
        let mut spec = Spec::parse(&text).map_err(|error| ReadError::Text(path.into(), error))?;
        if let Some(directory) = path.parent() {
            spec.traces_mut()
                .for_each(|trace| *trace = directory.join(&*trace));
        }
        Ok(spec)
    }

    fn traces_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let links = self
            .link
            .iter_mut()
            .flat_map(|l| [&mut l.both, &mut l.forward, &mut l.backward]);
        let changes = self
            .at
            .iter_mut()
            .flat_map(|a| [&mut a.both, &mut a.forward, &mut a.backward]);
        links.chain(changes).filter_map(|rules| rules.trace.as_mut())
    }
}
