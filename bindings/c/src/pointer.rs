//! Pointers from C: each is checked for NULL before it is used.

use std::ffi::{CStr, c_char};

use crate::status::{Failure, hawser_status};

/// Writes a value through a pointer.
///
/// # Safety
/// The pointer is NULL, or valid for writing.
pub(crate) unsafe fn write<T>(to: *mut T, name: &str, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument(format!("`{name}` is NULL")));
    }
    // SAFETY: by the contract above.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads a text.
///
/// # Safety
/// The pointer is NULL, or a text that ends with a zero byte and lives as long as the result.
pub(crate) unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: by the contract above.
    let text = unsafe { optional(from, name) }?;
    text.ok_or_else(|| Failure::argument(format!("`{name}` is NULL")))
}

/// Reads a text that may be absent.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional<'a>(from: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: by the contract of `text`.
    let text = unsafe { CStr::from_ptr(from) }.to_str();
    let text = text.map_err(|_| Failure::argument(format!("`{name}` is no UTF-8")))?;
    Ok(Some(text))
}

/// Reads bytes.
///
/// # Safety
/// The pointer is NULL, or valid for reading `len` bytes, which live as long as the result.
pub(crate) unsafe fn bytes<'a>(from: *const u8, len: usize, name: &str) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(Failure::argument(format!(
            "`{name}` is NULL, and its length is {len}"
        )));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::argument(format!(
            "`{name}` has an impossible length, {len}"
        )));
    }
    // SAFETY: by the contract above, and the length fits.
    Ok(unsafe { std::slice::from_raw_parts(from, len) })
}

/// Copies a text into a buffer, with a zero byte behind it, and writes its length without that to `len`.
///
/// # Safety
/// `buffer` is NULL or valid for writing `size` bytes; `len` is NULL or valid for writing.
pub(crate) unsafe fn copy(
    text: &str,
    buffer: *mut c_char,
    size: usize,
    len: *mut usize,
) -> Result<(), Failure> {
    if !len.is_null() {
        // SAFETY: by the contract above.
        unsafe { len.write(text.len()) };
    }
    if buffer.is_null() || size <= text.len() {
        let text = format!("the buffer has {size} bytes, and {} are needed", text.len() + 1);
        return Err(Failure::new(hawser_status::HAWSER_ERROR_SPACE, text));
    }
    // SAFETY: by the contract above, and the text fits with its zero byte.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}
