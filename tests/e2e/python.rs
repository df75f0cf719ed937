//! Programs in Python: sites are lines of theirs, and whatever Python does to its call stack, they do the same as without Hearth.

use hearth_tests::{Room, program, require_tool};
use model::landing::Landing;
use model::{Observed, SiteUse};
use std::collections::BTreeMap;
use std::fs;

const PYTHON: &str = "/usr/bin/python3";
/// What `python_lines.py` makes by one helper, and in which lines.
const HOT: &str = "python_lines.py:7 in make, from python_lines.py:11 in load";
const COLD: &str = "python_lines.py:7 in make, from python_lines.py:12 in load";
const ARRAY: u64 = 24 << 20;

fn lines() -> String {
    require_tool(PYTHON, "python3-numpy");
    program("python_lines.py")
}

/// The sites with arrays of the script, by their labels.
fn arrays(observed: &Observed) -> BTreeMap<String, &SiteUse> {
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    let large =
        observed.sites.iter().filter(|s| s.largest.0 >= 1 << 20 && labels[&s.site.id].starts_with("python_lines.py"));
    large.map(|s| (labels[&s.site.id].clone(), s)).collect()
}

#[test]
fn arrays_of_two_lines_are_two_sites() {
    let room = Room::new();
    let script = lines();
    let runs = ["one.hearth", "two.hearth"].map(|profile| {
        room.record(&["--sampler", "none"], profile, &[PYTHON, &script]).expect(0);
        room.observed(profile)
    });
    let [one, two] = runs.each_ref().map(arrays);
    for line in [HOT, COLD] {
        let site = one.get(line).unwrap_or_else(|| panic!("{line} is not among {:?}", one.keys()));
        assert_eq!((site.objects, site.largest.0), (1, ARRAY));
        // The whole stack: NumPy's code, the line of its own in which it was called, and the lines of the script.
        let places: Vec<String> = site.site.frames.iter().map(model::Frame::place).collect();
        assert!(places[0].starts_with("_multiarray_umath"), "{places:?}");
        assert!(places.iter().any(|p| p.starts_with("numeric.py:") && p.ends_with(" in ones")), "{places:?}");
        assert!(places.ends_with(&["python_lines.py:17".to_string()]), "{places:?}");
        assert!(!places.iter().any(|p| p.starts_with("python3")), "no frame of the interpreter's: {places:?}");
    }
    // Of one line are told apart by what it calls.
    let pair: Vec<_> = one.keys().filter(|l| l.starts_with("python_lines.py:18, by ")).collect();
    assert_eq!(pair.len(), 2, "{:?}", one.keys());
    assert!(pair.iter().any(|l| l.contains(" in full")), "{pair:?}");
    let ids = |arrays: &BTreeMap<String, &SiteUse>| -> Vec<_> { arrays.values().map(|s| s.site.id).collect() };
    assert_eq!(ids(&one), ids(&two), "the same in every run");
}

#[test]
fn a_plan_places_the_array_of_a_line() {
    let room = Room::new();
    let script = lines();
    let recorded = room.record(&["--sampler", "none"], "p.hearth", &[PYTHON, &script]).expect(0);
    let text = room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB"]).expect(0).stdout;
    // Two tiers of one memory; nothing is fast but the array of one line.
    let start = text.find("\n[[tier]]").expect("tiers") + 1;
    let next = |table| text[start..].find(table).map_or(text.len(), |at| start + at);
    let end = next("[[module]]").min(next("[[site]]"));
    let mut sites =
        text[end..].replace("tier = \"fast\"", "tier = \"slow\"").replace("tier = \"dram\"", "tier = \"slow\"");
    let at = sites.find(&format!("label = \"{HOT}\"")).unwrap_or_else(|| panic!("no {HOT} in {text}"));
    let line = at + sites[at..].find("tier = ").expect("its tier");
    let after = line + sites[line..].find('\n').expect("the end of the line");
    sites.replace_range(line..after, "tier = \"fast\"");
    let tiers = "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n\n";
    fs::write(room.path("plan.toml"), format!("{}{tiers}{sites}", &text[..start])).expect("writing the plan");
    let ended = room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", PYTHON, &script]).expect(0);
    assert_eq!(ended.stdout, recorded.stdout);
    let landed = fs::read_to_string(room.path("landed.json")).expect("the summary");
    let landed: Landing = serde_json::from_str(&landed).expect("a landing");
    let fast: Vec<_> = landed.sites.iter().filter(|s| s.placed[0].0 > 0).collect();
    assert!(matches!(fast[..], [site] if site.label == HOT && site.placed[0].0 == ARRAY), "{fast:?}");
    let present: u64 = fast[0].resident.iter().filter(|(node, _)| *node >= 0).map(|(_, bytes)| bytes.0).sum();
    assert!(present >= ARRAY * 9 / 10, "read back from the kernel: {fast:?}");
    assert!(landed.sites.iter().any(|s| s.label == COLD && s.placed[1].0 == ARRAY), "{:?}", landed.sites);
}

/// Objects and largest size, of each stack of lines of Python.
type Stacks = BTreeMap<Vec<String>, (u64, u64)>;

fn add(stacks: &mut Stacks, stack: Vec<String>, objects: u64, largest: u64) {
    let (of, most) = stacks.entry(stack).or_default();
    (*of, *most) = (*of + objects, largest.max(*most));
}

#[test]
fn stacks_are_those_that_python_tells() {
    require_tool(PYTHON, "python3");
    let room = Room::new();
    let ended = room.record(&["--sampler", "none"], "p.hearth", &[PYTHON, &program("python_stacks.py")]).expect(0);
    let mut expected = Stacks::new();
    for line in ended.stdout.lines() {
        let (size, stack) = line.split_once(' ').expect("a size and a stack");
        let size: u64 = size.parse().expect("a size");
        // A bytearray has one byte more.
        add(&mut expected, serde_json::from_str(stack).expect("a list"), 1, size + 1);
    }
    assert!(expected.len() > 50, "{}", expected.len());
    let mut observed = Stacks::new();
    for site in &room.observed("p.hearth").sites {
        let lines = site.site.frames.iter().filter(|f| f.is_python()).flat_map(|f| &f.source);
        let stack: Vec<String> = lines.map(|l| format!("{}:{}", l.function, l.line)).collect();
        if expected.contains_key(&stack) {
            add(&mut observed, stack, site.objects, site.largest.0);
        }
    }
    assert_eq!(observed, expected);
}

#[test]
fn an_unknown_interpreter_is_left_alone_and_told_of() {
    let room = Room::new();
    let command = [&*program("python_unknown")];
    let plain = room.plain(&command).expect(0);
    assert_eq!(room.record(&["--sampler", "none"], "p.hearth", &command).expect(0).stdout, plain.stdout);
    let observed = room.observed("p.hearth");
    let said = observed.losses.iter().find(|l| l.kind == "process-passed-over").expect("what is not known is said");
    assert!(said.note.starts_with("a Python of a kind whose frames Hearth cannot read"), "{}", said.note);
    assert!(observed.sites.iter().any(|s| s.largest.0 == 1 << 20), "it is observed all the same");
}

#[test]
fn whatever_python_does_to_its_stack() {
    require_tool(PYTHON, "python3");
    let room = Room::new();
    let observed = room.same(&[PYTHON, &program("python_torture.py")]);
    let labels: Vec<String> = model::label::labels(observed.sites.iter().map(|s| &s.site)).into_values().collect();
    for expected in ["python_torture.py:15 in block", "模块.py", "größe"] {
        let found = |s: &SiteUse| s.site.frames.iter().any(|f| f.place().contains(expected));
        assert!(observed.sites.iter().any(found), "{expected} is in none of {labels:?}");
    }
}
