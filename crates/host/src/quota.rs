//! The CPU time that control groups allow (cgroup-v2, `cpu.max`; sched-bwc, `cpu.cfs_quota_us`).

use std::path::PathBuf;

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Obstacle;
use bytecost_spec::units::number;

use crate::cgroups::{self, Version};
use crate::roots::Roots;

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
pub fn levels(roots: &Roots) -> Result<Vec<QuotaLevel>, String> {
    cgroups::around(roots, "cpu", |version, dir| level(roots, version, dir))
}

/// The quotas among them, the tightest first.
pub(crate) fn obstacles(roots: &Roots) -> Result<Vec<Obstacle>, String> {
    let mut all: Vec<(PathBuf, Quota)> = levels(roots)?
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
