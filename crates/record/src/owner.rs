//! Whose a session is. A daemon that root runs works in directories that belong to the users of the machine: what it does to files there it
//! does with the rights of their owner, so that no link that lies there leads it astray.

use std::os::unix::fs::MetadataExt;

/// A user, with the group that files are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// While it lives the calling thread has the owner's rights to files, and no more.
pub struct Acting(Option<Owner>);

impl Owner {
    /// Whoever runs this.
    pub fn me() -> Owner {
        // SAFETY: neither can fail.
        unsafe { Owner { uid: libc::geteuid(), gid: libc::getegid() } }
    }

    /// Takes on the owner's rights to files.
    pub fn act(self) -> Acting {
        let me = Owner::me();
        if self == me {
            return Acting(None);
        }
        set(self);
        Acting(Some(me))
    }

    /// Whose a process is, as the kernel sees it: one with privileges of its own is root's.
    pub fn of(pid: i32) -> Option<Owner> {
        std::fs::metadata(format!("/proc/{pid}")).ok().map(|m| Owner { uid: m.uid(), gid: m.gid() })
    }

    /// Whether the process is this user's.
    pub fn owns(self, pid: i32) -> bool {
        Owner::of(pid).is_some_and(|of| of.uid == self.uid)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            set(before);
        }
    }
}

/// The group first: without root's rights it could not be changed any more; back again the user first.
fn set(to: Owner) {
    // SAFETY: both only change what files this thread may use, and return what it was before.
    unsafe {
        if to.uid == 0 {
            libc::setfsuid(to.uid);
            libc::setfsgid(to.gid);
        } else {
            libc::setfsgid(to.gid);
            libc::setfsuid(to.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_made_for_an_owner_are_the_owners() {
        let me = Owner::me();
        assert!(me.owns(std::process::id() as i32) && !me.owns(0));
        let dir = tempfile::tempdir().expect("there is room");
        let made = |owner: Owner, name: &str| {
            let _acting = owner.act();
            std::fs::write(dir.path().join(name), "x")
                .map(|()| std::fs::metadata(dir.path().join(name)).expect("it is there").uid())
        };
        assert_eq!(made(me, "mine").expect("my directory"), me.uid);
        if me.uid == 0 {
            let nobody = Owner { uid: 65534, gid: 65534 };
            assert!(made(nobody, "theirs").is_err(), "root's directory is closed to others");
            assert!(!nobody.owns(std::process::id() as i32));
        }
        assert_eq!(made(me, "again").expect("my rights are back"), me.uid);
    }
}
