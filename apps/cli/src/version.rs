//! The version of this command, as `hawser --version` prints it.

use std::sync::LazyLock;

/// The revision of the source, or the reason why it is unknown.
pub(crate) const REVISION: &str = env!("HAWSER_REVISION");
/// The platform for which this command was built.
pub(crate) const TARGET: &str = env!("HAWSER_TARGET");

/// Returns the names of the optional features of this build.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    hawser::FEATURES
        .iter()
        .filter(|(_, is_built)| *is_built)
        .map(|(name, _)| *name)
}

/// The version with revision, features and target, a line each.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let features: Vec<&str> = features().collect();
    let features = if features.is_empty() {
        "none".to_owned()
    } else {
        features.join(", ")
    };
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\nrevision: {REVISION}\noptional features: {features}\ntarget: {TARGET}")
});
