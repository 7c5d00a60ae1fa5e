//! Which server for how many connections, what idle ones and threads cost, and who is soonest.

use bytecost_spec::{Axis, Cell, Connect, Measure, Metric, units};

use super::{Explained, MOST_ROWS, Why, estimate};
use crate::caveats::serving::clients_limit;
use crate::crossovers::Ratio;
use crate::grid;
use crate::pairing::Pairing;
use crate::phrases;
use crate::result::CellResult;
use crate::trials::CellTrials;
use crate::value::served::{KERNEL_STACK_BYTES, memory_bytes};

const RATE: Metric = Metric::both(Measure::MessagesPerS);

/// Cells that are alike in all but some axes, in the order of the plan.
type Group<'v> = Vec<&'v CellTrials<'v>>;

/// The measured cells that fit, put together where they differ in `free` alone.
fn groups<'v>(why: &Why<'v>, free: &[Axis], fits: impl Fn(&Cell) -> bool) -> Vec<Group<'v>> {
    let mut groups: Vec<(String, Group<'v>)> = Vec::new();
    let measured = why.view.measured();
    // Where the clients were the limit, nothing is said of the server.
    let speaks = |c: &&CellTrials<'_>| c.cell.is_served() && !clients_limit(c);
    for cell in measured.filter(speaks).filter(|c| fits(c.cell)) {
        let name = cell.cell.id_without(free);
        match groups.iter_mut().find(|(n, _)| *n == name) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups.into_iter().map(|(_, cells)| cells).collect()
}

/// Who keeps asking, all at once, with nobody beside them.
fn is_busy(cell: &Cell) -> bool {
    let load = &cell.serving;
    load.connect == Connect::Kept && load.idle == 0 && load.rate_per_s.is_none() && !load.perf
}

fn ratio<'v>(
    axis: Axis,
    of: &'v CellTrials<'v>,
    to: &'v CellTrials<'v>,
    metric: Metric,
) -> Option<Ratio> {
    let pairing = Pairing {
        axis,
        baseline: to,
        other: of,
    };
    Ratio::of(&pairing.log_ratios(metric))
}

fn name(cell: &CellTrials<'_>) -> String {
    Axis::Server.subject(&cell.cell.value(Axis::Server))
}

fn told_of(r: Ratio) -> String {
    phrases::ratio(r.value, r.low, r.high)
}

impl<'v> Why<'v> {
    fn result(&self, cell: &CellTrials<'_>) -> Option<&'v CellResult> {
        self.view.cells.iter().find(|r| r.id == cell.id)
    }

    fn value(&self, cell: &CellTrials<'_>, metric: Metric) -> Option<f64> {
        Some(self.result(cell)?.estimates.get(&metric)?.value)
    }

    /// The circumstances of a cell, its connections first, but for its server and some axes.
    fn at(&self, cell: &CellTrials<'_>, without: &[Axis]) -> String {
        let kept = self.varied.iter().copied();
        let axes: Vec<Axis> = kept
            .filter(|a| !matches!(a, Axis::Server | Axis::Connections) && !without.contains(a))
            .collect();
        let connections = cell.cell.value(Axis::Connections);
        let connections = Axis::Connections.circumstance(&connections);
        let others = grid::coordinates(cell.cell, &axes);
        connections + &phrases::joined_circumstances(&others)
    }
}

fn told(answer: Result<String, String>, numbers: Vec<String>) -> Explained {
    Explained {
        answer,
        numbers,
        evidence: Vec::new(),
        would_change: "more CPUs for the server (--placement 0,2:1), larger or slower answers (--service, --size), or new connections (--connect new)",
        findings: Vec::new(),
    }
}

/// Which model for how many connections.
pub(super) fn which(why: &Why<'_>) -> Option<Explained> {
    let mut by_number = groups(why, &[Axis::Server], is_busy);
    by_number.retain(|g| g.len() > 1);
    by_number.sort_by_key(|g| g[0].cell.serving.connections);
    let mut clauses = Vec::new();
    let mut numbers = Vec::new();
    for group in &by_number {
        let mut ranked: Vec<(f64, &CellTrials<'_>)> = group
            .iter()
            .filter_map(|c| Some((why.value(c, RATE)?, *c)))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((_, best)) = ranked.first().copied() else {
            continue;
        };
        // Who is not surely slower does as well.
        let level: Vec<String> = ranked[1..]
            .iter()
            .filter(|(_, c)| ratio(Axis::Server, c, best, RATE).is_none_or(|r| r.high >= 1.0))
            .map(|(_, c)| name(c))
            .collect();
        let place = why.at(best, &[]);
        clauses.push(match level.len() {
            0 => format!("{place} {}", name(best)),
            n if n + 1 == ranked.len() => format!("{place} none is shown to be ahead"),
            _ => format!(
                "{place} {}, not shown to be ahead of {}",
                name(best),
                phrases::list(&level)
            ),
        });
        let rates: Vec<String> = ranked
            .iter()
            .filter_map(|(_, c)| {
                let e = why.result(c)?.estimates.get(&RATE)?;
                Some(format!("{} {}", name(c), estimate(e, RATE)))
            })
            .collect();
        numbers.push(format!("{place}: {}", rates.join("; ")));
    }
    numbers.truncate(MOST_ROWS);
    let answer = if clauses.is_empty() {
        Err("needs several servers at the same number of kept connections".to_owned())
    } else {
        Ok(format!("most requests per second: {}.", clauses.join("; ")))
    };
    Some(told(answer, numbers))
}

/// Where models fall off with idle connections.
pub(super) fn idle(why: &Why<'_>) -> Option<Explained> {
    let mut same = groups(why, &[Axis::Idle], |c| {
        c.serving.rate_per_s.is_none() && !c.serving.perf
    });
    same.retain(|g| g.len() > 1 && g.iter().any(|c| c.cell.serving.idle == 0));
    if same.is_empty() {
        return Some(told(
            Err("needs cells with and without idle connections (--idle 0,900)".to_owned()),
            Vec::new(),
        ));
    }
    let bound = 1.0 - why.view.input.manifest.study.smallest_effect;
    let (mut falls, mut stays, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for group in &mut same {
        group.sort_by_key(|c| c.cell.serving.idle);
        let Some((alone, others)) = group.split_first() else {
            continue;
        };
        let ratios: Vec<(u32, Ratio)> = others
            .iter()
            .filter_map(|c| Some((c.cell.serving.idle, ratio(Axis::Idle, c, alone, RATE)?)))
            .collect();
        let Some((most, last)) = ratios.last().copied() else {
            continue;
        };
        match ratios.iter().find(|(_, r)| r.high < bound) {
            Some((from, _)) => falls.push(format!(
                "{} from {from} on, to {} with {most}",
                name(alone),
                told_of(last)
            )),
            None if last.low > bound => stays.push(name(alone)),
            None => {}
        }
        let told: Vec<String> = ratios
            .iter()
            .map(|(n, r)| format!("{} with {n}", told_of(*r)))
            .collect();
        let place = why.at(alone, &[Axis::Idle]);
        numbers.push(format!(
            "{} {place}, {} over that without idle connections: {}",
            name(alone),
            phrases::metric(RATE),
            told.join("; ")
        ));
    }
    let kept = if stays.is_empty() {
        String::new()
    } else {
        let lose = if stays.len() == 1 { "loses" } else { "lose" };
        format!("{} {lose} nothing that matters", phrases::list(&stays))
    };
    let answer = match (falls.is_empty(), kept.is_empty()) {
        (true, true) => Err("the intervals leave it open: needs more blocks (--budget)".to_owned()),
        (true, false) => Ok(format!("none falls; {kept}.")),
        (false, true) => Ok(format!("it falls with {}.", falls.join("; "))),
        (false, false) => Ok(format!("it falls with {}; {kept}.", falls.join("; "))),
    };
    numbers.truncate(MOST_ROWS);
    let mut told = told(answer, numbers);
    told.evidence.push("select and poll hand all descriptors to the kernel at each wait; epoll and io_uring keep them there".to_owned());
    told.would_change =
        "more connections that are busy at the same time, so that a wait brings several of them";
    Some(told)
}

/// What a thread or process for each connection costs in memory.
pub(super) fn memory(why: &Why<'_>) -> Option<Explained> {
    let mut same = groups(why, &[Axis::Connections, Axis::Idle], |c| {
        c.serving.connect == Connect::Kept && c.serving.rate_per_s.is_none()
    });
    let all = |c: &&CellTrials<'_>| c.cell.serving.all_connections();
    same.iter_mut().for_each(|g| g.sort_by_key(all));
    let bytes = |cell: &CellTrials<'_>| {
        let known: Vec<f64> = cell
            .trials()
            .filter_map(|t| memory_bytes(t.sample).ok())
            .collect();
        crate::cells::typical(&known)
    };
    let mut rows: Vec<(f64, String, bool)> = Vec::new();
    for group in &same {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let more = all(last).saturating_sub(all(first));
        // Of fewer, what each costs drowns in what the process has anyway.
        if more < FEWEST_MORE {
            continue;
        }
        let (Some(least), Some(most)) = (bytes(first), bytes(last)) else {
            continue;
        };
        let each = (most - least) / more as f64 / 1024.0;
        let name = last.cell.value(Axis::Server);
        let survey = &why.view.input.manifest.survey;
        let has_tasks = survey.server(&name).is_some_and(|s| s.task_per_connection);
        if rows.iter().any(|(_, n, _)| *n == name) {
            continue; // the first of the plan stands for its server
        }
        rows.push((each.max(0.0), name, has_tasks));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let kib = |each: f64| format!("{} KiB", units::number(each));
    let numbers: Vec<String> = rows
        .iter()
        .map(|(each, name, _)| format!("`{name}`: {} for each further connection", kib(*each)))
        .collect();
    let of = |tasks: bool| -> Vec<String> {
        let own = rows.iter().filter(|(_, _, has)| *has == tasks);
        own.map(|(each, name, _)| format!("{} with `{name}`", kib(*each)))
            .collect()
    };
    let answer = match (of(true), of(false)) {
        (with, _) if with.is_empty() => Err(
            "needs a server with a thread or process for each connection, at two numbers of connections that lie 100 apart or more".to_owned(),
        ),
        (with, without) if without.is_empty() => {
            Ok(format!("each connection takes {}.", phrases::list(&with)))
        }
        (with, without) => Ok(format!(
            "each connection takes {}, against {}.",
            phrases::list(&with),
            phrases::list(&without)
        )),
    };
    let mut told = told(answer, numbers);
    told.evidence.push(format!(
        "anonymous memory and page tables of all processes, and a kernel stack of {:.0} KiB for each thread; the sockets' own memory, which is alike for all, is not in it",
        KERNEL_STACK_BYTES / 1024.0
    ));
    told.would_change = "services that touch more of a stack, or another size of kernel stacks";
    Some(told)
}

/// The fewest further connections from which the cost of one is told.
const FEWEST_MORE: u64 = 100;

/// Whether single-threaded has the least latency.
pub(super) fn single(why: &Why<'_>) -> Option<Explained> {
    const P50: Metric = Metric::both(Measure::LatencyUsP50);
    const P99: Metric = Metric::both(Measure::LatencyUsP99);
    let is_single = |c: &&&CellTrials<'_>| c.cell.serving.server.as_deref() == Some("single");
    let same = groups(why, &[Axis::Server], |_| true);
    let (mut beaten, mut least, mut open) = (Vec::new(), 0, 0);
    let mut numbers = Vec::new();
    for group in &same {
        let Some(single) = group.iter().find(is_single) else {
            continue;
        };
        for other in group.iter().filter(|c| c.id != single.id) {
            let place = why.at(other, &[]);
            for metric in [P50, P99] {
                let Some(r) = ratio(Axis::Server, other, single, metric) else {
                    continue;
                };
                let row = format!(
                    "{} against `single`, {} {place}: {}",
                    name(other),
                    phrases::metric(metric),
                    told_of(r)
                );
                if r.high < 1.0 {
                    beaten.push(row.clone());
                } else if r.low > 1.0 {
                    least += 1;
                } else {
                    open += 1;
                }
                numbers.push(row);
            }
        }
    }
    let compared = beaten.len() + least + open;
    let answer = match (compared, beaten.len()) {
        (0, _) => Err(
            "needs `single` and another server at the same load: one kept connection, or new ones"
                .to_owned(),
        ),
        (_, 0) if least == 0 => Err(format!(
            "all {open} comparisons are open: needs more blocks (--budget)"
        )),
        (all, 0) => Ok(format!(
            "nothing was shown to be sooner: it is the soonest in {least} of {all} comparisons, {open} are open."
        )),
        (all, n) => Ok(format!(
            "no: another server is sooner in {n} of {all} comparisons, `single` in {least}, {open} are open."
        )),
    };
    // What speaks against it first.
    let rest = numbers.into_iter().filter(|n| !beaten.contains(n));
    let rows = beaten.iter().cloned().chain(rest.collect::<Vec<_>>());
    let mut told = told(answer, rows.take(MOST_ROWS).collect());
    told.would_change =
        "several connections that are kept, which it cannot serve, or answers that take long";
    Some(told)
}
