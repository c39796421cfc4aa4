//! Reports of work on registered memory that deviates from the steps.

use std::path::Path;

use super::steps_in;

const BEGIN: &str = "\
program roce.mtp
m: register {data: 8@0, at: 0x1000, access: ACCESS_LOCAL_WRITE}
pair 17 from 50000
option OPT_PAIR_PEER 34
option OPT_PAIR_ACCESS ACCESS_REMOTE_WRITE|ACCESS_REMOTE_READ
option OPT_PAIR_FIRST 1000
notify CONNECTED
";

#[test]
fn each_kind_of_difference_is_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/roce");
    for (rest, needle) in [
        ("m: holds 8@0", ""),
        ("assert conn.access == 6 && conn.peer == 34", ""),
        ("m: holds 8@4", "happened: holds 8@0"),
        ("m: holds 2@0 at 7", "happened: it has 8 bytes"),
        ("m: holds 0 at 18446744073709551615", "is more than 4294967295"),
        ("other: holds 8@0", "no memory is registered as `other`"),
        ("m: deregister\nm: deregister", "it opened nothing any more"),
        ("m: register {size: 8}", "there is no field `size`"),
        ("m: register {at: {}}", "`{}` is not a number"),
        ("m: register {at: $n}", "`$n` has no value yet"),
        ("m: register {at: NEVER}", "`NEVER` is not a number of 64 bits"),
        ("pair 17 from 65536", "`65536` is more than 65535"),
        ("other: pair 18 from 50000", "it failed with EADDRINUSE"),
        ("post {code: 9}", "it failed with EINVAL"),
        ("post {cod: 9}", "there is no field `cod`"),
        ("other: post {code: 0}", "no handle is named `other`"),
        ("completion {id: 1}", "no such notice arrived"),
        ("close\ncompletion {id: 1}", "happened: notify CLOSED"),
        (
            "post {id: 1, key: $m+1, at: 0x1000, len: 4}\ncompletion {id: 1, status: SUCCESS}",
            "happened: completion {id: 1, status: 4, code: 0, flags: 0, len: 0, value: 0}",
        ),
        (
            "post {id: 1, code: WORK_WRITE, key: $m, at: 0x1004, len: 4}\n> roce_packet{data: 4@0}",
            "data is 0x00000001, not 4@0",
        ),
    ] {
        let report = steps_in(&format!("{BEGIN}{rest}\n"), &folder, None);
        let text = report.explain("f.steps");
        assert_eq!(report.passed(), needle.is_empty(), "{rest}\n{text}");
        assert!(text.contains(needle), "{rest}\n{text}");
    }
}
