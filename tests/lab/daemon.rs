//! `hearth daemon` in the emulated machine: the hot objects of several programs share the fast memory, whichever daemon saw them born.

use crate::placement::{pages, share};
use hearth_tests::lab::Lab;
use hearth_tests::{Ended, hearth, program};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// What each script begins with: the region of interest, which programs would switch off for each other, how to start a daemon and a program, and how many pages of
/// a process's anonymous memory lie on node 0, as the kernel tells.
const DAEMON: &str = r#"
export UNMARKED=1
"$hearth" lab mark on
daemon() {
  "$hearth" daemon --sampler lab --period 100 --interval "${interval:-5ms}" --socket d.sock --fast "${fast:-40MiB}" "$@" 2>>daemon.txt &
  daemon=$!
  until "$hearth" status --socket d.sock >/dev/null 2>&1; do sleep 0.01; done
}
attach() { name=$1; shift; "$hearth" live --attach --socket d.sock -- "$placed" "${turns:-8}" "$@" > "$name.txt" & }
forever() { "$@" "$hearth" live --attach --socket d.sock -- $program >/dev/null & }
in_group() { group=$1; shift; forever sh -c 'echo $$ > "/sys/fs/cgroup/$0/cgroup.procs"; exec "$@"' "$group"; }
fast() { awk '!/file=/ { for (i = 3; i <= NF; i++) if ($i ~ /^N0=/) n += substr($i, 4) } END { print n + 0 }' "/proc/$1/numa_maps"; }
# Waits some seconds until a condition holds.
until_so() { n=0; until [ $n = 100 ] || eval "$1"; do sleep 0.1; n=$((n + 1)); done; }
"#;

fn run(lab: &Lab, fast: &str, script: &str) {
    let text = format!("hearth=$1 placed=$2\n{DAEMON}{script}");
    fs::write(lab.room.path("script.sh"), text).expect("writing");
    let options = ["--placement", "first-touch", "--fast", fast, "--vcpus", "1", "--roi", "marks"];
    let hearth = hearth().to_str().expect("readable").to_string();
    lab.run(&options, &["sh", "script.sh", &hearth, &program("placed")]);
}

/// What a program has printed in the guest.
pub fn printed(lab: &Lab, name: &str) -> Ended {
    let stdout = fs::read_to_string(lab.room.path(&format!("{name}.txt"))).expect("it was brought back");
    Ended { status: 0, stdout, stderr: String::new(), took: Duration::ZERO }
}

/// Each has 12 MiB that are hot; the fast memory holds 36 MiB of objects, and the cold ones took it first.
#[test]
fn the_hot_objects_of_two_programs_come_to_fast_memory() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "48MiB",
        r#"
        daemon --log why.jsonl
        attach one; one=$!
        attach two; wait $one $!
        "$hearth" stop --socket d.sock
        wait"#,
    );
    println!("{}", printed(&lab, "daemon").stdout);
    for name in ["one", "two"] {
        let ended = printed(&lab, name);
        let there = [share(pages(&ended, "hot", false), 0), share(pages(&ended, "hot", true), 0)];
        // The daemon may have made room while the second one set up its objects.
        assert!(there[0] < 0.75 && there[1] >= 0.99, "{name}: {there:?}\n{}", ended.stdout);
    }
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let moves = log.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON")).filter(|l| l["event"] == "move");
    let mut pids: Vec<u64> = moves.filter(|l| l["to"] == "dram").filter_map(|l| l["pid"].as_u64()).collect();
    pids.dedup();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "objects of both");
}

/// The first daemon decides nothing, and is killed when the program has all its objects.
#[test]
fn a_daemon_moves_what_came_to_life_before_it() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "24MiB",
        r#"
        daemon --trigger time=1000000
        attach one; one=$!
        until "$hearth" status --json --socket d.sock | grep -q '"records": [1-9]'; do sleep 0.05; done
        sleep 0.5
        kill -9 $daemon
        wait $daemon
        daemon
        wait $one
        "$hearth" stop --socket d.sock
        wait"#,
    );
    let ended = printed(&lab, "one");
    let there = [share(pages(&ended, "hot", false), 0), share(pages(&ended, "hot", true), 0)];
    assert!(there[0] < 0.1 && there[1] >= 0.7, "{there:?}\n{}\n{}", ended.stdout, printed(&lab, "daemon").stdout);
}

/// One came first, could fill the fast memory, and gains more from it than the other one.
#[test]
fn a_program_gets_its_share_though_another_one_is_hotter() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "20MiB",
        r#"
        fast=18MiB turns=18
        daemon --share-by job
        attach hotter 16 1 1; one=$!
        sleep 0.3
        attach milder 24 1 1
        wait $one $!
        "$hearth" stop --socket d.sock
        wait"#,
    );
    let hot = |name: &str, after: bool| pages(&printed(&lab, name), "hot", after)[0] >> 8;
    println!("{}", printed(&lab, "daemon").stdout);
    let (before, after, hotter) = (hot("milder", false), hot("milder", true), hot("hotter", true));
    println!("{before} MiB of the milder one before, {after} after; of the hotter one {hotter} at its end");
    // Half of nine tenths of 18 MiB each, in pieces of 2 MiB, and of other objects too. The hotter one ends first: all of it would be there if it had to give nothing.
    // The last piece is due only when it pays for its move, which may be after the end.
    assert!(before <= 4 && after >= 6, "{before} and {after} MiB");
    assert!((4..=12).contains(&hotter), "{hotter} MiB");
}

/// Pages that a script has written down, line by line.
fn told(lab: &Lab, name: &str) -> Vec<Vec<f64>> {
    let text = printed(lab, name).stdout;
    println!("{name}:\n{text}");
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().expect("a number")).collect();
    text.lines().map(numbers).collect()
}

/// Two programs ask for the same, each for nearly all of the fast memory. Whoever has a weight of 3 gets three quarters of it: a user, a control group, a command.
#[test]
fn equals_get_what_their_weights_say() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "40MiB",
        r#"
        fast=32MiB interval=20ms hot="24 1 1"
        chmod 755 .
        have() { a=$(fast $heavy) b=$(fast $light); }
        three_to_one() { have; [ $((1000 * a / (a + b + 1))) -gt 650 ] && [ $((1000 * a / (a + b + 1))) -lt 850 ]; }
        # Five times one after the other: it is so for a moment too while the second one sets up its objects.
        lasts() { if three_to_one; then held=$((held + 1)); else held=0; fi; [ $held -ge 5 ]; }
        readings() {
          held=0
          until_so lasts
          for i in 1 2 3 4 5; do sleep 0.1; have; echo "$a $b"; done > "$1.txt"
          kill -9 $heavy $light
          "$hearth" stop --socket d.sock
          wait
        }
        program="$placed 1000 $hot"
        daemon --share-by user --weight nobody=3
        chmod 777 d.sock
        forever setpriv --reuid nobody --clear-groups; heavy=$!
        forever setpriv --reuid daemon --clear-groups; light=$!
        readings user
        mkdir /sys/fs/cgroup/heavy /sys/fs/cgroup/light
        daemon --share-by cgroup --weight heavy=3
        in_group heavy; heavy=$!
        in_group light; light=$!
        readings cgroup
        cp "$placed" heavy
        cp "$placed" light
        daemon --share-by command --weight heavy=3
        program="./heavy 1000 $hot"; forever env; heavy=$!
        program="./light 1000 $hot"; forever env; light=$!
        readings command"#,
    );
    println!("{}", printed(&lab, "daemon").stdout);
    for by in ["user", "cgroup", "command"] {
        let readings = told(&lab, by);
        let mean = |n: usize| readings.iter().map(|line| line[n]).sum::<f64>() / 5.0;
        let (heavy, light) = (mean(0), mean(1));
        let share = heavy / (heavy + light);
        // A part is taken in pieces of 2 MiB, and so is what is lent: there are 14 of them in all.
        assert!((share / 0.75 - 1.0).abs() <= 0.15, "by {by}: {heavy} and {light} pages, {share:.3}");
        // Of nine tenths of 32 MiB, in pieces of 2 MiB.
        assert!(heavy + light >= 6200.0, "by {by}: {heavy} and {light} pages");
    }
}

/// A part that is reserved for a command is lent while nothing of that name runs, its own while something does, though another one is hotter, and lent again when it has ended.
#[test]
fn what_is_reserved_is_there_for_whom_it_is_reserved() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "20MiB",
        r#"
        fast=18MiB interval=20ms
        cp "$placed" mild
        daemon --share-by command --reserve mild=8MiB
        program="$placed 1000 16 1 1"; forever env; hot=$!
        until_so '[ $(fast $hot) -ge 3584 ]'
        fast $hot > before.txt
        program="./mild 1000 24 1 1"; forever env; mild=$!
        until_so '[ $(fast $mild) -ge 1536 ]'
        sleep 0.2
        echo $(fast $hot) $(fast $mild) > both.txt
        kill -9 $mild
        until_so '[ $(fast $hot) -ge 3584 ]'
        fast $hot > after.txt
        kill -9 $hot
        "$hearth" stop --socket d.sock
        wait"#,
    );
    println!("{}", printed(&lab, "daemon").stdout);
    let [before, both, after] = ["before", "both", "after"].map(|name| told(&lab, name).concat());
    // Its 16 MiB, but for a piece; of nine tenths of 18 MiB what the other one has not. The mild one gets its 8 MiB, but for a piece or two that
    // are on their way; without the reserve it would get nothing.
    assert!(before[0] >= 3584.0 && after[0] >= 3584.0, "{before:?} {both:?} {after:?}");
    assert!(both[1] >= 1024.0 && both[0] <= 2900.0, "{both:?}");
}

/// Of two programs under one daemon one has a cpuset without the fast node: it is left alone, and the status says so. The other one has a memory cgroup that
/// leaves it little more than it uses: its hot object comes to fast memory, and its group is charged as before.
#[test]
fn control_groups_of_programs_are_respected() {
    let lab = Lab::enter_beside();
    run(
        &lab,
        "20MiB",
        r#"
        fast=18MiB
        groups=/sys/fs/cgroup
        echo +cpuset +memory > $groups/cgroup.subtree_control
        mkdir $groups/slow $groups/tight
        echo 1 > $groups/slow/cpuset.mems
        echo 47M > $groups/tight/memory.max
        daemon
        program="$placed 1000 12 1 24"
        in_group slow; slow=$!
        in_group tight; tight=$!
        until_so '"$hearth" status --socket d.sock | grep -q "does not permit"'
        until_so '[ $(awk "/^RssAnon/ { print \$2 }" /proc/$tight/status) -ge 37888 ]'
        for turn in 1 2 3 4; do
          sleep 0.8
          "$hearth" top --once --json --socket d.sock >> objects.txt
        done
        echo $(fast $slow) $(fast $tight) > pages.txt
        echo $(cat $groups/tight/memory.current $groups/tight/memory.max) > charged.txt
        cat $groups/tight/memory.events > events.txt
        echo $slow $tight > pid.txt
        "$hearth" status --socket d.sock > status.txt
        kill -9 $slow $tight
        "$hearth" stop --socket d.sock
        wait"#,
    );
    let (pages, charged) = (told(&lab, "pages").concat(), told(&lab, "charged").concat());
    let (status, events) = (printed(&lab, "status").stdout, printed(&lab, "events").stdout);
    println!("{status}");
    assert_eq!(pages[0], 0.0, "it is on the node that the cpuset lacks");
    let pids = told(&lab, "pid").concat();
    let note = format!("process {}: the kernel does not permit to move the pages", pids[0]);
    assert!(status.contains(&note) && status.contains("its cpuset lacks a node"), "{status}");
    let shown = printed(&lab, "objects").stdout;
    let places = serde_json::Deserializer::from_str(&shown).into_iter::<Value>().map(|all| -> Vec<Value> {
        let all = all.expect("JSON");
        let hot = |o: &&Value| o["pid"] == pids[1] as u64 && o["misses_per_second"].as_f64() > Some(10_000.0);
        let objects = all["objects"].as_array().expect("objects").iter().filter(hot);
        objects.map(|piece| piece["resident"].clone()).collect()
    });
    let places: Vec<Vec<Value>> = places.collect();
    // Perhaps not the first time: it may still be moving, or not know all of them yet.
    let there = |hot: &Vec<Value>| hot.len() >= 5 && hot.iter().all(|bytes| bytes[1] == 0);
    assert!(places.iter().any(there), "12 MiB are hot: {places:?}");
    assert!(events.contains("oom_kill 0\n"), "{events}");
    // 37 MiB of its own memory, which it had, and what the kernel and Hearth need for it.
    assert!(charged[0] >= f64::from(37 << 20) && charged[0] <= charged[1], "{charged:?}");
}
