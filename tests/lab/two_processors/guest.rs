//! What the guest's kernel knows of its memory: nodes, HMAT, memory tiers, and where pages are demoted to.

use hearth_tests::is_root;
use hearth_tests::lab::{Lab, PLATFORM, VCPUS};
use serde_json::Value;

const LOOK: &str = "
cd /sys/devices/system/node
for node in node0 node1; do
    echo $node cpus $(cat $node/cpulist)
    for what in read_latency write_latency read_bandwidth write_bandwidth; do
        echo $node $what $(cat $node/access0/initiators/$what)
    done
done
for tier in /sys/devices/virtual/memory_tiering/memory_tier*; do echo tier ${tier##*memory_tier} $(cat $tier/nodelist); done
echo balancing $(cat /proc/sys/kernel/numa_balancing) demotion $(cat /sys/kernel/mm/numa/demotion_enabled)
# Only root may read the kernel's messages.
[ $(id -u) != 0 ] || dmesg | grep -o 'Demotion targets.*'
";

/// The platform as the library has it, by tier: latency in ns, and the machine's share of the read bandwidth in MiB/s.
fn expected(lab: &Lab) -> Vec<[f64; 2]> {
    let text = lab.room.hearth(&["platform", PLATFORM, "--json"]).expect(0).stdout;
    let platform: Value = serde_json::from_str(&text).expect("JSON");
    let cores = platform["cores"]["value"].as_f64().expect("cores");
    let tiers = platform["tier"].as_array().expect("tiers").iter();
    let value = |tier: &Value, what: &str| tier[what]["value"].as_f64().expect("a figure");
    let mib_per_s = |gbps: f64| gbps * 1e9 / f64::from(1 << 20);
    tiers.map(|t| [value(t, "latency"), mib_per_s(value(t, "read_bandwidth") * VCPUS / cores)]).collect()
}

#[test]
fn the_kernel_sees_the_platforms_memory() {
    let lab = Lab::enter();
    let (seen, _) = lab.run(&["--placement", "kernel", "--fast", "64MiB"], &["/bin/sh", "-c", LOOK]);
    let seen = seen.stdout;
    let line = |start: &str| {
        let found = seen.lines().find_map(|l| l.strip_prefix(start));
        found.unwrap_or_else(|| panic!("no `{start}` in:\n{seen}")).trim()
    };
    assert_eq!((line("node0 cpus"), line("node1 cpus")), ("0-1", ""), "{seen}");
    for (node, [latency, bandwidth]) in expected(&lab).into_iter().enumerate() {
        let number = |what: &str| line(&format!("node{node} {what}")).parse::<f64>().expect("a number");
        // The HMAT has whole ns, and bandwidths in steps of 16 MiB/s.
        for (what, expected, step) in [("latency", latency, 1.0), ("bandwidth", bandwidth, 16.0)] {
            for direction in ["read", "write"] {
                let is = number(&format!("{direction}_{what}"));
                assert!((is - expected).abs() <= step, "node {node}: {direction} {what} is {is}, not {expected}");
            }
        }
    }
    // A memory tier with a smaller number is a faster one (Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers).
    let mut tiers: Vec<(u32, &str)> = seen
        .lines()
        .filter_map(|l| l.strip_prefix("tier ")?.split_once(' '))
        .map(|(tier, nodes)| (tier.parse().expect("a number"), nodes))
        .collect();
    tiers.sort();
    assert_eq!(tiers.iter().map(|(_, nodes)| *nodes).collect::<Vec<_>>(), ["0", "1"], "{seen}");
    assert_eq!(line("balancing"), "2 demotion true", "{seen}");
    if is_root() {
        assert_eq!(line("Demotion targets for Node 0:"), "preferred: 1, fallback: 1", "{seen}");
        assert_eq!(line("Demotion targets for Node 1:"), "null", "{seen}");
    }
}
