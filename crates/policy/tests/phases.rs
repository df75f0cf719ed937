//! Plans that move: on small runs, against every schedule there is.

use crate::common::*;
use hearth_policy::cost;
use hearth_policy::policies::exact;
use hearth_policy::schedule::{self, Place, Step};
use hearth_policy::{Capacity, Error, MayUse, Options, Task, forecast, policies};
use model::observed::Region;
use model::*;
use std::time::Duration;

const SIZE: u64 = 1 << 20;

/// A second in which sites of 1 MiB are missed so often by turns, of loads that come one by one; a parallel region of `main._omp_fn.0`
/// begins with each row, 3 ms late.
fn by_turns(rows: &[&[f64]]) -> Observed {
    let total = |n: usize| rows.iter().map(|r| r[n]).sum::<f64>();
    let one = |n: usize| SiteUse { pattern: Pattern::Random, ..site(n as u64 + 1, SIZE, total(n), 0.0) };
    let mut seen = over_time(observed((0..rows[0].len()).map(one).collect()), rows);
    let frame = seen.sites[0].site.frames[0].clone();
    let begins = |(n, p): (usize, &observed::TimePoint)| Region {
        id: SiteId(77),
        number: n as u64 + 1,
        at: Nanos(p.at.0 + 3_000_000),
        frames: vec![frame.clone()],
    };
    seen.regions = seen.timeline.iter().enumerate().map(begins).collect();
    seen
}

fn two() -> Platform {
    platform(vec![timed("dram", 0, 1 << 40, 100, 100.0, 100.0), timed("cxl", 1, 1 << 40, 400, 50.0, 50.0)])
}

fn room(sites: u64) -> Options {
    Options { fast: Some(Capacity::Size(Bytes(sites * SIZE))), ..Options::default() }
}

/// Least predicted time of all schedules of whole sites that fit in every segment.
fn least(task: &Task<'_>, sites: usize, fit: usize) -> f64 {
    let segments = task.segments().len();
    let mut best = f64::INFINITY;
    for code in 0..1usize << (sites * segments) {
        let at = |segment: usize| -> Vec<usize> { (0..sites).map(|s| code >> (segment * sites + s) & 1).collect() };
        let all: Vec<Vec<usize>> = (0..segments).map(at).collect();
        let places: Vec<Vec<Place>> = all.iter().map(|at| at.iter().map(|&k| Place::whole(k)).collect()).collect();
        if all.iter().any(|at| at.iter().filter(|&&k| k == 0).count() > fit) {
            continue;
        }
        let first = hearth_policy::cost::landing::shares(task, &all[0]);
        best = best.min(schedule::predict(task, &first, &schedule::steps(task.segments(), &places)).0.time);
    }
    best
}

#[test]
fn what_each_phase_wants_is_moved_if_that_pays() {
    // 200,000 misses save 60 ms less what they overlap; moving 1 MiB there and another back takes less than 1 ms.
    let seen = by_turns(&[&[2e5, 0.0], &[0.0, 2e5], &[2e5, 0.0], &[0.0, 2e5]]);
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert_eq!(task.segments().len(), 4);
    let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
    let moves: Vec<_> = solved.decision.steps.iter().map(|s| (s.segment, s.moves.clone())).collect();
    // What leaves the fast memory comes first.
    let swap = |out, into| vec![(out, Place::whole(1)), (into, Place::whole(0))];
    assert_eq!(moves, [(1, swap(0, 1)), (2, swap(1, 0)), (3, swap(0, 1))]);
    assert!((solved.time / least(&task, 2, 1) - 1.0).abs() < 1e-9, "{} {}", solved.time, least(&task, 2, 1));
    assert!(solved.bound <= solved.time && solved.bound > 0.5 * solved.time, "{} {}", solved.bound, solved.time);
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    let told: Vec<_> = plan.phases.iter().map(|p| (p.begins, p.number, p.moves.len())).collect();
    assert_eq!(told, [(SiteId(77), 2, 2), (SiteId(77), 3, 2), (SiteId(77), 4, 2)]);
    assert_eq!(tier_of(&plan, 1), "dram");
}

/// Of two sites that fast memory has by turns neither has room there all the time.
#[test]
fn what_is_moved_has_no_room_to_stay() {
    let seen = by_turns(&[&[2e5, 0.0], &[0.0, 2e5], &[2e5, 0.0], &[0.0, 2e5]]);
    let (machine, options) = (two(), room(1));
    let exact = policies::find("exact").unwrap();
    for site in [1, 2] {
        let told = forecast::explain(&seen, &machine, &options, exact, SiteId(site)).unwrap();
        assert!(!told.moves.is_empty());
        assert_eq!([0, 1].map(|k| told.elsewhere[k].lacks), [Bytes(SIZE), Bytes(0)], "{told:?}");
    }
}

/// Room for three quarters of what is used at a time: each time so much of it is moved, by its first 64ths.
#[test]
fn what_does_not_fit_is_moved_in_part() {
    let seen = by_turns(&[&[2e5, 0.0], &[0.0, 2e5], &[2e5, 0.0], &[0.0, 2e5]]);
    let (machine, options) = (two(), Options { fast: Some(Capacity::Size(Bytes(SIZE / 4 * 3))), ..Options::default() });
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    assert_eq!((tier_of(&plan, 1), tier_of(&plan, 2)), ("cxl", "cxl"), "split sites are not moved");
    let into: Vec<_> = plan.phases.iter().map(|p| p.moves.last().unwrap().clone()).collect();
    assert!(into.len() >= 2, "{:?}", plan.phases);
    for moved in into {
        assert_eq!(moved.tier, "dram");
        assert_eq!(moved.split.map(|s| (s.parts.count(), s.rest)), Some((48, "cxl".to_string())));
    }
}

#[test]
fn exact_finds_the_best_schedule() {
    // The same numbers in every run of this test; some of these runs are worth moving and some are not.
    let mut dice = 7u64;
    let mut next = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let mut moved = 0;
    for round in 0..12 {
        let scale = [2e2, 2e3, 2e5][round % 3];
        let rows: Vec<Vec<f64>> = (0..4).map(|_| (0..3).map(|_| next(4) as f64 * scale).collect()).collect();
        let seen = by_turns(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (machine, options) = (two(), room(1 + round as u64 % 2));
        let task = Task::new(&seen, &machine, &options).unwrap();
        let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
        let best = least(&task, 3, 1 + round % 2);
        // Parts can be better than any schedule of whole sites; schedules that gain less than 2 % are left alone.
        assert!(solved.time <= best / 0.98 + 1e-6, "{rows:?}: {} {best}", solved.time);
        let all = hearth_policy::forecast::compare(&seen, &machine, &options).unwrap().plans;
        let time = |policy: &str| all.iter().find(|p| p.policy == policy).unwrap().time;
        let exact = time("exact");
        assert_eq!(time("unimem"), time("phase-local").min(time("phase-global")), "{rows:?}");
        assert!(all.iter().all(|p| p.time >= exact), "{rows:?}: {all:?}");
        moved += usize::from(!solved.decision.steps.is_empty());
    }
    assert!((2..12).contains(&moved), "{moved} of 12 move");
}

#[test]
fn nothing_moves_where_it_does_not_pay_or_nothing_is_known_of_phases() {
    let (machine, options) = (two(), room(1));
    let rare = by_turns(&[&[2e2, 0.0], &[0.0, 2e2], &[2e2, 0.0], &[0.0, 2e2]]);
    let steps = |seen: &Observed| -> Vec<Step> {
        let task = Task::new(seen, &machine, &options).unwrap();
        exact::solve(&task, Duration::from_secs(10)).unwrap().decision.steps
    };
    assert_eq!(steps(&rare), []);
    let mut unknown = by_turns(&[&[2e5, 0.0], &[0.0, 2e5]]);
    unknown.regions.clear();
    assert_eq!(steps(&unknown), []);
    let mut mapped = by_turns(&[&[2e5, 0.0], &[0.0, 2e5]]);
    mapped.sites.iter_mut().for_each(|s| s.site.kind = SiteKind::Mapping);
    assert_eq!(steps(&mapped), [], "mappings cannot be moved");
}

/// What a segment begins with (which number, and how often), and its intervals.
type Cut = (Option<(u64, Option<u64>)>, Vec<usize>);

fn cuts(task: &Task<'_>) -> Vec<Cut> {
    task.segments().iter().map(|s| (s.begins.map(|b| (b.event.number, b.every)), s.intervals.clone())).collect()
}

/// Two phases by turns, after something else and before the end: the iterations are one, so that a plan is for any number of them.
#[test]
fn the_iterations_of_a_loop_are_one() {
    let (a, b, start): (&[f64], &[f64], &[f64]) = (&[2e5, 0.0, 0.0], &[0.0, 2e5, 0.0], &[0.0, 0.0, 1e5]);
    let mut rows = vec![start, start];
    (0..7).for_each(|_| rows.extend([a, a, b]));
    rows.extend([start]);
    let mut seen = by_turns(&rows);
    // What begins with an event of the loop's own belongs to it: a longer run would come by it in the middle.
    {
        let (machine, options) = (two(), room(1));
        let task = Task::new(&seen, &machine, &options).unwrap();
        assert_eq!((task.segments().len(), task.segments()[2].intervals.last()), (3, Some(&23)));
    }
    let end = seen.regions.last_mut().unwrap();
    (end.id, end.number) = (SiteId(78), 1);
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    let every = |from: usize, of: &[usize]| -> Vec<usize> {
        (0..7).flat_map(|n| of.iter().map(move |i| from + 3 * n + i)).collect()
    };
    let expected = [
        (None, vec![0, 1]),
        (Some((3, Some(3))), every(2, &[0, 1])),
        (Some((5, Some(3))), every(2, &[2])),
        (Some((1, None)), vec![23]),
    ];
    assert_eq!(cuts(&task), expected);
    let repeat = task.segments().repeat.clone().unwrap();
    assert_eq!((repeat.body, repeat.began), (1..3, 14));
    // Into the loop, to its second phase 7 times, back 6 times, and out of it.
    let passages: Vec<_> = task.segments().passages().collect();
    assert_eq!(passages, [(0, 1, 1.0), (1, 2, 7.0), (2, 3, 1.0), (2, 1, 6.0)]);
    let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
    assert!((solved.time / least(&task, 3, 1) - 1.0).abs() < 1e-9, "{} {}", solved.time, least(&task, 3, 1));
    assert!(solved.bound <= solved.time, "{} {}", solved.bound, solved.time);
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    let told = |p: &PlannedPhase| (p.begins, p.number, p.every.map(|e| e.get()), !p.frames.is_empty());
    assert_eq!(
        plan.phases.iter().map(told).collect::<Vec<_>>()[..2],
        [(SiteId(77), 3, Some(3), true), (SiteId(77), 5, Some(3), true)]
    );
    let site = |n: usize| plan.phases[n].moves.iter().map(|m| (m.site.0, m.tier.as_str())).collect::<Vec<_>>();
    // The first phase is reached from before the loop and from its end, and undoes either.
    assert_eq!(site(0), [(2, "cxl"), (3, "cxl"), (1, "dram")]);
    // And so does any other of its phases: a run of another length may come to it from anywhere.
    assert_eq!(site(1), [(1, "cxl"), (3, "cxl"), (2, "dram")]);
    assert_eq!(
        plan.moves_of(SiteId(1)),
        [
            "dram as of beginning 3 of f1, and of each 3rd after it".to_string(),
            "cxl as of beginning 5 of f1, and of each 3rd after it".to_string(),
            "cxl as of beginning 1 of f1".to_string()
        ]
    );
}

/// What moves in a folded run is what would move in the run as it was: the same time, and the same bytes.
#[test]
fn a_loop_is_predicted_as_the_run_that_it_was() {
    let (a, b): (&[f64], &[f64]) = (&[2e5, 1e3], &[1e3, 2e5]);
    let seen = by_turns(&[a, b, a, b, a, b, a, b]);
    let mut unfolded = seen.clone();
    // Functions of their own: nothing comes back.
    unfolded.regions.iter_mut().enumerate().for_each(|(n, r)| (r.id, r.number) = (SiteId(100 + n as u64), 1));
    let (machine, options) = (two(), room(1));
    let [folded, flat] = [&seen, &unfolded].map(|seen| {
        let task = Task::new(seen, &machine, &options).unwrap();
        let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
        let (prediction, moved) = solved.decision.predict(&task);
        (task.segments().len(), prediction.time, moved)
    });
    assert_eq!((folded.0, flat.0), (3, 8));
    assert!((folded.1 / flat.1 - 1.0).abs() < 1e-9, "{folded:?} {flat:?}");
    assert_eq!(folded.2, flat.2);
    assert_eq!(folded.2, Bytes(7 * 2 * SIZE));
}

/// Without regions, and with a site that allocates in each iteration: its allocations are what phases begin with.
#[test]
fn phases_begin_with_allocations_too() {
    let (a, b): (&[f64], &[f64]) = (&[2e5, 0.0], &[0.0, 2e5]);
    let mut seen = by_turns(&[a, b, a, b, a, b, a, b]);
    seen.regions.clear();
    let starts: Vec<Nanos> = seen.timeline.iter().map(|p| Nanos(p.at.0 + 1_000_000)).collect();
    let buffer = SiteUse { objects: 8, starts, ..site(3, 8192, 0.0, 0.0) };
    seen.sites.push(buffer);
    let (machine, options) = (two(), room(1));
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    let told = |p: &PlannedPhase| (p.begins, p.number, p.every.map(|e| e.get()), p.frames.len());
    let expected = [(SiteId(3), 1, Some(2), 0), (SiteId(3), 2, Some(2), 0)];
    assert_eq!(plan.phases.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(plan.moves_of(SiteId(1))[0], "dram as of allocation 1 of f3 (app.c:3), and of each 2nd after it");
    let text = hearth_policy::plan_file::to_toml(&plan);
    assert_eq!(hearth_policy::plan_file::from_toml(&text).unwrap(), plan);
    // Each process counts its own, and the profile does not say whose each is.
    seen.processes = 2;
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    assert_eq!(plan.phases, []);
}

/// Behaviour by chance is no loop, whatever its regions.
#[test]
fn what_does_not_come_back_is_no_loop() {
    let mut dice = 3u64;
    let mut next = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    for _ in 0..20 {
        let row = |hot: u64| -> Vec<f64> { (0..5).map(|s| if s == hot { 2e5 } else { 0.0 }).collect() };
        let rows: Vec<Vec<f64>> = (0..20).map(|_| row(next(5))).collect();
        let seen = by_turns(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let (machine, options) = (two(), room(1));
        let task = Task::new(&seen, &machine, &options).unwrap();
        assert_eq!(task.segments().repeat, None, "{rows:?}");
    }
}

#[test]
fn segments_are_as_many_as_the_run_has_phases() {
    let (a, b): (&[f64], &[f64]) = (&[1e5, 1e3], &[2e3, 1e5]);
    let seen = by_turns(&[a, a, a, b, b, a, a, a]);
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert_eq!(cuts(&task), [(None, vec![0, 1, 2]), (Some((4, None)), vec![3, 4]), (Some((6, None)), vec![5, 6, 7])]);
}

/// The policies that go from phase to phase refuse; `exact` plans with so many steps, and says this; the others have no phases.
fn assert_refused(task: &Task<'_>, regions: usize, intervals: usize, said: &str, steps: usize) {
    for policy in policies::ALL {
        let name = policy.name();
        if ["phase-local", "unimem"].contains(&name) {
            assert_eq!(policy.decision(task).unwrap_err(), Error::MorePhases { regions, intervals }, "{name}");
            continue;
        }
        let (decision, exact) = (policy.decision(task).unwrap(), name == "exact");
        assert_eq!(decision.steps.len(), if exact { steps } else { 0 }, "{name}");
        assert_eq!(decision.notes.iter().any(|n| n == said), exact, "{name}: {:?}", decision.notes);
    }
}

/// A thousand regions in two intervals: one cut at most, at the region nearest to the edge, and the plan says how few phases it knows.
#[test]
fn more_phases_than_data_are_as_many_as_the_data_tell_apart() {
    let mut seen = by_turns(&[&[2e5, 0.0], &[0.0, 2e5]]);
    let first = seen.regions[0].clone();
    let half = seen.duration.0 / 2;
    seen.regions =
        (0..1000).map(|n| Region { number: n + 1, at: Nanos(n * seen.duration.0 / 1000), ..first.clone() }).collect();
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert_eq!(cuts(&task), [(None, vec![0]), (Some((501, None)), vec![1])]);
    assert_eq!(task.segments()[1].at, half);
    let said = "The profile has 1000 beginnings of parallel regions and a timeline of 2, so at most 2 phases are told apart; a longer recording tells more.";
    assert_refused(&task, 1000, 2, said, 1);
    let side_by_side = forecast::compare(&seen, &machine, &options).unwrap();
    assert_eq!(side_by_side.plans.len(), policies::ALL.len() - 2);
    let left =
        "without phase-local and unimem: the profile has 1000 beginnings of parallel regions and a timeline of 2,";
    assert!(side_by_side.notes.iter().any(|n| n.starts_with(left)), "{:?}", side_by_side.notes);
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    assert_eq!(plan.phases.iter().map(|p| p.number).collect::<Vec<_>>(), [501]);
}

/// Regions, and no timeline: the run is one phase, with each site's misses over its life.
#[test]
fn without_a_timeline_the_run_is_one_phase() {
    let mut seen = by_turns(&[&[2e5, 0.0], &[0.0, 3e5]]);
    seen.timeline.clear();
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert_eq!(task.segments().len(), 1);
    let said = "The profile has 2 beginnings of parallel regions and a timeline of 1, so the run is one phase; a longer recording tells more.";
    assert_refused(&task, 2, 1, said, 0);
    let plan = policies::find("exact").unwrap().decide(&seen, &machine, &options).unwrap();
    assert_eq!((tier_of(&plan, 1), tier_of(&plan, 2)), ("cxl", "dram"));
}

/// Unimem's local search and the better of both, by what they promise; the forecast has what moves.
#[test]
fn unimem_moves_too() {
    let seen = by_turns(&[&[2e5, 0.0], &[0.0, 2e5], &[2e5, 0.0], &[0.0, 2e5]]);
    let (machine, options) = (two(), room(1));
    for policy in ["phase-local", "unimem"] {
        let plan = policies::find(policy).unwrap().decide(&seen, &machine, &options).unwrap();
        assert_eq!(plan.phases.len(), 3, "{policy}");
    }
    let all = hearth_policy::forecast::compare(&seen, &machine, &options).unwrap();
    let of = |name: &str| all.plans.iter().find(|p| p.policy == name).unwrap();
    assert_eq!(of("exact").migrated, Bytes(6 * SIZE));
    assert_eq!(of("phase-global").migrated, Bytes(0));
    assert!(of("exact").time < of("phase-global").time && of("exact").time <= of("unimem").time);
    assert!(all.plans.iter().all(|p| p.time >= of("exact").time), "{:?}", all.plans);
    assert_eq!(of("density").migrated, Bytes(0));
}

/// Four arrays in turn, each phase with five regions of three functions, none of them at the edge of an interval: the loop is told by one
/// function that begins once a phase, whichever of the regions the edges are nearest to.
#[test]
fn a_phase_of_several_regions_is_one_of_a_loop() {
    let row = |phase: usize| (0..4).map(|site| if site == phase % 4 { 2e5 } else { 4e3 }).collect::<Vec<f64>>();
    // The arrays are made before the loop, by a region of the function that also reads them.
    let mut rows = vec![vec![1e5; 4]; 2];
    (0..14).for_each(|phase| rows.extend([row(phase), row(phase)]));
    let mut seen = by_turns(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let interval = seen.timeline[1].at.0;
    let frame = seen.sites[0].site.frames[0].clone();
    let mut numbers = [0; 3];
    let mut begins = |kind: u64, at: u64| {
        numbers[kind as usize] += 1;
        Region { id: SiteId(77 + kind), number: numbers[kind as usize], at: Nanos(at), frames: vec![frame.clone()] }
    };
    let mut regions = vec![begins(0, interval / 2)];
    for phase in 0..14 {
        // Each time a little later or earlier.
        let from = (2 + 2 * phase) * interval + [0, 30, 10, 20, 5][phase as usize % 5] * interval / 100;
        let at = |percent: u64| from + percent * interval / 100;
        let of = [(0, at(2)), (1, at(90)), (2, at(105)), (2, at(130)), (2, at(160))];
        regions.extend(of.map(|(kind, at)| begins(kind, at)));
    }
    seen.regions = regions;
    let (machine, options) = (two(), room(1));
    let task = Task::new(&seen, &machine, &options).unwrap();
    let phase = |of: usize| (0..14).filter(|p| p % 4 == of).flat_map(|p| [2 + 2 * p, 3 + 2 * p]).collect::<Vec<_>>();
    let each = |of: u64| (Some((2 + of, Some(4))), phase(of as usize));
    assert_eq!(cuts(&task), [(None, vec![0, 1]), each(0), each(1), each(2), each(3)]);
    assert_eq!(task.segments()[1].begins.unwrap().event.kind, cost::segments::Kind::Region(SiteId(77)));
    assert_eq!(task.segments().repeat.as_ref().unwrap().began, 14);
}

/// Of each phase of a plan what moves where, and whether the phase uses it.
fn moves_of(plan: &Plan) -> Vec<Vec<(u64, &str, bool)>> {
    plan.phases.iter().map(|p| p.moves.iter().map(|m| (m.site.0, m.tier.as_str(), !m.idle)).collect()).collect()
}

/// Three phases by turns and room for two sites, of which one stays: while that is used, the next one comes.
#[test]
fn what_the_next_phase_uses_comes_while_this_one_runs() {
    let row = |hot: usize| -> Vec<f64> { (0..3).map(|s| if s == hot { 2e5 } else { 0.0 }).collect() };
    let rows: Vec<Vec<f64>> = (0..13).map(|n| if n == 0 { vec![0.0; 3] } else { row((n - 1) % 3) }).collect();
    let seen = by_turns(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let (machine, options) = (two(), room(2));
    let local = policies::find("phase-local").unwrap();
    let plan = local.decide(&seen, &machine, &options).unwrap();
    // The loop begins with the first of a kind, whose row has nothing yet: so the third site is used in its first phase.
    let stays = &plan.sites.iter().find(|s| s.id == SiteId(3)).unwrap().why;
    assert_eq!(stays, "worth the room in dram all along");
    let expected = [
        vec![(2, "cxl", false), (1, "dram", false)],
        vec![(2, "cxl", false), (1, "dram", true)],
        vec![(1, "cxl", false), (2, "dram", true)],
    ];
    assert_eq!(moves_of(&plan), expected);
    // On one processor it comes when it is used, as it was decided.
    let mut alone = seen.clone();
    let cores = Figure::new(1, Origin::Kernel);
    alone.platform = Some(Platform { cores: Some(cores), ..two() });
    let late = local.decide(&alone, &machine, &options).unwrap();
    assert_eq!(moves_of(&late)[0], [(1, "cxl", false), (2, "dram", false)]);
    assert_eq!(moves_of(&late)[1..], expected[1..]);
    // With room for one site nothing can come before the one that is used has gone.
    let one = local.decide(&seen, &machine, &room(1)).unwrap();
    assert!(moves_of(&one).iter().flatten().all(|(_, tier, used)| *used == (*tier == "dram")), "{one:?}");
}

/// Without a loop: what is used in the first phase leaves when that has ended, what is used in the last comes then, and the last phase says that it uses it.
#[test]
fn moves_start_when_what_they_move_is_not_used_any_more() {
    // What the second phase uses is too large for the fast memory.
    let three = |rows: &[&[f64]]| {
        let mut seen = by_turns(rows);
        (seen.sites[1].peak, seen.sites[1].largest) = (Bytes(2 * SIZE), Bytes(2 * SIZE));
        seen
    };
    let seen = three(&[&[2e5, 0.0, 0.0], &[0.0, 1e5, 0.0], &[0.0, 0.0, 2e5]]);
    let (machine, options) = (two(), room(1));
    let local = policies::find("phase-local").unwrap();
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert_eq!(task.segments().len(), 3);
    let decided = local.decision(&task).unwrap().steps;
    assert_eq!(decided.iter().map(|s| s.segment).collect::<Vec<_>>(), [2], "when it is used: {decided:?}");
    let plan = local.decide(&seen, &machine, &options).unwrap();
    assert_eq!(moves_of(&plan), [vec![(1, "cxl", false), (3, "dram", false)], vec![(3, "dram", true)]]);
    // If the phase in between used a little of what is there, it stays.
    let seen = three(&[&[2e5, 0.0, 0.0], &[2e4, 1e5, 0.0], &[0.0, 0.0, 2e5]]);
    let plan = local.decide(&seen, &machine, &options).unwrap();
    assert_eq!(moves_of(&plan), [vec![(1, "cxl", false), (3, "dram", true)]]);
}

/// What the program says that a phase uses stays as long as that is under way, whatever was seen of it.
#[test]
fn a_phase_uses_what_the_program_says() {
    let mut seen = by_turns(&[&[2e5, 0.0, 0.0], &[0.0, 1e5, 0.0], &[0.0, 0.0, 2e5]]);
    (seen.sites[1].peak, seen.sites[1].largest) = (Bytes(2 * SIZE), Bytes(2 * SIZE));
    for (n, region) in seen.regions.iter_mut().enumerate() {
        (region.id, region.number) = (SiteId(100 + n as u64), 1);
        let module = Module { path: format!("name:phase {n}"), build_id: String::new() };
        region.frames = vec![Frame { module: Some(module), offset: 0, source: vec![] }];
    }
    let (machine, options) = (two(), room(1));
    let local = policies::find("phase-local").unwrap();
    // Of its end the sampler sees nothing.
    seen.watched = Some((Nanos(0), Nanos(990_000_000)));
    let ahead = local.decide(&seen, &machine, &options).unwrap();
    assert_eq!(ahead.phases.len(), 2, "{ahead:?}");
    seen.declared = vec![(SiteId(101), SiteId(1)), (SiteId(999), SiteId(3)), (SiteId(101), SiteId(999))];
    let plan = local.decide(&seen, &machine, &options).unwrap();
    assert_eq!(moves_of(&plan), [vec![(1, "cxl", false), (3, "dram", true)]]);
    assert_eq!(plan.phases[0].begins, SiteId(102));
}

/// What a program's text rules out is not used, whatever an interval seems to show; where the text does not tell of a phase, it stays as learned.
#[test]
fn the_text_rules_out_what_an_interval_seems_to_show() {
    let mut seen = by_turns(&[&[2e5, 0.0, 0.0], &[2e4, 1e5, 0.0], &[0.0, 0.0, 2e5]]);
    (seen.sites[1].peak, seen.sites[1].largest) = (Bytes(2 * SIZE), Bytes(2 * SIZE));
    for (n, region) in seen.regions.iter_mut().enumerate() {
        (region.id, region.number) = (SiteId(100 + n as u64), 1);
        let module = Module { path: format!("name:phase {n}"), build_id: String::new() };
        region.frames = vec![Frame { module: Some(module), offset: 0, source: vec![] }];
    }
    let local = policies::find("phase-local").unwrap();
    let planned = |phases: &[(u64, &[u64])]| {
        let of = |&(phase, sites): &(u64, &[u64])| (SiteId(phase), sites.iter().map(|s| SiteId(*s)).collect());
        let may_use = MayUse { sites: (1..4).map(SiteId).collect(), phases: phases.iter().map(of).collect() };
        let plan = local.decide(&seen, &two(), &Options { may_use, ..room(1) }).unwrap();
        moves_of(&plan)
            .into_iter()
            .map(|m| m.into_iter().map(|(s, t, u)| (s, t.to_string(), u)).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let text = |moves: &[(u64, &str, bool)]| moves.iter().map(|(s, t, u)| (*s, t.to_string(), *u)).collect::<Vec<_>>();
    let late = vec![text(&[(1, "cxl", false), (3, "dram", true)])];
    assert_eq!(planned(&[]), late);
    let early = vec![text(&[(1, "cxl", false), (3, "dram", false)]), text(&[(3, "dram", true)])];
    assert_eq!(planned(&[(100, &[1]), (101, &[2]), (102, &[3])]), early);
    // It may use the first, too; or nobody knows.
    assert_eq!(planned(&[(100, &[1]), (101, &[1, 2]), (102, &[3])]), late);
    assert_eq!(planned(&[(100, &[1]), (102, &[3])]), late);
}
