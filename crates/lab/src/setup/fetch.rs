//! Gets the packages of the lab with the machine's own apt, from a private set of folders: no root, nothing of the system
//! is read but its mirror, its proxies and its keyring, and nothing of it is changed. apt checks signatures and hashes.

use super::tool;
use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release whose packages the lab is made of, on every machine: it has QEMU 10.0 and Linux 6.12.
const RELEASE: &str = "trixie";
/// Debian's public keys, which come with every Debian.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// QEMU and what it needs, and the shell of the guest's start.
const PACKAGES: [&str; 2] = ["qemu-system-x86", "busybox-static"];
/// Depends on the kernel of the day; it itself is empty.
const KERNEL: &str = "linux-image-amd64";

/// A private apt.
pub struct Apt {
    folder: PathBuf,
}

/// What is going to be fetched.
pub struct Wanted {
    /// The package of the kernel.
    pub kernel: String,
    /// Version of QEMU's package, without epoch.
    pub qemu: String,
    /// Number of packages.
    pub packages: usize,
    /// Bytes of all packages.
    pub bytes: u64,
}

impl Apt {
    /// Lays it out in `folder`, which must be empty, for this mirror.
    ///
    /// # Errors
    /// If the machine has no Debian keyring, or the folder cannot be written.
    pub fn new(folder: &Path, mirror: &str) -> Result<Apt, Error> {
        if !Path::new(KEYRING).exists() {
            return Err(Error(format!(
                "Debian's keyring {KEYRING} is missing, so that packages could not be verified; install the package debian-archive-keyring"
            )));
        }
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(super::cannot("make", &part))?;
        }
        let source =
            format!("deb [arch=amd64 target=Packages lang=none signed-by={KEYRING}] {mirror} {RELEASE} main\n");
        for (name, text) in [
            ("sources.list", source),
            ("status", String::new()),
            ("apt.conf", configuration(&folder.display().to_string())),
        ] {
            let file = folder.join(name);
            fs::write(&file, text).map_err(super::cannot("write", &file))?;
        }
        Ok(Apt { folder: folder.to_path_buf() })
    }

    /// Where the packages are once they are fetched.
    pub fn archives(&self) -> PathBuf {
        self.folder.join("cache/archives")
    }

    /// Asks the mirror what there is.
    ///
    /// # Errors
    /// If it does not answer, or has not what the lab needs.
    pub fn ask(&self) -> Result<Wanted, Error> {
        tool::run(self.get().args(["-o", "APT::Update::Error-Mode=any", "update"]))
            .map_err(|e| Error(format!("the package lists of {RELEASE} cannot be fetched: {e}")))?;
        let depends = self.cache(&["depends", KERNEL])?;
        let kernel = depends.lines().find_map(|l| l.trim().strip_prefix("Depends: "));
        let kernel = kernel.ok_or_else(|| Error(format!("{KERNEL} of {RELEASE} names no kernel")))?.to_string();
        let shown = self.cache(&["show", "--no-all-versions", PACKAGES[0]])?;
        let version = shown.lines().find_map(|l| l.strip_prefix("Version: ")).unwrap_or_default();
        let qemu = version.split_once(':').map_or(version, |v| v.1).to_string();
        let mut printed = tool::run(self.get().arg("--print-uris").arg("install").args(PACKAGES))?;
        printed.extend(tool::run(self.get().args(["--print-uris", "download", &kernel]))?);
        // 'URI' FILE BYTES HASH
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let sizes: Vec<u64> = printed.lines().filter_map(|l| l.split_whitespace().nth(2)?.parse().ok()).collect();
        Ok(Wanted { kernel, qemu, packages: sizes.len(), bytes: sizes.iter().sum() })
    }

    /// Fetches all of it; `percent` hears how far it is.
    ///
    /// # Errors
    /// If a package does not come, or is not what Debian signed.
    pub fn fetch(&self, wanted: &Wanted, percent: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let all = wanted.bytes.max(1) as f64;
        let before = |dir: &Path| -> u64 {
            let files = fs::read_dir(dir).into_iter().flatten().flatten();
            files.filter_map(|f| f.metadata().ok()).filter(fs::Metadata::is_file).map(|m| m.len()).sum()
        };
        let archives = self.archives();
        // apt says how far it is from time to time; how much that is, the files tell better.
        let mut far = |_: &str| percent(100.0 * (before(&archives) + before(&archives.join("partial"))) as f64 / all);
        let failed = |e| Error(format!("the packages of the lab cannot be fetched: {e}"));
        let status = ["-o", "APT::Status-Fd=1"];
        tool::follow(self.get().args(status).args(["--download-only", "install"]).args(PACKAGES), &mut far)
            .map_err(failed)?;
        tool::follow(self.get().current_dir(self.archives()).args(status).args(["download", &wanted.kernel]), &mut far)
            .map_err(failed)
    }

    fn get(&self) -> Command {
        let mut apt = Command::new("apt-get");
        apt.arg("-c").arg(self.folder.join("apt.conf")).args(["-y", "-qq"]);
        apt
    }

    fn cache(&self, what: &[&str]) -> Result<String, Error> {
        let mut apt = Command::new("apt-cache");
        apt.arg("-c").arg(self.folder.join("apt.conf")).args(what);
        Ok(String::from_utf8_lossy(&tool::run(&mut apt)?).into_owned())
    }
}

/// apt reads this after the system's configuration, of which the `Acquire` settings (proxies) stay. What is cleared would
/// run programs as if the system had been changed, or choose by the system's release and preferences.
fn configuration(folder: &str) -> String {
    format!(
        "#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::Default-Release;
#clear APT::Architectures;
APT::Architecture \"amd64\";
APT::Architectures {{ \"amd64\"; }};
APT::Install-Recommends \"false\";
APT::Install-Suggests \"false\";
// The folder may be one that apt's own user cannot enter.
APT::Sandbox::User \"root\";
Dir::State \"{folder}\";
Dir::State::lists \"{folder}/lists/\";
Dir::State::status \"{folder}/status\";
Dir::Cache \"{folder}/cache\";
Dir::Cache::archives \"{folder}/cache/archives/\";
Dir::Etc::sourcelist \"{folder}/sources.list\";
Dir::Etc::sourceparts \"/dev/null\";
Dir::Etc::preferences \"/dev/null\";
Dir::Etc::preferencesparts \"/dev/null\";
"
    )
}
