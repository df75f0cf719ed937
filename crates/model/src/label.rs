//! Names for all sites of a profile that tell them apart.
//!
//! The innermost function of a stack is often an allocation wrapper of the program's own (`xmalloc`,
//! `Memory::smalloc`), the same for every site. Nobody can list all of them, but the profile itself shows them: a
//! function that allocates for three or more different callers is named by its caller instead.

use crate::site::{Frame, Site, SiteId, SiteKind};
use std::collections::{BTreeMap, HashMap};

/// From this many different callers a function counts as an allocation wrapper.
const WRAPPER_CALLERS: usize = 3;

/// One line for each site that names it to a person, as different from the others as their stacks allow.
pub fn labels<'a>(sites: impl IntoIterator<Item = &'a Site>) -> HashMap<SiteId, String> {
    let stacks: Vec<Stack> = sites.into_iter().map(Stack::of).collect();
    let mut labels = HashMap::new();
    for group in by_line(stacks.iter().collect(), 0).into_values() {
        name(group, 0, "", &mut labels);
    }
    labels
}

/// A site's stack as lines of text, from the innermost that is not a known wrapper.
struct Stack {
    id: SiteId,
    lines: Vec<String>,
    /// The innermost frame in binary form, for sites that nothing else tells apart.
    place: String,
}

impl Stack {
    fn of(site: &Site) -> Stack {
        let place = site.frames.first().map_or_else(String::new, Frame::place);
        if site.kind == SiteKind::Static {
            return Stack { id: site.id, lines: vec![site.label()], place };
        }
        let own: Vec<String> = site.lines().filter(|(_, l)| !l.is_wrapper()).map(|(f, l)| f.line_text(l)).collect();
        let lines = if own.is_empty() { vec![site.label()] } else { own };
        Stack { id: site.id, lines, place }
    }
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
        labels.insert(only.id, format!("{prefix}{here}"));
        return;
    }
    let deepest = group.iter().map(|s| s.lines.len()).max().unwrap_or(0);
    let parting = (depth + 1..deepest).find(|&d| group.iter().any(|s| s.lines.get(d) != group[0].lines.get(d)));
    let Some(parting) = parting else {
        for stack in group {
            labels.insert(stack.id, format!("{prefix}{here}, at {}", stack.place));
        }
        return;
    };
    let callers = by_line(group, parting);
    let is_wrapper = callers.len() >= WRAPPER_CALLERS;
    let prefix = if is_wrapper { prefix.to_string() } else { format!("{prefix}{here}, from ") };
    for callers in callers.into_values() {
        name(callers, parting, &prefix, labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Module, SourceLine};

    fn site(id: u64, stack: &[&str]) -> Site {
        let module = Some(Module { path: "/bin/app".to_string(), build_id: String::new() });
        let line = |f: &&str| SourceLine { function: f.to_string(), file: "a.c".to_string(), line: 1 };
        let frame = |(n, f): (usize, &&str)| Frame {
            module: module.clone(),
            offset: id * 16 + n as u64,
            source: vec![line(f)],
        };
        Site { id: SiteId(id), kind: SiteKind::Allocation, frames: stack.iter().enumerate().map(frame).collect() }
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
            source: vec![SourceLine { function: "grow".to_string(), file: String::new(), line: 0 }],
        };
        let sites = [0x10, 0x20].map(|n| Site { id: SiteId(n), kind: SiteKind::Allocation, frames: vec![frame(n)] });
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
    fn sites_that_nothing_tells_apart_say_where_they_are() {
        assert_eq!(named(&[&["f", "main"], &["f", "main"]]), ["f, at app+0x0", "f, at app+0x10"]);
        assert_eq!(named(&[&["f"], &["f", "main"]]), ["f, from ?", "f, from main"]);
        assert_eq!(
            labels(&[Site { id: SiteId(7), kind: SiteKind::Allocation, frames: vec![] }])[&SiteId(7)],
            "site 0000000000000007"
        );
    }
}
