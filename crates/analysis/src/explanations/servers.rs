//! Which server for how many connections, what idle ones and threads cost, and who answers soonest.

use bytecost_spec::{Axis, Connect, Counter, Measure, Metric, SideReadings, Value, units};
use itertools::Itertools as _;

use super::asked::{MeasuredWay, NONE, PairQuery};
use super::{Answered, Answers, Explained, Question};
use crate::cells::typical;
use crate::grouping::{by_key, grouped};
use crate::phrases::{self, percent};
use crate::trials::CellTrials;
use crate::value::served::{KERNEL_STACK_BYTES, memory_bytes, messages};
use crate::value::{Trial, read};

const RATE: Metric = Metric::both(Measure::MessagesPerS);
const MORE: &str = "more CPUs for the server (--placement 0,2:1), larger or slower responses (--service, --size), or new connections (--connect new)";

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        key: "which-server",
        text: "Which model for how many connections?",
        asks: serves,
        answers: Answers::Pairs(
            PairQuery {
                axes: &[Axis::Server],
                pairs: |one, other| is_busy(one) && is_busy(other),
                metrics: |_| vec![vec![RATE]],
                along: &[Axis::Server],
                together: false,
                needs: "needs several servers at the same number of kept connections",
            },
            NONE,
        ),
        would_change: MORE,
    },
    Question {
        key: "idle-connections",
        text: "Where do servers fall off with connections that are only there?",
        asks: serves,
        answers: Answers::Pairs(
            PairQuery {
                axes: &[Axis::Idle],
                pairs: |alone, other| alone.cell().serving.idle == 0 && is_kept_busy(other),
                metrics: |_| vec![vec![RATE]],
                along: &[Axis::Idle],
                together: false,
                needs: "needs cells with and without idle connections (--idle 0,900)",
            },
            NONE,
        ),
        would_change: "more connections that are busy at the same time, so that a wait brings several of them; select and poll hand all descriptors to the kernel at each wait, epoll and io_uring keep them there",
    },
    Question {
        key: "clients-share",
        text: "How much of a request was the clients' own work?",
        asks: serves,
        answers: Answers::Own(clients_share),
        would_change: "more threads for the clients (--threads), or a rate that they keep to (--rate)",
    },
    Question {
        key: "memory-per-connection",
        text: "What does a thread or process for each connection cost in memory?",
        asks: serves,
        answers: Answers::Own(memory),
        would_change: "services that touch more of a stack, or another size of kernel stacks",
    },
    Question {
        key: "single-soonest",
        text: "Does single-threaded really have the least latency?",
        asks: serves,
        answers: Answers::Pairs(
            PairQuery {
                axes: &[Axis::Server],
                pairs: |single, _| single.server.is_some_and(|s| s.in_turn),
                metrics: |_| {
                    let both = [Measure::LatencyUsP50, Measure::LatencyUsP99];
                    both.map(|m| vec![Metric::both(m)]).to_vec()
                },
                along: &[],
                together: false,
                needs: "needs a server of one connection after the other and another at the same load",
            },
            NONE,
        ),
        would_change: "several connections that are kept, which it cannot serve, or responses that take long",
    },
];

fn serves(run: &Explained<'_>) -> bool {
    run.plans(|w| w.cell().is_served())
}

/// Whether its clients ask at once when they have a response.
fn is_kept_busy(way: MeasuredWay<'_>) -> bool {
    let load = &way.cell().serving;
    load.rate_per_s.is_none() && !load.perf
}

fn is_busy(way: MeasuredWay<'_>) -> bool {
    let load = &way.cell().serving;
    load.connect == Connect::Kept && load.idle == 0 && is_kept_busy(way)
}

/// What the clients of a closed loop take for a request, and how much of the window that fills:
/// with few connections a rate is that of server and clients in turn.
fn clients_share(run: &Explained<'_>) -> Option<Answered> {
    let closed = |c: &&CellTrials<'_>| c.cell.is_served() && c.cell.serving.rate_per_s.is_none();
    let cells = run.measured().filter(closed);
    let by_connections = by_key(cells.map(|c| (c.cell.serving.connections, c))).into_iter();
    let told = by_connections.filter_map(|(connections, cells)| {
        let of = |value: fn(&SideReadings) -> Option<f64>, write: fn(f64) -> String| {
            let own = |c: &&CellTrials<'_>| usual(c, |t| value(&t.sample.sender));
            let known = cells.iter().filter_map(own).collect_vec();
            (!known.is_empty()).then(|| phrases::span(&known, write))
        };
        let (cpu, busy) = (of(client_cpu_us, units::number)?, of(busy_share, percent)?);
        let with = Axis::Connections.circumstance(&Value::Count(connections.into()));
        let took = format!("{with} {cpu} µs of CPU time for each request");
        Some(format!("{took}, busy {busy} of the window"))
    });
    let numbers = told.collect_vec();
    let answer = match numbers.as_slice() {
        [] => Err("needs a server in a closed loop, whose clients tell what they did".into()),
        [one] => Ok(format!("{one}.")),
        [first, .., last] => Ok(format!("{first}; {last}.")),
    };
    Some(Answered {
        numbers,
        evidence: vec!["the CPU time of the clients' process, and the time in which its busiest thread was busy".to_owned()],
        ..Answered::of(answer)
    })
}

fn usual(cell: &CellTrials<'_>, of: impl Fn(&Trial<'_>) -> Option<f64>) -> Option<f64> {
    typical(&cell.trials().filter_map(of).collect_vec())
}

fn client_cpu_us(side: &SideReadings) -> Option<f64> {
    let messages = messages(side).ok().filter(|n| *n > 0.0)?;
    Some(read(side, Counter::CpuNs).ok()? / messages / 1e3)
}

fn busy_share(side: &SideReadings) -> Option<f64> {
    let window_ns: u64 = side.flows.iter().map(|f| f.elapsed_ns).sum();
    let busy_ns = read(side, Counter::GeneratorBusyNs).ok()?;
    (window_ns > 0).then(|| (busy_ns / window_ns as f64).min(1.0))
}

/// Of fewer further connections what each costs drowns in what the process has anyway.
const FEWEST_MORE: u64 = 100;

/// What a thread or process for each connection costs in memory, of the first place of each server.
fn memory(run: &Explained<'_>) -> Option<Answered> {
    let fits = |c: &&CellTrials<'_>| {
        let load = &c.cell.serving;
        c.cell.is_served() && load.connect == Connect::Kept && load.rate_per_s.is_none()
    };
    let place = |c: &CellTrials<'_>| c.cell.id_without(&[Axis::Connections, Axis::Idle]);
    let groups = grouped(run.measured().filter(fits).map(|c| (place(c), c)));
    let bytes = |cell| usual(cell, |t| memory_bytes(t.sample).ok());
    let survey = &run.input.manifest.survey;
    let rows = groups.into_iter().filter_map(|(_, cells)| {
        let all = |c: &&CellTrials<'_>| c.cell.serving.all_connections();
        let (first, last) = cells.into_iter().minmax_by_key(all).into_option()?;
        let more = all(&last).saturating_sub(all(&first));
        let each = (bytes(last)? - bytes(first)?) / more as f64 / 1024.0;
        let name = last.cell.serving.server.clone()?;
        let has_tasks = survey.server(&name).is_some_and(|s| s.task_per_connection);
        (more >= FEWEST_MORE).then(|| (each.max(0.0), name, has_tasks))
    });
    let rows = rows.unique_by(|(_, name, _)| name.clone());
    let rows = rows.sorted_by(|a, b| b.0.total_cmp(&a.0)).collect_vec();
    let kib = |each: &f64| format!("{} KiB", units::number(*each));
    let of = |tasks: bool| {
        let own = rows.iter().filter(|(_, _, has)| *has == tasks);
        phrases::list(own.map(|(each, name, _)| format!("{} with `{name}`", kib(each))))
    };
    let answer = match (of(true), of(false)) {
        (with, _) if with.is_empty() => Err("needs a server with a thread or process for each connection, at two numbers of connections that lie 100 apart".into()),
        (with, without) if without.is_empty() => Ok(format!("each connection takes {with}.")),
        (with, without) => Ok(format!("each connection takes {with}, compared with {without}.")),
    };
    let told = rows.iter().map(|(each, name, _)| (name, kib(each)));
    let told = told.map(|(name, each)| format!("`{name}`: {each} for each further connection"));
    let stack = KERNEL_STACK_BYTES / 1024.0;
    Some(Answered {
        numbers: told.collect(),
        evidence: vec![format!(
            "anonymous memory and page tables of all processes, and a kernel stack of {stack:.0} KiB for each thread; not the sockets' own memory, which is alike for all"
        )],
        ..Answered::of(answer)
    })
}
