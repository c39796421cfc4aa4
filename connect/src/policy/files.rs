//! Folders of profiles, policies and nodes.
//!
//! The suffix of a file determines its kind. `.profile` and `.policy` are NEAT's, in JSON. `.cib`, `.local`,
//! `.connection`, `.remote` and `.slim` are nodes, also in JSON. Each may have `.json` or `.toml` behind it.
//! `.pib` and a bare `.json` or `.toml` have `policy_type`, and in a folder of nodes they are nodes. Other
//! files are ignored, and so are names that begin with `.` or `#`. Subfolders are read, too. Files are read
//! in the order of their paths.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use hawser_policy::document::{self, Diagnostic, Format};
use hawser_policy::{Cib, Limit, NameTable, Node, Pib, PolicyStage, builtin, limits};

/// The maximum number of files of a folder and its subfolders.
const FILES: usize = 2_048;
/// The maximum depth of subfolders.
const DEPTH: usize = 8;
const NODES: [&str; 5] = ["cib", "local", "connection", "remote", "slim"];

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// Profiles or policies; `Some` if the name shows which.
    Policies(Option<PolicyStage>),
    /// Nodes of the CIB.
    Nodes,
}

/// Returns the purpose of a file by its name; `None` if the file is ignored.
pub fn role_of(path: &Path) -> Option<FileRole> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with(['.', '#']) {
        return None;
    }
    let (stem, ending) = name.rsplit_once('.')?;
    let role = |ending: &str| match ending {
        "profile" => Some(FileRole::Policies(Some(PolicyStage::Profile))),
        "policy" => Some(FileRole::Policies(Some(PolicyStage::Policy))),
        "pib" => Some(FileRole::Policies(None)),
        ending if NODES.contains(&ending) => Some(FileRole::Nodes),
        _ => None,
    };
    match ending {
        "json" | "toml" => Some(
            stem.rsplit_once('.')
                .and_then(|(_, inner)| role(inner))
                .unwrap_or(FileRole::Policies(None)),
        ),
        ending => role(ending),
    }
}

/// Returns the format of a file: TOML for that suffix, else JSON.
pub fn format_of(path: &Path) -> Format {
    if path.extension().is_some_and(|ending| ending == "toml") {
        Format::Toml
    } else {
        Format::Json
    }
}

/// Returns the default `uid`: the file's name, up to its first dot.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// A file has a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The path of the file, or of the folder.
    pub file: PathBuf,
    /// The fault, with its place in the file.
    pub diagnostic: Diagnostic,
}

impl FileError {
    fn new(file: &Path, message: impl Into<String>) -> Self {
        let diagnostic = Diagnostic { path: String::new(), message: message.into(), hint: None };
        Self { file: file.into(), diagnostic }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.diagnostic)
    }
}

/// The folders that hold the files.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// Profiles and policies; `None`: those that come with Hawser.
    pub pib: Option<PathBuf>,
    /// Nodes of the CIB; `None`: no nodes.
    pub cib: Option<PathBuf>,
}

/// The times at which the files of nodes got their present content: a node without an end lives from then on.
#[derive(Clone, Debug, Default)]
pub struct NodeFileTimes(BTreeMap<PathBuf, (u64, f64)>);

/// The content of all files.
#[derive(Clone, Debug)]
pub struct PolicyFileContents {
    /// The names with which requests are to be read.
    pub names: NameTable,
    /// Profiles and policies.
    pub pib: Pib,
    /// Nodes, each with the time at which it became known.
    pub nodes: Vec<(Node, f64)>,
    /// Warnings about the files.
    pub warnings: Vec<FileError>,
}

impl PolicyFileContents {
    /// Makes the CIB of the nodes.
    ///
    /// # Errors
    /// When there are too many nodes.
    pub fn cib(&self) -> Result<Cib, Limit> {
        let mut cib = Cib::default();
        for (node, learnt) in &self.nodes {
            cib.insert(node.clone(), *learnt)?;
        }
        Ok(cib)
    }
}

/// The texts of all files, unparsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FileTexts {
    pib: Option<Vec<(PathBuf, String)>>,
    cib: Vec<(PathBuf, String)>,
}

impl Folders {
    /// Reads all files, at `now` in seconds since 1970.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(
        &self,
        names: NameTable,
        learnt: &mut NodeFileTimes,
        now: f64,
    ) -> Result<PolicyFileContents, Vec<FileError>> {
        self.texts()?.understand(names, learnt, now)
    }

    pub(super) fn texts(&self) -> Result<FileTexts, Vec<FileError>> {
        let read = |folder: &PathBuf, wanted: fn(FileRole) -> bool| {
            let mut files = Vec::new();
            collect(folder, 0, &mut files).map_err(|error| vec![error])?;
            files.sort();
            files.retain(|file| role_of(file).is_some_and(wanted));
            let texts = files.into_iter().map(|file| Ok((text(&file)?, file)));
            let texts: Vec<Result<(String, PathBuf), FileError>> = texts.collect();
            let wrong: Vec<_> = texts
                .iter()
                .filter_map(|text| text.as_ref().err().cloned())
                .collect();
            if !wrong.is_empty() {
                return Err(wrong);
            }
            Ok(texts
                .into_iter()
                .flatten()
                .map(|(text, file)| (file, text))
                .collect())
        };
        Ok(FileTexts {
            pib: self
                .pib
                .as_ref()
                .map(|folder| read(folder, |role| role != FileRole::Nodes))
                .transpose()?,
            // A bare .json or .toml has the purpose of its folder.
            cib: match &self.cib {
                Some(folder) => read(folder, |role| {
                    matches!(role, FileRole::Nodes | FileRole::Policies(None))
                })?,
                None => Vec::new(),
            },
        })
    }

    /// Returns the existing folders and their subfolders.
    pub(super) fn all(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for folder in [&self.pib, &self.cib].into_iter().flatten() {
            within(folder, 0, &mut all);
        }
        all
    }
}

impl FileTexts {
    pub(super) fn understand(
        &self,
        mut names: NameTable,
        learnt: &mut NodeFileTimes,
        now: f64,
    ) -> Result<PolicyFileContents, Vec<FileError>> {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let take = |file: &Path, diagnostics: Vec<Diagnostic>, to: &mut Vec<FileError>| {
            to.extend(
                diagnostics
                    .into_iter()
                    .map(|diagnostic| FileError { file: file.into(), diagnostic }),
            );
        };
        let mut pib = Pib::default();
        let mut seen: BTreeMap<(Option<PolicyStage>, String), PathBuf> = BTreeMap::new();
        let mut is_new = |kind, uid: &str, file: &Path, errors: &mut Vec<FileError>| {
            if let Some(other) = seen.insert((kind, uid.to_owned()), file.into()) {
                errors.push(FileError::new(
                    file,
                    format!("`{uid}` is also in {}", other.display()),
                ));
            }
        };
        match &self.pib {
            None => match builtin::pib(&mut names) {
                Ok(shipped) => pib = shipped,
                Err(error) => errors.push(FileError::new(Path::new("(shipped)"), error.to_string())),
            },
            Some(files) => {
                for (file, text) in files {
                    let kind = match role_of(file) {
                        Some(FileRole::Policies(kind)) => kind,
                        _ => None,
                    };
                    match document::policies(text, format_of(file), &stem(file), kind, &mut names) {
                        Err(diagnostics) => take(file, diagnostics, &mut errors),
                        Ok(read) => {
                            take(file, read.warnings, &mut warnings);
                            for policy in read.value {
                                is_new(Some(policy.kind), &policy.uid, file, &mut errors);
                                if let Err(limit) = pib.insert(policy) {
                                    errors.push(FileError::new(file, limit.to_string()));
                                }
                            }
                        }
                    }
                }
            }
        }
        let mut nodes = Vec::new();
        for (file, text) in &self.cib {
            let known = learnt.since(file, text, now);
            match document::nodes(text, format_of(file), &stem(file), &mut names) {
                Err(diagnostics) => take(file, diagnostics, &mut errors),
                Ok(read) => {
                    take(file, read.warnings, &mut warnings);
                    for node in read.value {
                        is_new(None, &node.uid, file, &mut errors);
                        nodes.push((node, known));
                    }
                }
            }
        }
        learnt
            .0
            .retain(|file, _| self.cib.iter().any(|(held, _)| held == file));
        if errors.is_empty() {
            Ok(PolicyFileContents { names, pib, nodes, warnings })
        } else {
            Err(errors)
        }
    }
}

impl NodeFileTimes {
    /// Returns the time since which this file has this content.
    fn since(&mut self, file: &Path, text: &str, now: f64) -> f64 {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let digest = hasher.finish();
        let entry = self.0.entry(file.into()).or_insert((digest, now));
        if entry.0 != digest {
            *entry = (digest, now);
        }
        entry.1
    }
}

/// Reads the text of a document: a regular file within the size limit of documents.
///
/// # Errors
/// When it cannot be read, is not a regular file, is too long, or is not UTF-8.
pub fn text(file: &Path) -> Result<String, FileError> {
    let limit = limits::DOCUMENT_BYTES as u64;
    hawser_documents::files::named(file, limit).map_err(|error| FileError::new(file, error.to_string()))
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let entries = std::fs::read_dir(folder).map_err(|error| FileError::new(folder, error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| FileError::new(folder, error.to_string()))?;
        let path = entry.path();
        if path.is_dir() {
            if is_plain(&path) && depth < DEPTH {
                collect(&path, depth + 1, files)?;
            }
        } else if path.is_file() && role_of(&path).is_some() {
            if files.len() >= FILES {
                return Err(FileError::new(
                    folder,
                    format!("there are more than {FILES} files"),
                ));
            }
            files.push(path);
        }
    }
    Ok(())
}

fn within(folder: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    if all.len() >= FILES {
        return;
    }
    all.push(folder.into());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if is_plain(&path) && depth < DEPTH {
            within(&path, depth + 1, all);
        }
    }
}

fn is_plain(folder: &Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}
