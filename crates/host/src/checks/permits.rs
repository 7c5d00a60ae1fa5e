//! Checks of permissions and limits: perf events, capabilities, memory, descriptors, sockets.

use bytecost_spec::CircumstanceKind;
use bytecost_spec::units::bytes_in_words;

use super::{Assessment, CheckInput, count};
use crate::capabilities::{CapabilityRow, ROWS};
use crate::machine;

pub(super) fn hardware_counters(input: &CheckInput<'_>) -> Assessment {
    let Err(why) = &input.probes.hardware_counters else {
        let means = "cycles, instructions and cache misses are measured";
        return Assessment::good("available", means);
    };
    let means = "cycles, instructions and cache misses are absent; CPU time stands in for them";
    let note = Assessment::note(format!("not available: {why}"), means);
    match input.host.virtualization {
        Some(_) => note.remedy("ask for a virtual machine with a PMU, or measure on hardware"),
        None => note,
    }
}

pub(super) fn perf_event_paranoid(input: &CheckInput<'_>) -> Assessment {
    let unknown = "whether events may be counted is found by trying";
    let text = known!(input.roots.proc("sys/kernel/perf_event_paranoid"), unknown);
    let Ok(value) = text.parse::<i64>() else {
        return Assessment::unknown(text, unknown);
    };
    let means = "events inside the kernel are counted";
    if input.capabilities.may_count_kernel() {
        Assessment::good(format!("{value}, and a capability that lifts it"), means)
    } else if value < 2 {
        Assessment::good(value.to_string(), means)
    } else {
        let if_not_counted =
            "events inside the kernel, where most of the work is done, may not be counted";
        Assessment::warning(value.to_string(), if_not_counted)
            .remedy("as root: `sysctl kernel.perf_event_paranoid=1`")
    }
}

pub(super) fn capabilities(input: &CheckInput<'_>) -> Assessment {
    if let Err(why) = &input.capabilities.effective {
        return Assessment::unknown(why.as_str(), "what is refused is found by trying");
    }
    let (effective, missing): (Vec<&CapabilityRow>, Vec<_>) =
        ROWS.iter().partition(|row| input.capabilities.has(row));
    let mut found = match effective.as_slice() {
        [] => "none".to_owned(),
        rows => rows.iter().map(|r| r.name).collect::<Vec<_>>().join(", "),
    };
    if !input.capabilities.first_namespace {
        found += " (in a user namespace, where some count for less)";
    }
    if missing.is_empty() {
        return Assessment::good(found, "nothing is refused for want of a capability");
    }
    let permits: Vec<String> = missing
        .iter()
        .map(|row| format!("{} ({})", row.name, row.permits))
        .collect();
    Assessment::note(
        found,
        format!("the defaults need none; not there: {}", permits.join(", ")),
    )
    .remedy("run as root where one of these is wanted")
}

pub(super) fn locked_memory(input: &CheckInput<'_>) -> Assessment {
    // Eight flows with rings of 4 MiB lock so much.
    const ENOUGH: u64 = 32 << 20;
    if machine::limit(input.roots, "Max locked memory").is_none() {
        let means = "what may be locked is found by trying";
        return Assessment::unknown("/proc/self/limits has no limit", means);
    }
    let means = "registered buffers and zero-copy sends lock their pages";
    let Some(limit) = input.host.memlock_limit_bytes else {
        return Assessment::good("no limit", means);
    };
    let found = bytes_in_words(limit);
    if input.host.memlock_exempt {
        return Assessment::good(format!("{found}, lifted by CAP_IPC_LOCK"), means);
    }
    if limit >= ENOUGH {
        return Assessment::good(found, means);
    }
    let means = format!("{means}: uring-send-zc is refused for larger rings or more flows");
    Assessment::warning(found, means).remedy("`ulimit -l 32768` (KiB), or `memlock` in /etc/security/limits.conf, or LimitMEMLOCK= of its unit")
}

pub(super) fn optmem(input: &CheckInput<'_>) -> Assessment {
    const USUAL: u64 = 128 << 10;
    let Some(bytes) = input.host.optmem_max_bytes else {
        let means = "how many zero-copy sends may be under way shows as ENOBUFS";
        return Assessment::unknown("/proc/sys/net/core/optmem_max cannot be read", means);
    };
    let means = "each zero-copy send that is under way takes a note from this memory of its socket";
    if bytes >= USUAL {
        return Assessment::good(bytes_in_words(bytes), means);
    }
    let means = format!("{means}: few fit, and small sends run into ENOBUFS and wait");
    Assessment::warning(bytes_in_words(bytes), means)
        .remedy("as root: `sysctl net.core.optmem_max=131072`")
}

pub(super) fn listen_queue(input: &CheckInput<'_>) -> Assessment {
    /// Default of kernels before 5.4; since then it is 4096.
    const USUAL: u64 = 128;
    let kind = CircumstanceKind::ListenQueue;
    let limit = input.roots.proc("sys/net/core/somaxconn");
    match limit.map(|text| text.parse::<u64>()) {
        Ok(Ok(limit)) if limit >= USUAL => Assessment::good(
            format!("{limit} connections"),
            "new connections wait in it until a server accepts them",
        ),
        Ok(Ok(limit)) => {
            Assessment::disturbed(kind, format!("{limit} connections (net.core.somaxconn)"))
        }
        _ => Assessment::unknown(
            "/proc/sys/net/core/somaxconn cannot be read",
            kind.row().means,
        ),
    }
}

pub(super) fn ports(input: &CheckInput<'_>) -> Assessment {
    /// The kernel's default has 28,232.
    const USUAL: u64 = 10_000;
    let kind = CircumstanceKind::Ports;
    let range = input.roots.proc("sys/net/ipv4/ip_local_port_range");
    let ends = range.ok().and_then(|text| {
        let mut ends = text.split_whitespace().map(str::parse::<u64>);
        ends.next()?.ok().zip(ends.next()?.ok())
    });
    let Some((first, last)) = ends else {
        let file = "/proc/sys/net/ipv4/ip_local_port_range cannot be read";
        return Assessment::unknown(file, kind.row().means);
    };
    match (last + 1).saturating_sub(first) {
        ports if ports >= USUAL => {
            Assessment::good(format!("{ports} for new connections"), kind.row().means)
        }
        ports => Assessment::disturbed(kind, format!("{ports} (net.ipv4.ip_local_port_range)")),
    }
}

pub(super) fn socket_buffers(input: &CheckInput<'_>) -> Assessment {
    let (Some(send), Some(receive)) = (input.host.wmem_max_bytes, input.host.rmem_max_bytes) else {
        let means = "the buffers that sockets got are in every sample";
        return Assessment::unknown(
            "/proc/sys/net/core/wmem_max or rmem_max cannot be read",
            means,
        );
    };
    let means = "the maximum of --socket-buffer; `auto` is not limited by it";
    let [sent, received] = [send, receive].map(bytes_in_words);
    let found = format!("send up to {sent}, receive up to {received}");
    if send.min(receive) >= 1 << 20 {
        Assessment::good(found, means)
    } else {
        Assessment::note(found, means)
            .remedy("as root: `sysctl net.core.wmem_max=4194304 net.core.rmem_max=4194304`")
    }
}

pub(super) fn open_files(input: &CheckInput<'_>) -> Assessment {
    let means = "a flow needs up to four descriptors on each side, an endpoint 64 besides";
    match input.host.nofile_limit {
        0 => {
            let if_unknown = "how many flows fit is found by trying";
            Assessment::unknown("/proc/self/limits has no limit", if_unknown)
        }
        u64::MAX => Assessment::good("no limit", means),
        limit if limit >= 1024 + 64 => Assessment::good(limit.to_string(), means),
        limit => Assessment::note(limit.to_string(), format!("{means}: 256 flows do not fit"))
            .remedy("`ulimit -n 4096`"),
    }
}

pub(super) fn io_uring(input: &CheckInput<'_>) -> Assessment {
    let Err(why) = &input.probes.io_uring else {
        return Assessment::good("works", "uring-send and uring-send-zc can be measured");
    };
    let switch = match input.roots.proc("sys/kernel/io_uring_disabled").as_deref() {
        Ok("1") => "; kernel.io_uring_disabled = 1 (privileged only)",
        Ok("2") => "; kernel.io_uring_disabled = 2 (disabled for all)",
        _ => "",
    };
    let remedy = match switch {
        "" => "a kernel with io_uring; in a container, a seccomp profile that allows it",
        _ => "as root: `sysctl kernel.io_uring_disabled=0`",
    };
    let found = format!("does not work: {why}{switch}");
    Assessment::warning(found, "uring-send and uring-send-zc are refused").remedy(remedy)
}

pub(super) fn congestion(input: &CheckInput<'_>) -> Assessment {
    let available = &input.host.congestion_available;
    let Some(default) = &input.host.congestion_default else {
        let found = "/proc/sys/net/ipv4/tcp_congestion_control cannot be read";
        return Assessment::unknown(found, "which one a socket got is in every sample");
    };
    let can_set = |name: &&str| input.probes.congestion_controls.iter().any(|s| s == name);
    let settable: Vec<&str> = (available.iter().map(String::as_str))
        .filter(can_set)
        .collect();
    let all = available.join(", ");
    let mut found = format!("{default} by default; the kernel has {all}");
    if settable.len() < available.len() {
        found += &match settable.as_slice() {
            [] => "; this process may set none".to_owned(),
            names => format!("; this process may set {}", names.join(", ")),
        };
    }
    let mut preferred = ["cubic", "reno"].into_iter();
    let set = preferred.find(|name| settable.contains(name));
    let paces = default.starts_with("bbr");
    match (set, paces) {
        (Some(name), true) => Assessment::note(
            found,
            format!("bytecost sets {name}, which does not pace, for each socket; programs that set none are paced by {default}"),
        )
        .remedy("`--congestion default` measures what such programs get; its costs and rates have no verdict"),
        (Some("cubic"), false) => Assessment::good(found, "bytecost sets cubic for each socket"),
        (Some(name), false) => {
            Assessment::note(found, format!("bytecost sets {name} for each socket: cubic is not available"))
                .remedy("as root: `modprobe tcp_cubic`, and add it to net.ipv4.tcp_allowed_congestion_control")
        }
        (None, true) => Assessment::disturbed(CircumstanceKind::Pacing, found)
            .remedy("as root: `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic\"`"),
        (None, false) => Assessment::note(found, "bytecost leaves sockets with the default")
            .remedy("as root: add reno to net.ipv4.tcp_allowed_congestion_control"),
    }
}

pub(super) fn packet_sockets(input: &CheckInput<'_>) -> Assessment {
    let unknown = "whether something copies every packet is not seen";
    let text = known!(input.roots.proc("net/packet"), unknown);
    match text
        .lines()
        .skip(1)
        .filter(|l| !l.trim().is_empty())
        .count()
    {
        0 => Assessment::good("none open", "nothing but the receivers takes packets"),
        n => {
            let found = format!("{} open", count(n, "packet socket"));
            Assessment::disturbed(CircumstanceKind::PacketSocket, found)
        }
    }
}
