//! Programs in MTP, checked from C.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::null_mut;

use hawser_c::*;

unsafe extern "C" fn collect(user: *mut c_void, diagnostic: *const hawser_diagnostic) {
    // SAFETY: the test passes a pointer to a list, and the diagnostic lives until the callback returns.
    let (all, found) = unsafe { (&mut *user.cast::<Vec<String>>(), &*diagnostic) };
    // SAFETY: the texts live as long as the diagnostic.
    let text = |from| unsafe { CStr::from_ptr(from) }.to_str().expect("UTF-8");
    let kind = if found.is_error { "error" } else { "warning" };
    all.push(format!(
        "{kind} {} at {}:{}-{}: {}",
        text(found.code),
        found.line,
        found.column,
        found.end_column,
        text(found.message)
    ));
}

/// Checks a program, and returns its diagnostics and the number of its errors.
fn check(path: &Path) -> (Vec<String>, usize) {
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
    let mut all: Vec<String> = Vec::new();
    let mut errors = usize::MAX;
    let user: *mut c_void = (&raw mut all).cast();
    // SAFETY: the pointers are valid.
    let status = unsafe { hawser_check(path.as_ptr(), Some(collect), user, &raw mut errors) };
    assert_eq!(status, hawser_status::HAWSER_OK);
    (all, errors)
}

#[test]
fn diagnostics_have_their_code_and_place() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    assert_eq!(check(&examples.join("stop-and-wait.mtp")), (Vec::new(), 0));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong.mtp");
    std::fs::write(&file, "const uint32 A = B;\n").expect("a file");
    let (found, errors) = check(&file);
    assert_eq!((found.len(), errors), (1, 1));
    assert!(
        found[0].starts_with("error E0201 at 1:18-19: `B` is unknown"),
        "{found:?}"
    );
    let (missing, errors) = check(Path::new("/does/not/exist.mtp"));
    assert_eq!((missing.len(), errors), (1, 1), "{missing:?}");
}

#[test]
fn codes_are_explained() {
    let mut buffer: [c_char; 4096] = [0; 4096];
    let mut len = 0;
    // SAFETY: the pointers are valid.
    unsafe {
        let explained = hawser_explain(c"E0201".as_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut len);
        assert_eq!(explained, hawser_status::HAWSER_OK);
        assert_eq!(CStr::from_ptr(buffer.as_ptr()).to_bytes().len(), len);
        let small = hawser_explain(c"E0201".as_ptr(), buffer.as_mut_ptr(), len, null_mut());
        assert_eq!(
            small,
            hawser_status::HAWSER_ERROR_SPACE,
            "there is no place for the zero byte"
        );
        let unknown = hawser_explain(c"E9999".as_ptr(), buffer.as_mut_ptr(), buffer.len(), null_mut());
        assert_eq!(unknown, hawser_status::HAWSER_ERROR_ARGUMENT);
    }
}
