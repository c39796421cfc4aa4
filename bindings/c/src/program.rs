//! Programs in MTP: checked, with diagnostics as data.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;

use hawser::lang;
use serde_json::Value;

use crate::pointer;
use crate::status::{Failure, c_text, call, hawser_status};

/// An error or a warning of a program. It and its texts are valid until the callback returns. Places count from
/// 1, columns in characters; the end is exclusive.
#[repr(C)]
#[derive(Debug)]
pub struct hawser_diagnostic {
    /// The code, such as `E0201`, which hawser_explain() explains.
    pub code: *const c_char,
    /// True for an error, false for a warning.
    pub is_error: bool,
    /// What is wrong.
    pub message: *const c_char,
    /// What the place shows; empty if there is nothing to add.
    pub label: *const c_char,
    /// What to do; empty if there is no advice.
    pub hint: *const c_char,
    /// The file.
    pub file: *const c_char,
    /// The line of the place.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// The line of its end.
    pub end_line: u32,
    /// The column of its end.
    pub end_column: u32,
}

/// A function that receives diagnostics.
pub type hawser_diagnostic_callback =
    Option<unsafe extern "C" fn(user: *mut c_void, diagnostic: *const hawser_diagnostic)>;

/// Checks a program, a file in MTP with its imports, and calls the callback for each error and warning, file by
/// file in the order of the text, in this thread. The callback may be NULL. The number of errors is written to
/// `errors`; with 0, the program can be run.
///
/// Errors: HAWSER_ERROR_ARGUMENT. A program with errors is no error of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_check(
    path: *const c_char,
    callback: hawser_diagnostic_callback,
    user: *mut c_void,
    errors: *mut usize,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let path = unsafe {
            pointer::write(errors, "errors", 0)?;
            pointer::text(path, "path")?
        };
        let compiled = lang::compile(Path::new(path));
        let json = lang::render_json(&compiled.diagnostics, &compiled.sources);
        let found: Vec<Value> = serde_json::from_str(&json).map_err(Failure::argument)?;
        let mut count = 0;
        for diagnostic in &found {
            let text = |key: &str| -> CString { c_text(diagnostic[key].as_str().unwrap_or_default()) };
            let number = |key: &str| {
                diagnostic[key]
                    .as_u64()
                    .unwrap_or(0)
                    .try_into()
                    .unwrap_or(u32::MAX)
            };
            let is_error = diagnostic["severity"] == "error";
            count += usize::from(is_error);
            let texts = ["code", "message", "label", "hint", "file"].map(text);
            let [code, message, label, hint, file] = &texts;
            let shown = hawser_diagnostic {
                code: code.as_ptr(),
                is_error,
                message: message.as_ptr(),
                label: label.as_ptr(),
                hint: hint.as_ptr(),
                file: file.as_ptr(),
                line: number("line"),
                column: number("column"),
                end_line: number("end_line"),
                end_column: number("end_column"),
            };
            if let Some(callback) = callback {
                // SAFETY: the application promises that the function takes these arguments; the texts live until
                // it returns.
                unsafe { callback(user, &raw const shown) };
            }
        }
        // SAFETY: as above; it is not NULL.
        unsafe { errors.write(count) };
        Ok(())
    })
}

/// Writes the explanation of a code of diagnostics, in Markdown, to a buffer of `size` bytes, with a zero byte
/// behind it, and its length to `len`, unless that is NULL, also if the buffer is too small.
///
/// Errors: HAWSER_ERROR_ARGUMENT if there is no such code, HAWSER_ERROR_SPACE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_explain(
    code: *const c_char,
    buffer: *mut c_char,
    size: usize,
    len: *mut usize,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let code = unsafe { pointer::text(code, "code") }?;
        let text = lang::explain(code);
        let text = text.ok_or_else(|| Failure::argument(format!("there is no code `{code}`")))?;
        // SAFETY: as above.
        unsafe { pointer::copy(&text, buffer, size, len) }
    })
}
