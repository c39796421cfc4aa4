//! t
fn main() {
    let mut kernel = hawser_kernel::Kernel::load(&hawser_kernel::Options::default());
    if let Err(e) = &kernel { println!("{e}"); return; }
    println!("{:#?}", kernel.as_mut().unwrap().capabilities().len());
    let mut d = hawser_kernel::Diagnostics::open().unwrap();
    for f in d.flows().unwrap() { println!("{f:?}"); }
}
