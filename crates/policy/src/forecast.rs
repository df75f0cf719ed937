//! What is shown before anything is run: policies side by side, slowdown over capacity, and one site explained. All of it by the
//! cost model, with plans as they land.

use crate::{Capacity, Decision, Error, Options, Policy, Task, assemble, policies, schedule, tiers};
use model::forecast::{Curve, CurvePoint, Elsewhere, Explanation, Forecast, PlanForecast};
use model::label::labels;
use model::{Bytes, Nanos, Observed, Plan, Platform, SiteId};

/// Capacities of a curve: from 0 to 100 % in steps of 5.
const STEPS: u64 = 20;
/// From such a share of the misses on it is said where memory is taken to be that no plan places.
const MUCH: f64 = 0.05;
/// A knee is where the curve bends by more than this, of its height and width.
const BEND: f64 = 0.05;

fn nanos(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}

/// Every policy, in the order of the registry; those for which the profile has too many phases are left out, with a note.
///
/// # Errors
/// Those of [`Task::new`] and of the policies.
pub fn compare(observed: &Observed, platform: &Platform, options: &Options) -> Result<Forecast, Error> {
    let task = Task::new(observed, platform, options)?;
    task.sampled()?;
    let too_many = task.tells_phases().err();
    let able = |p: &&dyn Policy| too_many.is_none() || !p.needs_phases();
    let (plan, leave): (Vec<_>, Vec<_>) = policies::ALL.iter().copied().partition(able);
    let plans = plan.iter().map(|p| of_policy(&task, *p)).collect::<Result<_, _>>()?;
    let mut all = forecast(&task, plans);
    let left = leave.iter().map(|p| p.name()).collect::<Vec<_>>().join(" and ");
    all.notes.extend(too_many.map(|why| format!("without {left}: {why}")));
    Ok(all)
}

/// One policy.
///
/// # Errors
/// Those of [`Task::new`] and of the policy.
pub fn of(observed: &Observed, platform: &Platform, options: &Options, policy: &dyn Policy) -> Result<Forecast, Error> {
    let task = Task::new(observed, platform, options)?;
    task.sampled()?;
    let plan = of_policy(&task, policy)?;
    Ok(forecast(&task, vec![plan]))
}

/// A policy's plan, and the forecast of it.
///
/// # Errors
/// As [`of`].
pub fn planned(
    observed: &Observed,
    platform: &Platform,
    options: &Options,
    policy: &dyn Policy,
) -> Result<(Plan, Forecast), Error> {
    let task = Task::new(observed, platform, options)?;
    task.sampled()?;
    let decision = policy.decision(&task)?;
    let foreseen = forecast(&task, vec![of_decision(&task, policy, &decision)]);
    Ok((assemble(policy.name(), &task, decision), foreseen))
}

fn forecast(task: &Task<'_>, plans: Vec<PlanForecast>) -> Forecast {
    let model = task.model();
    Forecast {
        command: task.observed.command.clone(),
        platform: task.platform.clone(),
        tiers: task.tiers.iter().map(|t| t.tier.name.clone()).collect(),
        fast: task.tiers[0].budget.unwrap_or_default(),
        peak: task.observed.peak(),
        all_fast: nanos(model.all_in(0)),
        all_slow: nanos(model.all_in(task.slowest())),
        plans,
        notes: model.notes.clone(),
    }
}

fn of_policy(task: &Task<'_>, policy: &dyn Policy) -> Result<PlanForecast, Error> {
    Ok(of_decision(task, policy, &policy.decision(task)?))
}

fn of_decision(task: &Task<'_>, policy: &dyn Policy, decision: &Decision) -> PlanForecast {
    let (prediction, migrated) = decision.predict(task);
    let planned = match decision.is_split() {
        true => task.lives().peak_in(0, &decision.shares(task)),
        false => task.lives().peak(|s| decision.placements[s].tier == 0),
    };
    PlanForecast {
        policy: policy.name().to_string(),
        time: nanos(prediction.time),
        fast_bytes: Bytes(task.tiers[0].budget.map_or(planned, |b| planned.min(b.0))),
        served_fast: prediction.served_fast(),
        migrated,
        notes: decision.notes.clone(),
    }
}

/// Slowdown over the capacity of the fastest tier, decided anew at each by this policy. The platform's own capacity of that tier
/// does not count, since the question is how much is needed.
///
/// # Errors
/// As [`compare`]; a capacity in the options; a profile that does not say how much was alive.
pub fn curve(observed: &Observed, platform: &Platform, options: &Options, policy: &dyn Policy) -> Result<Curve, Error> {
    let mut platform = tiers::split(platform);
    let named = platform.tiers.first().is_some_and(|t| options.capacities.contains_key(&t.name));
    if options.fast.is_some() || named {
        return Err(Error::CurveOfCapacity);
    }
    if let Some(first) = platform.tiers.first_mut() {
        first.capacity = None;
    }
    let peak = observed.peak();
    let at = |fast: Bytes| Options { fast: Some(Capacity::Size(fast)), ..options.clone() };
    let whole = at(Bytes(peak.0.max(1)));
    let task = Task::new(observed, &platform, &whole)?;
    task.sampled()?;
    if peak.0 == 0 {
        return Err(Error::NoPeak);
    }
    let all_fast = task.model().all_in(0);
    let mut points = Vec::new();
    for step in 0..=STEPS {
        let fast = Bytes((u128::from(peak.0) * u128::from(step) / u128::from(STEPS)) as u64);
        let time = if fast.0 == 0 {
            task.model().all_in(task.slowest())
        } else {
            let options = at(fast);
            let task = Task::new(observed, &platform, &options)?;
            policy.decision(&task)?.predict(&task).0.time
        };
        let slowdown = if all_fast > 0.0 { time / all_fast } else { 1.0 };
        points.push(CurvePoint { fast, share: step as f64 / STEPS as f64, slowdown, knee: false });
    }
    mark_knees(&mut points);
    let mut notes = task.model().notes.clone();
    let rest = observed.rest.as_ref().map_or(0.0, |rest| rest.misses());
    let share = rest / (rest + observed.total_misses()).max(f64::MIN_POSITIVE);
    if share >= MUCH && task.home() == 0 {
        let name = &task.tiers[0].tier.name;
        notes.push(format!(
            "these capacities are of what a plan places; what it does not is taken to be in {name} beside them"
        ));
    }
    Ok(Curve {
        command: observed.command.clone(),
        platform: platform.name.clone(),
        policy: policy.name().to_string(),
        peak,
        all_fast: nanos(all_fast),
        points,
        notes,
    })
}

/// Marks the corners of the curve behind which it falls less than half as steeply: those of the line that is simplified such
/// that it is nowhere further off than [`BEND`] (Ramer 1972; Douglas and Peucker 1973).
fn mark_knees(points: &mut [CurvePoint]) {
    let (most, least) = points.iter().fold((f64::MIN, f64::MAX), |a, p| (a.0.max(p.slowdown), a.1.min(p.slowdown)));
    // A curve that hardly falls has no knee.
    if points.len() < 3 || most - least < 0.02 {
        return;
    }
    let y = |p: &CurvePoint| (p.slowdown - least) / (most - least);
    let mut corners = vec![0, points.len() - 1];
    let mut spans = vec![(0, points.len() - 1)];
    while let Some((a, b)) = spans.pop() {
        let line = |i: usize| {
            let t = (points[i].share - points[a].share) / (points[b].share - points[a].share);
            y(&points[a]) + t * (y(&points[b]) - y(&points[a]))
        };
        let off = |i: usize| (y(&points[i]) - line(i)).abs();
        let Some(furthest) = (a + 1..b).max_by(|&i, &j| off(i).total_cmp(&off(j))) else { continue };
        if off(furthest) > BEND {
            corners.push(furthest);
            spans.extend([(a, furthest), (furthest, b)]);
        }
    }
    corners.sort_unstable();
    let fall = |a: usize, b: usize| (y(&points[a]) - y(&points[b])) / (points[b].share - points[a].share);
    let knees: Vec<usize> = corners
        .windows(3)
        .filter(|c| fall(c[0], c[1]) > 0.0 && fall(c[1], c[2]) < fall(c[0], c[1]) / 2.0)
        .map(|c| c[1])
        .collect();
    for knee in knees {
        points[knee].knee = true;
    }
}

/// Why the policy puts a site where it does, and what it would cost elsewhere.
///
/// # Errors
/// Those of [`Task::new`] and of the policy.
///
/// # Panics
/// If the profile has no such site.
pub fn explain(
    observed: &Observed,
    platform: &Platform,
    options: &Options,
    policy: &dyn Policy,
    site: SiteId,
) -> Result<Explanation, Error> {
    let task = Task::new(observed, platform, options)?;
    task.sampled()?;
    let decision = policy.decision(&task)?;
    let at = decision.tiers();
    let i = observed.sites.iter().position(|s| s.site.id == site).expect("the caller found it");
    let planned = decision.shares(&task);
    let time = decision.predict(&task).0.time;
    let elsewhere = (0..task.tiers.len())
        .map(|k| {
            // As if there were room; else nothing would land there.
            let mut shares = planned.clone();
            shares.split(i, &(0..task.tiers.len()).map(|t| f64::from(u8::from(t == k))).collect::<Vec<_>>());
            let mut there = at.clone();
            there[i] = k;
            // There all the time: it is not moved, but all others are as planned.
            let stays = |mut step: schedule::Step| {
                step.moves.retain(|(site, _)| *site != i);
                step
            };
            let steps: Vec<_> = decision.steps.iter().cloned().map(stays).collect();
            let in_segments = || schedule::by_segment(&task, &shares, &steps);
            let needs = match steps.is_empty() && !decision.is_split() {
                true => task.lives().peak(|s| there[s] == k),
                false => in_segments().iter().map(|s| task.lives().peak_in(k, s)).max().unwrap_or(0),
            };
            let lacks = task.tiers[k].budget.map_or(0, |b| needs.saturating_sub(b.0));
            let here = k == at[i] && decision.placements[i].split.is_none();
            let moves = decision.steps.iter().any(|s| s.moves.iter().any(|(site, _)| *site == i));
            let time =
                if here && lacks == 0 && !moves { time } else { schedule::predict(&task, &shares, &steps).0.time };
            Elsewhere { tier: task.tiers[k].tier.name.clone(), time: nanos(time), lacks: Bytes(lacks) }
        })
        .collect();
    let seen = &observed.sites[i];
    let total = observed.total_misses();
    let moves = assemble(policy.name(), &task, decision.clone()).moves_of(site);
    Ok(Explanation {
        moves,
        id: site,
        label: labels(observed.sites.iter().map(|s| &s.site)).remove(&site).unwrap_or_default(),
        policy: policy.name().to_string(),
        tier: match decision.placements[i].split {
            Some((parts, rest)) => {
                format!("{parts} {}, rest {}", task.tiers[at[i]].tier.name, task.tiers[rest].tier.name)
            }
            None => task.tiers[at[i]].tier.name.clone(),
        },
        why: decision.placements[i].why.clone(),
        size: task.size(i),
        miss_share: if total > 0.0 { seen.misses() / total } else { 0.0 },
        time: nanos(time),
        elsewhere,
        notes: task.model().notes.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knees(slowdowns: &[f64]) -> Vec<usize> {
        let last = slowdowns.len() - 1;
        let point = |(i, &slowdown): (usize, &f64)| CurvePoint {
            fast: Bytes(0),
            share: i as f64 / last as f64,
            slowdown,
            knee: false,
        };
        let mut points: Vec<CurvePoint> = slowdowns.iter().enumerate().map(point).collect();
        mark_knees(&mut points);
        (0..points.len()).filter(|&i| points[i].knee).collect()
    }

    #[test]
    fn a_knee_is_where_more_memory_gains_little() {
        assert_eq!(knees(&[5.0, 3.0, 1.2, 1.1, 1.0]), [2]);
        assert_eq!(knees(&[5.0, 4.0, 3.0, 2.0, 1.0]), Vec::<usize>::new(), "a straight line");
        assert_eq!(knees(&[1.01, 1.0, 1.0, 1.0, 1.0]), Vec::<usize>::new(), "nothing to gain");
        assert_eq!(knees(&[5.0, 5.0, 5.0, 1.0, 1.0]), [3], "one large object");
        assert_eq!(knees(&[9.0, 5.0, 5.0, 5.0, 1.0, 1.0]), [1, 4], "two steps");
    }
}
