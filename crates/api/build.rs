//! Names the library as programs are to ask for it: the number changes when `hearth.h` changes incompatibly.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhearth_api.so.0");
}
