//! Tells the linker how memory is laid out, and what must not be there.
fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-link-search={folder}/..");
    println!("cargo:rustc-link-arg-bins=-T{folder}/no-panic.x");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=no-panic.x");
    println!("cargo:rerun-if-changed=../memory.x");
}
