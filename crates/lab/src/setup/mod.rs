//! Gets and checks everything that the lab needs, into one folder of the user's: QEMU 10.0 with its libraries and a Linux
//! 6.12 from Debian 13, our plugin, and the guest's first file system. Needs no root and leaves the system as it is.
//!
//! 1. [`sources`] finds the machine's Debian mirror, [`fetch`] gets the packages from it.
//! 2. [`plugin`] compiles the time model, [`guest`] makes what the guest starts from.
//! 3. [`check`] sees whether QEMU and plugin fit together.
//! 4. Only then is the folder, which was made beside its place, moved there: what is in place is whole.

mod check;
mod cpio;
mod fetch;
mod guest;
mod kernel;
mod plugin;
mod sources;
mod tool;

use crate::Error;
use fetch::Apt;
use model::Bytes;
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages, their lists and what is unpacked of them, all at once: 342 MiB were seen with QEMU 10.0.13, and some to spare.
const SPACE: Bytes = Bytes::mib(450);

/// What `installed.json` says; written last.
#[derive(Serialize, Deserialize)]
struct Installed {
    /// Version of QEMU, as it says itself.
    qemu: String,
    /// Package of the kernel.
    kernel: String,
    /// Identity of the plugin's sources.
    plugin: u64,
    /// Identity of what our program puts into the first file system.
    initrd: u64,
}

impl Installed {
    /// Whether the packages are of the versions that the time model is made for.
    fn fits(&self) -> bool {
        self.qemu.starts_with(check::QEMU) && self.kernel.starts_with(check::KERNEL)
    }
}

/// A lab folder in which everything is there.
#[derive(Clone, Debug)]
pub struct Installation {
    dir: PathBuf,
}

/// What [`install`] says while it works.
pub enum News {
    /// Worth a line that stays.
    Line(String),
    /// What is going on now.
    Doing(&'static str),
    /// How far that is.
    Percent(f64),
}

/// Where the lab lies if the user does not say: `$HEARTH_LAB`, else `hearth/lab` in `$XDG_CACHE_HOME`, by default
/// `~/.cache`.
///
/// # Errors
/// If none of the variables holds an absolute path.
pub fn default_dir() -> Result<PathBuf, Error> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("HEARTH_LAB")
        .or_else(|| Some(absolute("XDG_CACHE_HOME")?.join("hearth/lab")))
        .or_else(|| Some(absolute("HOME")?.join(".cache/hearth/lab")))
        .ok_or_else(|| {
            Error("there is no place for the lab: give one by --dir, or set HOME to an absolute path".into())
        })
}

impl Installation {
    /// The lab in `dir`.
    ///
    /// # Errors
    /// If it is not set up, or by another version of Hearth.
    pub fn open(dir: &Path) -> Result<Installation, Error> {
        let again = |what: &str| Error(format!("{what} in {}; run `hearth lab setup`", dir.display()));
        let Some((lab, installed)) = Installation::found(dir)? else { return Err(again("the lab is not set up")) };
        if !installed.fits() {
            let (qemu, kernel) = (&installed.qemu, &installed.kernel);
            let needed = format!("QEMU {}x and {}x", check::QEMU, check::KERNEL);
            return Err(again(&format!("the lab has QEMU {qemu} and {kernel}, and the time model needs {needed},")));
        }
        match installed.plugin == plugin::identity() && installed.initrd == guest::identity() {
            true => Ok(lab),
            false => Err(again("another version of Hearth set up the lab")),
        }
    }

    /// The lab in `dir` with what is known of it, if its packages are there.
    fn found(dir: &Path) -> Result<Option<(Installation, Installed)>, Error> {
        let Ok(dir) = dir.canonicalize() else { return Ok(None) };
        let lab = Installation { dir };
        let file = lab.list();
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(cannot("read", &file)(e)),
        };
        let Ok(installed) = serde_json::from_slice::<Installed>(&text) else { return Ok(None) };
        let whole = lab.parts().iter().all(|p| p.is_file());
        Ok(whole.then_some((lab, installed)))
    }

    /// What a lab is made of.
    fn parts(&self) -> [PathBuf; 7] {
        let bios = self.dir.join("root/usr/share/seabios/bios-256k.bin");
        [self.loader(), self.program(), bios, self.busybox(), self.kernel(), self.initrd(), self.plugin()]
    }

    /// QEMU, run by its own loader with its own libraries and the plugin preloaded. Nothing that the caller preloads
    /// gets into it.
    pub fn qemu(&self) -> Command {
        let mut qemu = Command::new(self.loader());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"LD_")) {
            qemu.env_remove(name);
        }
        qemu.arg("--inhibit-cache").arg("--library-path").arg(self.libraries());
        qemu.arg("--preload").arg(self.plugin()).arg(self.program());
        // Without both, QEMU would look for its firmware in the host's folders of these names.
        for firmware in ["root/usr/share/qemu", "root/usr/share/seabios"] {
            qemu.arg("-L").arg(self.dir.join(firmware));
        }
        qemu.env("QEMU_MODULE_DIR", self.libraries().join("qemu"));
        qemu
    }

    /// The guest's kernel.
    pub fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// The guest's first file system.
    pub fn initrd(&self) -> PathBuf {
        self.dir.join("initrd")
    }

    /// The time model: a plugin of QEMU, and preloaded into it.
    pub fn plugin(&self) -> PathBuf {
        self.dir.join("memsim.so")
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn libraries(&self) -> PathBuf {
        self.dir.join("root/usr/lib/x86_64-linux-gnu")
    }

    fn loader(&self) -> PathBuf {
        self.libraries().join("ld-linux-x86-64.so.2")
    }

    fn program(&self) -> PathBuf {
        self.dir.join("root/usr/bin/qemu-system-x86_64")
    }

    fn busybox(&self) -> PathBuf {
        self.dir.join("root/usr/bin/busybox")
    }

    fn list(&self) -> PathBuf {
        self.dir.join("installed.json")
    }

    /// Makes the first file system of the parts in the folder.
    fn make_initrd(&self) -> Result<(), Error> {
        replace(&self.initrd(), &guest::first_file_system(&self.dir, &self.busybox())?)
    }

    /// Says that everything is there; the last thing that is done.
    fn say_installed(&self, installed: &Installed) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(installed).expect("texts and numbers");
        replace(&self.list(), &text)
    }
}

/// Sets the lab up in `dir`, or sees that it is, or brings it up to this version of Hearth.
///
/// # Errors
/// If the machine lacks something for it; whatever was in `dir` is then still there.
pub fn install(dir: &Path, news: &mut dyn FnMut(News)) -> Result<Installation, Error> {
    let dir = std::path::absolute(dir).map_err(cannot("find", dir))?;
    // QEMU and its loader take lists of paths and cut them at these.
    if let Some(bad) = dir.to_string_lossy().chars().find(|c| " \t\n:;,\"\\\u{fffd}".contains(*c)) {
        return Err(Error(format!(
            "the lab cannot lie in {}: its path holds {bad:?}; name another by --dir",
            dir.display()
        )));
    }
    match Installation::found(&dir)?.filter(|(_, installed)| installed.fits()) {
        Some((lab, installed)) => refresh(lab, installed, news),
        None => install_anew(&dir, news),
    }
}

/// Brings what this program itself gives to the lab up to date.
fn refresh(lab: Installation, mut installed: Installed, news: &mut dyn FnMut(News)) -> Result<Installation, Error> {
    if installed.plugin != plugin::identity() {
        news(News::Doing("compiling the plugin"));
        let draft = lab.dir.join("memsim.new.so");
        plugin::build(&draft)?;
        check::fits(&lab.program(), &draft)?;
        fs::rename(&draft, lab.plugin()).map_err(cannot("write", &lab.plugin()))?;
        installed.plugin = plugin::identity();
        lab.say_installed(&installed)?;
        news(News::Line("the plugin was compiled anew".into()));
    }
    if installed.initrd != guest::identity() {
        lab.make_initrd()?;
        installed.initrd = guest::identity();
        lab.say_installed(&installed)?;
        news(News::Line("the guest's first file system was made anew".into()));
    }
    news(News::Doing("checking"));
    check::starts(&lab)?;
    Ok(lab)
}

fn install_anew(dir: &Path, news: &mut dyn FnMut(News)) -> Result<Installation, Error> {
    let used = fs::read_dir(dir).is_ok_and(|mut files| files.next().is_some());
    if used && !dir.join("installed.json").exists() {
        return Err(Error(format!("{} is not empty and holds no lab; name another folder by --dir", dir.display())));
    }
    machine_can()?;
    let mirror = sources::mirror(Path::new("/etc/apt"))?;
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(Error(format!("{} cannot hold the lab; name another folder by --dir", dir.display())));
    };
    fs::create_dir_all(parent).map_err(cannot("make", parent))?;
    remove_left_over(parent, name)?;
    has_room(parent)?;
    let draft = Draft(parent.join(draft_name(name, &std::process::id().to_string())));
    fs::create_dir(&draft.0).map_err(cannot("make", &draft.0))?;
    let lab = Installation { dir: draft.0.clone() };

    news(News::Doing("compiling the plugin"));
    plugin::build(&lab.plugin())?;

    news(News::Doing("asking the mirror what there is"));
    let packages = draft.0.join("apt");
    let apt = Apt::new(&packages, &mirror)?;
    let wanted = apt.ask()?;
    if !wanted.qemu.starts_with(check::QEMU) || !wanted.kernel.starts_with(check::KERNEL) {
        return Err(Error(format!(
            "the mirror {mirror} has QEMU {} and {}; the lab needs QEMU {}x and {}x",
            wanted.qemu,
            wanted.kernel,
            check::QEMU,
            check::KERNEL
        )));
    }
    news(News::Line(format!(
        "fetching QEMU {}, {} and what they need: {} packages, {:.0} MB, from {mirror} into {}",
        wanted.qemu,
        wanted.kernel,
        wanted.packages,
        wanted.bytes as f64 / 1e6,
        dir.display()
    )));
    news(News::Doing("fetching"));
    apt.fetch(&wanted, &mut |percent| news(News::Percent(percent)))?;

    news(News::Doing("unpacking"));
    unpack(&apt.archives(), &wanted.kernel, &lab)?;
    remove(&packages)?;
    lab.make_initrd()?;

    news(News::Doing("checking"));
    check::fits(&lab.program(), &lab.plugin())?;
    let qemu = check::starts(&lab)?;
    lab.say_installed(&Installed {
        qemu,
        kernel: wanted.kernel,
        plugin: plugin::identity(),
        initrd: guest::identity(),
    })?;
    // Another setup may have been faster; what is in place may be in use.
    if let Ok(lab) = Installation::open(dir) {
        return Ok(lab);
    }
    remove(dir)?;
    fs::rename(&draft.0, dir).map_err(cannot("write", dir))?;
    Ok(Installation { dir: dir.to_path_buf() })
}

/// Unpacks the packages beside the system.
fn unpack(archives: &Path, kernel: &str, lab: &Installation) -> Result<(), Error> {
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(archives).map_err(cannot("read", archives))? {
        packages.push(entry.map_err(cannot("read", archives))?.path());
    }
    packages.retain(|p| p.extension().is_some_and(|e| e == "deb"));
    packages.sort();
    let is_kernel = |p: &Path| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{kernel}_")));
    let root = lab.dir.join("root");
    for package in packages.iter().filter(|p| !is_kernel(p)) {
        tool::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    }
    let package = packages.iter().find(|p| is_kernel(p));
    let package = package.ok_or_else(|| Error(format!("apt fetched no package {kernel}")))?;
    guest::unpack_kernel(package, &lab.busybox(), &lab.dir)
}

/// Says what the machine lacks before anything is fetched.
fn machine_can() -> Result<(), Error> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(Error(format!("the lab runs programs of x86-64 machines; this one is {}", std::env::consts::ARCH)));
    }
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if let Some(missing) = ["apt-get", "apt-cache", "dpkg-deb"].into_iter().find(|name| !there(name)) {
        return Err(Error(format!("there is no {missing}: the lab is set up by Debian's apt, on Debian 12 or 13")));
    }
    for (name, package) in [("cc", "gcc"), ("tar", "tar")] {
        if !there(name) {
            return Err(Error(format!("there is no `{name}`; install it, for example by `apt-get install {package}`")));
        }
    }
    // Found at its path, as a missing header says itself what it is only after many lines.
    match Path::new("/usr/include/stdio.h").exists() {
        true => Ok(()),
        false => Err(Error("the C library's headers are missing; install them by `apt-get install libc6-dev`".into())),
    }
}

/// Whether the lab fits into the file system of `dir`, and may run programs there.
fn has_room(dir: &Path) -> Result<(), Error> {
    let (free, flags) = file_system(dir).map_err(cannot("find", dir))?;
    let at = dir.display();
    if flags & libc::ST_NOEXEC != 0 {
        return Err(Error(format!("{at} is mounted noexec, and the lab runs QEMU; name another folder by --dir")));
    }
    match free < SPACE {
        true => Err(Error(format!(
            "the lab needs {SPACE} for a while, and {at} has {free} free; make room or name another folder by --dir"
        ))),
        false => Ok(()),
    }
}

/// What is free in the file system of `dir`, and its mount flags.
///
/// # Errors
/// If there is no such folder.
pub(crate) fn file_system(dir: &Path) -> io::Result<(Bytes, libc::c_ulong)> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    // SAFETY: statvfs is a struct of integers, for which zero is a value.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte, and the struct outlives the call.
    match unsafe { libc::statvfs(path.as_ptr(), &mut about) } {
        0 => Ok((Bytes(about.f_bavail.saturating_mul(about.f_frsize)), about.f_flag)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A folder in the making, removed unless it was moved to its place.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // Best effort: what stays is removed by the next setup.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn draft_name(name: &OsStr, process: &str) -> String {
    format!(".{}.{process}.new", name.to_string_lossy())
}

/// Removes drafts of setups that were killed.
fn remove_left_over(parent: &Path, name: &OsStr) -> Result<(), Error> {
    for entry in fs::read_dir(parent).map_err(cannot("read", parent))?.flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        let process = found.split('.').rev().nth(1).unwrap_or_default();
        let is_draft =
            !process.is_empty() && process.bytes().all(|b| b.is_ascii_digit()) && found == draft_name(name, process);
        if is_draft && !Path::new("/proc").join(process).exists() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file whole or not at all.
fn replace(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = file.with_extension("new");
    fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, file)).map_err(cannot("write", file))
}

/// Removes a folder with everything in it, if it is there.
fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot("remove", dir)(e)),
        _ => Ok(()),
    }
}

/// The identity of the time model: figures of another one are not comparable.
pub fn model() -> u64 {
    plugin::identity()
}

/// FNV-1a (Fowler, Noll, Vo) of all parts and of where they end; tells versions apart, no secret.
pub(crate) fn identity<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    parts.flat_map(|part| part.iter().copied().chain([0])).fold(0xcbf2_9ce4_8422_2325, step)
}

/// The sentence for a file that cannot be read, written, ...
fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |e| Error(format!("cannot {what} {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(_: News) {}

    #[test]
    fn a_folder_without_a_lab_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let message = Installation::open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("not set up") && message.contains("hearth lab setup"), "{message}");
    }

    #[test]
    fn somebody_elses_folder_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "all of it").unwrap();
        let message = install(dir.path(), &mut quiet).unwrap_err().to_string();
        assert!(message.contains("holds no lab"), "{message}");
        assert!(dir.path().join("thesis.tex").exists());
    }

    #[test]
    fn paths_that_qemu_would_cut_are_refused() {
        for path in ["/tmp/a b", "/tmp/a:b", "/tmp/a,b"] {
            let message = install(Path::new(path), &mut quiet).unwrap_err().to_string();
            assert!(message.contains("name another by --dir"), "{message}");
        }
    }

    #[test]
    fn another_hearths_lab_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let lab = Installation { dir: dir.path().canonicalize().unwrap() };
        for part in lab.parts() {
            fs::create_dir_all(part.parent().unwrap()).unwrap();
            fs::write(part, "").unwrap();
        }
        let installed = |qemu: &str, plugin| Installed {
            qemu: qemu.into(),
            kernel: format!("{}1-amd64", check::KERNEL),
            plugin,
            initrd: guest::identity(),
        };
        let open = |installed: Installed| {
            lab.say_installed(&installed).unwrap();
            Installation::open(dir.path()).map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(open(installed("10.0.2", plugin::identity())), Ok(()));
        assert!(open(installed("10.0.2", 1)).unwrap_err().contains("another version of Hearth"));
        assert!(open(installed("11.0.0", plugin::identity())).unwrap_err().contains("has QEMU 11.0.0 and"));
        fs::remove_file(lab.kernel()).unwrap();
        assert!(open(installed("10.0.2", plugin::identity())).unwrap_err().contains("not set up"));
    }

    #[test]
    fn only_drafts_of_dead_setups_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::create_dir(parent.path().join(name)).unwrap();
        let own = format!(".lab.{}.new", std::process::id());
        // No process has a number as large as this.
        let dead = ".lab.99999999.new";
        for name in [own.as_str(), dead, ".lab.x.new", "lab", ".lab.99999999.new.kept"] {
            make(name);
        }
        remove_left_over(parent.path(), OsStr::new("lab")).unwrap();
        let there = |name: &str| parent.path().join(name).exists();
        assert!(there(&own) && there(".lab.x.new") && there("lab") && there(".lab.99999999.new.kept") && !there(dead));
    }
}
