//! The sampler's thread: arms pages, collects what was seen of them, publishes it.
//!
//! It is a bare thread that libc does not know (a program whose last own thread ends has to end), so nothing here
//! may use thread-local storage, allocate, or call libc.

use super::armed::{self, Arming, Entry, State};
use super::budget::Account;
use super::huge::Huge;
use super::{FAULTS_PER_SECOND, STEPS_PER_SECOND, STOP, guard, peers};
use crate::{mapping, objects, process, range, sites, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};
use wire::event::{Burst, Event};
use wire::process::Ring;
use wire::session::REARMS;

const PAGE: usize = 4096;
const STACK: usize = 256 << 10;
/// Time between two looks. To wake up costs more than to arm a page.
const TICK_NS: u64 = 10_000_000;
/// Longest time between two attempts to set the guard up.
const LONGEST_PAUSE_NS: u64 = 80_000_000;
/// A page not touched for so long is given up.
const PATIENCE_NS: u64 = 400_000_000;
/// A burst ends when the page was not touched for so long.
const BURST_PAUSE_NS: u64 = 2_000_000;
/// Time (ms) between two bursts of a site: they are to tell how it is walked all along, not how it was filled.
const BURST_EVERY_MS: u32 = 150;
/// Time between two looks while pausing.
const PAUSING_NS: u64 = 100_000_000;
/// What an armed page costs that nobody visits, in visits.
const QUIET_COST: f64 = 0.25;
/// Points of a site for a visit, and for a page armed in vain.
const VISIT_POINTS: u32 = 4;
const QUIET_POINTS: u32 = 1;
/// With so many points a site is passed over half of the time.
const FAVOUR: usize = 80;
/// Points are halved so often (ms).
const HALVING_MS: u32 = 4_000;

/// Longest wait for the thread to leave.
const LEAVING_NS: u64 = 200_000_000;

/// What the thread is: none, at work, or asked to leave at once.
static STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const AT_WORK: u32 = 1;
const LEAVING: u32 = 2;

/// Sleeps in the sampler's thread, until it is asked to leave.
fn sleep(ns: u64) {
    sys::wait_on(&STATE, AT_WORK, ns);
}

/// Has the thread leave, and waits for that in the calling one, but not for long: what it does from here on the system may not allow.
pub fn wait_for_its_end() {
    if STATE.compare_exchange(AT_WORK, LEAVING, AcqRel, Relaxed).is_err() {
        return;
    }
    sys::wake(&STATE);
    guard::call_sampler();
    let began = sys::now_in_handler();
    while STATE.load(Acquire) != NONE && sys::now_in_handler() - began < LEAVING_NS {
        sys::wait_on(&STATE, LEAVING, 100_000);
    }
}

/// In a forked child there is none.
pub fn forget_parent() {
    STATE.store(NONE, Release);
}

/// Starts the thread, with all signals blocked for ever.
pub fn start() {
    let at = sys::map_lazily(STACK);
    if at == 0 {
        return;
    }
    STATE.store(AT_WORK, Release);
    // SAFETY: the stack is the fresh mapping's; what runs there keeps to the rules.
    if !unsafe { sys::helper(at + STACK, body) } {
        STATE.store(NONE, Release);
        process::say(b"the page-fault sampler could not start its thread (too many threads or processes?)");
    }
}

struct Sampler {
    ring: Ring,
    own: u32,
    random: u64,
    /// Pages to arm again, with their round.
    again: [Option<(usize, usize, usize, u32)>; armed::MAX],
    huge: Huge,
    /// Fractional pages that may still be armed.
    allowance: f64,
    /// Steps that may still be made; below zero while a burst is being paid off.
    steps: f64,
}

extern "C" fn body() {
    work();
    STATE.store(NONE, Release);
}

fn work() {
    // SAFETY: no arguments.
    let own = unsafe { sys::call3(libc::SYS_gettid, 0, 0, 0) } as u32;
    let name = c"hearth-sampler".as_ptr() as usize;
    // SAFETY: a NUL-terminated name.
    unsafe { sys::call3(libc::SYS_prctl, libc::PR_SET_NAME as usize, name, 0) };
    let Some(ring) = process::sampler_ring() else { return };
    if let Some(h) = process::info() {
        h.sampling.store(1, Relaxed);
    }
    let (random, again, huge) = (own.into(), [None; armed::MAX], Huge::new());
    let mut sampler = Sampler { ring, own, random, again, huge, allowance: 0.0, steps: 0.0 };
    let mut pause = TICK_NS;
    let mut account = Account::default();
    let mut peers_seen = 0;
    while !STOP.load(Acquire) {
        if account.overdrawn() {
            guard::pause(true);
            let mut before = sys::now_in_handler();
            while account.overdrawn() && !STOP.load(Acquire) {
                let more = sampler.mend();
                sleep(if more { TICK_NS } else { PAUSING_NS });
                // At once: many a program ends in a pause.
                let now = sys::now_in_handler();
                count(|c| &c.paused_ns, now - before);
                before = now;
            }
            guard::pause(false);
        }
        let seen = guard::called();
        if let Err(refusal) = guard::enter(own) {
            explain(refusal);
            sampler.mend();
            guard::sleep_until_called(seen, pause);
            pause = (pause * 2).min(LONGEST_PAUSE_NS);
            continue;
        }
        pause = TICK_NS;
        count(|c| &c.stood_back, 1);
        let mut last = sys::now_in_handler();
        // At once: a thread that makes many system calls is under guard for some milliseconds only.
        sampler.arm(TICK_NS);
        while guard::on() && !STOP.load(Acquire) && !account.overdrawn() {
            sleep(TICK_NS);
            peers::each_new(&mut peers_seen, armed::open_range_in_sampler);
            let now = sys::now_in_handler();
            sampler.collect(now);
            sampler.mend();
            sampler.arm(now - last);
            count(|c| &c.guarded_ns, now - last);
            last = now;
        }
        guard::leave();
        sampler.collect(last);
        sampler.again = [None; armed::MAX];
        sampler.mend();
        sleep(TICK_NS);
    }
}

fn explain(refusal: guard::Refusal) {
    // Only what will not pass by itself is worth a sentence.
    match refusal {
        guard::Refusal::Foreign => process::say(
            b"the page-fault sampler stood back: the program uses io_uring, or set a SIGSEGV, SIGTRAP or SIGSYS handler behind the C library's back",
        ),
        guard::Refusal::Unregistered => process::say(
            b"the page-fault sampler stood back for some of the time: the program has threads that were not made by pthread_create",
        ),
        _ => {}
    }
}

fn count(counter: impl Fn(&wire::process::Counters) -> &core::sync::atomic::AtomicU64, by: u64) {
    if let Some(h) = process::info() {
        counter(&h.counters).fetch_add(by, Relaxed);
    }
}

impl Sampler {
    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(wire::identity::mix(self.random)) * below as u128) >> 64) as usize
    }

    /// Puts huge pages together again in which nothing is armed, some of them; whether there may be more.
    fn mend(&mut self) -> bool {
        let again = &self.again;
        self.huge.mend(|start, len| again.iter().flatten().any(|(page, ..)| page.wrapping_sub(start) < len))
    }

    /// Collects what is done, publishes it, and notes visited pages for another round.
    fn collect(&mut self, now: u64) {
        let expired = now.saturating_sub(PATIENCE_NS);
        let stale = now.saturating_sub(BURST_PAUSE_NS);
        let mut done = [armed::FREE; armed::MAX];
        let count = armed::collect(expired, stale, &mut done);
        for entry in done.iter().take(count) {
            self.publish(entry);
            self.steps -= f64::from(entry.accesses);
            let visited = entry.state == State::Visited;
            if visited {
                self.allowance -= 1.0 - QUIET_COST;
            }
            self.favour(entry.site, if visited { VISIT_POINTS } else { QUIET_POINTS });
            if visited && entry.round + 1 < REARMS {
                if let Some(free) = self.again.iter_mut().find(|a| a.is_none()) {
                    *free = Some((entry.page, entry.object, entry.site, entry.round + 1));
                }
            }
        }
    }

    fn publish(&self, entry: &Entry) {
        let Some(site) = sites::at(entry.site).map(|s| s.id.load(Relaxed)) else { return };
        let wait_ns = entry.until.saturating_sub(entry.since);
        let event = if entry.state == State::Quiet {
            Event::Quiet { page: entry.page as u64, object: entry.object as u64, site, wait_ns }
        } else {
            count(|c| &c.visits, 1);
            count(|c| &c.steps, entry.accesses.into());
            Event::Visit {
                addr: entry.addr as u64,
                ip: entry.ip as u64,
                object: entry.object as u64,
                site,
                wait_ns,
                store: entry.store,
                burst: burst(entry),
            }
        };
        process::push(self.ring, false, self.own, process::since_epoch(entry.until), event);
    }

    /// Arms as many pages as the time gone by allows: first those to be armed again, then new ones.
    fn arm(&mut self, ns: u64) {
        let steps = STEPS_PER_SECOND.load(Relaxed) as f64;
        self.steps = (self.steps + steps * ns as f64 / 1e9).min(steps);
        let rate = FAULTS_PER_SECOND.load(Relaxed) as f64;
        self.allowance = (self.allowance + rate * ns as f64 / 1e9).min(rate / 20.0 + 1.0);
        let total = (0..sites::count()).map(live).sum();
        for index in 0..armed::MAX {
            if self.allowance < 1.0 {
                return;
            }
            if let Some((page, object, site, round)) = self.again.get_mut(index).and_then(Option::take) {
                self.arm_one(page, object, site, round, total);
            }
        }
        let mut tries = 64;
        while self.allowance >= 1.0 && tries > 0 {
            tries -= 1;
            let Some((object, found)) = self.pick(total) else { continue };
            // Cost follows visits. So that hot sites do not take it all, each site is chosen the more rarely the more is
            // known of it already. That does not bias the estimate, which is made for each site alone.
            let points = self.points(found.site) as usize;
            if self.random(points + FAVOUR) >= FAVOUR {
                continue;
            }
            let pages = found.bytes.div_ceil(PAGE);
            let n = self.random(pages);
            // Beside a mapping the program may have address space without rights, which the kernel would join with an armed page for
            // good; a core dump then looks at each of its pages.
            if range::contains(object) || (1..pages - 1).contains(&n) {
                self.arm_one(object + n * PAGE, object, found.site, 0, total);
            }
        }
    }

    /// `total`: bytes alive.
    fn arm_one(&mut self, page: usize, object: usize, site: usize, round: u32, total: usize) {
        let Some(known) = sites::at(site) else { return };
        // A step costs two signals, far more than anything else here: steps have a budget of their own.
        let now_ms = (sys::now_in_handler() / 1_000_000) as u32;
        let since = now_ms.wrapping_sub(known.burst_at.load(Relaxed));
        let want_burst = self.steps > 0.0 && since >= BURST_EVERY_MS;
        let entry = armed::page(page, object, site, round, want_burst);
        let alive = || {
            guard::on()
                && armed::can_arm(page)
                && armable(object).is_some_and(|o| o.site == site && page - object < o.bytes)
                && !guard::in_use(page)
                && !peers::named(page)
        };
        let Some(splits) = self.huge.splits(page, round > 0, total) else { return };
        match armed::arm(entry, alive) {
            Arming::NotNow => {}
            Arming::Refused => count(|c| &c.arm_refused, 1),
            Arming::Done => {
                if want_burst {
                    known.burst_at.store(now_ms, Relaxed);
                }
                self.huge.armed(page, splits);
                self.allowance -= QUIET_COST;
                count(|c| &c.armed, 1);
            }
        }
    }

    /// What was seen of a site lately, in points.
    fn points(&self, site: usize) -> u32 {
        let now = (sys::now_in_handler() / 1_000_000) as u32;
        sites::at(site).map_or(0, |s| {
            let halvings = now.wrapping_sub(s.points_at.load(Relaxed)) / HALVING_MS;
            s.points.load(Relaxed).checked_shr(halvings).unwrap_or(0)
        })
    }

    /// Something was seen of a site.
    fn favour(&self, site: usize, points: u32) {
        let before = self.points(site);
        let now = (sys::now_in_handler() / 1_000_000) as u32;
        if let Some(s) = sites::at(site) {
            if now.wrapping_sub(s.points_at.load(Relaxed)) >= HALVING_MS {
                s.points_at.store(now, Relaxed);
            }
            s.points.store(before + points, Relaxed);
        }
    }

    /// A live object: of a site chosen evenly among all, or half of the time in proportion to its live bytes, so that
    /// neither the small hot ones nor the large ones are forgotten. The choice does not bias the estimate, which is of
    /// visits for each page and second of watching. `total`: bytes alive.
    fn pick(&mut self, total: usize) -> Option<(usize, objects::Object)> {
        let sites_known = sites::count();
        let first = self.random(sites_known.max(1));
        let by_size = self.random(2) == 0;
        let mut target = if by_size { self.random(total.max(1)) } else { 0 };
        for i in 0..sites_known {
            let n = if by_size { i } else { (first + i) % sites_known };
            let bytes = live(n);
            if bytes == 0 || by_size && target >= bytes {
                target = target.saturating_sub(bytes);
                continue;
            }
            let site = sites::at(n)?;
            return self.pick_of(site);
        }
        None
    }

    /// One of a site's objects, by their pages: every page of the site is to have the same chance.
    fn pick_of(&mut self, site: &sites::Site) -> Option<(usize, objects::Object)> {
        let object = |slot: &core::sync::atomic::AtomicUsize| {
            let addr = slot.load(Acquire);
            armable(addr).map(|o| (addr, o))
        };
        let pages = |o: &objects::Object| o.bytes.div_ceil(PAGE);
        let all: usize = site.objects.iter().filter_map(object).map(|(_, o)| pages(&o)).sum();
        let mut target = self.random(all.max(1));
        for (addr, found) in site.objects.iter().filter_map(object) {
            if target < pages(&found) {
                return Some((addr, found));
            }
            target -= pages(&found);
        }
        None
    }
}

/// The object that starts at this address, if it may be armed.
fn armable(addr: usize) -> Option<objects::Object> {
    if range::contains(addr) {
        return objects::get(addr).filter(|_| objects::may_arm(addr));
    }
    mapping::armable_at(addr).map(|m| objects::Object::of(m.site, m.bytes()))
}

fn live(n: usize) -> usize {
    // Counted with relaxed additions and subtractions: may be off, and for a moment below zero.
    sites::at(n).map_or(0, |s| s.live.load(Relaxed)).min(1 << 48)
}

fn burst(entry: &Entry) -> Option<Burst> {
    if entry.accesses == 0 {
        return None;
    }
    let steps = entry.accesses.saturating_sub(1).max(1) as i64;
    let span = entry.last as i64 - entry.addr as i64;
    Some(Burst {
        accesses: entry.accesses as u16,
        stores: entry.stores as u16,
        lines: entry.lines.count_ones() as u16,
        monotonic: !(entry.up && entry.down) && span != 0,
        limited: entry.accesses >= armed::BURST_ACCESSES,
        stride: (span / steps) as i32,
        ns: entry.last_time.saturating_sub(entry.until),
    })
}
