//! What `lab run`, `lab shell` and `lab compare` have in common: the machine to emulate.

use anyhow::{Context, Result};
use lab::job::Roi;
use lab::run::{Fast, Placement, Request};
use model::{Bytes, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The machine to emulate.
#[derive(clap::Args)]
pub struct Machine {
    /// The machine to be like: a platform of the library (see `hearth platform --list`), or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "cxl-expander")]
    platform: String,
    /// Change one value of the platform, for example cxl.latency=250ns; may be given several times
    #[arg(long, value_name = "TIER.FIELD=VALUE")]
    set: Vec<String>,
    /// Virtual CPUs
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    vcpus: u32,
    /// Size of the slow memory (of the fast one for all-fast)
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    memory: Bytes,
    /// Most host time for all of it
    #[arg(long, value_name = "TIME", default_value = "3600s")]
    timeout: Nanos,
    /// The lab's folder [default: $HEARTH_LAB or ~/.cache/hearth/lab]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Machine {
    /// A request with the defaults of `lab shell`, under first touch.
    pub fn request(self, command: Vec<OsString>) -> Result<Request> {
        let mut platform = platform::load(&self.platform)?;
        platform::apply_overrides(&mut platform, &self.set)?;
        Ok(Request {
            lab: match self.dir {
                Some(dir) => dir,
                None => lab::setup::default_dir()?,
            },
            platform,
            command,
            stdin: None,
            placement: Placement::FirstTouch,
            fast: Fast::Percent(25.0),
            memory: self.memory,
            vcpus: self.vcpus,
            llc: None,
            roi: Roi::Start,
            timeout: Duration::from_nanos(self.timeout.0),
            runtime: record::launch::find_runtime().ok(),
            keep: Some(std::env::current_dir().context("cannot find out the current folder")?),
        })
    }
}
