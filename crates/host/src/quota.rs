//! The CPU time that control groups allow (cgroup-v2, `cpu.max`; sched-bwc, `cpu.cfs_quota_us`).

use std::path::PathBuf;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::units::number;

use crate::cgroups::{self, Version};
use crate::roots::Roots;

/// The most levels of a control group's path that are looked at.
const MOST_LEVELS: usize = 64;

/// A control group around this process in which CPU time can be bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaLevel {
    /// Its interface.
    pub version: Version,
    /// Its directory, below the root of the caller's `/sys`.
    pub dir: PathBuf,
    pub(crate) quota: Option<Quota>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    quota_us: u64,
    /// The period, in µs; never 0.
    period_us: u64,
}

impl Quota {
    fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    fn in_words(&self) -> String {
        format!(
            "{} CPUs: {} ms in each {} ms",
            number(self.cpus()),
            number(self.quota_us as f64 / 1e3),
            number(self.period_us as f64 / 1e3)
        )
    }
}

/// The groups from this process's own up to the root of what it sees, each once, or why not known.
pub fn around(roots: &Roots) -> Result<Vec<QuotaLevel>, String> {
    let groups = roots.proc("self/cgroup")?;
    let mut all = Vec::new();
    for (controllers, path) in cgroups::groups(&groups) {
        let (version, mounts) = if controllers.is_empty() {
            let mounts = ["fs/cgroup".to_owned(), "fs/cgroup/unified".to_owned()];
            (Version::V2, mounts)
        } else if controllers.split(',').any(|c| c == "cpu") {
            let named = format!("fs/cgroup/{controllers}");
            (Version::V1, [named, "fs/cgroup/cpu".to_owned()])
        } else {
            continue;
        };
        // One may be a link to the other.
        let found = mounts.iter().filter(|m| !m.contains("..")).map(|mount| {
            let dirs = levels(path).into_iter().map(|dir| format!("{mount}{dir}"));
            dirs.filter_map(|dir| level(roots, version, &dir)).collect()
        });
        let found: Option<Vec<QuotaLevel>> =
            found.into_iter().find(|found: &Vec<_>| !found.is_empty());
        all.extend(found.unwrap_or_default());
    }
    Ok(all)
}

/// The quotas among them, the tightest first.
pub(crate) fn obstacles(roots: &Roots) -> Result<Vec<Obstacle>, String> {
    let mut all: Vec<(PathBuf, Quota)> = around(roots)?
        .into_iter()
        .filter_map(|level| Some((level.dir, level.quota?)))
        .collect();
    all.sort_by(|(_, a), (_, b)| a.cpus().total_cmp(&b.cpus()));
    let told = all.into_iter().map(|(dir, quota)| {
        let below = dir.strip_prefix(&roots.sys).unwrap_or(&dir);
        Obstacle {
            kind: CircumstanceKind::Quota,
            place: format!("/sys/{}", below.display()),
            found: quota.in_words(),
            limits: true,
        }
    });
    Ok(told.collect())
}

/// `/a/b` gives `/a/b`, `/a` and the root; a path that leads out of the mount the root alone.
fn levels(path: &str) -> Vec<String> {
    let mut levels = vec![String::new()];
    if path.split('/').any(|part| part == "..") {
        return levels;
    }
    for part in path.split('/').filter(|p| !p.is_empty()).take(MOST_LEVELS) {
        let parent = levels.last().cloned().unwrap_or_default();
        levels.push(format!("{parent}/{part}"));
    }
    levels.reverse();
    levels
}

/// A group that is there and can bound CPU time; that of the root of version 2 cannot.
fn level(roots: &Roots, version: Version, dir: &str) -> Option<QuotaLevel> {
    let (quota, period) = match version {
        Version::V2 => {
            let both = roots.sys(&format!("{dir}/cpu.max")).ok()?;
            let (quota, period) = both.split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Version::V1 => (
            roots.sys(&format!("{dir}/cpu.cfs_quota_us")).ok()?,
            roots.sys(&format!("{dir}/cpu.cfs_period_us")).ok()?,
        ),
    };
    // `max` and -1 are no limit.
    let quota = match (quota.parse(), period.parse()) {
        (Ok(quota_us), Ok(period_us)) if period_us > 0 => Some(Quota {
            quota_us,
            period_us,
        }),
        _ => None,
    };
    Some(QuotaLevel {
        version,
        dir: roots.sys.join(dir),
        quota,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_walked_up_to_the_root() {
        assert_eq!(levels("/"), [""]);
        assert_eq!(levels("/a/b"), ["/a/b", "/a", ""]);
        assert_eq!(levels("/../../x"), [""]);
        assert_eq!(levels(&"/x".repeat(1000)).len(), MOST_LEVELS + 1);
    }
}
