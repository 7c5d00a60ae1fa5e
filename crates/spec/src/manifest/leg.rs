//! The legs of a run: segments of blocks that were measured under different conditions.

use serde::{Deserialize, Serialize};

use crate::cpulist;
use crate::host::Host;

/// A run that was resumed on another machine, kernel, boot or build, from its first block on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leg {
    /// The first block of this leg. No block is of two legs.
    pub first_block: u32,
    /// Its start, RFC 3339, UTC.
    pub started: String,
    /// Version of bytecost that measured it.
    pub bytecost_version: String,
    /// Build of bytecost that measured it, if it is known.
    pub build_id: Option<String>,
    /// The machine.
    pub host: Host,
    /// Facts that differ from the leg before.
    pub differences: Vec<Difference>,
}

/// A fact that has changed from one leg to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Name of the fact: `kernel`.
    pub what: String,
    /// Its former value.
    pub was: String,
    /// Its new value.
    pub is: String,
}

const CONGESTION: &str = "net.ipv4.tcp_congestion_control";

/// A build of bytecost on a host: all that a leg is measured by.
#[derive(Clone, Copy, Debug)]
pub struct Measurer<'m> {
    /// Version of bytecost.
    pub version: &'m str,
    /// Build of bytecost, if it is known.
    pub build: Option<&'m str>,
    /// The machine.
    pub host: &'m Host,
}

impl Measurer<'_> {
    /// Returns true if both the boot and the build are known.
    pub fn is_known(&self) -> bool {
        self.host.identity.boot_id.is_some() && self.build.is_some()
    }

    /// The facts that are known of both and differ, the most important first.
    pub fn differences(&self, later: &Measurer<'_>) -> Vec<Difference> {
        let after = later.facts();
        (self.facts().into_iter())
            .filter_map(|(what, was)| {
                let (_, is) = after.iter().find(|(name, _)| *name == what)?;
                (was != *is).then(|| Difference {
                    what,
                    was,
                    is: is.clone(),
                })
            })
            .collect()
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (host, identity) = (self.host, &self.host.identity);
        let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let list = |cpus: &[u32]| text(&cpulist::write(cpus));
        let cpus: Vec<u32> = host.cpus.iter().map(|c| c.cpu).collect();
        let mut facts = vec![
            ("machine", identity.machine_id_hash.clone()),
            ("CPU", text(&host.cpu_model)),
            ("CPUs online", list(&cpus)),
            ("CPUs allowed", list(&host.cpus_allowed)),
            ("architecture", text(&host.architecture)),
            ("kernel", text(&host.kernel)),
            ("kernel version", identity.kernel_version.clone()),
            ("boot", identity.boot_id.clone()),
            ("version of bytecost", text(self.version)),
            ("build of bytecost", self.build.map(str::to_owned)),
            ("kernel command line", identity.kernel_command_line.clone()),
            ("microcode", identity.microcode.clone()),
            (CONGESTION, host.congestion_default.clone()),
            ("net.core.optmem_max", number(host.optmem_max_bytes)),
            ("net.core.wmem_max", number(host.wmem_max_bytes)),
            ("net.core.rmem_max", number(host.rmem_max_bytes)),
        ];
        let settings = identity.settings.iter();
        facts.extend(settings.map(|(name, value)| (name.as_str(), Some(value.clone()))));
        facts
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Cpu, Identity};

    fn host() -> Host {
        Host {
            kernel: "6.1.0".to_owned(),
            cpu_model: "EPYC".to_owned(),
            cpus: [0, 1, 2, 8]
                .map(|cpu| Cpu {
                    cpu,
                    ..Cpu::default()
                })
                .to_vec(),
            cpus_allowed: vec![0],
            identity: Identity {
                machine_id_hash: Some("ab".to_owned()),
                boot_id: Some("one".to_owned()),
                settings: [("net.ipv4.tcp_sack".to_owned(), "1".to_owned())].into(),
                ..Identity::default()
            },
            ..Host::default()
        }
    }

    /// The differences in the form `kernel: 6.1.0 to 6.2.0`.
    fn differing(before: (Option<&str>, &Host), after: (Option<&str>, &Host)) -> Vec<String> {
        let [before, after] = [before, after].map(|(build, host)| Measurer {
            version: "1",
            build,
            host,
        });
        let in_words = |d: &Difference| format!("{}: {} to {}", d.what, d.was, d.is);
        before.differences(&after).iter().map(in_words).collect()
    }

    fn changed(change: impl Fn(&mut Host)) -> Vec<String> {
        let mut after = host();
        change(&mut after);
        differing((Some("x"), &host()), (Some("x"), &after))
    }

    #[test]
    fn a_difference_has_a_name_and_both_values() {
        assert_eq!(changed(|_| {}), [""; 0]);
        let check = |change: fn(&mut Host), line: &str| assert_eq!(changed(change), [line]);
        check(|h| h.kernel = "6.2.0".into(), "kernel: 6.1.0 to 6.2.0");
        let boot = |h: &mut Host| h.identity.boot_id = Some("two".into());
        check(boot, "boot: one to two");
        let machine = |h: &mut Host| h.identity.machine_id_hash = Some("cd".into());
        check(machine, "machine: ab to cd");
        check(|h| h.cpus[2].cpu = 3, "CPUs online: 0-2,8 to 0-1,3,8");
        check(|h| h.cpus_allowed = vec![1], "CPUs allowed: 0 to 1");
        let sack = |h: &mut Host| {
            h.identity.settings = [("net.ipv4.tcp_sack".into(), "0".into())].into();
        };
        check(sack, "net.ipv4.tcp_sack: 1 to 0");
        let builds = differing((Some("x"), &host()), (Some("y"), &host()));
        assert_eq!(builds, ["build of bytecost: x to y"]);
    }

    #[test]
    fn an_unknown_fact_is_no_difference() {
        let unknown = changed(|h| h.identity = Identity::default());
        assert_eq!(unknown, [""; 0]);
        let host = host();
        assert_eq!(differing((None, &host), (Some("y"), &host)), [""; 0]);
        let is_known = |build| {
            let measurer = Measurer {
                version: "1",
                build,
                host: &host,
            };
            measurer.is_known()
        };
        assert!(is_known(Some("y")) && !is_known(None));
    }
}
