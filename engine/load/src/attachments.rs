//! The attachments of a running program, and changes to them.
//!
//! A change is made in two halves, so that checking a text never stops the running program:
//!
//! 1. [`Attachments::attach`] or [`Attachments::detach`], in any thread, checks the whole program with all
//!    its attachments. A new text takes some 15 ms.
//! 2. [`Attachments::go`], in the thread of the stack, only swaps the programs. It refuses the change if
//!    another one was made in between.
//!
//! After the last detachment, the original program runs again: the same machine code, at the same address.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_engine::{StepError, Swap};
use hawser_ir::Module;
use parking_lot::{Mutex, MutexGuard};

use crate::builtin::checked;
use crate::limits::MAX_ATTACHMENTS;
use crate::params::parse_params;
use crate::{AttachError, Attached, Interpreted, RunError};

/// The number of detached sets that are kept, so that returning to one needs no new check.
const KEPT: usize = 4;

/// The attachments of one running program.
pub struct Attachments {
    own: Arc<dyn Program>,
    now: Mutex<Now>,
}

struct Now {
    set: Arc<Set>,
    /// The number of changes so far.
    changes: u64,
    /// Earlier sets, the latest last.
    kept: VecDeque<Arc<Set>>,
}

/// Attachments in the order in which they were made, and the program that includes them.
struct Set {
    parts: Vec<Part>,
    program: Arc<dyn Program>,
}

#[derive(Clone)]
struct Part {
    who: String,
    text: Arc<CheckedText>,
}

/// A text that passed the checker together with all texts before it.
struct CheckedText {
    name: String,
    text: String,
    /// The settings of its params, as given: `CAP=20000`.
    settings: Vec<String>,
    /// The values of all its params.
    params: Vec<u64>,
    places: Vec<String>,
    /// The program with all attachments up to this one.
    module: Arc<Module>,
    warnings: String,
}

/// A requested attachment that has not been checked.
struct RequestedAttachment {
    who: String,
    name: String,
    text: String,
    settings: Vec<String>,
}

/// An attachment in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The attachment's name.
    pub name: String,
    /// The party that attached it.
    pub who: String,
    /// The places of its processors in the chains: `cap after cc`.
    pub places: Vec<String>,
    /// The attachment's text.
    pub text: String,
}

/// A checked change, for [`Attachments::go`].
pub struct CheckedChange {
    /// The number of changes before this one.
    changes: u64,
    set: Arc<Set>,
    warnings: String,
}

impl CheckedChange {
    /// Returns the checker's warnings about new texts in the format of `hawser check`, or an empty string.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

impl fmt::Debug for CheckedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .set
            .parts
            .iter()
            .map(|part| part.text.name.as_str())
            .collect();
        f.debug_struct("Next")
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Attachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.list().into_iter().map(|one| one.name).collect();
        f.debug_struct("Attachments")
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

impl Attachments {
    /// Starts a program without attachments.
    #[must_use]
    pub fn new(own: Arc<dyn Program>) -> Attachments {
        let set = Arc::new(Set { parts: Vec::new(), program: own.clone() });
        Attachments { own, now: Mutex::new(Now { set, changes: 0, kept: VecDeque::new() }) }
    }

    /// Returns the program without attachments.
    #[must_use]
    pub fn own(&self) -> &Arc<dyn Program> {
        &self.own
    }

    /// Returns the current attachments in the order in which they were made.
    #[must_use]
    pub fn list(&self) -> Vec<Installed> {
        let set = self.lock().set.clone();
        let one = |part: &Part| Installed {
            name: part.text.name.clone(),
            who: part.who.clone(),
            places: part.text.places.clone(),
            text: part.text.text.clone(),
        };
        set.parts.iter().map(one).collect()
    }

    /// Checks a text as an attachment to the program and its current attachments. It replaces an attachment
    /// of the same name. `settings` are for the attachment's own params, as in `CAP=20000`.
    /// [`Attachments::list`] shows `who`.
    ///
    /// # Errors
    /// The diagnostics in the format of `hawser check`, with the attachment as the file `NAME.mtp`. Also
    /// fails if a setting fits none of the attachment's params, or if the program accepts no attachment.
    pub fn attach(
        &self,
        name: &str,
        text: &str,
        settings: &[String],
        who: &str,
    ) -> Result<CheckedChange, AttachError> {
        self.change(|wanted| {
            let new = RequestedAttachment {
                who: who.to_owned(),
                name: name.to_owned(),
                text: text.to_owned(),
                settings: settings.to_vec(),
            };
            match wanted.iter().position(|there| there.name == name) {
                Some(at) => wanted[at] = new,
                None if wanted.len() >= MAX_ATTACHMENTS => {
                    return Err(AttachError::Full);
                }
                None => wanted.push(new),
            }
            Ok(())
        })
    }

    /// Checks the program with all current attachments except one.
    ///
    /// # Errors
    /// Fails if there is no such attachment.
    pub fn detach(&self, name: &str) -> Result<CheckedChange, AttachError> {
        self.change(|wanted| {
            let Some(at) = wanted.iter().position(|known| known.name == name) else {
                return Err(AttachError::NotAttached {
                    name: name.to_owned(),
                    attached: wanted.iter().map(|known| known.name.clone()).collect(),
                });
            };
            wanted.remove(at);
            Ok(())
        })
    }

    /// Puts a change into effect with `swap`, which gives the stack another program.
    ///
    /// # Errors
    /// Fails if the stack cannot continue with the new program, or if another change was made since the
    /// check. The current program then stays.
    pub fn go(&self, next: CheckedChange, swap: Swap<'_>) -> Result<(), StepError> {
        let mut now = self.lock();
        let result = match now.changes == next.changes {
            true => swap(next.set.program.clone()).map(drop).map_err(StepError::Swap),
            false => Err(StepError::OutOfDate),
        };
        // A detached set is kept until a later change is checked, so that the stack's thread does not free
        // it.
        let rest = match &result {
            Ok(()) => {
                now.changes += 1;
                std::mem::replace(&mut now.set, next.set)
            }
            Err(_) => next.set,
        };
        now.kept.push_back(rest);
        result
    }

    /// Returns the attachment whose code contains an assertion of the current program. For an assertion of
    /// the program's own text, returns the attachments that take part in the event's chain.
    #[must_use]
    pub fn suspects(&self, event: u32, assertion: u32) -> Vec<String> {
        let set = self.lock().set.clone();
        let Some(module) = set.parts.last().map(|part| &part.text.module) else {
            return Vec::new();
        };
        let first = self.own.module().files.len();
        let name = |file: u32| {
            Some(
                set.parts
                    .get((file as usize).checked_sub(first)?)?
                    .text
                    .name
                    .clone(),
            )
        };
        let stands = module
            .asserts
            .get(assertion as usize)
            .and_then(|(at, _)| name(at.file));
        if let Some(one) = stands {
            return vec![one];
        }
        let processors = module
            .chains
            .get(event as usize)
            .map_or(&[][..], |chain| &chain.processors);
        let mut names: Vec<String> = processors
            .iter()
            .filter_map(|p| name(module.funcs.get(p.func.0 as usize)?.span.file))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the source text of an assertion of the current program.
    #[must_use]
    pub fn assertion(&self, assertion: u32) -> String {
        let set = self.lock().set.clone();
        let text = set
            .program
            .module()
            .asserts
            .get(assertion as usize)
            .map(|(_, text)| text.clone());
        text.unwrap_or_default()
    }

    /// Applies a change to the current list and checks the result.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<RequestedAttachment>) -> Result<(), AttachError>,
    ) -> Result<CheckedChange, AttachError> {
        let (set, changes, kept, _forgotten) = {
            let mut now = self.lock();
            let forgotten: Vec<_> = (KEPT..now.kept.len())
                .filter_map(|_| now.kept.pop_front())
                .collect();
            (now.set.clone(), now.changes, now.kept.clone(), forgotten)
        };
        let part = |p: &Part| RequestedAttachment {
            who: p.who.clone(),
            name: p.text.name.clone(),
            text: p.text.text.clone(),
            settings: p.text.settings.clone(),
        };
        let present = set.clone();
        let before: Vec<_> = present
            .parts
            .iter()
            .map(|part| (&part.text.name, &part.text.text))
            .collect();
        let mut wanted: Vec<_> = set.parts.iter().map(part).collect();
        change(&mut wanted)?;
        let known = [&set]
            .into_iter()
            .chain(kept.iter().rev())
            .find(|known| known.is_of(&wanted));
        let set = match known {
            Some(known) => {
                let texts = known.parts.iter().map(|part| part.text.clone());
                let parts = wanted
                    .into_iter()
                    .zip(texts)
                    .map(|(wanted, text)| Part { who: wanted.who, text });
                Arc::new(Set { parts: parts.collect(), program: known.program.clone() })
            }
            None => Arc::new(self.make(&set, wanted)?),
        };
        let is_new = |part: &&Part| !before.contains(&(&part.text.name, &part.text.text));
        let warnings = set
            .parts
            .iter()
            .filter(is_new)
            .map(|part| part.text.warnings.as_str())
            .collect();
        Ok(CheckedChange { changes, set, warnings })
    }

    /// Checks those texts of a list that differ from the current ones.
    fn make(&self, present: &Set, wanted: Vec<RequestedAttachment>) -> Result<Set, AttachError> {
        let mut parts: Vec<Part> = Vec::new();
        // The numbering within a text depends on the texts before it.
        let mut is_like_present = true;
        for (at, wanted) in wanted.into_iter().enumerate() {
            let known = present
                .parts
                .get(at)
                .filter(|part| part.text.is_of(&wanted) && is_like_present);
            let text = match known {
                Some(known) => known.text.clone(),
                None => {
                    is_like_present = false;
                    Arc::new(self.check(&parts, &wanted)?)
                }
            };
            parts.push(Part { who: wanted.who, text });
        }
        let program = match parts.last() {
            None => self.own.clone(),
            Some(last) => self.with(&last.text.module, &parts)?,
        };
        Ok(Set { parts, program })
    }

    /// Checks a text together with all texts before it.
    fn check(&self, before: &[Part], wanted: &RequestedAttachment) -> Result<CheckedText, AttachError> {
        let own = self.own.module();
        let RequestedAttachment { name, text, settings, .. } = wanted;
        let texts = before
            .iter()
            .map(|part| (&part.text.name, &part.text.text))
            .chain([(name, text)]);
        let files: Vec<(PathBuf, &str)> = texts
            .map(|(name, text)| (PathBuf::from(format!("{name}.mtp")), text.as_str()))
            .collect();
        let files: Vec<(&Path, &str)> = files.iter().map(|(path, text)| (path.as_path(), *text)).collect();
        let mut compilation = hawser_driver::attach(own, &files);
        if compilation.module.is_some() {
            // The warnings about earlier texts were reported when those were attached.
            let last = (own.files.len() + before.len()) as u32;
            compilation
                .diagnostics
                .retain(|diagnostic| diagnostic.span.file == last);
        }
        let warnings = match compilation.module {
            Some(_) => compilation.render(false),
            None => String::new(),
        };
        let mut module = checked(compilation).map_err(AttachError::Rejected)?;
        let places = hawser_driver::attached_places(text);
        if places.is_empty() {
            return Err(AttachError::NoPlace { name: name.clone() });
        }
        // The text's own entries follow those of the program and of earlier attachments.
        let (mut params, mut signals) = (own.params.len(), own.signals.len());
        for part in before {
            params += part.text.params.len();
            let until = part.text.module.signals.len();
            name_signals(&mut module.signals[signals..until], &part.text.name);
            signals = until;
        }
        name_signals(&mut module.signals[signals..], name);
        let declared = &module.params[params..];
        let set = parse_params(declared, &module.enums, settings)
            .map_err(|error| AttachError::Setting { name: name.clone(), error })?;
        let value = |param: &hawser_ir::Param| {
            set.iter()
                .rfind(|(name, _)| *name == param.name)
                .map_or(param.default, |(_, value)| *value)
        };
        let params = declared.iter().map(value).collect();
        let module = Arc::new(module);
        let (name, text, settings) = (name.clone(), text.clone(), settings.clone());
        Ok(CheckedText { name, text, settings, params, places, module, warnings })
    }

    /// Returns the program with the chains of `module` and the values of the attachments' params.
    fn with(&self, module: &Arc<Module>, parts: &[Part]) -> Result<Arc<dyn Program>, AttachError> {
        let own = self.own.params();
        if own.len() != self.own.module().params.len() {
            return Err(AttachError::HandWritten { program: self.own.module().name.clone() });
        }
        let others = parts.iter().flat_map(|part| &part.text.params);
        let values = own.iter().chain(others).copied().collect();
        let changed = Interpreted::from_module(module.clone(), values).map_err(RunError::from)?;
        Ok(Arc::new(Attached::new(self.own.clone(), changed)?))
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock()
    }
}

impl Set {
    /// Returns whether the set has exactly these names, texts and settings, in this order.
    fn is_of(&self, wanted: &[RequestedAttachment]) -> bool {
        let same = |(part, wanted): (&Part, &RequestedAttachment)| part.text.is_of(wanted);
        self.parts.len() == wanted.len() && self.parts.iter().zip(wanted).all(same)
    }
}

impl CheckedText {
    fn is_of(&self, wanted: &RequestedAttachment) -> bool {
        self.name == wanted.name && self.text == wanted.text && self.settings == wanted.settings
    }
}

/// Prefixes an attachment's signals with its name, so that signal names are unique: `cap.reached`.
fn name_signals(signals: &mut [(String, hawser_ir::StructId)], attachment: &str) {
    signals
        .iter_mut()
        .for_each(|(name, _)| *name = format!("{attachment}.{name}"));
}
