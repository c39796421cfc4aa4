//! A picture as a page for a browser.

use hawser_syntax::Printable;
use serde_json::Value;

use super::Picture;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

impl Picture {
    /// Returns the run as one page of HTML, which loads nothing else.
    ///
    /// # Errors
    /// The data cannot be written as JSON.
    pub fn page(&self) -> serde_json::Result<String> {
        let mut data = serde_json::to_value(self)?;
        show_escapes(&mut data);
        // Escaped, so that the data cannot end the element that contains it.
        let data = data.to_string().replace('<', "\\u003c");
        let page = PAGE.replacen("/*STYLE*/", STYLE, 1);
        let page = page.replacen("/*SCRIPT*/", SCRIPT, 1);
        Ok(page.replacen("/*DATA*/", &data, 1))
    }
}

/// Shows control sequences as escapes in all texts, because a browser would decode the escapes of JSON.
fn show_escapes(data: &mut Value) {
    match data {
        Value::String(text) => *text = Printable(&*text).to_string(),
        Value::Array(values) => values.iter_mut().for_each(show_escapes),
        Value::Object(fields) => fields.values_mut().for_each(show_escapes),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
