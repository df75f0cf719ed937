//! An event that is counted, over a program that is about to start and all that come of it.

use super::open::open_on;
use perf_event_open_sys::bindings::*;
use std::fs::File;
use std::io::{Error, Read};

/// A counter.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Instructions in user mode. The program must be started by this thread. The error says why it cannot be.
    pub fn instructions() -> Result<Counter, String> {
        Counter::open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS.into())
            .map_err(|e| format!("the processor's counter of instructions cannot be used here: {e}"))
    }

    /// An event of this type and number; like those that are sampled it begins with the program, and the recorder is not counted.
    fn open(type_: u32, config: u64) -> Result<Counter, Error> {
        let mut a = perf_event_attr { size: size_of::<perf_event_attr>() as u32, type_, config, ..Default::default() };
        a.set_exclude_kernel(1);
        a.set_exclude_hv(1);
        a.set_inherit(1);
        a.set_disabled(1);
        a.set_enable_on_exec(1);
        open_on(&a, 0, -1, -1).map(|descriptor| Counter(descriptor.into()))
    }

    /// What was counted so far.
    pub fn value(&self) -> Option<u64> {
        let mut word = [0; 8];
        (&self.0).read_exact(&mut word).ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_counted_and_its_parent_is_not() {
        let sw = |number: u32| Counter::open(PERF_TYPE_SOFTWARE, number.into());
        let counter = match sw(PERF_COUNT_SW_PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(e) => panic!("the kernel's own events are for every user: {e}"),
        };
        let touched = vec![1u8; 1 << 20];
        assert_eq!((counter.value(), touched[5000]), (Some(0), 1));
        let status = std::process::Command::new("true").status().expect("it starts");
        assert!(status.success() && counter.value().is_some_and(|n| n > 0), "{:?}", counter.value());
    }
}
