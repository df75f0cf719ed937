//! Compiles the C shim over hwloc and links libhwloc.
//!
//! A shim rather than declarations in Rust: the C compiler then takes the struct layouts from the hwloc header that is
//! installed, whichever 2.x version that is.

fn main() {
    println!("cargo:rerun-if-changed=src/hwloc_shim.c");
    cc::Build::new().file("src/hwloc_shim.c").warnings_into_errors(true).compile("hearth_hwloc_shim");
    println!("cargo:rustc-link-lib=hwloc");
}
