//! Names the library as memkind's programs ask for it, and shows memkind's names only.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmemkind.so.0");
    // The functions of hearth.h come with the crate that this one leans on; whoever wants them links libhearth_api.so.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    // OpenMP's libraries close it at their end, when there may still be memory of it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
