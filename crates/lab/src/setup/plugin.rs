//! The plugin: its sources are part of this program, and the machine's own C compiler makes it.

use super::tool;
use crate::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Every file of `crates/lab/plugin`.
const SOURCES: &[(&str, &str)] = &[
    ("cache.h", include_str!("../../plugin/cache.h")),
    ("clock.c", include_str!("../../plugin/clock.c")),
    ("clock.h", include_str!("../../plugin/clock.h")),
    ("config.c", include_str!("../../plugin/config.c")),
    ("config.h", include_str!("../../plugin/config.h")),
    ("core.c", include_str!("../../plugin/core.c")),
    ("core.h", include_str!("../../plugin/core.h")),
    ("memory.c", include_str!("../../plugin/memory.c")),
    ("memory.h", include_str!("../../plugin/memory.h")),
    ("memsim.c", include_str!("../../plugin/memsim.c")),
    ("qemu.h", include_str!("../../plugin/qemu.h")),
    ("sample.c", include_str!("../../plugin/sample.c")),
    ("sample.h", include_str!("../../plugin/sample.h")),
    ("tlb.c", include_str!("../../plugin/tlb.c")),
    ("tlb.h", include_str!("../../plugin/tlb.h")),
    ("vcpu.h", include_str!("../../plugin/vcpu.h")),
    ("window.h", include_str!("../../plugin/window.h")),
];

/// No `-march=native`: the floating-point results, and with them guest time, must not depend on the host.
const FLAGS: [&str; 9] =
    ["-std=gnu11", "-O3", "-flto", "-mtune=native", "-g", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"];

/// What the plugin is made of; another identity needs another build.
pub fn identity() -> u64 {
    let texts = SOURCES.iter().flat_map(|(name, text)| [*name, *text]);
    super::identity(FLAGS.into_iter().chain(texts).map(str::as_bytes))
}

/// Compiles it to `into`, by way of a fresh folder beside it.
///
/// # Errors
/// If there is no compiler, or it does not understand the sources.
pub fn build(into: &Path) -> Result<(), Error> {
    let folder = into.with_extension("build");
    super::remove(&folder)?;
    fs::create_dir(&folder).map_err(super::cannot("make", &folder))?;
    let mut cc = Command::new("cc");
    cc.args(FLAGS).arg("-o").arg(into);
    for (name, text) in SOURCES {
        let file = folder.join(name);
        fs::write(&file, text).map_err(super::cannot("write", &file))?;
        if name.ends_with(".c") {
            cc.arg(file);
        }
    }
    cc.arg("-lm");
    tool::run(&mut cc).map_err(|e| Error(format!("the plugin of the lab cannot be compiled: {e}")))?;
    super::remove(&folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_part_of_the_program() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/plugin");
        let mut files: Vec<String> =
            fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|f| f.ends_with(".c") || f.ends_with(".h"));
        files.sort();
        assert_eq!(files, SOURCES.iter().map(|s| s.0).collect::<Vec<_>>());
    }
    #[test]
    fn plugin_and_wire_agree_on_the_window() {
        use std::mem::{offset_of, size_of};
        use wire::lab::*;
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("sizes.c"), folder.path().join("sizes"));
        fs::write(folder.path().join("window.h"), include_str!("../../plugin/window.h")).unwrap();
        let text = "#include \"window.h\"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n\
                    printf(\"%zu %zu %zu %zu %zu %zu %zu %zu\", sizeof(struct window), sizeof(struct window_vcpu),\n\
                    sizeof(struct window_step), sizeof(struct window_process), sizeof(struct window_sample),\n\
                    offsetof(struct window, memory_hits), offsetof(struct window, failed),\n\
                    offsetof(struct window_sample, count)); }\n";
        fs::write(&source, text).unwrap();
        assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
        let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        let ours = [
            size_of::<Header>(),
            size_of::<VcpuCounts>(),
            size_of::<Step>(),
            size_of::<Process>(),
            size_of::<Sample>(),
            offset_of!(Header, memory_hits),
            offset_of!(Header, failed),
            offset_of!(Sample, count),
        ];
        assert_eq!(said, ours.map(|n| n.to_string()).join(" "));
    }
}
