//! Checks of what `--placement` and `--mem-node` can have here.

use bytecost_spec::host::Level;
use bytecost_spec::{CircumstanceKind, Nearness, cpulist};

use super::{CheckInput, Told, count};
use crate::placement;

const NAMED: usize = 4;

pub(super) fn told(seen: &CheckInput<'_>, nearness: Nearness) -> Told {
    let means = format!(
        "what `--placement {}` runs: {}",
        nearness.name(),
        nearness.summary()
    );
    match placement::pairs(nearness, seen.host) {
        Ok(pairs) => {
            let first = pairs.cpus.iter().take(NAMED);
            let first: Vec<String> = first.map(|(a, b)| format!("{a}:{b}")).collect();
            let more = match pairs.cpus.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            Told::good(
                format!(
                    "CPUs {}{more}; the first share {}",
                    first.join(" "),
                    pairs.shares
                ),
                means,
            )
        }
        Err(why) => Told::note("not available", why),
    }
}

pub(super) fn offline(seen: &CheckInput<'_>) -> Told {
    match seen.host.cpus_offline.as_slice() {
        [] => Told::good("none", "every CPU that is there can be used"),
        cpus => Told::note(
            cpulist::write(cpus),
            "they are offline: no thread runs there",
        )
        .remedy(format!(
            "as root: `echo 1 > /sys/devices/system/cpu/cpu{}/online`",
            cpus[0]
        )),
    }
}

pub(super) fn isolated(seen: &CheckInput<'_>) -> Told {
    let lists = ["isolated", "nohz_full"].map(|name| {
        let list = seen.roots.sys(&format!("devices/system/cpu/{name}"));
        let cpus = cpulist::parse(&list.ok()?).ok()?;
        (!cpus.is_empty()).then(|| format!("{name} {}", cpulist::write(&cpus)))
    });
    let found: Vec<String> = lists.into_iter().flatten().collect();
    match found.as_slice() {
        [] => Told::good("none", "the scheduler uses all CPUs that are allowed"),
        found => Told {
            level: Level::Note,
            ..Told::disturbed(CircumstanceKind::IsolatedCpus, found.join(", "))
        },
    }
}

pub(super) fn memory(seen: &CheckInput<'_>) -> Told {
    let nodes = &seen.host.memory_nodes;
    match nodes.len() {
        0 => Told::unknown(
            "the kernel reports no nodes",
            "`--mem-node` is not available",
        ),
        1 => Told::good("one", "there is no memory to choose with `--mem-node`"),
        n => Told::note(
            format!("{}: {}", count(n, "node"), cpulist::write(nodes)),
            "`--mem-node` takes the memory of both ends from one of them",
        ),
    }
}
