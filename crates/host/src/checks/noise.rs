//! Checks of what disturbs a measurement, and of the clocks that it is taken by.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Level;
use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_sys::proc_view;

use super::{CheckInput, Told, count};
use crate::{limits, quota as cgroup};

const CLOCK: &str = "devices/system/clocksource/clocksource0/current_clocksource";

pub(super) fn quota(seen: &CheckInput<'_>) -> Told {
    match cgroup::obstacles(seen.roots).as_deref() {
        Err(why) => Told::unknown(why, "a quota would show as pauses of whole trials"),
        Ok([]) => Told::good("none", "no control group stops this process"),
        Ok([tightest, ..]) => Told::disturbed(CircumstanceKind::Quota, tightest.found.as_str()),
    }
}

pub(super) fn other_processes(seen: &CheckInput<'_>) -> Told {
    match proc_view::hides_others(&seen.roots.proc) {
        Some(why) => Told::disturbed(
            CircumstanceKind::HiddenProcesses,
            format!("not visible: {why}"),
        ),
        None => Told::good("visible", "the CPU time of other programs is read"),
    }
}

pub(super) fn load(seen: &CheckInput<'_>) -> Told {
    let means = CircumstanceKind::OtherProcesses.row().means;
    let average = seen.roots.proc("loadavg").and_then(|text| {
        let first = text.split_whitespace().next().unwrap_or_default();
        match first.parse::<f64>() {
            Ok(load) if load.is_finite() && load >= 0.0 => Ok(load),
            _ => Err(format!("/proc/loadavg says `{first}`")),
        }
    });
    let average = known!(average, means);
    let running = seen.roots.proc("stat").ok().and_then(|stat| {
        let line = stat
            .lines()
            .find_map(|l| l.strip_prefix("procs_running "))?;
        line.trim().parse::<u64>().ok()
    });
    // This process is one of them.
    let others = running.map(|n| n.saturating_sub(1));
    let found = match others {
        Some(n) => format!("{average:.2} in the last minute, {n} others running now"),
        None => format!("{average:.2} in the last minute"),
    };
    let cpus = seen.host.cpus.len().max(1) as f64;
    if average / cpus > 0.2 || others.is_some_and(|n| n as f64 >= cpus) {
        Told::disturbed(CircumstanceKind::OtherProcesses, found)
    } else {
        Told::good(found, means)
    }
}

pub(super) fn steal(seen: &CheckInput<'_>) -> Told {
    let means = CircumstanceKind::Steal.row().means;
    // proc_stat(5): user nice system idle iowait irq softirq steal.
    let ticks: Option<Vec<u64>> = seen.roots.proc("stat").ok().and_then(|stat| {
        let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let fields = line.split_whitespace().take(8).map(str::parse);
        fields.collect::<Result<_, _>>().ok()
    });
    let Some([.., stolen]) = ticks.as_deref().filter(|t| t.len() == 8) else {
        return Told::unknown("/proc/stat has none", means);
    };
    let total = ticks
        .iter()
        .flatten()
        .fold(0_u64, |a, b| a.saturating_add(*b));
    let share = *stolen as f64 / total.max(1) as f64;
    let found = format!("{:.2} % since the start of the machine", share * 100.0);
    if share > 0.01 {
        Told::disturbed(CircumstanceKind::Steal, found)
    } else {
        Told::good(found, means)
    }
}

pub(super) fn clock_source(seen: &CheckInput<'_>) -> Told {
    let unknown = "what reading the clock costs is measured by `null`";
    let name = known!(seen.roots.sys(CLOCK), unknown);
    match name.as_str() {
        "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" => {
            Told::good(name, "the clock is read without a system call")
        }
        "hpet" | "acpi_pm" | "jiffies" | "xen" => {
            let means = "each reading of the clock is a system call of about a microsecond: latencies grow by it";
            Told::warning(name, means).remedy(format!(
                "as root: `echo tsc > /sys/{CLOCK}`, or the boot option tsc=reliable where the hardware's is sound"
            ))
        }
        _ => Told::note(name, "what reading it costs is not known"),
    }
}

pub(super) fn clock_resolution(seen: &CheckInput<'_>) -> Told {
    let found = format!("{} ns", number(seen.probes.clock_resolution_ns as f64));
    if seen.probes.clock_resolution_ns <= 1_000 {
        Told::good(found, "fine enough for single messages")
    } else {
        Told::warning(found, "latencies below a few such steps are rounded")
            .remedy("a kernel with high-resolution timers, and not the boot option highres=off")
    }
}

pub(super) fn cpu_clock(seen: &CheckInput<'_>) -> Told {
    let clock = &seen.probes.cpu_clock;
    let found = match (clock.ratio(), clock.configured) {
        (Some(ratio), _) => format!(
            "{:.1} % of elapsed time, of a thread that sends to itself over loopback",
            ratio * 100.0
        ),
        (None, Some(on)) => format!(
            "not measured; the kernel is built {} CONFIG_IRQ_TIME_ACCOUNTING",
            if on { "with" } else { "without" }
        ),
        (None, None) => match &clock.failed {
            Some(why) => format!("not known: {why}"),
            None => "not known: the thread was taken off its CPU in every try".to_owned(),
        },
    };
    match clock.verdict() {
        ClockVerdict::Keeps => Told::good(found, "a thread's CPU time holds that of interrupts"),
        ClockVerdict::Loses => Told::warning(
            found,
            "the kernel leaves interrupts out of a thread's CPU time, and with them what receives over loopback: CPU time is read by other means, or there is none",
        )
        .remedy("boot with tsc=noirqtime (x86), or with a kernel without CONFIG_IRQ_TIME_ACCOUNTING"),
        ClockVerdict::NotTold => Told::note(
            found,
            "a kernel with CONFIG_IRQ_TIME_ACCOUNTING leaves interrupts out of a thread's CPU time",
        )
        .remedy("stop other programs, and run it again"),
    }
}

pub(super) fn timers(seen: &CheckInput<'_>) -> Told {
    let us = seen.probes.timer_overshoot_ns as f64 / 1e3;
    let found = format!("a short sleep ends {} µs late", number(us));
    if us <= 200.0 {
        Told::good(found, "waiting sides wake up in time")
    } else {
        let means = "waking up takes long here, which latencies of waiting sides contain";
        Told::note(found, means)
    }
}

pub(super) fn huge_pages(seen: &CheckInput<'_>) -> Told {
    let means = "they change the cost of a copy and of a pinned page; the payload has them only where the kernel always gives them";
    let read = seen.roots.sys("kernel/mm/transparent_hugepage/enabled");
    let text = known!(read, means);
    let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text);
    if chosen == "never" {
        return Told {
            level: Level::Note,
            ..Told::disturbed(CircumstanceKind::HugePagesOff, chosen)
        };
    }
    if chosen != "always" {
        return Told::good(chosen, means);
    }
    let means = "any memory may become huge pages in mid-run, which changes what a copy costs";
    Told::note(chosen, means)
        .remedy("as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`")
}

pub(super) fn numa_balancing(seen: &CheckInput<'_>) -> Told {
    let nodes: std::collections::BTreeSet<u32> =
        seen.host.cpus.iter().filter_map(|c| c.node).collect();
    match seen.roots.proc("sys/kernel/numa_balancing").as_deref() {
        Ok("0") => Told::good("off", "the kernel does not move pages during a trial"),
        Ok(_) if nodes.len() > 1 => Told::warning(
            "on",
            "the kernel unmaps and moves pages in mid-trial to bring them near: faults and drift",
        )
        .remedy("as root: `sysctl kernel.numa_balancing=0`"),
        Ok(_) => Told::good("on, with one node", "nothing is moved"),
        Err(why) => Told::unknown(why, "a kernel without it moves no pages"),
    }
}

pub(super) fn swap(seen: &CheckInput<'_>) -> Told {
    let means = "payload that is swapped out costs a read from disk";
    let text = known!(seen.roots.proc("swaps"), means);
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let used_kib: Vec<u64> = lines
        .map(|line| line.split_whitespace().nth(3).and_then(|n| n.parse().ok()))
        .map(Option::unwrap_or_default)
        .collect();
    let used = used_kib.iter().fold(0_u64, |a, b| a.saturating_add(*b));
    let areas = count(used_kib.len(), "area");
    match (used_kib.len(), used) {
        (0, _) => Told::good("none", "payload stays in memory"),
        (_, 0) => Told::good(format!("{areas}, unused"), means),
        _ => {
            let used = bytes_in_words(used.saturating_mul(1024));
            Told::note(format!("{areas}, {used} in use"), means)
                .remedy("free memory, then as root `swapoff -a && swapon -a`")
        }
    }
}

pub(super) fn memory(seen: &CheckInput<'_>) -> Told {
    let means = "both sides of a flow hold its ring: 4 MiB each by default";
    let total = seen.host.memory_bytes;
    let in_words = |bytes: u64| match bytes {
        0x2000_0000.. => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        _ => format!("{} MiB", bytes >> 20),
    };
    match limits::available_memory(seen.roots) {
        Some(available) if total > 0 => {
            let of_machine = in_words(total);
            let found = match &seen.host.memory_limit {
                Some(group) if group.left() <= available => format!(
                    "{} available of {} ({}; the machine has {of_machine})",
                    in_words(available),
                    in_words(group.limit),
                    group.name
                ),
                _ => format!("{} available of {of_machine}", in_words(available)),
            };
            if let Some(group) = &seen.host.memory_limit
                && group.left() <= available
                && available < 1 << 30
            {
                Told::disturbed(CircumstanceKind::MemoryLimit, found)
            } else if available >= 1 << 30 {
                Told::good(found, means)
            } else {
                let means = "with little memory free the kernel reclaims in mid-trial";
                Told::warning(found, means)
                    .remedy("end what holds memory, or choose a smaller --ring")
            }
        }
        _ => Told::unknown("/proc/meminfo has nothing", means),
    }
}
