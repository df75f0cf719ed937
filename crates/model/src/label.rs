//! Names for all sites of a profile that tell them apart.
//!
//! The innermost function of a stack is often an allocation wrapper of the program's own (`xmalloc`,
//! `Memory::smalloc`), the same for every site. Nobody can list all of them, but the profile itself shows them: a
//! function that allocates for three or more different callers is named by its caller instead.

use crate::site::{Frame, Module, Site, SiteId, SiteKind, SourceLine};
use std::collections::{BTreeMap, HashMap, HashSet};

/// From this many different callers a function counts as an allocation wrapper.
const WRAPPER_CALLERS: usize = 3;

/// One line for each site that names it to a person, as different from the others as their stacks allow. Several objects of one stack
/// are numbered.
pub fn labels<'a>(sites: impl IntoIterator<Item = &'a Site>) -> HashMap<SiteId, String> {
    let (apart, sites): (Vec<&Site>, Vec<&Site>) = sites.into_iter().partition(|s| s.apart.is_some());
    let known: HashSet<SiteId> = sites.iter().map(|s| s.id).collect();
    // Where the first object of a stack is not told of, another one stands for the stack.
    let of = |s: &Site| s.apart.map_or(s.id, |a| a.stack);
    let mut named: HashSet<SiteId> = known.clone();
    let lone = apart.iter().filter(|s| named.insert(of(s)));
    let stacks: Vec<Stack> = sites.iter().chain(lone).map(|s| Stack { id: of(s), ..Stack::of(s) }).collect();
    let mut labels = HashMap::new();
    for group in by_line(stacks.iter().collect(), 0).into_values() {
        name(group, 0, "", &mut labels);
    }
    let numbered: Vec<(SiteId, String)> =
        apart.iter().filter_map(|s| Some((s.id, format!("{}{}", labels.get(&of(s))?, s.suffix())))).collect();
    labels.retain(|id, _| known.contains(id));
    for stack in apart.iter().map(|s| of(s)).collect::<HashSet<_>>() {
        labels.entry(stack).and_modify(|label| label.push_str(" #1"));
    }
    labels.extend(numbered);
    labels
}

/// A site's stack as lines of text, from the one that names it.
struct Stack {
    id: SiteId,
    lines: Vec<String>,
    /// The same with columns, for those that have the same lines all along.
    exact: Vec<String>,
    /// So many of them are that line and its callers. Then come, of a line of Python, those that it has called, outermost first.
    callers: usize,
    /// The innermost frame in binary form, for sites that nothing else tells apart.
    place: String,
}

impl Stack {
    fn of(site: &Site) -> Stack {
        let only = |label: String| Stack {
            id: site.id,
            exact: vec![label.clone()],
            lines: vec![label],
            callers: 1,
            place: self::place(site),
        };
        if site.kind == SiteKind::Static {
            return only(site.stack_label());
        }
        let Some(naming) = site.naming_line() else {
            return only(site.stack_label());
        };
        let all: Vec<(&Frame, &SourceLine)> = site.lines().collect();
        let callers = all.iter().skip(naming).filter(|(_, l)| !l.is_wrapper());
        let mut exact: Vec<String> = callers.clone().map(|(frame, line)| frame.exact_line_text(line)).collect();
        let mut lines: Vec<String> = callers.map(|(frame, line)| frame.line_text(line)).collect();
        let callers = lines.len();
        if let Some(&(by, _)) = all.get(naming).filter(|(frame, _)| frame.is_python()) {
            let called = site.frames.iter().take_while(|frame| !std::ptr::eq(*frame, by));
            // What has no names is called by its place.
            let texts = called.map(|frame| match frame.source.first() {
                Some(line) => frame.line_text(line),
                None => frame.place(),
            });
            let mut called: Vec<String> = texts.collect();
            called.reverse();
            exact.extend(called.iter().cloned());
            lines.append(&mut called);
        }
        Stack { id: site.id, lines, exact, callers, place: self::place(site) }
    }
}

/// The innermost frame in binary form. Positions in the source may be of one line all along, and then each of them counts.
fn place(site: &Site) -> String {
    let Some(first) = site.frames.first() else { return String::new() };
    let calls = site.frames.iter().skip(1).filter(|f| f.module.as_ref().is_some_and(Module::is_source));
    first.place() + &calls.map(|f| format!("<{:08x}", f.offset)).collect::<String>()
}

/// Stacks grouped by what they say at this depth; those that end before it form a group of their own.
fn by_line(stacks: Vec<&Stack>, depth: usize) -> BTreeMap<&str, Vec<&Stack>> {
    let mut groups: BTreeMap<&str, Vec<&Stack>> = BTreeMap::new();
    for stack in stacks {
        groups.entry(stack.lines.get(depth).map_or("", String::as_str)).or_default().push(stack);
    }
    groups
}

/// Names stacks that are the same down to `depth`; `prefix` is what is said before.
fn name(group: Vec<&Stack>, depth: usize, prefix: &str, labels: &mut HashMap<SiteId, String>) {
    let here = group[0].lines.get(depth).map_or("?", String::as_str);
    if let [only] = group[..] {
        // That a line has called no more is not worth a word.
        if let (None, Some(prefix)) = (only.lines.get(depth), prefix.strip_suffix(", by ")) {
            labels.insert(only.id, prefix.to_string());
            return;
        }
        labels.insert(only.id, format!("{prefix}{here}"));
        return;
    }
    let deepest = group.iter().map(|s| s.lines.len()).max().unwrap_or(0);
    let parting = (depth + 1..deepest).find(|&d| group.iter().any(|s| s.lines.get(d) != group[0].lines.get(d)));
    let Some(parting) = parting else {
        for (id, label) in by_column(&group, depth) {
            labels.insert(id, format!("{prefix}{label}"));
        }
        return;
    };
    let called = group.iter().all(|s| parting >= s.callers);
    let callers = by_line(group, parting);
    let is_wrapper = callers.len() >= WRAPPER_CALLERS && !called;
    let how = if called { "by" } else { "from" };
    let prefix = if is_wrapper { prefix.to_string() } else { format!("{prefix}{here}, {how} ") };
    for callers in callers.into_values() {
        name(callers, parting, &prefix, labels);
    }
}

/// What tells stacks apart that are the same from `depth` on: the columns of those lines of which they differ, or else the place.
fn by_column(group: &[&Stack], depth: usize) -> Vec<(SiteId, String)> {
    let here = group[0].lines.get(depth).map_or("?", String::as_str);
    let differ = |d: &usize| group.iter().any(|s| s.exact.get(*d) != group[0].exact.get(*d));
    let longest = group.iter().map(|s| s.exact.len()).max().unwrap_or(0);
    let mut parting: Vec<usize> = (depth..longest).filter(differ).collect();
    let said = |s: &Stack, depths: &[usize]| -> String {
        let first = if depths.contains(&depth) { s.exact[depth].clone() } else { here.to_string() };
        let callers = depths.iter().filter(|d| **d != depth).filter_map(|d| s.exact.get(*d));
        callers.fold(first, |label, caller| format!("{label}, from {caller}"))
    };
    // The innermost ones that will do.
    let several = |depths: &[usize]| group.iter().map(|s| said(s, depths)).collect::<HashSet<_>>().len();
    while let Some((_, fewer)) = parting.split_last().filter(|(_, fewer)| several(fewer) == several(&parting)) {
        parting.truncate(fewer.len());
    }
    let labels: Vec<String> = group.iter().map(|s| said(s, &parting)).collect();
    let mut often: HashMap<&str, usize> = HashMap::new();
    labels.iter().for_each(|l| *often.entry(l).or_default() += 1);
    let label = |(s, label): (&&Stack, &String)| {
        let place = if often[label.as_str()] > 1 { format!(", at {}", s.place) } else { String::new() };
        (s.id, format!("{label}{place}"))
    };
    group.iter().zip(&labels).map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Apart, SourceLine};

    fn site(id: u64, stack: &[&str]) -> Site {
        let module = Some(Module { path: "/bin/app".to_string(), build_id: String::new() });
        let line = |f: &&str| SourceLine { function: f.to_string(), file: "a.c".to_string(), line: 1, column: 0 };
        let frame = |(n, f): (usize, &&str)| Frame {
            module: module.clone(),
            offset: id * 16 + n as u64,
            source: vec![line(f)],
        };
        Site {
            id: SiteId(id),
            kind: SiteKind::Allocation,
            apart: None,
            frames: stack.iter().enumerate().map(frame).collect(),
        }
    }

    fn named(stacks: &[&[&str]]) -> Vec<String> {
        let sites: Vec<Site> = stacks.iter().enumerate().map(|(n, s)| site(n as u64, s)).collect();
        let labels = labels(&sites);
        sites.iter().map(|s| labels[&s.id].replace(" (a.c:1)", "")).collect()
    }

    #[test]
    fn a_function_that_allocates_for_many_is_named_by_its_caller() {
        let stacks: [&[&str]; 5] = [
            &["xmalloc", "grid", "main"],
            &["xmalloc", "halo", "main"],
            &["xmalloc", "tree", "main"],
            &["list", "main"],
            &["operator new", "mesh"],
        ];
        assert_eq!(named(&stacks), ["grid", "halo", "tree", "list", "mesh"]);
    }

    #[test]
    fn without_lines_a_function_is_told_apart_by_offset() {
        let frame = |offset| Frame {
            module: Some(Module { path: "/lib/libx.so".to_string(), build_id: String::new() }),
            offset,
            source: vec![SourceLine::named("grow")],
        };
        let sites = [0x10, 0x20].map(|n| Site {
            id: SiteId(n),
            kind: SiteKind::Allocation,
            apart: None,
            frames: vec![frame(n)],
        });
        let labels = labels(&sites);
        assert_eq!(sites.map(|s| labels[&s.id].clone()), ["grow [libx.so+0x10]", "grow [libx.so+0x20]"]);
    }

    #[test]
    fn a_function_with_two_callers_keeps_its_name() {
        let stacks: [&[&str]; 2] = [&["grow", "setup", "main"], &["grow", "step", "main"]];
        assert_eq!(named(&stacks), ["grow, from setup", "grow, from step"]);
    }

    #[test]
    fn callers_that_agree_are_left_out_down_to_where_they_part() {
        let stacks: [&[&str]; 4] = [
            &["xmalloc", "grow", "run", "setup"],
            &["xmalloc", "grow", "run", "step"],
            &["xmalloc", "halo"],
            &["xmalloc", "tree"],
        ];
        assert_eq!(named(&stacks), ["grow, from setup", "grow, from step", "halo", "tree"]);
    }

    #[test]
    fn several_objects_of_a_stack_are_numbered_and_make_no_wrapper_of_it() {
        let apart = |id, stack, number| Site {
            apart: Some(Apart { stack: SiteId(stack), number }),
            ..site(id, &["make", "setup"])
        };
        let sites = [site(1, &["make", "setup"]), apart(11, 1, 1), apart(12, 1, 2), apart(13, 1, 3)];
        let labels = labels(&sites);
        let of = |id| labels[&SiteId(id)].replace(" (a.c:1)", "");
        assert_eq!([1, 11, 12, 13].map(of), ["make #1", "make #2", "make #3", "make #4"]);
        assert_eq!(super::labels(&sites[1..])[&SiteId(12)].replace(" (a.c:1)", ""), "make #3");
    }

    #[test]
    fn a_site_of_python_is_a_line_of_the_programs_own() {
        let frame = |place: &str| {
            let (path, offset) = place.rsplit_once('@').expect("an offset");
            let module = Module { path: path.to_string(), build_id: String::new() };
            let offset = offset.parse().expect("a number");
            Frame { source: module.line_at(offset).into_iter().collect(), module: Some(module), offset }
        };
        let numpy = "python:/usr/lib/python3/dist-packages/numpy/numeric.py";
        let (ones, full) = (&*format!("{numpy}:ones@204"), &*format!("{numpy}:full@343"));
        let (load, main) = ("python:/home/me/train.py:load@41", "python:/home/me/train.py:<module>@50");
        let native = "/lib/_umath.so@16";
        let stacks: [&[&str]; 6] = [
            &[native, ones, load, main],
            &[native, full, load, main],
            &[native, load, main],
            &[native, ones, "python:/home/me/train.py:save@60", main],
            &[native, ones],
            &[native, "python:<frozen runpy>:_run_code@88", "python:<string>:<module>@1"],
        ];
        let site = |(n, frames): (usize, &&[&str])| Site {
            id: SiteId(n as u64),
            kind: SiteKind::Allocation,
            apart: None,
            frames: frames.iter().map(|f| frame(f)).collect(),
        };
        let sites: Vec<Site> = stacks.iter().enumerate().map(site).collect();
        let labels = labels(&sites);
        let expected = [
            "train.py:41 in load, by numeric.py:204 in ones",
            "train.py:41 in load, by numeric.py:343 in full",
            "train.py:41 in load, by _umath.so+0x10",
            "train.py:60 in save",
            "numeric.py:204 in ones",
            "<string>:1",
        ];
        assert_eq!(sites.iter().map(|s| labels[&s.id].as_str()).collect::<Vec<_>>(), expected);
        assert_eq!(sites[0].label(), "train.py:41 in load");
    }

    #[test]
    fn lines_of_the_source_are_told_apart_by_their_columns_where_that_is_needed() {
        let position = |(function, line, column): &(&str, u32, u32)| Frame {
            module: Some(Module { path: "source:/bin/app".to_string(), build_id: String::new() }),
            offset: u64::from(line * 100 + column),
            source: vec![SourceLine {
                function: function.to_string(),
                file: "a.c".to_string(),
                line: *line,
                column: *column,
            }],
        };
        let named = |stacks: &[&[(&str, u32, u32)]]| -> Vec<String> {
            let site = |(n, stack): (usize, &&[(&str, u32, u32)])| Site {
                id: SiteId(n as u64),
                kind: SiteKind::Allocation,
                apart: None,
                frames: stack.iter().map(position).collect(),
            };
            let sites: Vec<Site> = stacks.iter().enumerate().map(site).collect();
            let labels = labels(&sites);
            sites.iter().map(|s| labels[&s.id].clone()).collect()
        };
        let (vec, twice, again) = (("vec", 4, 9), ("main", 8, 5), ("main", 8, 30));
        assert_eq!(
            named(&[&[vec, twice], &[vec, again], &[("grid", 6, 2), twice]]),
            ["vec (a.c:4), from main (a.c:8:5)", "vec (a.c:4), from main (a.c:8:30)", "grid (a.c:6)"]
        );
        assert_eq!(named(&[&[twice], &[again]]), ["main (a.c:8:5)", "main (a.c:8:30)"]);
        // Each of two calls of one line calls what allocates twice on one line.
        let other = ("vec", 4, 40);
        let all = named(&[&[vec, twice], &[vec, again], &[other, twice], &[other, again]]);
        let expected = ["4:9), from main (a.c:8:5)", "4:9), from main (a.c:8:30)", "4:40), from main (a.c:8:5)"];
        assert_eq!(all[..3], expected.map(|e| format!("vec (a.c:{e}")), "{all:?}");
        // One that the compiler knew no column of.
        assert_eq!(named(&[&[("main", 8, 0)], &[twice]]), ["main (a.c:8)", "main (a.c:8:5)"]);
    }

    #[test]
    fn sites_that_nothing_tells_apart_say_where_they_are() {
        assert_eq!(named(&[&["f", "main"], &["f", "main"]]), ["f, at app+0x0", "f, at app+0x10"]);
        assert_eq!(named(&[&["f"], &["f", "main"]]), ["f, from ?", "f, from main"]);
        assert_eq!(
            labels(&[Site { id: SiteId(7), kind: SiteKind::Allocation, apart: None, frames: vec![] }])[&SiteId(7)],
            "site 0000000000000007"
        );
    }
}
