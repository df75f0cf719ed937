//! QEMU as a process: it never outlives the one that started it.

use super::{Machine, QEMU_LOG};
use crate::Error;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A machine that runs; dropped, it is off.
pub struct Guest {
    child: Child,
}

/// How a machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It is off; why, as QEMU put it.
    Off(String),
}

impl Guest {
    /// Starts the machine with `qemu`, a command without the machine's arguments. The calling thread must live as long
    /// as the machine: the kernel ends QEMU with it.
    ///
    /// Errors: not enough memory on the host, QEMU cannot be started.
    pub fn start(
        mut qemu: Command,
        machine: &Machine,
        kernel: &std::path::Path,
        initrd: &std::path::Path,
    ) -> Result<Guest, Error> {
        enough_memory(machine.host_memory())?;
        let log = machine.session.join(QEMU_LOG);
        let said = File::create(&log).map_err(|e| Error(format!("cannot write {}: {e}", log.display())))?;
        qemu.args(machine.arguments(kernel, initrd)?).stderr(said);
        if !machine.terminal {
            // Not in the terminal's foreground: Ctrl-C is for the host's side, which then ends the machine.
            qemu.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        }
        let parent = std::process::id();
        // SAFETY: prctl and getppid are async-signal-safe; nothing is allocated.
        unsafe {
            qemu.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match libc::getppid() as u32 == parent {
                    true => Ok(()),
                    false => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
                }
            });
        }
        let child = qemu.spawn().map_err(|e| {
            Error(format!("cannot start QEMU ({}): {e}; run `hearth lab setup`", qemu.get_program().to_string_lossy()))
        })?;
        Ok(Guest { child })
    }

    /// Looks whether the machine still runs.
    pub fn state(&mut self, machine: &Machine) -> Result<State, Error> {
        let status = self.child.try_wait().map_err(|e| Error(format!("cannot wait for QEMU: {e}")))?;
        let Some(status) = status else { return Ok(State::Running) };
        let said = std::fs::read_to_string(machine.session.join(QEMU_LOG)).unwrap_or_default();
        let said = said.lines().last().unwrap_or_default().trim().to_string();
        Ok(State::Off(match said.is_empty() {
            true => format!("QEMU ended with {status}"),
            false => said,
        }))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nothing is lost: all that matters is in the session's folder. Errors: it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory of the host that programs may still take.
///
/// # Errors
/// If the kernel does not say.
pub fn free_memory() -> Result<model::Bytes, Error> {
    let text =
        std::fs::read_to_string("/proc/meminfo").map_err(|e| Error(format!("cannot read /proc/meminfo: {e}")))?;
    let kib = text
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .ok_or_else(|| Error("/proc/meminfo does not say how much memory is available".into()))?;
    Ok(model::Bytes(kib << 10))
}

/// Is there enough free memory for the machine? Asked before it is started, because a host that runs out of memory later
/// kills something.
fn enough_memory(needed: u64) -> Result<(), Error> {
    let (needed, available) = (model::Bytes(needed), free_memory()?);
    match available >= needed {
        true => Ok(()),
        false => Err(Error(format!(
            "the emulated machine needs {needed} of memory and {available} are free; give a smaller --memory or --fast, or \
             end other programs"
        ))),
    }
}
