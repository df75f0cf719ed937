//! Routes jemalloc's own mappings through `src/metadata.rs`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=mmap");
}
