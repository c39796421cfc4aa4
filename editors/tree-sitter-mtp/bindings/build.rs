//! Compiles the parser that tree-sitter generated from the grammar.

fn main() {
    println!("cargo:rerun-if-changed=src");
    let mut build = cc::Build::new();
    build.include("src").file("src/parser.c").warnings(false);
    build.opt_level(0).debug(false).compile("tree-sitter-mtp");
}
