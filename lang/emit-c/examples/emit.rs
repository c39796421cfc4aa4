//! Prints a program's C: `cargo run -p hawser-emit-c --example emit -- FILE.mtp`.
use hawser_emit_c::{Marks, Options, emit};

fn main() {
    let path = std::env::args().nth(1).expect("a file");
    let marks = if std::env::args().nth(2).is_some() { Marks::Directives } else { Marks::Nothing };
    let compilation = hawser_driver::compile(std::path::Path::new(&path));
    let module = compilation.module.as_ref().unwrap_or_else(|| panic!("{}", compilation.render(false)));
    print!("{}", emit(module, &Options { marks, loadable: false }).c);
}
