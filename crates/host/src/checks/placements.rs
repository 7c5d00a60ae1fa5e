//! Checks of the CPUs and memory nodes that `--placement` and `--mem-node` can choose.

use bytecost_spec::host::Level;
use bytecost_spec::{CircumstanceKind, Nearness, cpulist};

use super::{Assessment, CheckInput, count};
use crate::placement;

/// Pairs that are listed; of further ones the number is given.
const LISTED: usize = 4;

/// The pairs of CPUs that a named placement uses, or the reason why there are none.
pub(super) fn nearness(input: &CheckInput<'_>, nearness: Nearness) -> Assessment {
    let means = format!(
        "what `--placement {}` runs: {}",
        nearness.name(),
        nearness.summary()
    );
    match placement::pairs(nearness, input.host) {
        Ok(pairs) => {
            let listed = pairs.cpus.iter().take(LISTED);
            let first: Vec<String> = listed.map(|(a, b)| format!("{a}:{b}")).collect();
            let more = match pairs.cpus.len().saturating_sub(LISTED) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            Assessment::good(
                format!(
                    "CPUs {}{more}; the first share {}",
                    first.join(" "),
                    pairs.shares
                ),
                means,
            )
        }
        Err(why) => Assessment::note("not available", why),
    }
}

pub(super) fn offline(input: &CheckInput<'_>) -> Assessment {
    match input.host.cpus_offline.as_slice() {
        [] => Assessment::good("none", "every CPU that is there can be used"),
        cpus => Assessment::note(
            cpulist::write(cpus),
            "they are offline: no thread runs there",
        )
        .remedy(format!(
            "as root: `echo 1 > /sys/devices/system/cpu/cpu{}/online`",
            cpus[0]
        )),
    }
}

pub(super) fn isolated(input: &CheckInput<'_>) -> Assessment {
    let lists = ["isolated", "nohz_full"].map(|name| {
        let list = input.roots.sys(&format!("devices/system/cpu/{name}"));
        let cpus = cpulist::parse(&list.ok()?).ok()?;
        (!cpus.is_empty()).then(|| format!("{name} {}", cpulist::write(&cpus)))
    });
    let found: Vec<String> = lists.into_iter().flatten().collect();
    match found.as_slice() {
        [] => Assessment::good("none", "the scheduler uses all CPUs that are allowed"),
        found => Assessment {
            level: Level::Note,
            ..Assessment::disturbed(CircumstanceKind::IsolatedCpus, found.join(", "))
        },
    }
}

pub(super) fn memory(input: &CheckInput<'_>) -> Assessment {
    let nodes = &input.host.memory_nodes;
    match nodes.len() {
        0 => Assessment::unknown(
            "the kernel reports no nodes",
            "`--mem-node` is not available",
        ),
        1 => Assessment::good("one", "there is no memory to choose with `--mem-node`"),
        n => Assessment::note(
            format!("{}: {}", count(n, "node"), cpulist::write(nodes)),
            "`--mem-node` takes the memory of both ends from one of them",
        ),
    }
}
