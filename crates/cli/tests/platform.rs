//! `hearth platform` as a user sees it: output, exit status, files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// An empty directory of the test's own, and the command with its home there.
fn hearth(test: &str, args: &[&str]) -> (PathBuf, Command) {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("platform-{test}"));
    fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command
        .arg("platform")
        .args(args)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_CACHE_HOME", home.join("cache"));
    (home, command)
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Fails with exit code 2, one line on stderr that contains `expected`, and nothing on stdout.
fn assert_refused(mut command: Command, expected: &str) {
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("hearth: ") && message.lines().count() == 1, "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(output.stdout.is_empty(), "nothing half-done");
}

#[test]
fn the_library_is_listed_and_every_entry_is_shown() {
    let list = stdout(&hearth("list", &["--list"]).1.output().unwrap());
    let names: Vec<&str> = list.lines().map(|l| l.split_whitespace().next().unwrap()).collect();
    assert!(names.contains(&"knl-7210-flat-snc4") && names.len() >= 10, "{names:?}");
    for name in names {
        let text = stdout(&hearth("list", &[name]).1.output().unwrap());
        assert!(text.contains("source: ") && text.contains("largest-capacity"), "{text}");
    }
}

#[test]
fn the_users_own_file_is_found_by_name_and_by_path() {
    let (home, by_name) = hearth("own", &["mine", "--json", "--set", "pmem.latency=300ns"]);
    let file = home.join("config/hearth/platforms/mine.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "name = \"mine\"\n[[tier]]\nname = \"pmem\"\nkind = \"file\"\ndir = \"/mnt/pmem\"\n").unwrap();
    let by_path = hearth("own", &[file.to_str().unwrap(), "--json", "--set", "pmem.latency=300ns"]).1;
    for mut command in [by_name, by_path] {
        let json = stdout(&command.output().unwrap());
        for expected in ["\"/mnt/pmem\"", "\"origin\": \"user\"", "\"value\": 300"] {
            assert!(json.contains(expected), "{expected} in {json}");
        }
    }
}

#[test]
fn mistakes_are_one_sentence_and_exit_code_2() {
    for (args, expected) in [
        (&["no-such-machine"][..], "known are cascade-lake-optane"),
        (&["./no-such-file.toml"], "cannot be read"),
        (&["cxl-expander", "--set", "cxl.latency=fast"], "250ns"),
        (&["cxl-expander", "--set", "hbm.latency=3ns"], "the tiers are dram, cxl"),
        (&["--topology", "no-such-file.xml"], "synthetic description"),
    ] {
        assert_refused(hearth("mistakes", args).1, expected);
    }
}

#[test]
fn an_unwritable_cache_is_found_out_before_measuring() {
    let (_, mut command) = hearth("unwritable", &["--measure"]);
    command.env("XDG_CACHE_HOME", "/proc/no-such-directory");
    assert_refused(command, "XDG_CACHE_HOME");
}

#[test]
fn measured_figures_are_kept_and_shown_later() {
    let (home, mut measure) = hearth("measure", &["--measure"]);
    let cache = home.join("cache/hearth");
    drop(fs::remove_dir_all(&cache));
    let text = stdout(&measure.output().unwrap());
    assert!(text.contains("measured") && text.contains("1R1W"), "{text}");

    let kept: Vec<PathBuf> = fs::read_dir(&cache).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777, 0o600);

    let json = stdout(&hearth("measure", &["--json"]).1.output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for tier in json["tier"].as_array().unwrap() {
        for figure in ["latency", "read_bandwidth", "write_bandwidth"] {
            assert_eq!(tier[figure]["origin"], "measured", "{figure} of {tier}");
        }
        // Main memory, not a cache: no machine answers a random read in less than 40 ns.
        let latency = tier["latency"]["value"].as_f64().unwrap();
        assert!((40.0..5000.0).contains(&latency), "{latency} ns");
        let read = tier["read_bandwidth"]["value"].as_f64().unwrap();
        assert!((0.2..20_000.0).contains(&read), "{read} GB/s");
    }
    assert!(!json["measured"]["pairs"].as_array().unwrap().is_empty());
    for point in json["measured"]["pairs"][0]["bandwidth"].as_array().unwrap() {
        let [read, random] = ["read", "random_read"].map(|f| point[f].as_f64().unwrap());
        assert!(0.05 < random && random < read, "lines in random order come slower than in their order: {point}");
    }

    fs::write(&kept[0], "{").unwrap();
    assert_refused(hearth("measure", &[]).1, "`hearth platform --measure`");
}
