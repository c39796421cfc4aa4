//! The open texts, and the programs that they belong to.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hawser_driver::{Analysis, Instead, LoadError, Loader, analyse, analyse_again, library};
use hawser_syntax::{MAX_TEXT_BYTES, Span};

use crate::program::Program;
use crate::scan;

/// The texts of an editor, on top of those of a loader.
///
/// A file is checked as part of a program. This is the program of the file that imports it, directly or
/// indirectly, and that is not imported itself. Without such a file, it is a program of its own. A part that
/// no file imports is checked in the program for which it is written; another congestion control is an
/// example. [`Workspace::know`] makes files known.
pub struct Workspace {
    loader: Box<dyn Loader>,
    open: BTreeMap<PathBuf, String>,
    /// The known files.
    known: BTreeMap<PathBuf, FileRelations>,
    /// The checked programs, by main file.
    programs: RefCell<BTreeMap<PathBuf, Rc<Program>>>,
    /// Programs with texts that have changed since. Most of their files need not be parsed again.
    stale: RefCell<BTreeMap<PathBuf, Analysis>>,
}

impl Workspace {
    /// Creates a workspace without open texts.
    #[must_use]
    pub fn new(loader: Box<dyn Loader>) -> Workspace {
        Workspace {
            loader,
            open: BTreeMap::new(),
            known: BTreeMap::new(),
            programs: RefCell::default(),
            stale: RefCell::default(),
        }
    }

    /// Makes files known, in which importing files are searched for.
    pub fn know(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            let path = self.loader.identity(&path);
            if let Ok(text) = self.texts().load(&path) {
                self.note(&path, &text);
            }
        }
        self.programs.borrow_mut().clear();
        self.stale.borrow_mut().clear();
    }

    /// Opens a text, or replaces one that is open. It takes precedence over the loader's text.
    pub fn open(&mut self, path: &Path, text: String) {
        let path = self.loader.identity(path);
        self.note(&path, &text);
        self.open.insert(path.clone(), text);
        self.forget(&path);
    }

    /// Closes a text, so that the loader's text applies again.
    pub fn close(&mut self, path: &Path) {
        let path = self.loader.identity(path);
        self.open.remove(&path);
        self.reload(&path);
    }

    /// Notes that a file changed, appeared or vanished in the loader's source.
    pub fn reload(&mut self, path: &Path) {
        let path = self.loader.identity(path);
        match self.texts().load(&path) {
            Ok(text) => self.note(&path, &text),
            Err(_) => _ = self.known.remove(&path),
        }
        self.forget(&path);
    }

    /// Returns a file's unique name, regardless of the path by which it is reached.
    #[must_use]
    pub fn identity(&self, path: &Path) -> PathBuf {
        self.loader.identity(path)
    }

    /// Returns the text of an open file.
    #[must_use]
    pub fn text(&self, path: &Path) -> Option<&str> {
        self.open.get(&self.loader.identity(path)).map(String::as_str)
    }

    /// Returns the text of any file, open or not, or of a file of the library.
    #[must_use]
    pub fn any_text(&self, path: &Path) -> Option<String> {
        let of_the_library = || library().find(|(known, _)| Path::new(known) == path);
        let text = self.texts().load(&self.loader.identity(path)).ok();
        text.or_else(|| of_the_library().map(|(_, text)| text.to_owned()))
    }

    /// Returns the open files by their unique names.
    pub fn open_paths(&self) -> impl Iterator<Item = &Path> {
        self.open.keys().map(PathBuf::as_path)
    }

    pub(crate) fn known_paths(&self) -> impl Iterator<Item = &Path> {
        self.known.keys().map(PathBuf::as_path)
    }

    /// Returns the program in which a file is checked, and the file's number there.
    pub(crate) fn program_of(&self, path: &Path) -> Option<(Rc<Program>, u32)> {
        let path = self.loader.identity(path);
        let program = self.program(self.roots(&path).first()?);
        let file = program.file(&path)?;
        Some((program, file))
    }

    /// Returns all programs that contain a file.
    pub(crate) fn programs_with(&self, path: &Path) -> Vec<Rc<Program>> {
        let path = self.loader.identity(path);
        let roots = self.roots(&path);
        roots.iter().map(|root| self.program(root)).collect()
    }

    /// Returns the program with this main file.
    pub(crate) fn program(&self, root: &Path) -> Rc<Program> {
        if let Some(program) = self.programs.borrow().get(root) {
            return program.clone();
        }
        let program = Rc::new(self.analyse(root));
        self.programs
            .borrow_mut()
            .insert(root.to_path_buf(), program.clone());
        program
    }

    /// Checks a program with some of its texts replaced, and finds the names that could stand at a place.
    pub(crate) fn supposing(
        &self,
        root: &Path,
        texts: &BTreeMap<PathBuf, String>,
        asked: Option<Span>,
    ) -> Program {
        let here = self.texts();
        let supposed = Texts { open: texts, under: &here };
        self.checked(&supposed, root, |texts, root| analyse(texts, root, asked))
    }

    fn analyse(&self, root: &Path) -> Program {
        let before = self.stale.borrow_mut().remove(root);
        self.checked(&self.texts(), root, |texts, root| match before {
            Some(before) => analyse_again(texts, root, before),
            None => analyse(texts, root, None),
        })
    }

    /// Checks the program with this main file, or the program for which a part is written.
    fn checked(
        &self,
        texts: &dyn Loader,
        root: &Path,
        analyse: impl FnOnce(&dyn Loader, &Path) -> Analysis,
    ) -> Program {
        match self.written_for(root) {
            Some((whole, part)) => {
                let exchanged = Instead { loader: texts, part: &part, other: root };
                Program::new(analyse(&exchanged, &whole), &exchanged)
            }
            None => Program::new(analyse(texts, root), texts),
        }
    }

    /// Finds the program for which a file is written, if no file imports it and it has no `deploy` block. The
    /// file then replaces the part in the same folder that declares the most of the same names. Returns the
    /// program's main file and that part.
    pub(crate) fn written_for(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let own = self.known.get(path)?;
        let is_imported = |known: &FileRelations| known.imports.iter().any(|import| import == path);
        if own.deploys || self.known.values().any(is_imported) {
            return None;
        }
        let shared = |other: &FileRelations| own.declares.intersection(&other.declares).count();
        let mut beside: Vec<(usize, &PathBuf)> = self
            .known
            .iter()
            .filter(|(other, known)| other.parent() == path.parent() && *other != path && !known.deploys)
            .map(|(other, known)| (shared(known), other))
            .filter(|(shared, _)| *shared > 0)
            .collect();
        beside.sort();
        // If several parts match, the best one that a program imports is chosen.
        let deploys = |root: &PathBuf| self.known.get(root).is_some_and(|known| known.deploys);
        beside.into_iter().rev().find_map(|(_, part)| {
            let whole = self.roots(part).into_iter().find(deploys)?;
            Some((whole, part.clone()))
        })
    }

    fn texts(&self) -> Texts<'_> {
        Texts { open: &self.open, under: &*self.loader }
    }

    /// Returns the files that reach a file by imports, if they deploy or if no other file imports them. Files
    /// that deploy come first, and among them those in the same folder. If files import each other in a
    /// circle, the file itself is returned.
    pub(crate) fn roots(&self, path: &Path) -> Vec<PathBuf> {
        let mut reaching = BTreeSet::from([path.to_path_buf()]);
        loop {
            let before = reaching.len();
            let importing =
                |known: &FileRelations| known.imports.iter().any(|target| reaching.contains(target));
            let more = self.known.iter().filter(|(_, known)| importing(known));
            let more: Vec<PathBuf> = more.map(|(importing, _)| importing.clone()).collect();
            reaching.extend(more);
            if reaching.len() == before {
                break;
            }
        }
        let is_imported = |file: &PathBuf| {
            let others = reaching.iter().filter(|other| *other != file);
            others
                .filter_map(|other| self.known.get(other))
                .any(|known| known.imports.contains(file))
        };
        let deploys = |file: &PathBuf| self.known.get(file).is_some_and(|known| known.deploys);
        // A file that deploys is a program, even if another file extends it.
        let roots = reaching.iter().filter(|file| deploys(file) || !is_imported(file));
        let mut roots: Vec<PathBuf> = roots.cloned().collect();
        roots.sort_by_key(|root| (!deploys(root), root.parent() != path.parent(), root.clone()));
        if roots.is_empty() {
            roots.push(path.to_path_buf());
        }
        roots
    }

    fn note(&mut self, path: &Path, text: &str) {
        let found = scan::program(path, text);
        let imports = found.imports.iter().map(|import| self.loader.identity(import));
        let known = FileRelations {
            imports: imports.collect(),
            declares: found.declares,
            deploys: found.deploys,
        };
        self.known.insert(path.to_path_buf(), known);
    }

    /// Discards the programs that contain a file or may contain it now; their trees are kept.
    fn forget(&self, path: &Path) {
        let programs = std::mem::take(&mut *self.programs.borrow_mut());
        let (gone, kept) = programs
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, program)| program.depends_on(path));
        *self.programs.borrow_mut() = kept;
        let stale = gone.into_iter();
        let stale = stale.filter_map(|(root, program)| Some((root, Rc::into_inner(program)?.analysis)));
        self.stale.borrow_mut().extend(stale);
    }
}

/// The relations of a known file.
struct FileRelations {
    /// The files that it imports.
    imports: Vec<PathBuf>,
    /// The structures and functions that it declares.
    declares: BTreeSet<String>,
    /// True if it has a `deploy` block.
    deploys: bool,
}

/// Texts that take precedence over those of a loader.
struct Texts<'a> {
    open: &'a BTreeMap<PathBuf, String>,
    under: &'a dyn Loader,
}

impl Loader for Texts<'_> {
    fn identity(&self, path: &Path) -> PathBuf {
        self.under.identity(path)
    }

    fn load(&self, path: &Path) -> Result<String, LoadError> {
        match self.open.get(&self.identity(path)) {
            Some(text) if text.len() > MAX_TEXT_BYTES => Err(LoadError::TooLarge),
            Some(text) => Ok(text.clone()),
            None => self.under.load(path),
        }
    }
}
