//! Checks of noise: other load, memory pressure, clocks and timers.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::host::Level;
use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::units::{bytes_in_words, number};
use bytecost_sys::proc_view;

use super::{Assessment, CheckInput, count};
use crate::{limits, quota as cgroup};

const CLOCK: &str = "devices/system/clocksource/clocksource0/current_clocksource";

pub(super) fn quota(input: &CheckInput<'_>) -> Assessment {
    match cgroup::obstacles(input.roots).as_deref() {
        Err(why) => Assessment::unknown(why, "a quota would show as pauses of whole trials"),
        Ok([]) => Assessment::good("none", "no control group stops this process"),
        Ok([tightest, ..]) => {
            Assessment::disturbed(CircumstanceKind::Quota, tightest.found.as_str())
        }
    }
}

pub(super) fn other_processes(input: &CheckInput<'_>) -> Assessment {
    match proc_view::hides_others(&input.roots.proc) {
        Some(why) => Assessment::disturbed(
            CircumstanceKind::HiddenProcesses,
            format!("not visible: {why}"),
        ),
        None => Assessment::good("visible", "the CPU time of other programs is read"),
    }
}

pub(super) fn load(input: &CheckInput<'_>) -> Assessment {
    let means = CircumstanceKind::OtherProcesses.row().means;
    let average = input.roots.proc("loadavg").and_then(|text| {
        let first = text.split_whitespace().next().unwrap_or_default();
        match first.parse::<f64>() {
            Ok(load) if load.is_finite() && load >= 0.0 => Ok(load),
            _ => Err(format!("/proc/loadavg says `{first}`")),
        }
    });
    let average = known!(average, means);
    let running = input.roots.proc("stat").ok().and_then(|stat| {
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
    let cpus = input.host.cpus.len().max(1) as f64;
    if average / cpus > 0.2 || others.is_some_and(|n| n as f64 >= cpus) {
        Assessment::disturbed(CircumstanceKind::OtherProcesses, found)
    } else {
        Assessment::good(found, means)
    }
}

pub(super) fn steal(input: &CheckInput<'_>) -> Assessment {
    let means = CircumstanceKind::Steal.row().means;
    // proc_stat(5): user nice system idle iowait irq softirq steal.
    let ticks: Option<Vec<u64>> = input.roots.proc("stat").ok().and_then(|stat| {
        let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let fields = line.split_whitespace().take(8).map(str::parse);
        fields.collect::<Result<_, _>>().ok()
    });
    let Some([.., stolen]) = ticks.as_deref().filter(|t| t.len() == 8) else {
        return Assessment::unknown("/proc/stat has none", means);
    };
    let total = ticks
        .iter()
        .flatten()
        .fold(0_u64, |a, b| a.saturating_add(*b));
    let share = *stolen as f64 / total.max(1) as f64;
    let found = format!("{:.2} % since the start of the machine", share * 100.0);
    if share > 0.01 {
        Assessment::disturbed(CircumstanceKind::Steal, found)
    } else {
        Assessment::good(found, means)
    }
}

pub(super) fn clock_source(input: &CheckInput<'_>) -> Assessment {
    let unknown = "what reading the clock costs is measured by `null`";
    let name = known!(input.roots.sys(CLOCK), unknown);
    match name.as_str() {
        "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" => {
            Assessment::good(name, "the clock is read without a system call")
        }
        "hpet" | "acpi_pm" | "jiffies" | "xen" => {
            let means = "each reading of the clock is a system call of about a microsecond: latencies grow by it";
            Assessment::warning(name, means).remedy(format!(
                "as root: `echo tsc > /sys/{CLOCK}`, or the boot option tsc=reliable where the hardware's is sound"
            ))
        }
        _ => Assessment::note(name, "what reading it costs is not known"),
    }
}

pub(super) fn clock_resolution(input: &CheckInput<'_>) -> Assessment {
    let found = format!("{} ns", number(input.probes.clock_resolution_ns as f64));
    if input.probes.clock_resolution_ns <= 1_000 {
        Assessment::good(found, "fine enough for single messages")
    } else {
        Assessment::warning(found, "latencies below a few such steps are rounded")
            .remedy("a kernel with high-resolution timers, and not the boot option highres=off")
    }
}

pub(super) fn cpu_clock(input: &CheckInput<'_>) -> Assessment {
    let clock = &input.probes.cpu_clock;
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
        ClockVerdict::Keeps => Assessment::good(found, "a thread's CPU time holds that of interrupts"),
        ClockVerdict::Loses => Assessment::warning(
            found,
            "the kernel leaves interrupts out of a thread's CPU time, and with them what receives over loopback: CPU time is read by other means, or there is none",
        )
        .remedy("boot with tsc=noirqtime (x86), or with a kernel without CONFIG_IRQ_TIME_ACCOUNTING"),
        ClockVerdict::Unknown => Assessment::note(
            found,
            "a kernel with CONFIG_IRQ_TIME_ACCOUNTING leaves interrupts out of a thread's CPU time",
        )
        .remedy("stop other programs, and run it again"),
    }
}

pub(super) fn timers(input: &CheckInput<'_>) -> Assessment {
    let us = input.probes.timer_overshoot_ns as f64 / 1e3;
    let found = format!("a short sleep ends {} µs late", number(us));
    if us <= 200.0 {
        Assessment::good(found, "waiting sides wake up in time")
    } else {
        let means = "waking up takes long here, which latencies of waiting sides contain";
        Assessment::note(found, means)
    }
}

pub(super) fn huge_pages(input: &CheckInput<'_>) -> Assessment {
    let means = "they change the cost of a copy and of a pinned page; the payload has them only where the kernel always gives them";
    let read = input.roots.sys("kernel/mm/transparent_hugepage/enabled");
    let text = known!(read, means);
    let chosen = text.split(['[', ']']).nth(1).unwrap_or(&text);
    if chosen == "never" {
        return Assessment {
            level: Level::Note,
            ..Assessment::disturbed(CircumstanceKind::HugePagesOff, chosen)
        };
    }
    if chosen != "always" {
        return Assessment::good(chosen, means);
    }
    let if_always = "any memory may become huge pages in mid-run, which changes what a copy costs";
    Assessment::note(chosen, if_always)
        .remedy("as root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`")
}

pub(super) fn numa_balancing(input: &CheckInput<'_>) -> Assessment {
    let nodes: std::collections::BTreeSet<u32> =
        input.host.cpus.iter().filter_map(|c| c.node).collect();
    match input.roots.proc("sys/kernel/numa_balancing").as_deref() {
        Ok("0") => Assessment::good("off", "the kernel does not move pages during a trial"),
        Ok(_) if nodes.len() > 1 => Assessment::warning(
            "on",
            "the kernel unmaps and moves pages in mid-trial to bring them near: faults and drift",
        )
        .remedy("as root: `sysctl kernel.numa_balancing=0`"),
        Ok(_) => Assessment::good("on, with one node", "nothing is moved"),
        Err(why) => Assessment::unknown(why, "a kernel without it moves no pages"),
    }
}

pub(super) fn swap(input: &CheckInput<'_>) -> Assessment {
    let means = "payload that is swapped out costs a read from disk";
    let text = known!(input.roots.proc("swaps"), means);
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let used_kib: Vec<u64> = lines
        .map(|line| line.split_whitespace().nth(3).and_then(|n| n.parse().ok()))
        .map(Option::unwrap_or_default)
        .collect();
    let used = used_kib.iter().fold(0_u64, |a, b| a.saturating_add(*b));
    let areas = count(used_kib.len(), "area");
    match (used_kib.len(), used) {
        (0, _) => Assessment::good("none", "payload stays in memory"),
        (_, 0) => Assessment::good(format!("{areas}, unused"), means),
        _ => {
            let used = bytes_in_words(used.saturating_mul(1024));
            Assessment::note(format!("{areas}, {used} in use"), means)
                .remedy("free memory, then as root `swapoff -a && swapon -a`")
        }
    }
}

pub(super) fn memory(input: &CheckInput<'_>) -> Assessment {
    let means = "both sides of a flow hold its ring: 4 MiB each by default";
    let total = input.host.memory_bytes;
    let in_words = |bytes: u64| match bytes {
        0x2000_0000.. => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        _ => format!("{} MiB", bytes >> 20),
    };
    match limits::available_memory(input.roots) {
        Some(available) if total > 0 => {
            let of_machine = in_words(total);
            let found = match &input.host.memory_limit {
                Some(group) if group.left() <= available => format!(
                    "{} available of {} ({}; the machine has {of_machine})",
                    in_words(available),
                    in_words(group.limit),
                    group.name
                ),
                _ => format!("{} available of {of_machine}", in_words(available)),
            };
            if let Some(group) = &input.host.memory_limit
                && group.left() <= available
                && available < 1 << 30
            {
                Assessment::disturbed(CircumstanceKind::MemoryLimit, found)
            } else if available >= 1 << 30 {
                Assessment::good(found, means)
            } else {
                let if_little = "with little memory free the kernel reclaims in mid-trial";
                Assessment::warning(found, if_little)
                    .remedy("end what holds memory, or choose a smaller --ring")
            }
        }
        _ => Assessment::unknown("/proc/meminfo has nothing", means),
    }
}
