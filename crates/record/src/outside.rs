//! A sampler that lies outside of the process: it sees addresses and process ids, and knows nothing of objects. Its samples
//! all go the same way, through [`crate::misses`], whoever made them.

use crate::misses::Miss;
use std::time::Duration;

/// A source of access samples outside of the process.
pub trait Outside {
    /// Switches sampling on. The program is started next, by the same thread.
    fn begin(&mut self);

    /// Switches it off.
    fn end(&mut self);

    /// How often the samples have to be taken at least, so that none is lost.
    fn interval(&self) -> Duration;

    /// Takes the samples up to a time: process id and sample, with times since `epoch_ns` of CLOCK_MONOTONIC, in the order
    /// of their times. Later ones stay where they are.
    fn take(&mut self, epoch_ns: u64, horizon: u64, each: &mut dyn FnMut(u32, &Miss));

    /// Counts instructions too, from the program's start on. Called before [`Outside::begin`]; the error says why it cannot.
    fn count_instructions(&mut self) -> Result<(), String>;

    /// Instructions that the program has executed so far, if they are counted.
    fn instructions(&self) -> Option<u64>;

    /// Samples of programs that have nothing to do with this one come too, and are to be thrown away.
    fn everyone(&self) -> bool {
        false
    }

    /// Times of the first and the last sample, in ns since the epoch that they were taken by, where nothing could be seen before and
    /// after: the lab's region of interest.
    fn watched(&self) -> Option<(u64, u64)> {
        None
    }

    /// What sampling has lost so far (`over`: in the whole recording): kind, count and sentence.
    fn losses(&self, over: bool) -> Vec<(&'static str, u64, String)>;
}
