//! Descriptions of a run, a host and a group of cells, shared by all renderers.

use bytecost_analysis::{Analysis, CountersCost, grouped};
use bytecost_spec::axis::AXES;
use bytecost_spec::study::Family;
use bytecost_spec::{Axis, Better, Cell, Host, Metric, NetworkCard, PeerSide, Unit, Value, units};
use itertools::Itertools as _;

use crate::numbers::{self, whole};
use crate::question::{QuestionTable, axis_in_words, sort_values};
use crate::run_words;
use crate::text::{count, joined, nonzero};

/// `12 blocks, 540 trials in 58.2 s (6 repeated, 1 failed), seed 42`.
pub(crate) fn run(a: &Analysis) -> String {
    let r = &a.run;
    let repeated = nonzero(r.repeated, ["repeated"; 2]);
    let failed = nonzero(r.failed, ["failed"; 2]);
    let aside = match joined([repeated, failed], ", ").as_str() {
        "" => String::new(),
        aside => format!(" ({aside})"),
    };
    let blocks = count(r.blocks as usize, "block", "blocks");
    let trials = count(r.trials, "trial", "trials");
    let (seconds, seed) = (units::number(r.measured_s), r.seed);
    format!("{blocks}, {trials} in {seconds} s{aside}, seed {seed}")
}

/// `null 2.2 instead of 2.1, send 130 instead of 120 ns of CPU time a message (5 trials of each)`.
pub(crate) fn counters_cost(a: &Analysis) -> Option<String> {
    let both = |c: &CountersCost| [c.with_ns_per_message, c.without_ns_per_message];
    let cost = |c: &CountersCost| {
        let [with, without] = both(c).map(|e| units::number(e.value));
        format!("{} {with} instead of {without}", c.mover)
    };
    let costs = a.counters_cost.iter().map(cost).join(", ");
    let numbers = a.counters_cost.iter().flat_map(both).map(|e| e.trials);
    let trials = count(numbers.min()?, "trial", "trials");
    let message = a.study.unit.in_words("a message");
    Some(format!(
        "{costs} ns of CPU time {message} ({trials} of each)"
    ))
}

/// Noise floors: the cost of the loop and of reading counters, and the difference between equal
/// cells, where measured.
pub(crate) fn floors(a: &Analysis) -> Vec<String> {
    let of_loop = a.loop_floor_ns_per_message.as_ref().map(|floor| {
        let interval = match numbers::interval(floor) {
            Some(interval) => format!(" (95 % interval {interval})"),
            None => String::new(),
        };
        let ns = units::number(floor.value);
        format!("The measuring loop itself costs {ns} ns a message{interval}.")
    });
    let of_counters =
        counters_cost(a).map(|cost| format!("Reading hardware counters costs: {cost}."));
    let of_noise = a
        .noise_floor
        .as_ref()
        .map(|floor| run_words::noise_floor(floor, a.study.unit));
    [of_loop, of_counters, of_noise]
        .into_iter()
        .flatten()
        .collect()
}

/// The widest interval among the first metrics' findings, where there is one.
pub(crate) fn widest(a: &Analysis) -> Option<String> {
    let asked = numbers::percent(a.study.precision);
    let widest = a.run.widest_interval.map(numbers::percent);
    widest.map(|widest| format!("±{widest} (asked: ±{asked})"))
}

pub(crate) fn host_line(host: &Host) -> String {
    let hypervisor = host.virtualization.as_ref();
    let parts = [
        host.cpu_model.clone(),
        count(host.cpus.len(), "CPU", "CPUs"),
        format!("Linux {}", host.kernel),
        host.distribution.clone().unwrap_or_default(),
        hypervisor.map_or_else(String::new, |name| format!("under {name}")),
    ];
    joined(parts, " · ")
}

pub(crate) fn host(host: &Host) -> Vec<(&'static str, String)> {
    let limit = |bytes: Option<u64>| bytes.map(units::bytes_in_words);
    let smt = host.cpus.iter().any(|c| c.siblings.len() > 1);
    let allowed = match host.cpus_allowed.len() {
        all if all == host.cpus.len() => String::new(),
        some => format!(", {some} allowed"),
    };
    let memlock = match (host.memlock_exempt, host.memlock_limit_bytes) {
        (true, _) | (_, None) => "none".to_owned(),
        (false, Some(bytes)) => units::bytes_in_words(bytes),
    };
    let threads = if smt {
        "several hardware threads"
    } else {
        "one hardware thread"
    };
    let memory_gib = host.memory_bytes as f64 / f64::from(1 << 30);
    let kernel = format!("{} ({})", host.kernel, host.architecture);
    let congestion = host.congestion_default.as_ref().map(|default| {
        let available = host.congestion_available.join(", ");
        format!("{default} by default; available: {available}")
    });
    let online = format!("{}{allowed}, {threads} a core", host.cpus.len());
    let hypervisor = host.virtualization.as_deref().unwrap_or("none seen");
    let facts = [
        ("CPU", Some(host.cpu_model.clone())),
        ("CPUs online", Some(online)),
        ("Caches", Some(host.caches.iter().join(", "))),
        ("Memory", Some(format!("{memory_gib:.1} GiB"))),
        ("Kernel", Some(kernel)),
        ("Distribution", host.distribution.clone()),
        ("Virtualization", Some(hypervisor.to_owned())),
        ("Congestion control", congestion),
        ("Locked-memory limit", Some(memlock)),
        ("Descriptor limit", Some(whole(host.nofile_limit))),
        ("optmem_max", limit(host.optmem_max_bytes)),
        ("wmem_max", limit(host.wmem_max_bytes)),
        ("rmem_max", limit(host.rmem_max_bytes)),
    ];
    known(facts)
}

fn known(
    facts: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> Vec<(&'static str, String)> {
    let known = |(name, fact): (_, Option<String>)| Some((name, fact.filter(|f| !f.is_empty())?));
    facts.into_iter().filter_map(known).collect()
}

pub(crate) fn machine(host: &Host, cards: &[NetworkCard]) -> Vec<(&'static str, String)> {
    let mut facts = self::host(host);
    facts.extend(cards.iter().flat_map(card));
    facts
}

fn card(card: &NetworkCard) -> Vec<(&'static str, String)> {
    let driver = card.driver.as_ref();
    let kind = match (driver, card.is_virtual) {
        (Some(driver), true) => format!("{driver}, virtual"),
        (Some(driver), false) => driver.clone(),
        (None, _) => "no driver is known".to_owned(),
    };
    let on = |wanted: bool| {
        let names = card.offloads.iter().filter(move |(_, on)| **on == wanted);
        names.map(|(name, _)| name.as_str()).join(", ")
    };
    let (rx, tx) = (card.rx_queues, card.tx_queues);
    let queues = (rx + tx > 0).then(|| format!("{rx} to receive, {tx} to send"));
    let rings = card.rings.map(|r| {
        let receive = format!("{} of {} to receive", r.rx, r.rx_most);
        format!("{receive}, {} of {} to send", r.tx, r.tx_most)
    });
    let is_adaptive = card.coalesce_adaptive == Some(true);
    let adaptive = if is_adaptive { ", adaptive" } else { "" };
    let interrupts = card.interrupts.iter();
    let mut cpus = interrupts.flat_map(|i| &i.cpus).sorted().dedup();
    let delay = card.coalesce_rx_us.map(|us| format!("{us} µs{adaptive}"));
    let facts = [
        ("Network card", Some(format!("{} ({kind})", card.name))),
        ("Link speed", card.speed()),
        ("MTU", Some(card.mtu.to_string())),
        ("Queues", queues),
        ("Rings", rings),
        ("Offloads on", Some(on(true))),
        ("Offloads off", Some(on(false))),
        ("Interrupt delay", delay),
        ("Interrupts on CPUs", Some(cpus.join(", "))),
    ];
    known(facts)
}

/// Method of measurement, term by term, with the numbers of this run.
pub(crate) fn method(a: &Analysis) -> Vec<(&'static str, String)> {
    let s = &a.study;
    let level = numbers::percent(s.level);
    vec![
        ("Trial", format!(
            "Each trial starts fresh sender and receiver processes, warms up for at least {} and reads counters over a window of {}. This run made {}{}.",
            numbers::milliseconds(s.warmup_ms), numbers::milliseconds(s.window_ms), count(a.run.trials, "trial", "trials"),
            match a.run.repeated { 0 => String::new(), n => format!(", of which {} repeated because something else used the machine", whole(n as u64)) })),
        ("Block", format!(
            "A block runs each cell once, in an order shuffled by the seed {}, and cells that are compared one after another. {} of all cells completed, so slow drift of the machine falls on both sides of a comparison alike.",
            a.run.seed, count(a.run.blocks as usize, "block was", "blocks were"))),
        ("Comparison", "Cells are compared within a block as the logarithm of their ratio to the baseline; the estimate is the 20 % trimmed mean over blocks, taken back from the logarithm.".to_owned()),
        ("Interval", format!(
            "Every interval of a ratio holds that of any minute of this machine in {level} of runs{}. Measuring stops when what this run alone shows is as narrow as ±{}, or when the budget is spent; never because a difference looks significant.",
            a.run.rounds.as_ref().map_or_else(String::new, |rounds| format!(": {}", run_words::rounds(rounds))),
            numbers::percent(s.precision))),
        ("Many comparisons", families(a)),
        ("Verdict", format!(
            "Better or worse: the p value, corrected within its family, is below {}. No difference that matters: the whole interval lies within ±{}. Otherwise not decided, with the number of blocks that it would take. What is exploratory is not judged.",
            numbers::percent(1.0 - s.level), numbers::percent(s.smallest_effect))),
        ("Payload", "What arrived is checked against what was sent in every trial; a mismatch fails the trial.".to_owned()),
        ("Absent readings", "What could not be measured is a gap with its reason, never a zero.".to_owned()),
    ]
}

/// The families of comparisons that are tested together, and how often a verdict of each may be false.
pub(crate) fn families(a: &Analysis) -> String {
    let sentences = a.families.iter().map(|of| {
        let noun = format!("{} comparison", of.family.name());
        let all = count(of.comparisons, &noun, &format!("{noun}s"));
        let rate = numbers::percent(of.rate.unwrap_or_default());
        match of.family {
            Family::Primary => format!(
                "{all}, those that the question needs: the chance of even one false better or worse among them is at most {rate} (Holm)."
            ),
            Family::Secondary => format!(
                "{all}, corrected a table at a time: on average at most {rate} of the better and worse in a table are false (Benjamini and Bogomolov)."
            ),
            Family::Exploratory => format!("{all}, each with its interval and not judged."),
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// `CPU time per byte, sender (s/GB, less is better)`.
pub(crate) fn metric_heading(a: &Analysis, q: &QuestionTable<'_>) -> String {
    let unit = q.metric.measure.row().unit;
    let words = joined([unit, direction(q.metric)], ", ");
    format!("{} ({words})", q.metric.title(a.study.unit))
}

/// The direction in which a metric improves.
pub(crate) fn direction(metric: Metric) -> &'static str {
    match metric.measure.row().better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
    }
}

/// A metric with its unit: `Throughput (Gbit/s)`.
pub(crate) fn metric_with_unit(metric: Metric, unit: Unit) -> String {
    match metric.measure.row().unit {
        "" => metric.title(unit),
        of => format!("{} ({of})", metric.title(unit)),
    }
}

/// `against send, by size; threads 1, transport loopback`.
pub(crate) fn panel_heading(q: &QuestionTable<'_>) -> String {
    let compared = format!("{} against {}", q.axis.name(), q.baseline);
    let across = q.x.map(|x| format!("by {}", x.name()));
    let across = joined([compared, across.unwrap_or_default()], ", ");
    joined([across, panel(&q.panel)], "; ")
}

/// Values of a panel in words, without defaults that a cell's id leaves out: `threads 1, transport
/// loopback`.
pub(crate) fn panel(panel: &[(Axis, Value)]) -> String {
    let shown = panel.iter().filter(|(axis, value)| axis.is_shown(value));
    shown
        .map(|(axis, value)| axis_in_words(*axis, value))
        .join(", ")
}

/// A group of cells by the axes that they differ in: `mover splice, vmsplice; size 256 B, 4 KiB`.
/// Text that is no cell's id stays as it is. Where no axis varies, the mover, the size and the
/// threads name them.
pub(crate) fn cells(a: &Analysis, ids: &[&str]) -> String {
    let cells: Vec<&Cell> = ids.iter().filter_map(|id| a.cell(id)).collect();
    let others = ids.iter().filter(|id| a.cell(id).is_none()).unique();
    let words = differences(&cells, &a.study.varied).into_iter();
    words.chain(others.map(|id| (*id).to_owned())).join("; ")
}

/// Values of some cells along each axis that varies: `mover splice, vmsplice`, `size 256 B, 4 KiB`.
fn differences(cells: &[&Cell], varied: &[Axis]) -> Vec<String> {
    let axes = match varied {
        [] => &[Axis::Mover, Axis::Size, Axis::Threads],
        _ => varied,
    };
    let words = |axis: Axis| {
        let mut values: Vec<Value> = cells.iter().map(|c| c.value(axis)).unique().collect();
        sort_values(axis, &mut values);
        let list = values.iter().map(|v| axis.in_words(v)).join(", ");
        format!("{} {list}", axis.name())
    };
    AXES.iter()
        .map(|row| row.axis)
        .filter(|axis| axes.contains(axis) && !cells.is_empty())
        .map(words)
        .collect()
}

/// Refused cells, grouped by reason: the cells in words, and the reason.
pub(crate) fn refusals(a: &Analysis) -> Vec<(String, String)> {
    let mut refusals = Vec::new();
    for (why, cells) in grouped(a.refused_cells.iter().map(|r| (&r.why, &r.cell))) {
        let cells = differences(&cells, &a.study.varied).join("; ");
        refusals.push((cells, why.clone()));
    }
    let counters = a.refused_counters.iter();
    for (why, names) in grouped(counters.map(|r| (&r.why, r.subject.name()))) {
        refusals.push((names.join("; "), why.clone()));
    }
    refusals
}

/// The machines, where files lay and where threads ran, in one line.
pub(crate) fn place_line(a: &Analysis) -> String {
    let mut parts = vec![host_line(&a.host)];
    parts.extend(a.peer.as_ref().map(|peer| {
        let side = match peer.side {
            PeerSide::Receiver => "the receiving side on",
            PeerSide::Sender => "the sending side on",
        };
        let there = host_line(&peer.host);
        format!(
            "{side} {}: {there}, over {}",
            peer.name,
            run_words::path(peer)
        )
    }));
    parts.extend(a.run.java.as_ref().map(|version| format!("Java {version}")));
    parts.extend(a.run.files.as_ref().map(run_words::files));
    parts.extend(a.run.places.iter().map(run_words::place));
    parts.join(" · ")
}

pub(crate) fn command(a: &Analysis) -> String {
    bytecost_analysis::command_line(&a.run.command)
}
