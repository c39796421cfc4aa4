//! Progress bars, which are shown only on a terminal and never with `--json`.

use hawser::lang::OneLine;
use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar that counts bytes. It is hidden when `quiet`, or without a terminal.
pub(crate) fn bytes(quiet: bool, what: &str, total: Option<u64>) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let style = match total {
        Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        None => "{msg} {spinner} {bytes} {bytes_per_sec}",
    };
    with_style(bar, style, what)
}

/// Creates a bar for the completed share of a run, from 0 to 1000.
pub(crate) fn share(quiet: bool, what: &str) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    with_style(ProgressBar::new(1000), "{msg} {wide_bar} {percent}%", what)
}

/// Creates a bar that counts runs.
pub(crate) fn count(quiet: bool, what: &str, total: u64) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    with_style(
        ProgressBar::new(total),
        "{msg} {wide_bar} {pos}/{len} {eta}",
        what,
    )
}

/// Creates a spinner for steps of unknown duration.
pub(crate) fn steps(quiet: bool, what: &str) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    with_style(ProgressBar::no_length(), "{spinner} {msg} {elapsed}", what)
}

fn with_style(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(OneLine(what).to_string());
    bar
}
