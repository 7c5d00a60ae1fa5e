//! Throttling by quotas around the whole run: those of its own control group and the groups above.
//!
//! The kernel counts a pause when it is over, often after its window. So each trial records what was
//! counted since the one before it, and all trials together have all of it.

use std::path::PathBuf;

use bytecost_host::cgroups::Version;
use bytecost_host::{Roots, quota};
use bytecost_spec::{Counter, Readings};

use crate::groups::Throttled;

#[derive(Debug)]
pub(crate) struct Quotas {
    accounts: Vec<(PathBuf, Version)>,
    last: Result<Throttled, String>,
}

impl Quotas {
    pub(crate) fn open(roots: &Roots) -> Quotas {
        let levels = quota::levels(roots).unwrap_or_default().into_iter();
        let accounts = levels.map(|l| (l.dir.join("cpu.stat"), l.version));
        let mut quotas = Quotas {
            accounts: accounts.collect(),
            last: Ok(Throttled::default()),
        };
        quotas.last = quotas.read();
        quotas
    }

    /// Throttling since the last call; nothing where no quota ever stopped anything.
    pub(crate) fn since_last(&mut self) -> Readings {
        let now = self.read();
        let from = std::mem::replace(&mut self.last, now);
        let never = |t: &Result<Throttled, String>| *t == Ok(Throttled::default());
        if never(&from) && never(&self.last) {
            return Readings::new();
        }
        let increase = |field| Throttled::increase(&from, &self.last, field);
        [
            (Counter::QuotaThrottledPeriods, increase(|t| t.throttled)),
            (Counter::QuotaThrottledNs, increase(|t| t.throttled_ns)),
        ]
        .into()
    }

    fn read(&self) -> Result<Throttled, String> {
        let mut sum = Throttled::default();
        for (path, version) in &self.accounts {
            let one = Throttled::read(path, *version)?;
            sum.throttled = sum.throttled.saturating_add(one.throttled);
            sum.throttled_ns = sum.throttled_ns.saturating_add(one.throttled_ns);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Reading;
    use std::fs;

    #[test]
    fn each_trial_tells_what_all_groups_counted_since_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let roots = Roots::under(dir.path());
        assert_eq!(Quotas::open(&roots).since_last(), Readings::new());
        put("proc/self/cgroup", "4:cpu,cpuacct:/a/b\n0::/c\n");
        let of = |path: &str, text: &str| put(&format!("sys/fs/cgroup/{path}"), text);
        let v1 = |n: u32, ns: u32| format!("nr_periods 9\nnr_throttled {n}\nthrottled_time {ns}\n");
        let v2 = |n: u32| format!("nr_periods 9\nnr_throttled {n}\nthrottled_usec {n}\n");
        let account = |group: &str, text: &str| of(&format!("{group}/cpu.stat"), text);
        for group in ["cpu,cpuacct", "cpu,cpuacct/a", "cpu,cpuacct/a/b"] {
            of(&format!("{group}/cpu.cfs_quota_us"), "-1");
            of(&format!("{group}/cpu.cfs_period_us"), "100000");
            account(group, &v1(0, 0));
        }
        of("unified/c/cpu.max", "max 100000");
        account("unified/c", &v2(0));
        let mut quotas = Quotas::open(&roots);
        assert_eq!(quotas.accounts.len(), 4);
        assert_eq!(quotas.since_last(), Readings::new());
        let mut check = |periods: u64, ns: u64| {
            let readings = quotas.since_last();
            let [all, all_ns] = [Counter::QuotaThrottledPeriods, Counter::QuotaThrottledNs];
            assert_eq!(readings[&all], Reading::Measured(periods));
            assert_eq!(readings[&all_ns], Reading::Measured(ns));
        };
        account("cpu,cpuacct/a", &v1(2, 5_000));
        account("unified/c", &v2(3));
        check(5, 8_000);
        check(0, 0);
        account("cpu,cpuacct/a/b", &v1(1, 500));
        check(1, 500);
        fs::remove_file(dir.path().join("sys/fs/cgroup/unified/c/cpu.stat")).unwrap();
        let readings = quotas.since_last();
        assert_eq!(readings[&Counter::QuotaThrottledNs].measured(), None);
    }
}
