//! Notes the revision that results name.

#[path = "../bench/revision.rs"]
mod revision;

fn main() {
    revision::note();
}
