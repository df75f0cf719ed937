//! Which mirror of Debian this machine uses, read from its own apt sources: the lab asks no other host than that one.

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The releases whose mirror also has the release that the lab is made of.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];
/// The suites of a release that lie in the same archive as its main suite (security updates do not).
const SUITES: [&str; 4] = ["", "-updates", "-backports", "-proposed-updates"];

/// One place that packages come from.
#[derive(Debug, PartialEq)]
struct Source {
    uri: String,
    suite: String,
    components: Vec<String>,
    /// The keyring named for it, if any; foreign archives name their own.
    signed_by: Option<String>,
}

/// The URI of the Debian mirror that the apt sources below `etc` (`/etc/apt`) name first.
///
/// # Errors
/// If they name none.
pub fn mirror(etc: &Path) -> Result<String, Error> {
    let mut files = vec![etc.join("sources.list")];
    let mut parts: Vec<PathBuf> =
        fs::read_dir(etc.join("sources.list.d")).into_iter().flatten().flatten().map(|f| f.path()).collect();
    parts.sort();
    files.extend(parts);
    for file in files {
        // A file that is not there or not for our eyes names no mirror; if all are so, that is said below.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let sources = match file.extension().and_then(|e| e.to_str()) {
            Some("list") => one_line(&text),
            Some("sources") => deb822(&text),
            _ => continue,
        };
        if let Some(source) = sources.into_iter().find(is_debian) {
            return Ok(source.uri);
        }
    }
    Err(Error(format!(
        "the apt sources in {} name no Debian mirror (suite bookworm or trixie, component main); the lab needs Debian 12 or 13",
        etc.display()
    )))
}

fn is_debian(source: &Source) -> bool {
    let suite = |s: &str| RELEASES.iter().any(|r| SUITES.iter().any(|end| s.strip_prefix(r) == Some(end)));
    suite(&source.suite)
        && source.components.iter().any(|c| c == "main")
        && source.signed_by.as_ref().is_none_or(|key| key.contains("debian-archive"))
        && !source.uri.starts_with("cdrom:")
}

/// The classic form, a line each: `deb [option=value ...] URI SUITE COMPONENT...`.
fn one_line(text: &str) -> Vec<Source> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
    lines.filter_map(|l| one_source(l.strip_prefix("deb")?)).collect()
}

/// What follows `deb` in a line of the classic form.
fn one_source(rest: &str) -> Option<Source> {
    let rest = rest.strip_prefix([' ', '\t', '['].as_slice()).map(|_| rest.trim_start())?;
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_string);
    Some(Source {
        uri: words.next()?,
        suite: words.next()?,
        components: words.collect(),
        signed_by: options.split_whitespace().find_map(|o| o.strip_prefix("signed-by=")).map(str::to_string),
    })
}

/// The form of fields, a paragraph each: `Types`, `URIs`, `Suites`, `Components`, `Signed-By`, `Enabled`.
fn deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    for paragraph in lines.split(|l| l.trim().is_empty()) {
        let field = |name: &str| -> Vec<String> {
            let mut values = Vec::new();
            let mut inside = false;
            for line in paragraph {
                let value = match line.split_once(':') {
                    _ if line.starts_with([' ', '\t']) => line,
                    Some((key, value)) => {
                        inside = key.trim().eq_ignore_ascii_case(name);
                        value
                    }
                    None => continue,
                };
                if inside {
                    values.extend(value.split_whitespace().map(str::to_string));
                }
            }
            values
        };
        let off = field("Enabled").first().is_some_and(|v| v.eq_ignore_ascii_case("no"));
        if off || !field("Types").iter().any(|t| t == "deb") {
            continue;
        }
        for uri in field("URIs") {
            for suite in field("Suites") {
                sources.push(Source {
                    uri: uri.clone(),
                    suite,
                    components: field("Components"),
                    signed_by: field("Signed-By").into_iter().next(),
                });
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Result<String, String> {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir(etc.path().join("sources.list.d")).unwrap();
        fs::write(etc.path().join(file), text).unwrap();
        mirror(etc.path()).map_err(|e| e.to_string())
    }

    #[test]
    fn lines_are_read() {
        let text = "\
# deb http://commented.example.org/debian trixie main
deb-src http://source.example.org/debian trixie main
deb http://security.example.org/debian-security bookworm-security main
deb [arch=amd64 signed-by=/usr/share/keyrings/other.gpg] http://foreign.example.org/debian bookworm main
deb http://vendor.example.org/linux bookworm stable
deb cdrom:[Debian]/ bookworm main
deb [ arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg ] http://mirror.example.org/debian bookworm-updates main contrib # ours
deb http://later.example.org/debian bookworm main
";
        assert_eq!(found("sources.list", text).unwrap(), "http://mirror.example.org/debian");
    }

    #[test]
    fn paragraphs_are_read() {
        let text = "\
Enabled: no
Types: deb
URIs: http://off.example.org/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://source.example.org/debian
Suites: trixie
Components: main

Types: deb
URIs: http://security.example.org/debian-security
Suites: trixie-security
Components: main

types: deb deb-src
# a comment between
uris:
 https://mirror.example.org/debian
 https://second.example.org/debian
Suites: trixie trixie-updates
Components: main non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
";
        assert_eq!(found("sources.list.d/debian.sources", text).unwrap(), "https://mirror.example.org/debian");
    }

    #[test]
    fn a_machine_without_a_debian_mirror_is_told() {
        for (file, text) in [
            ("sources.list", "deb http://archive.example.org/ubuntu noble main\n"),
            ("sources.list.d/a.sources", "Types: deb\nURIs: http://x.example.org\nSuites: noble\nComponents: main\n"),
            ("sources.list.d/old.list.save", "deb http://mirror.example.org/debian trixie main\n"),
        ] {
            let message = found(file, text).unwrap_err();
            assert!(message.contains("no Debian mirror") && !message.contains('\n'), "{message}");
        }
    }
}
