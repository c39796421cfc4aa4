//! Names the library as programs find it at run time. The number grows with each change that breaks them.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhawser.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
