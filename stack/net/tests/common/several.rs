//! QUIC-Lite with several connections of one pair of ends: where the id by which the first is known leads to it, the next
//! stands under the second.

use std::fs;
use std::path::Path;

use hawser_temporary::Folder;

/// The program's file, in a folder that goes with the value.
pub(crate) fn quic_lite() -> (Folder, String) {
    let folder = Folder::new().expect("a folder");
    let transports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports");
    for name in ["quic-lite", "tcp"] {
        fs::create_dir(folder.join(name)).expect("a folder");
        for file in fs::read_dir(transports.join(name)).expect("it comes with Hawser") {
            let file = file.expect("a file");
            if file.path().extension().is_some_and(|ending| ending == "mtp") {
                fs::copy(file.path(), folder.join(name).join(file.file_name())).expect("a copy");
            }
        }
    }
    let main = folder.join("quic-lite/quic-lite.mtp");
    let text = fs::read_to_string(&main).expect("the program");
    if !text.contains("connect_another") {
        change(
            &main,
            "connect_request -> {connect}",
            "connect_request -> {connect, connect_another}",
        );
        let file = folder.join("quic-lite/connection.mtp");
        let begin = "void connect(connect_request ev, no_ctx none, secret g) {\n";
        let text = fs::read_to_string(&file).expect("the program");
        let at = text.find(begin).expect("its connect");
        let body = &text[at..at + text[at..].find("\n}\n").expect("its end") + 3];
        let another = body.replace(
            "connect(connect_request ev, no_ctx none",
            "connect_another(connect_request ev, conn other",
        );
        change(&file, body, &format!("{body}{another}"));
    }
    let main = main.display().to_string();
    (folder, main)
}

fn change(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("the program");
    assert_eq!(text.matches(from).count(), 1, "the program has changed: {from}");
    fs::write(file, text.replace(from, to)).expect("a file");
}
