//! Tests the commands and their exit codes against a control socket.

use std::fs;
use std::path::{Path, PathBuf};

use hawser::connect::knowledge::{Knowledge, Settings};
use hawser::interact::{Bus, Rules, serve};

use super::*;

fn client(socket: &Path) -> ClientArgs {
    ClientArgs { socket: Some(socket.into()), json: false }
}

fn code(outcome: Outcome) -> u8 {
    outcome.map_or_else(|exit| exit.code(), |()| 0)
}

#[test]
fn commands_end_with_their_codes() {
    let folder = hawser_documents::temporary::Folder::new().expect("the folder for tests can be written");
    let socket = folder.join("s");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("it is ours");
        path
    };
    let put = |file: PathBuf| code(run(&Command::Put(Put { file, client: client(&socket) })));
    let delete = |uid: &str| {
        code(run(&Command::Delete(Delete {
            uid: uid.into(),
            client: client(&socket),
        })))
    };
    let list = || {
        let filter = Filter { source: None, uid: None, interface: None };
        code(run(&Command::List(List { filter, client: client(&socket) })))
    };
    let good = write(
        "office.cib.toml",
        "link = true\nexpire = -1\nmatch = [{ interface = { value = \"eth0\" } }]\n[properties]\nmetered = { value = true }\n",
    );
    let slip = write("slip.cib", r#"{ "uid": "a", "rooot": true }"#);
    let taken = write("taken.cib", r#"{ "uid": "interface/eth0", "root": true }"#);
    assert_eq!(put(good.clone()), 4, "there is no socket");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let bus = Bus::new();
    let settings = Settings { bus: Some(bus.clone()), ..Settings::default() };
    {
        let _inside = runtime.enter();
        let serving = serve(bus, &socket, Rules::default()).expect("a socket");
        runtime.spawn(serving);
    }
    assert_eq!(list(), 1, "nothing there keeps nodes yet");
    let knowledge = runtime.block_on(Knowledge::open(settings)).expect("it opens");
    assert_eq!(put(good), 0);
    assert!(
        knowledge.list().iter().any(|known| &*known.uid == "office"),
        "the file's name stands for its own"
    );
    assert_eq!(
        (list(), put(slip), put(taken), put(folder.join("none"))),
        (0, 3, 3, 3)
    );
    assert_eq!((delete("office"), delete("office")), (0, 1));
    drop(knowledge);
    drop(runtime);
    assert_eq!(list(), 4, "it has gone");
}
