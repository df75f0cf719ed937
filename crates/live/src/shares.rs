//! How several programs share the fast memory. Left alone, it goes to whatever gains most from it, whosever it is. With shares each group of programs has
//! a part that no other group can take from it; what it does not use is lent to the others until it does.

use crate::Error;
use model::Bytes;
use nix::unistd::User;
use std::fs;

/// What makes a group of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// All of a user; its name is the user's number.
    User,
    /// All of a control group; its name is the path below the hierarchy's root, and if that or a path above it is named by a share, all below that.
    Cgroup,
    /// All that run an executable of this file name.
    Command,
    /// A process and all that descend from it, such as a database server's or an MPI job's; its name is the number of the first one.
    Job,
}

/// What a group may count on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// So many bytes of the fastest tier.
    Bytes(u64),
    /// Of what is not reserved so, its part among the weights of all groups that have a process.
    Weight(f64),
}

/// How the fast memory is shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    by: By,
    named: Vec<(String, Part)>,
    /// What groups have that are not named.
    others: Part,
}

impl Shares {
    /// Shares by what the user says: without anything named all groups have equal parts; where weights are named the others have the weight 1; where
    /// bytes are reserved only, the others share what is left by what they gain from it. Users are given by name or number.
    ///
    /// # Errors
    /// One sentence: a name that is given twice, an unknown user, a weight that is none.
    pub fn new(by: By, weights: &[(String, f64)], reserved: &[(String, Bytes)]) -> Result<Shares, Error> {
        let mut named: Vec<(String, Part)> = Vec::new();
        let weights = weights.iter().map(|(name, w)| (name, "--weight", Part::Weight(*w)));
        let reserved = reserved.iter().map(|(name, b)| (name, "--reserve", Part::Bytes(b.0)));
        let (mut weighted, mut bytes) = (false, false);
        for (name, option, part) in weights.chain(reserved) {
            match part {
                Part::Weight(w) if !(w > 0.0 && w.is_finite()) => {
                    return Err(Error(format!("--weight {name}={w}: give a number above 0, for example 2")));
                }
                Part::Weight(_) => weighted = true,
                Part::Bytes(_) => bytes = true,
            }
            let known = match by {
                By::User => user(name).ok_or_else(|| Error(format!("{option} {name}: there is no such user")))?,
                By::Cgroup => format!("/{}", name.trim_matches('/')),
                By::Command => name.clone(),
                By::Job => return Err(Error(format!("{option} {name}: jobs have no names; they share equally"))),
            };
            if named.iter().any(|(n, _)| *n == known) {
                return Err(Error(format!("{option} {name}: it has a share already; give one for each")));
            }
            named.push((known, part));
        }
        let others = Part::Weight(if bytes && !weighted { 0.0 } else { 1.0 });
        Ok(Shares { by, named, others })
    }

    /// All bytes that are reserved.
    pub fn reserved(&self) -> Bytes {
        Bytes(self.named.iter().filter_map(|(_, part)| if let Part::Bytes(b) = part { Some(*b) } else { None }).sum())
    }

    /// The group of a process that reports. `parent`: the group of the process that it descends from, if it is known.
    pub fn group(&self, pid: u32, uid: u32, exe: &str, parent: Option<&str>) -> String {
        match self.by {
            By::User => uid.to_string(),
            By::Command => exe.rsplit('/').next().unwrap_or(exe).to_string(),
            By::Job => parent.map_or_else(|| pid.to_string(), str::to_string),
            By::Cgroup => self.below(&cgroup(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default())),
        }
    }

    /// The named control group that holds this one; the nearest, if several do.
    fn below(&self, path: &str) -> String {
        let holds = |name: &&str| {
            *name == "/" || path.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let names = self.named.iter().map(|(name, _)| name.as_str());
        names.filter(holds).max_by_key(|name| name.len()).unwrap_or(path).to_string()
    }

    fn part(&self, group: &str) -> Part {
        self.named.iter().find(|(name, _)| name == group).map_or(self.others, |(_, part)| *part)
    }
}

/// The number of a user who is given by name or number.
fn user(name: &str) -> Option<String> {
    match name.parse::<u32>() {
        Ok(uid) => Some(uid.to_string()),
        Err(_) => User::from_name(name).ok().flatten().map(|u| u.uid.to_string()),
    }
}

/// The path in the unified hierarchy (cgroups(7), /proc/PID/cgroup), else that of the memory controller.
fn cgroup(text: &str) -> String {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of = |wanted: &str| lines().find(|(controllers, _)| controllers.split(',').any(|c| c == wanted));
    // In a hybrid hierarchy all is in the root of the unified one.
    let (_, path) = of("").filter(|(_, path)| *path != "/").or(of("memory")).or(of("")).unwrap_or(("", "/"));
    path.to_string()
}

/// What each group may count on at the moment of a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guarantees {
    /// Name of each group that has a process, and its part.
    groups: Vec<(String, Part)>,
    /// Number of the group of each process.
    of: Vec<usize>,
}

impl Guarantees {
    /// Of these processes, each with its group, or none if it is over.
    pub fn new<'a>(shares: &Shares, processes: impl Iterator<Item = Option<&'a str>>) -> Guarantees {
        let mut new = Guarantees::default();
        for group in processes {
            let number = group.map(|name| {
                new.groups.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
                    new.groups.push((name.to_string(), shares.part(name)));
                    new.groups.len() - 1
                })
            });
            new.of.push(number.unwrap_or(usize::MAX));
        }
        new
    }

    /// Number of a process's group.
    pub fn group(&self, process: usize) -> usize {
        self.of.get(process).copied().unwrap_or(usize::MAX)
    }

    /// Names of the groups, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(name, _)| name.as_str())
    }

    /// Bytes that each group may count on, of so many in a tier. If more is reserved than there is, all get less of it.
    pub fn bytes(&self, tier: usize, all: u64) -> Vec<u64> {
        let reserved = |part: &Part| match part {
            Part::Bytes(b) if tier == 0 => *b as f64,
            _ => 0.0,
        };
        let weight = |part: &Part| if let Part::Weight(w) = part { *w } else { 0.0 };
        let asked: f64 = self.groups.iter().map(|(_, p)| reserved(p)).sum();
        let weights: f64 = self.groups.iter().map(|(_, p)| weight(p)).sum();
        let scale = (all as f64 / asked.max(1.0)).min(1.0);
        let rest = all as f64 - scale * asked;
        let one =
            |part: &Part| scale * reserved(part) + if weights > 0.0 { rest * weight(part) / weights } else { 0.0 };
        self.groups.iter().map(|(_, part)| one(part) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(by: By, weights: &[(&str, f64)], reserved: &[(&str, u64)]) -> Result<Shares, Error> {
        let weights: Vec<_> = weights.iter().map(|(n, w)| (n.to_string(), *w)).collect();
        let reserved: Vec<_> = reserved.iter().map(|(n, b)| (n.to_string(), Bytes(*b))).collect();
        Shares::new(by, &weights, &reserved)
    }

    fn bytes(shares: &Shares, groups: &[&str]) -> Vec<u64> {
        Guarantees::new(shares, groups.iter().map(|g| Some(*g))).bytes(0, 1200)
    }

    #[test]
    fn equal_weighted_and_reserved() {
        let equal = shares(By::Command, &[], &[]).expect("good");
        assert_eq!(bytes(&equal, &["a", "b", "c"]), [400, 400, 400]);
        let weighted = shares(By::Command, &[("a", 3.0), ("b", 2.0)], &[]).expect("good");
        assert_eq!(bytes(&weighted, &["a", "b", "c"]), [600, 400, 200]);
        assert_eq!(bytes(&weighted, &["b", "c"]), [800, 400], "of those that are there");
        let reserved = shares(By::Command, &[], &[("a", 500)]).expect("good");
        assert_eq!(bytes(&reserved, &["a", "b", "c"]), [500, 0, 0], "the others have what is left by what they gain");
        let both = shares(By::Command, &[("b", 3.0)], &[("a", 800)]).expect("good");
        assert_eq!(bytes(&both, &["a", "b", "c"]), [800, 300, 100]);
        let too_much = shares(By::Command, &[], &[("a", 1800), ("b", 600)]).expect("good");
        assert_eq!(bytes(&too_much, &["a", "b"]), [900, 300]);
        assert_eq!(too_much.reserved(), Bytes(2400));
        let second = Guarantees::new(&both, [Some("a"), None, Some("b")].into_iter());
        assert_eq!(second.bytes(1, 1000), [0, 1000], "what is reserved is of the fastest tier");
        assert_eq!((second.group(0), second.group(1), second.group(2)), (0, usize::MAX, 1));
    }

    #[test]
    fn groups_are_known_by_their_names() {
        let by = |by| shares(by, &[], &[]).expect("good");
        assert_eq!(by(By::User).group(7, 1000, "/bin/a", None), "1000");
        assert_eq!(by(By::Command).group(7, 1000, "/usr/bin/redis-server", None), "redis-server");
        assert_eq!(by(By::Job).group(7, 1000, "/bin/a", None), "7");
        assert_eq!(by(By::Job).group(8, 1000, "/bin/a", Some("7")), "7");
        let root = shares(By::User, &[("root", 2.0)], &[]).expect("there is always root");
        assert_eq!(root.part("0"), Part::Weight(2.0));
        let slices =
            shares(By::Cgroup, &[("/system.slice/db.service/", 2.0), ("system.slice", 1.0)], &[]).expect("good");
        for (path, group) in [
            ("/system.slice/db.service", "/system.slice/db.service"),
            ("/system.slice/db.service/worker", "/system.slice/db.service"),
            ("/system.slice/db.service-2", "/system.slice"),
            ("/user.slice/user-1000.slice", "/user.slice/user-1000.slice"),
        ] {
            assert_eq!(slices.below(path), group);
        }
    }

    #[test]
    fn control_groups_are_read_from_both_hierarchies() {
        assert_eq!(cgroup("0::/user.slice/a:b\n"), "/user.slice/a:b");
        assert_eq!(cgroup("12:memory:/docker/x\n1:name=systemd:/y\n0::/\n"), "/docker/x");
        assert_eq!(cgroup("0::/\n"), "/");
        assert_eq!(cgroup(""), "/");
    }

    #[test]
    fn what_cannot_be_is_said() {
        let why = |by, weights: &[(&str, f64)], reserved: &[(&str, u64)]| {
            shares(by, weights, reserved).expect_err("it is refused").to_string()
        };
        assert!(why(By::Command, &[("a", 0.0)], &[]).contains("--weight a=0: give a number above 0"));
        assert!(why(By::Command, &[("a", f64::NAN)], &[]).contains("above 0"));
        assert!(why(By::Command, &[("a", 1.0)], &[("a", 1)]).contains("--reserve a: it has a share already"));
        assert!(why(By::User, &[("no such user", 1.0)], &[]).contains("there is no such user"));
        assert!(why(By::Job, &[("7", 1.0)], &[]).contains("jobs have no names"));
    }
}
