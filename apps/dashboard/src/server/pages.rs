//! The files of the page, which are compiled into the program.

/// A file of the page: its content type and content.
pub(super) struct Page {
    pub(super) kind: &'static str,
    pub(super) content: &'static [u8],
}

/// Maps the path after the token to each file.
macro_rules! pages {
    ($($path:literal: $kind:literal = $file:literal),* $(,)?) => {
        /// Returns the file at this path.
        pub(super) fn find(path: &str) -> Option<Page> {
            match path {
                $($path => Some(Page { kind: $kind, content: include_bytes!(concat!("../../page/", $file)) }),)*
                _ => None,
            }
        }
    };
}

pages! {
    "": "text/html; charset=utf-8" = "index.html",
    "style.css": "text/css; charset=utf-8" = "style.css",
    "icon.svg": "image/svg+xml" = "icon.svg",
    "app.js": "text/javascript; charset=utf-8" = "app.js",
    "dom.js": "text/javascript; charset=utf-8" = "dom.js",
    "switches.js": "text/javascript; charset=utf-8" = "switches.js",
    "throughput.js": "text/javascript; charset=utf-8" = "throughput.js",
    "races.js": "text/javascript; charset=utf-8" = "races.js",
    "candidates.js": "text/javascript; charset=utf-8" = "candidates.js",
    "downloads.js": "text/javascript; charset=utf-8" = "downloads.js",
    "uplot.js": "text/javascript; charset=utf-8" = "vendor/uPlot.iife.min.js",
    "uplot.css": "text/css; charset=utf-8" = "vendor/uPlot.min.css",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files to which the page refers exist.
    #[test]
    fn every_file_the_page_refers_to_exists() {
        let index = std::str::from_utf8(find("").expect("the page").content).expect("text");
        let mut count = 0;
        for piece in index.split(['"']) {
            if [".js", ".css", ".svg"].iter().any(|end| piece.ends_with(end)) {
                assert!(find(piece).is_some(), "{piece}");
                count += 1;
            }
        }
        assert!(count >= 4, "{index}");
        assert!(find("../Cargo.toml").is_none() && find("index.html").is_none());
    }
}
