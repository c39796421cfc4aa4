//! The memory of a connection.

use crate::bench::module;

/// The bytes of the context, which the README states.
#[test]
fn a_connection_fits_the_documented_size() {
    let module = module();
    let size = |name: &str| {
        let of = module.structs.iter().find(|s| s.name == name).expect("a structure of this name");
        println!("{name}: {} bytes", of.size);
        for field in &of.fields {
            println!("  {:5} {} {:?}", field.offset, field.name, field.ty);
        }
        of.size
    };
    assert!(size("tcp_conn") <= 1600, "{} bytes", size("tcp_conn"));
}
