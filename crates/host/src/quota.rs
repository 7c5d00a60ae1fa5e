//! CPU quotas of control groups: `cpu.max` (kernel documentation, cgroup-v2) and `cpu.cfs_quota_us`
//! (sched-bwc).

use std::path::PathBuf;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::units::number;

use crate::cgroups::{self, Version};
use crate::roots::Roots;

/// A control group of this process, or an ancestor, in which a CPU quota can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaLevel {
    /// Its interface.
    pub version: Version,
    /// Its directory, below the root of the caller's `/sys`.
    pub dir: PathBuf,
    quota: Option<Quota>,
}

/// CPU time that the threads of a group may use in each period.
#[derive(Clone, Debug, PartialEq)]
struct Quota {
    /// CPU time, in µs.
    quota_us: u64,
    /// The period of elapsed time, in µs; never 0.
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

/// The groups from this process's own one up to the topmost that it sees.
///
/// # Errors
/// Why the groups are not known.
pub fn levels(roots: &Roots) -> Result<Vec<QuotaLevel>, String> {
    cgroups::read_ancestors(roots, "cpu", |version, dir| level(roots, version, dir))
}

/// The quotas of these groups as obstacles, the tightest first.
pub(crate) fn obstacles(roots: &Roots) -> Result<Vec<Obstacle>, String> {
    let mut quotas: Vec<(PathBuf, Quota)> = levels(roots)?
        .into_iter()
        .filter_map(|level| Some((level.dir, level.quota?)))
        .collect();
    quotas.sort_by(|(_, a), (_, b)| a.cpus().total_cmp(&b.cpus()));
    let obstacles = quotas.into_iter().map(|(dir, quota)| {
        let below = dir.strip_prefix(&roots.sys).unwrap_or(&dir);
        Obstacle {
            kind: CircumstanceKind::Quota,
            place: format!("/sys/{}", below.display()),
            found: quota.in_words(),
            limits: true,
        }
    });
    Ok(obstacles.collect())
}

/// A group with its quota; none where the group has no quota files, as the root of version 2.
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
