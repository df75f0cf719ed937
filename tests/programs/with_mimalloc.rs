//! Allocates and frees with an allocator that is linked into the program and replaces malloc in it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for i in 0..3000usize {
        kept.push(vec![i as u8; if i % 2 == 0 { 100 + i } else { 100_000 + i }]);
        if kept.len() > 50 {
            kept.swap_remove(i % 50);
        }
    }
    // What the C library allocates comes from it too.
    // SAFETY: strdup copies a C string; free ends the copy.
    let copied = unsafe {
        let copy = libc::strdup(c"copied".as_ptr());
        let length = libc::strlen(copy);
        libc::free(copy.cast());
        length
    };
    println!("sum {} {copied}", kept.iter().map(|v| u64::from(v[0]) + v.len() as u64).sum::<u64>());
    std::process::exit(6);
}
