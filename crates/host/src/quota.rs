//! The CPU time that control groups allow (the kernel's cgroup-v2 document, `cpu.max`; for the
//! first version sched-bwc, `cpu.cfs_quota_us`).

use crate::roots::Roots;

/// The most levels of a control group's path that are looked at.
const MOST_LEVELS: usize = 64;

/// The tightest quota on the way from this process's group to the root.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    /// CPU time in each period, in µs.
    pub(crate) quota_us: u64,
    /// The period, in µs; never 0.
    pub(crate) period_us: u64,
}

impl Quota {
    /// How many CPUs that makes.
    pub(crate) fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// Reads it; none where there is no limit.
///
/// # Errors
/// Why it cannot be known.
pub(crate) fn read(roots: &Roots) -> Result<Option<Quota>, String> {
    let groups = roots.proc("self/cgroup")?;
    let mut tightest: Option<Quota> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let mounts: Vec<String> = if controllers.is_empty() {
            vec!["fs/cgroup".to_owned(), "fs/cgroup/unified".to_owned()]
        } else if controllers.split(',').any(|c| c == "cpu") {
            vec![
                format!("fs/cgroup/{controllers}"),
                "fs/cgroup/cpu".to_owned(),
            ]
        } else {
            continue;
        };
        for mount in mounts.iter().filter(|mount| !mount.contains("..")) {
            for dir in levels(path) {
                let found = quota(roots, &format!("{mount}{dir}"));
                let tighter = |q: &Quota| tightest.as_ref().is_none_or(|t| q.cpus() < t.cpus());
                if let Some(found) = found.filter(tighter) {
                    tightest = Some(found);
                }
            }
        }
    }
    Ok(tightest)
}

/// `/a/b` gives `/a/b`, `/a` and the root. A path that leads out of what is mounted gives the
/// root alone.
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

fn quota(roots: &Roots, dir: &str) -> Option<Quota> {
    let (quota, period) = match roots.sys(&format!("{dir}/cpu.max")) {
        Ok(both) => {
            let (quota, period) = both.split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Err(_) => (
            roots.sys(&format!("{dir}/cpu.cfs_quota_us")).ok()?,
            roots.sys(&format!("{dir}/cpu.cfs_period_us")).ok()?,
        ),
    };
    // `max` and -1 are no limit.
    let quota_us = quota.parse().ok()?;
    let period_us = period.parse().ok().filter(|p| *p > 0)?;
    Some(Quota {
        quota_us,
        period_us,
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
