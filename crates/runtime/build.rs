//! Routes jemalloc's own mappings through `src/metadata.rs`, and keeps libgcc_s out of the programs.

/// What Rust's standard library takes from libgcc_s to unwind panics.
const UNWINDER: [&str; 11] = [
    "Backtrace",
    "GetDataRelBase",
    "GetIP",
    "GetIPInfo",
    "GetLanguageSpecificData",
    "GetRegionStart",
    "GetTextRelBase",
    "RaiseException",
    "Resume",
    "SetGR",
    "SetIP",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=mmap");
    // A panic here would end the program, unwound or not: it may not leave a function that C called. So nothing needs
    // the unwinder, and libgcc_s would be one more library to load in every process; its constructor alone, which asks
    // for the processor's features, takes longer than all of ours on a virtual machine, where each answer traps.
    for function in UNWINDER {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym=_Unwind_{function}=hearth_no_unwinder");
    }
}
