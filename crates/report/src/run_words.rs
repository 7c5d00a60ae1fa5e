//! Words about a run: its precision, its notes, its files, its CPUs and its noise floor.

use bytecost_analysis::{
    FileFacts, NoiseFloor, PeerFacts, PlaceFacts, PlanFacts, Precision, RoundFacts, RoundSource,
    RunNote,
};
use bytecost_spec::Unit;
use bytecost_spec::study::ERROR_RATE;
use itertools::Itertools as _;

use crate::phrases::{self, count, percent};

/// The most threads whose sets of CPUs are listed; the rest are counted.
const MAX_CPU_SETS: usize = 8;

/// The precision that the plan expected, and that of the run.
pub(crate) fn plan(plan: &PlanFacts) -> String {
    let source = match &plan.noise_run {
        Some(run) => format!("measured by run {run}"),
        None => "assumed".to_owned(),
    };
    let reached = match &plan.reached {
        Some(reached) => {
            let (decided, all) = (plan.decided, plan.comparisons);
            format!("{}; {decided} of {all} decided", precision(reached))
        }
        None => "too few blocks to say".to_owned(),
    };
    let expected = precision(&plan.expected);
    format!("planned: {expected} (noise {source}); came: {reached}")
}

fn precision(p: &Precision) -> String {
    let (blocks, noise) = (count(p.blocks as usize, "block"), percent(p.noise));
    let effect = p
        .detectable
        .map(percent)
        .map_or_else(String::new, |effect| {
            format!(", effects above {effect} found 80 % of the time")
        });
    format!("{blocks}, noise of a ratio {noise}{effect}")
}

/// The deviation of ratios from round to round, with the source of that number.
pub(crate) fn rounds(rounds: &RoundFacts) -> String {
    let source = match rounds.source {
        RoundSource::OwnRounds(own) => format!("from the {own} rounds of this run"),
        RoundSource::Assumed => {
            "assumed: fewer than three earlier runs of this machine measured it".to_owned()
        }
        RoundSource::EarlierRuns(runs) => {
            format!("from {} of this machine", count(runs, "earlier run"))
        }
    };
    let deviation = phrases::from_run_to_run(rounds.deviation);
    format!("{deviation} ({source})")
}

pub(crate) fn note(note: &RunNote) -> String {
    match note {
        RunNote::OverBudget {
            measured_ms,
            budget_ms,
            min_blocks,
        } => format!(
            "Measuring took {} s, more than the budget of {} s: {min_blocks} blocks are measured in any case, and windows that are too short grow in the first ones.",
            measured_ms.div_ceil(1000),
            budget_ms.div_ceil(1000),
        ),
        RunNote::LongerWindows {
            cell,
            first_block,
            times,
            dropped,
        } => format!(
            "A flow of {cell} moved nothing in its window: from block {first_block} on its windows are {times} times as long, and its earlier {} {} count.",
            count(*dropped, "trial"),
            if *dropped == 1 { "does not" } else { "do not" }
        ),
        RunNote::Resumed {
            times,
            last_blocks,
            rate,
            total_rate,
        } => {
            let times = match times {
                1 => "once".to_owned(),
                n => format!("{n} times"),
            };
            format!(
                "The run had ended {times} before it went on, the last time after {last_blocks} blocks, and its verdicts could be seen. Each look halves the error rate of the next: verdicts of now are given at {}, and all reports of the run together give a false one in at most {} of runs.",
                percent(*rate),
                percent(*total_rate),
            )
        }
    }
}

/// The files of a run and their file system.
pub(crate) fn files(files: &FileFacts) -> String {
    let FileFacts {
        path, file_system, ..
    } = files;
    if files.is_of_user {
        format!("the file {path}, on {file_system}")
    } else {
        format!("test files in {path}, on {file_system}")
    }
}

/// The CPUs of a placement or of a background load.
pub(crate) fn place(place: &PlaceFacts) -> String {
    match place {
        PlaceFacts::Threads {
            placement,
            mem_node,
            has_peer,
            own,
            receiver,
        } => {
            let memory =
                mem_node.map_or_else(String::new, |node| format!(", memory of node {node}"));
            let own_side = if *has_peer { "sender" } else { "threads" };
            let sides = [(own_side, own), ("receiver", receiver)]
                .into_iter()
                .filter(|(_, sets)| !sets.is_empty())
                .map(|(side, sets)| format!("{side} on {}", cpus(sets)))
                .join(", ");
            format!("placement {placement}{memory}: {sides}")
        }
        PlaceFacts::Background {
            load,
            cpus: sets,
            busy_share,
        } => {
            let cpu_time = match busy_share {
                Some(share) => format!("busy for {} of the window", percent(*share)),
                None => "its CPU time is not known".to_owned(),
            };
            format!("background load {load}: on {}, {cpu_time}", cpus(sets))
        }
    }
}

/// `CPU 0`, `CPUs 0 and 2`; `CPUs 0,1` for one thread that may run on either.
fn cpus(sets: &[Vec<u32>]) -> String {
    let more = sets.len().saturating_sub(MAX_CPU_SETS);
    let names = sets
        .iter()
        .take(MAX_CPU_SETS)
        .map(|set| set.iter().join(","))
        .chain((more > 0).then(|| format!("{more} more")));
    let is_plural = sets.iter().map(Vec::len).sum::<usize>() > 1;
    let s = if is_plural { "s" } else { "" };
    format!("CPU{s} {}", names.format(" and "))
}

/// The path to the other host by the card at our end: `eth0, 10 Gbit/s, MTU 1500, round trip 0.2 ms`.
pub(crate) fn path(peer: &PeerFacts) -> String {
    let card = peer.own_cards.first();
    let round_trip_ms = peer.round_trip_us as f64 / 1e3;
    let parts = [
        card.map(|card| card.name.clone()),
        card.and_then(|card| card.speed()),
        peer.path_mtu.map(|mtu| format!("MTU {mtu}")),
        Some(format!("round trip {round_trip_ms:.2} ms")),
    ];
    parts.into_iter().flatten().join(", ")
}

/// The noise floor of a run, as a sentence: the difference between baselines and their twins, which are
/// second measurements of the same cell.
pub(crate) fn noise_floor(floor: &NoiseFloor, unit: Unit) -> String {
    let widest = &floor.widest;
    let at_the_widest = if floor.twins > 1 {
        " at the widest"
    } else {
        ""
    };
    format!(
        "Noise floor today: {} against itself {} in {}{at_the_widest}; {} of {} came out different ({} would by chance).",
        floor.axis.subject(&floor.value),
        phrases::ratio(widest.ratio, widest.low, widest.high),
        phrases::metric(widest.metric, unit),
        floor.different,
        count(floor.twins, "twin"),
        percent(ERROR_RATE),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::{Host, NetworkCard, PeerSide};

    #[test]
    fn a_path_names_its_card_and_the_speed_of_a_physical_one() {
        let card_of = |is_virtual, speed| NetworkCard {
            name: "eth0".to_owned(),
            is_virtual,
            speed_mbit_per_s: speed,
            ..NetworkCard::default()
        };
        let path_by = |own_cards: Vec<NetworkCard>| {
            path(&PeerFacts {
                name: "db7".to_owned(),
                round_trip_us: 210,
                path_mtu: Some(1500),
                side: PeerSide::Receiver,
                host: Host::default(),
                cards: Vec::new(),
                own_cards,
            })
        };
        let rest = "MTU 1500, round trip 0.21 ms";
        for (card, expected) in [
            (card_of(false, Some(2500)), "eth0, 2.5 Gbit/s, "),
            (card_of(false, Some(100)), "eth0, 100 Mbit/s, "),
            (card_of(true, Some(10_000)), "eth0, "),
        ] {
            assert_eq!(path_by(vec![card]), format!("{expected}{rest}"));
        }
        assert_eq!(path_by(Vec::new()), rest);
    }
}
