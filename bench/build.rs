//! Compiles TCP as written by hand in C.

fn main() {
    println!("cargo::rerun-if-changed=handwritten");
    // As generated programs are compiled: -O2, whatever the Rust around it is compiled with.
    cc::Build::new()
        .file("handwritten/handwritten.c")
        .std("c11")
        .opt_level(2)
        .warnings(true)
        .compile("handwritten");
}
