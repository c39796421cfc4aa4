//! Writes SVG documents, for all drawings here; [`plot`] draws figures.

pub mod plot;

/// Makes a document of this size in pixels, on white, around elements that are already written.
#[must_use]
pub fn document(width: f64, height: f64, font_size: u32, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"{font_size}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Escapes a text as the content of an element, in one line. Control characters and characters that change
/// the direction of text are shown as escapes, because XML has no control characters.
#[must_use]
pub fn escape(text: &str) -> String {
    let shown = |letter: char| match letter {
        '"' | '\'' | '\\' => letter.to_string(),
        _ => letter.escape_debug().to_string(),
    };
    let text: String = text.chars().map(shown).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_elements_are_not() {
        assert_eq!(escape("a < b & \"c\" > d"), "a &lt; b &amp; \"c\" &gt; d");
        let drawing = document(10.0, 2.5, 12, "<g/>");
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("\n<g/></svg>\n"));
        let size = "viewBox=\"0 0 10 2.5\" width=\"10\" height=\"2.5\"";
        assert!(drawing.contains(size), "{drawing}");
    }
}
