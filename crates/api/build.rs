//! Names the library as programs are to ask for it: the number changes when `hearth.h` changes incompatibly.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Not as an argument for cdylibs: cargo hands those on to libraries that lean on this crate, and they would have this name.
    println!("cargo:rustc-link-arg=-Wl,-soname,libhearth_api.so.0");
}
