//! What `hearth plan` shows instead of a plan, as a user sees it, on a small profile that the tests write: golden files, which
//! `UPDATE_GOLDEN=1` accepts anew.

use crate::common::Room;
use std::fs;

#[track_caller]
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == golden, "{name} differs (UPDATE_GOLDEN=1 accepts):\n{text}\ninstead of\n{golden}");
}

const ON: [&str; 2] = ["--platform", "cascade-lake-optane"];

#[test]
fn the_list_names_every_policy_and_its_source() {
    golden("list.txt", &Room::new("planner-list").stdout(&["plan", "--list"]));
}

#[test]
fn policies_are_compared() {
    let room = Room::new("planner-compare");
    let text = room.stdout(&[&["plan", "app.hearth", "--fast", "16MiB", "--compare"][..], &ON].concat());
    golden("compare.txt", &text);
    assert_eq!(room.files(), ["app.hearth"], "no plan is written");
}

#[test]
fn the_curve_shows_how_much_fast_memory_is_needed() {
    let room = Room::new("planner-curve");
    golden("curve.txt", &room.stdout(&[&["plan", "app.hearth", "--curve"][..], &ON].concat()));
    assert!(room.stdout(&[&["plan", "app.hearth", "--curve", "-o", "curve.html"][..], &ON].concat()).is_empty());
    let page = fs::read_to_string(room.0.join("curve.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("a knee") && page.ends_with("</html>\n"));
}

#[test]
fn a_site_is_explained() {
    let room = Room::new("planner-explain");
    let explain =
        |prefix| room.stdout(&[&["plan", "app.hearth", "--fast", "4MiB", "--explain", prefix][..], &ON].concat());
    golden("explain-hot.txt", &explain("1a2b3c4d00000001"));
    golden("explain-cold.txt", &explain("1a2b3c4d00000002"));
}

#[test]
fn other_machines_are_tried() {
    let room = Room::new("planner-what-if");
    let others = ["--what-if", "cxl-expander", "--what-if", "knl-7210-flat-snc4"];
    golden("what-if.txt", &room.stdout(&[&["plan", "app.hearth", "--fast", "25%"][..], &ON, &others].concat()));
}

#[test]
fn traits_can_be_pasted() {
    golden("traits.c", &Room::new("planner-traits").stdout(&["plan", "app.hearth", "--traits"]));
}

#[test]
fn what_cannot_be_shown_is_said_in_one_sentence() {
    let room = Room::new("planner-refused");
    let plan = |more: &[&'static str]| [&["plan", "app.hearth"][..], &ON, more].concat();
    let cases: [(&[&str], &str); 8] = [
        (&["--explain", "ff", "--fast", "4MiB"], "no site of this profile has an id that begins with `ff`"),
        (&["--explain", "1a2b", "--fast", "4MiB"], "`1a2b` begins the ids of 2 sites"),
        (&["--curve", "--fast", "4MiB"], "a curve goes over all capacities of fast memory, so --fast contradicts it"),
        (&["--what-if", "vax"], "vax"),
        (&["--compare", "--policy", "magic"], "there is no policy `magic`; there are: density, bandwidth-aware, "),
        (
            &["--policy", "bandwidth-aware", "--thresholds", "2,60%,40%"],
            "thresholds of 60 % (low) and 40 % (high) make no sense",
        ),
        (&["--compare", "--fast", "0"], "a capacity of 0 for tier `dram`"),
        (&["--curve", "-o", "no/curve.html"], "cannot write no/curve.html"),
    ];
    for (more, expected) in cases {
        room.assert_refused(&plan(more), expected);
    }
    for (args, expected) in
        [("--thresholds=2,3", "write ALLOC,LOW%,HIGH%"), ("--compare --curve", "cannot be used with")]
    {
        let output = room.hearth(&plan(&args.split(' ').collect::<Vec<_>>()));
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}

/// 72 MiB are alive at once: 71 MiB of memory are too little for any policy, and for whatever is shown instead of a plan.
#[test]
fn what_fits_nowhere_is_refused_by_every_policy() {
    let room = Room::new("planner-infeasible");
    let plan = |nvm: &'static str, more: &[&'static str]| {
        [&["plan", "app.hearth", "--fast", "1MiB", "--capacity", nvm][..], &ON, more].concat()
    };
    let list = room.stdout(&["plan", "--list"]);
    let policies: Vec<&'static str> =
        policy::policies::ALL.iter().map(|p| p.name()).inspect(|name| assert!(list.contains(name))).collect();
    let sentence = "the program has 72 MiB alive at once and the tiers of platform `cascade-lake-optane` hold 71 MiB together; leave out";
    for policy in policies {
        room.assert_refused(&plan("nvm=70MiB", &["--policy", policy]), sentence);
        assert!(room.stdout(&plan("nvm=71MiB", &["--policy", policy])).ends_with("# end of plan\n"), "{policy}");
    }
    for instead in [&["--compare"][..], &["--explain", "1a2b3c4d00000001"], &["--what-if", "cxl-expander"]] {
        room.assert_refused(&plan("nvm=70MiB", instead), sentence);
    }
}

#[test]
fn profiles_that_say_nothing_are_refused() {
    let room = Room::blind("planner-blind");
    for more in [
        &["--compare"][..],
        &["--curve"],
        &["--traits"],
        &["--explain", "1a2b3c4d00000001"],
        &["--what-if", "cxl-expander"],
        &["--policy", "exact"],
        &[],
    ] {
        let fast: &[&str] = if more == ["--curve"] { &[] } else { &["--fast", "4MiB"] };
        let args = [&["plan", "app.hearth"][..], &ON, fast, more].concat();
        room.assert_refused(&args, "the profile holds no access samples (sampler `none`)");
    }
    let room = Room::empty("planner-empty");
    for more in [&["--compare"][..], &["--curve"], &["--traits"], &[]] {
        room.assert_refused(
            &[&["plan", "app.hearth"][..], &ON, more].concat(),
            "the profile holds no allocation sites",
        );
    }
}
