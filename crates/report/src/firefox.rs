//! A profile for the Firefox profiler (profiler.firefox.com), in its processed format.
//!
//! One thread with call paths: a sample for each site and interval of the timeline, weighted by its misses, and native
//! allocations for the objects whose lives are told one by one. A counter has the live bytes of all objects. The crate
//! `fxprof-processed-profile` writes the format; its version is tested here and named in docs/report.md.

use crate::table::hottest_first;
use crate::words;
use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp, SamplingInterval, StackHandle,
    ThreadHandle, Timestamp, WeightType,
};
use model::{Observed, Site, SiteId};
use std::collections::HashMap;
use std::time::Duration;

/// Weights are 32-bit, and the profiler sums them up.
const HEAVIEST: f64 = 1e9;

/// The profile as JSON.
pub fn firefox(observed: &Observed) -> Result<String, serde_json::Error> {
    let start = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_secs(observed.started));
    let interval = observed.timeline.get(1).map_or(observed.duration.0, |p| p.at.0).max(1);
    let command = words::command(&observed.command);
    let mut profile = Profile::new(&command, start, SamplingInterval::from_nanos(interval));
    profile.set_symbolicated(true);
    let (first, last) =
        (Timestamp::from_nanos_since_reference(0), Timestamp::from_nanos_since_reference(observed.duration.0));
    let process = profile.add_process(&command, 1, first);
    profile.set_process_end_time(process, last);
    let thread = profile.add_thread(process, 1, first, false);
    profile.set_thread_end_time(thread, last);
    // Misses of large runs are told in thousands, millions, ... so that all of them fit.
    let total = observed.total_misses();
    let unit = (0..).step_by(3).map(|p| 10f64.powi(p)).find(|unit| total / unit < HEAVIEST).unwrap_or(1.0);
    let name = if unit > 1.0 { format!("~misses / {unit:e}") } else { "~misses".to_string() };
    profile.set_thread_name(thread, &format!("{name} by the call path that allocated"));
    profile.set_thread_samples_weight_type(thread, WeightType::Samples);

    let mut stacks: HashMap<SiteId, StackHandle> = HashMap::new();
    for site in hottest_first(observed) {
        if let Some(stack) = stack(&mut profile, thread, &site.site) {
            stacks.insert(site.site.id, stack);
        }
    }
    let live = profile.add_counter(process, "live bytes", "Memory", "Live bytes of all recorded objects");
    let mut before = 0.0;
    for point in &observed.timeline {
        let now = Timestamp::from_nanos_since_reference(point.at.0);
        for (site, misses) in &point.misses {
            let weight = (misses / unit).round() as i32;
            if weight > 0 {
                profile.add_sample(thread, now, stacks.get(site).copied(), CpuDelta::ZERO, weight);
            }
        }
        let bytes: f64 = point.live.iter().map(|l| l.1.0 as f64).sum();
        profile.add_counter_sample(live, now, bytes - before, 0);
        before = bytes;
    }
    let mut events: Vec<(u64, SiteId, u64, i64)> = Vec::new();
    let lives = observed.sites.iter().flat_map(|s| s.lives.iter().map(move |l| (s.site.id, l)));
    for (number, (site, life)) in (1..).zip(lives) {
        let size = i64::try_from(life.size.0).unwrap_or(i64::MAX);
        events.push((life.from.0, site, number, size));
        // What lives to the end is never freed.
        if life.to < observed.duration {
            events.push((life.to.0, site, number, -size));
        }
    }
    events.sort_unstable();
    for (time, site, number, size) in events {
        let time = Timestamp::from_nanos_since_reference(time);
        profile.add_allocation_sample(thread, time, stacks.get(&site).copied(), number, size);
    }
    serde_json::to_string(&profile)
}

/// A site's call path, outermost first, with source lines in the names.
fn stack(profile: &mut Profile, thread: ThreadHandle, site: &Site) -> Option<StackHandle> {
    let mut names: Vec<String> = Vec::new();
    for frame in site.frames.iter().rev() {
        match frame.source.is_empty() {
            true => names.push(frame.place()),
            false => names.extend(frame.source.iter().rev().map(ToString::to_string)),
        }
    }
    let frames: Vec<FrameInfo> = names
        .iter()
        .map(|name| FrameInfo {
            frame: Frame::Label(profile.intern_string(name)),
            category_pair: CategoryHandle::OTHER.into(),
            flags: FrameFlags::empty(),
        })
        .collect();
    profile.intern_stack_frames(thread, frames.into_iter())
}
