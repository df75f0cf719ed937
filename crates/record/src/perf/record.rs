//! The records of the kernel's ring, which `perf record` also writes into its file: bytes to samples. Layouts as
//! documented in perf_event_open(2) and in `include/uapi/linux/perf_event.h`.
//!
//! Nothing in here believes what it reads: every length is checked, and a record that does not fit its own size is none.

use perf_event_open_sys::bindings as sys;

/// Bytes of the header that opens each record.
pub const HEADER: usize = 8;

/// What the records of an event hold: the fields of its `perf_event_attr` that decide it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Format {
    /// `sample_type`.
    pub sample_type: u64,
    /// `read_format`.
    pub read_format: u64,
    /// `branch_sample_type`.
    pub branch_sample_type: u64,
    /// `sample_regs_user`.
    pub regs_user: u64,
    /// `sample_regs_intr`.
    pub regs_intr: u64,
    /// `sample_id_all`: records that are no samples end in whose they are, and when.
    pub id_all: bool,
}

/// A sample. What it does not hold is 0 or `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample<'a> {
    /// Number of the event.
    pub id: u64,
    /// Instruction.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When, by the event's clock.
    pub time: u64,
    /// Address of the data.
    pub addr: u64,
    /// Events that the sample stands for.
    pub period: u64,
    /// Latency in cycles.
    pub cycles: u32,
    /// `perf_mem_data_src`.
    pub data_source: Option<u64>,
    /// What the processor wrote itself.
    pub raw: Option<&'a [u8]>,
}

/// Part of an AUX buffer has been filled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aux {
    /// Where it begins, counted from the first byte ever written.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Something was lost before or within it.
    pub truncated: bool,
    /// Process that ran.
    pub pid: u32,
    /// When it was handed over.
    pub time: u64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// So many records did not fit into the ring.
    Lost(u64),
    /// The kernel stopped sampling until the next tick, since it came too often.
    Throttled,
    /// Part of an AUX buffer.
    Aux(Aux),
    /// Of no interest here.
    Other,
}

impl Format {
    /// The number of the event that a record is of, where several write to one ring; `None` if records do not say.
    pub fn id_of(&self, kind: u32, body: &[u8]) -> Option<u64> {
        let has = |bit: sys::perf_event_sample_format| self.sample_type & u64::from(bit) != 0;
        // PERF_SAMPLE_IDENTIFIER puts it at the same place whatever else the records hold: first in samples, last in others.
        let at = match kind {
            sys::PERF_RECORD_SAMPLE if has(sys::PERF_SAMPLE_IDENTIFIER) => 0,
            sys::PERF_RECORD_SAMPLE if has(sys::PERF_SAMPLE_ID) => {
                let before = [sys::PERF_SAMPLE_IP, sys::PERF_SAMPLE_TID, sys::PERF_SAMPLE_TIME, sys::PERF_SAMPLE_ADDR];
                8 * before.into_iter().filter(|&bit| has(bit)).count()
            }
            sys::PERF_RECORD_SAMPLE => return None,
            _ if has(sys::PERF_SAMPLE_IDENTIFIER) && self.id_all => body.len().checked_sub(8)?,
            _ => return None,
        };
        u64_at(body, at)
    }
}

/// Reads a record of type `kind` with these bytes after its header. `None`: it does not hold what its event says.
pub fn parse<'a>(kind: u32, body: &'a [u8], format: &Format) -> Option<Record<'a>> {
    let mut bytes = Bytes(body);
    Some(match kind {
        sys::PERF_RECORD_SAMPLE => Record::Sample(sample(&mut bytes, format)?),
        sys::PERF_RECORD_LOST => {
            bytes.u64()?;
            Record::Lost(bytes.u64()?)
        }
        sys::PERF_RECORD_LOST_SAMPLES => Record::Lost(bytes.u64()?),
        sys::PERF_RECORD_THROTTLE => Record::Throttled,
        sys::PERF_RECORD_AUX => {
            let (offset, size, flags) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
            let truncated = flags & u64::from(sys::PERF_AUX_FLAG_TRUNCATED) != 0;
            let (pid, time) = trailer(body, format).unwrap_or_default();
            Record::Aux(Aux { offset, size, truncated, pid, time })
        }
        _ => Record::Other,
    })
}

fn sample<'a>(b: &mut Bytes<'a>, f: &Format) -> Option<Sample<'a>> {
    let has = |bit: sys::perf_event_sample_format| f.sample_type & u64::from(bit) != 0;
    let mut s = Sample::default();
    if has(sys::PERF_SAMPLE_IDENTIFIER) {
        s.id = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_IP) {
        s.ip = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_TID) {
        (s.pid, s.tid) = (b.u32()?, b.u32()?);
    }
    if has(sys::PERF_SAMPLE_TIME) {
        s.time = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_ADDR) {
        s.addr = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_ID) {
        s.id = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_STREAM_ID) {
        b.u64()?;
    }
    if has(sys::PERF_SAMPLE_CPU) {
        b.u64()?;
    }
    if has(sys::PERF_SAMPLE_PERIOD) {
        s.period = b.u64()?;
    }
    if has(sys::PERF_SAMPLE_READ) {
        counts(b, f.read_format)?;
    }
    if has(sys::PERF_SAMPLE_CALLCHAIN) {
        let frames = b.u64()?;
        b.words(frames)?;
    }
    if has(sys::PERF_SAMPLE_RAW) {
        let size = b.u32()?;
        s.raw = Some(b.bytes(u64::from(size))?);
    }
    if has(sys::PERF_SAMPLE_BRANCH_STACK) {
        let branches = b.u64()?;
        let with = |bit: sys::perf_branch_sample_type| f.branch_sample_type & u64::from(bit) != 0;
        b.words(u64::from(with(sys::PERF_SAMPLE_BRANCH_HW_INDEX)))?;
        b.words(branches.checked_mul(3)?)?;
        if with(sys::PERF_SAMPLE_BRANCH_COUNTERS) {
            b.words(branches)?;
        }
    }
    if has(sys::PERF_SAMPLE_REGS_USER) && b.u64()? != 0 {
        b.words(f.regs_user.count_ones().into())?;
    }
    if has(sys::PERF_SAMPLE_STACK_USER) {
        let size = b.u64()?;
        b.bytes(size)?;
        if size > 0 {
            b.u64()?;
        }
    }
    if has(sys::PERF_SAMPLE_WEIGHT) || has(sys::PERF_SAMPLE_WEIGHT_STRUCT) {
        // The structured form has the latency in its lower half.
        s.cycles = b.u64()? as u32;
    }
    if has(sys::PERF_SAMPLE_DATA_SRC) {
        s.data_source = Some(b.u64()?);
    }
    Some(s)
}

/// Steps over the counts of PERF_SAMPLE_READ.
fn counts(b: &mut Bytes<'_>, read_format: u64) -> Option<()> {
    let has = |bit: sys::perf_event_read_format| u64::from(read_format & u64::from(bit) != 0);
    let times = has(sys::PERF_FORMAT_TOTAL_TIME_ENABLED) + has(sys::PERF_FORMAT_TOTAL_TIME_RUNNING);
    let each = 1 + has(sys::PERF_FORMAT_ID) + has(sys::PERF_FORMAT_LOST);
    let values = if has(sys::PERF_FORMAT_GROUP) == 1 { b.u64()?.checked_mul(each)? } else { each };
    b.words(values.checked_add(times)?)
}

/// Process and time from the end of a record that is no sample.
fn trailer(body: &[u8], f: &Format) -> Option<(u32, u64)> {
    let has = |bit: sys::perf_event_sample_format| f.sample_type & u64::from(bit) != 0;
    let after = [sys::PERF_SAMPLE_ID, sys::PERF_SAMPLE_STREAM_ID, sys::PERF_SAMPLE_CPU, sys::PERF_SAMPLE_IDENTIFIER];
    let words = usize::from(has(sys::PERF_SAMPLE_TID))
        + usize::from(has(sys::PERF_SAMPLE_TIME))
        + after.into_iter().filter(|&bit| has(bit)).count();
    let start = body.len().checked_sub(8 * words).filter(|_| f.id_all)?;
    let mut b = Bytes(body.get(start..)?);
    let pid = if has(sys::PERF_SAMPLE_TID) { b.u64()? as u32 } else { 0 };
    let time = if has(sys::PERF_SAMPLE_TIME) { b.u64()? } else { 0 };
    Some((pid, time))
}

/// A word of these bytes, which need not be aligned.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn bytes(&mut self, n: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
    fn words(&mut self, n: u64) -> Option<()> {
        self.bytes(n.checked_mul(8)?).map(|_| ())
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }
}
