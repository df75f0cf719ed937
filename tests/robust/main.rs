//! When the system runs out of something, or somebody is killed: the program does what it does without Hearth, and the
//! profile, where there can be one, says what is missing.
//!
//! Some of it needs mounts of its own: the tests run that in a namespace of their own, which root may make and on many
//! systems everybody.

mod files;
mod limits;
mod recorder;

use hearth_tests::{Ended, Room, hearth, is_root};
use model::Observed;
use std::process::Command;

/// A shell command in a mount namespace of its own, `$0` being the `hearth` command.
#[track_caller]
fn with_own_mounts(room: &Room, script: &str) -> Ended {
    let namespace = |command: &mut Command| {
        let root = is_root();
        command.args(if root { &["--mount"][..] } else { &["--mount", "--map-root-user"] });
    };
    let mut check = room.command("unshare");
    namespace(&mut check);
    let allowed = hearth_tests::run(check.args(["mount", "-t", "tmpfs", "none", "/mnt"]));
    assert_eq!(
        allowed.status, 0,
        "this test mounts small file systems in a namespace of its own, which this user may not: run it as root, or allow \
         user namespaces (sysctl kernel.unprivileged_userns_clone=1)\n{}",
        allowed.stderr
    );
    let mut command = room.command("unshare");
    namespace(&mut command);
    hearth_tests::run(command.args(["bash", "-c", script]).arg(hearth()))
}

/// All losses of a profile, as one text.
fn losses(observed: &Observed) -> String {
    observed.losses.iter().map(|l| format!("{} ({}): {}\n", l.kind, l.count, l.note)).collect()
}
