//! `hearth report` and `hearth plan` as a user sees them, on a small profile written here.

use crate::common::{COLD, HOT, MIB, Room};
use model::SiteId;
use std::fs;

#[test]
fn profiles_are_compared_and_exported() {
    let room = Room::new("diff");
    fs::copy(room.0.join("app.hearth"), room.0.join("after.hearth")).unwrap();
    let text = room.stdout(&["diff", "app.hearth", "after.hearth"]);
    assert!(text.contains("solver --n 2") && text.contains("make_field (solver.c:10)"), "{text}");
    assert!(text.contains("says nothing of functions"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&room.stdout(&["diff", "app.hearth", "after.hearth", "--json"])).unwrap();
    assert_eq!(json["sites"].as_array().unwrap().len(), 2);
    room.stdout(&["diff", "app.hearth", "after.hearth", "--html", "diff.html"]);
    assert!(fs::read_to_string(room.0.join("diff.html")).unwrap().contains("make_field"));
    let before = fs::read(room.0.join("after.hearth")).unwrap();
    for file in ["app.hearth", "after.hearth"] {
        let refused = room.hearth(&["diff", "app.hearth", "after.hearth", "--html", file]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    assert_eq!(fs::read(room.0.join("after.hearth")).unwrap(), before);
    let missing = room.hearth(&["diff", "app.hearth", "none.hearth"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("none.hearth does not exist"), "{missing:?}");
    let firefox: serde_json::Value =
        serde_json::from_str(&room.stdout(&["report", "app.hearth", "--firefox", "-"])).unwrap();
    assert_eq!(firefox["meta"]["preprocessedProfileVersion"], 55);
}

#[test]
fn the_report_shows_the_hot_site_first_in_every_form() {
    let room = Room::new("report");
    let table = room.stdout(&["report", "app.hearth"]);
    let at = |name: &str| table.find(name).unwrap_or_else(|| panic!("{name} in {table}"));
    assert!(at("solver --n 2") < at("make_field (solver.c:10)") && at("make_field") < at("read_table"), "{table}");
    assert!(table.contains("stream 8 B") && table.contains("64 MiB"), "{table}");

    let top = room.stdout(&["report", "app.hearth", "--top", "1"]);
    assert!(top.contains("1 further site") && !top.contains("read_table"), "{top}");
    let site = room.stdout(&["report", "app.hearth", "--site", &format!("{COLD:016x}")]);
    assert!(site.contains("solver+0x1010") && site.contains("read_table  /src/solver.c:10"), "{site}");

    let json: serde_json::Value = serde_json::from_str(&room.stdout(&["report", "app.hearth", "--json"])).unwrap();
    assert_eq!(json["sites"][0]["site"]["id"], format!("{HOT:016x}"));
    assert_eq!((json["version"].as_u64(), json["sites"][0]["peak"].as_u64()), (Some(1), Some(8 * MIB)));
    assert!(json["sites"][0]["load_misses"].as_f64() > json["sites"][1]["load_misses"].as_f64());

    assert!(room.stdout(&["report", "app.hearth", "--html", "page.html"]).is_empty());
    let page = fs::read_to_string(room.0.join("page.html")).unwrap();
    assert_eq!(page, room.stdout(&["report", "app.hearth", "--html", "-"]));
    assert!(page.contains("make_field (solver.c:10)") && page.ends_with("</html>\n"));
    assert_eq!(room.files(), ["app.hearth", "page.html"]);
}

#[test]
fn a_plan_puts_the_hot_site_into_fast_memory_and_says_what_it_does() {
    let room = Room::new("plan");
    let output = room.hearth(&["plan", "app.hearth", "--fast", "16MiB", "-o", "plan.toml"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.contains("fast  ~100.0% of misses (predicted)     8 MiB of 16 MiB in 1 site\n"), "{summary}");
    let plan = policy::plan_file::read(&room.0.join("plan.toml")).unwrap();
    let tier_of = |id: u64| plan.sites.iter().find(|s| s.id == SiteId(id)).unwrap().tier.clone();
    assert_eq!((tier_of(HOT), tier_of(COLD)), (plan.tiers[0].name.clone(), plan.default_tier.clone()));
    assert_eq!(plan.sites[0].frames[0].source[0].function, "make_field");
    // A second plan replaces the first, and leaves nothing else.
    assert!(room.hearth(&["plan", "app.hearth", "--fast", "10%", "-o", "plan.toml"]).status.success());
    let plan = policy::plan_file::read(&room.0.join("plan.toml")).unwrap();
    assert_eq!(plan.tiers[0].budget.unwrap().0, 72 * MIB / 10);
    assert!(plan.sites.iter().all(|s| s.tier == plan.default_tier), "8 MiB do not fit in 7.2 MiB");
    assert_eq!(room.files(), ["app.hearth", "plan.toml"]);
}

#[test]
fn a_plan_for_another_machine_uses_its_tiers_and_capacities() {
    let room = Room::new("platform");
    let text = room.stdout(&["plan", "app.hearth", "--platform", "knl-7210-flat-snc4"]);
    let plan = policy::plan_file::from_toml(&text).unwrap();
    assert_eq!(plan.platform, "knl-7210-flat-snc4");
    assert!(plan.tiers.len() >= 2 && plan.tiers.iter().all(|t| t.nodes.is_empty()), "{:?}", plan.tiers);
    assert_eq!(plan.tiers[0].name, plan.sites[0].tier);
    let list = room.stdout(&["plan", "--list"]);
    assert!(list.contains("density") && list.contains("ecoHMEM"), "{list}");
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let room = Room::new("refused");
    let cases: [(&[&str], &str); 14] = [
        (&["report", "other.hearth"], "other.hearth does not exist"),
        (&["report", "app.hearth", "--site", "ff"], "no site of this profile has an id that begins with `ff`"),
        (&["report", "app.hearth", "--site", "1a2b"], "`1a2b` begins the ids of 2 sites"),
        (&["report", "app.hearth", "--html", "app.hearth"], "app.hearth is the file to read; name another one"),
        (&["report", "app.hearth", "--html", "no/page.html"], "cannot write no/page.html: No such file"),
        (&["plan", "app.hearth", "--fast", "0"], "a capacity of 0 for tier `"),
        (&["plan", "app.hearth", "--fast", "900TiB"], "cannot hold 900 TiB: platform `"),
        (
            &["plan", "app.hearth", "--fast", "1GiB", "--policy", "magic"],
            "there is no policy `magic`; there are: density",
        ),
        (&["plan", "app.hearth", "--platform", "vax"], "vax"),
        (&["plan", "app.hearth", "--fast", "1MiB", "--capacity", "hbm2=1MiB"], "has no tier `hbm2`; it has: "),
        (
            &["plan", "app.hearth", "--capacity", "fast=1MiB", "--capacity", "fast=2MiB"],
            "--capacity is given twice for tier `fast`",
        ),
        (&["plan", "app.hearth", "--fast", "1MiB", "-o", "app.hearth"], "app.hearth is the file to read"),
        (&["plan", "app.hearth", "--fast", "1MiB", "-o", "no/plan.toml"], "cannot write no/plan.toml: No such file"),
        (&["plan", "/dev/null", "--fast", "1MiB"], "/dev/null is not a Hearth profile"),
    ];
    for (args, expected) in cases {
        room.assert_refused(args, expected);
    }
    // A half-copied profile.
    let whole = fs::read(room.0.join("app.hearth")).unwrap();
    fs::write(room.0.join("app.hearth"), &whole[..whole.len() / 2]).unwrap();
    room.assert_refused(&["plan", "app.hearth", "--fast", "1MiB"], "app.hearth is cut off");
}
