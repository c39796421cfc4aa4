//! What is attached to a program that runs, and each change of it.
//!
//! A change is made in two halves, so that who checks a text never stops what runs:
//!
//! 1. [`Attachments::attach`] or [`Attachments::detach`], in any thread: checks the whole program with
//!    all that is to be attached, some 15 ms for a text that is new;
//! 2. [`Attachments::go`], in the thread of the stack: puts the one in the other's place, and nothing
//!    else. If something else was attached or detached in between, it is refused.
//!
//! With the last attachment gone the program is the very one of before: machine code, where it was.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hawser_engine::Swap;
use hawser_engine::program::Program;
use hawser_ir::Module;

use crate::builtin::checked;
use crate::{Attached, Interpreted};

/// Attachments of one program at a time.
const MOST: usize = 16;
/// Sets of attachments that are kept though they are not there now: to go back costs nothing.
const KEPT: usize = 4;

/// What is attached to one running program.
pub struct Attachments {
    own: Arc<dyn Program>,
    now: Mutex<Now>,
}

struct Now {
    set: Arc<Set>,
    /// Counts the changes.
    changes: u64,
    /// Sets of before, the latest last.
    kept: VecDeque<Arc<Set>>,
}

/// Attachments in the order in which they were made, and the program with them.
struct Set {
    parts: Vec<Part>,
    program: Arc<dyn Program>,
}

#[derive(Clone)]
struct Part {
    who: String,
    text: Arc<Text>,
}

/// A text that passed the checker, with all those before it.
struct Text {
    name: String,
    text: String,
    places: Vec<String>,
    module: Arc<Module>,
    warnings: String,
}

/// An attachment that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its name.
    pub name: String,
    /// Who attached it.
    pub who: String,
    /// Where its processors run: `cap after cc`.
    pub places: Vec<String>,
    /// Its text.
    pub text: String,
}

/// A change that was checked, for [`Attachments::go`].
pub struct Next {
    /// The number of changes before it.
    changes: u64,
    set: Arc<Set>,
    warnings: String,
}

impl Next {
    /// What the checker warns of in texts that are new, as `hawser check` shows it; empty where there is nothing.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.set.parts.iter().map(|part| part.text.name.as_str()).collect();
        f.debug_struct("Next").field("names", &names).finish_non_exhaustive()
    }
}

impl fmt::Debug for Attachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.list().into_iter().map(|one| one.name).collect();
        f.debug_struct("Attachments").field("names", &names).finish_non_exhaustive()
    }
}

impl Attachments {
    /// Nothing is attached to a program that begins to run.
    #[must_use]
    pub fn new(own: Arc<dyn Program>) -> Attachments {
        let set = Arc::new(Set { parts: Vec::new(), program: own.clone() });
        Attachments { own, now: Mutex::new(Now { set, changes: 0, kept: VecDeque::new() }) }
    }

    /// The program without attachments.
    #[must_use]
    pub fn own(&self) -> &Arc<dyn Program> {
        &self.own
    }

    /// What is attached now, in the order in which it was.
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

    /// Checks a text as an attachment to the program and all that is attached to it now; it takes the
    /// place of what has its name. `who` is for [`Attachments::list`].
    ///
    /// # Errors
    /// The findings as `hawser check` shows them, the attachment being the file `NAME.mtp`; or why the
    /// program takes no attachment.
    pub fn attach(&self, name: &str, text: &str, who: &str) -> Result<Next, String> {
        self.change(|wanted| {
            let new = (who.to_owned(), name.to_owned(), text.to_owned());
            match wanted.iter().position(|(_, there, _)| there == name) {
                Some(at) => wanted[at] = new,
                None if wanted.len() >= MOST => {
                    return Err(format!("{MOST} files are attached already, as many as can be: detach one"));
                }
                None => wanted.push(new),
            }
            Ok(())
        })
    }

    /// Checks the program and all that is attached to it but one.
    ///
    /// # Errors
    /// When there is no such attachment, or another cannot do without it.
    pub fn detach(&self, name: &str) -> Result<Next, String> {
        self.change(|wanted| {
            let names: Vec<&str> = wanted.iter().map(|(_, name, _)| name.as_str()).collect();
            let there = if names.is_empty() { "nothing is".to_owned() } else { names.join(", ") };
            let at = names.iter().position(|known| *known == name);
            wanted.remove(at.ok_or_else(|| format!("`{name}` is not attached; {there}"))?);
            Ok(())
        })
    }

    /// Puts a change into effect, by what gives the stack another program.
    ///
    /// # Errors
    /// When the stack cannot go on with it, or something else has changed since it was checked. The
    /// program stays as it is.
    pub fn go(&self, next: Next, swap: Swap<'_>) -> Result<(), String> {
        let mut now = self.lock();
        let result = match now.changes == next.changes {
            true => swap(next.set.program.clone()).map(drop).map_err(|error| error.to_string()),
            false => Err("something else was attached or detached meanwhile: try again".to_owned()),
        };
        // What is not there is kept, and freed with the next change that is checked: not in the stack's
        // thread.
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

    /// Makes the wanted list (who, name, text) of the present one, and checks what comes of it.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<(String, String, String)>) -> Result<(), String>,
    ) -> Result<Next, String> {
        let (set, changes, kept, _forgotten) = {
            let mut now = self.lock();
            let forgotten: Vec<_> = (KEPT..now.kept.len()).filter_map(|_| now.kept.pop_front()).collect();
            (now.set.clone(), now.changes, now.kept.clone(), forgotten)
        };
        let part = |p: &Part| (p.who.clone(), p.text.name.clone(), p.text.text.clone());
        let present = set.clone();
        let before: Vec<_> = present.parts.iter().map(|part| (&part.text.name, &part.text.text)).collect();
        let mut wanted: Vec<_> = set.parts.iter().map(part).collect();
        change(&mut wanted)?;
        let known = [&set].into_iter().chain(kept.iter().rev()).find(|known| known.is_of(&wanted));
        let set = match known {
            Some(known) => {
                let texts = known.parts.iter().map(|part| part.text.clone());
                let parts = wanted.into_iter().zip(texts).map(|((who, ..), text)| Part { who, text });
                Arc::new(Set { parts: parts.collect(), program: known.program.clone() })
            }
            None => Arc::new(self.make(&set, wanted)?),
        };
        let is_new = |part: &&Part| !before.contains(&(&part.text.name, &part.text.text));
        let warnings = set.parts.iter().filter(is_new).map(|part| part.text.warnings.as_str()).collect();
        Ok(Next { changes, set, warnings })
    }

    /// Checks a list, as far as it is another one than the present.
    fn make(&self, present: &Set, wanted: Vec<(String, String, String)>) -> Result<Set, String> {
        let mut parts: Vec<Part> = Vec::new();
        // What a text means depends on those before it.
        let mut is_like_present = true;
        for (at, (who, name, text)) in wanted.into_iter().enumerate() {
            let same = |part: &&Part| part.text.name == name && part.text.text == text;
            let known = present.parts.get(at).filter(same).filter(|_| is_like_present);
            if let Some(known) = known {
                parts.push(Part { who, text: known.text.clone() });
                continue;
            }
            is_like_present = false;
            let before = parts.last().map(|part| part.text.clone());
            let module = before.as_ref().map_or_else(|| self.own.module(), |text| &*text.module);
            let path = PathBuf::from(format!("{name}.mtp"));
            let compilation = hawser_driver::attach(module, &path, &text);
            let warnings = match compilation.module {
                Some(_) => compilation.render(false),
                None => String::new(),
            };
            let module = Arc::new(checked(compilation).map_err(|rejected| rejected.to_string())?);
            let places = hawser_driver::attached_places(&text);
            if places.is_empty() {
                return Err(format!(
                    "{name}.mtp attaches nothing: say where a processor of it belongs, as in `attach cap after cc;`"
                ));
            }
            parts.push(Part { who, text: Arc::new(Text { name, text, places, module, warnings }) });
        }
        let program = match parts.last() {
            None => self.own.clone(),
            Some(last) => self.with(&last.text.module)?,
        };
        Ok(Set { parts, program })
    }

    /// The program with its chains as in a module, params of attachments at their defaults.
    fn with(&self, module: &Arc<Module>) -> Result<Arc<dyn Program>, String> {
        let own = self.own.params();
        if own.len() != self.own.module().params.len() {
            return Err(format!("{} was written by hand: nothing can be attached", self.own.module().name));
        }
        let others = module.params.iter().skip(own.len()).map(|param| param.default);
        let values = own.iter().copied().chain(others).collect();
        let changed = Interpreted::of(module.clone(), values)?;
        Ok(Arc::new(Attached::new(self.own.clone(), changed)?))
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Set {
    /// Whether it is of these names and texts, in this order.
    fn is_of(&self, wanted: &[(String, String, String)]) -> bool {
        let same = |(part, (_, name, text)): (&Part, &(String, String, String))| {
            part.text.name == *name && part.text.text == *text
        };
        self.parts.len() == wanted.len() && self.parts.iter().zip(wanted).all(same)
    }
}
