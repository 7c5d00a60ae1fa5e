//! A kernel that leaves interrupts out of a thread's CPU time.

use bytecost_spec::survey::ClockVerdict;
use bytecost_spec::{Counter, Reading, Transport};

use super::{UnnamedCaveat, ids, in_cells};
use crate::phrases::percent;
use crate::trials::CellTrials;
use crate::view::View;

/// By which means the CPU time of a cell was read in the place of the threads' own clocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Interrupts,
    TaskClock,
    Nothing,
}

/// None where it is that of the threads' own clocks.
fn means(cell: &CellTrials<'_>) -> Option<By> {
    let readings = &cell.trials().next()?.sample.sender.readings;
    readings.get(&Counter::ThreadCpuNs)?;
    let is_read = |counter| readings.get(&counter).and_then(Reading::measured).is_some();
    Some(
        match (is_read(Counter::CpuNs), is_read(Counter::InterruptNs)) {
            (false, _) => By::Nothing,
            (true, true) => By::Interrupts,
            (true, false) => By::TaskClock,
        },
    )
}

pub(super) fn detect(view: &View<'_>) -> Vec<UnnamedCaveat> {
    let Some(clock) = &view.input.manifest.survey.cpu_clock else {
        return Vec::new();
    };
    let told = match clock.verdict() {
        ClockVerdict::Keeps => None,
        ClockVerdict::Loses => loses(view, clock.ratio()),
        ClockVerdict::NotTold => not_told(view),
    };
    told.into_iter().collect()
}

fn loses(view: &View<'_>, ratio: Option<f64>) -> Option<UnnamedCaveat> {
    let read: Vec<(&CellTrials<'_>, By)> = view
        .measured()
        .filter_map(|cell| Some((cell, means(cell)?)))
        .collect();
    let by = |by| read.iter().filter(|(_, b)| *b == by).count();
    let ways = [
        (By::Interrupts, "the interrupts of its CPUs are added to it"),
        (
            By::TaskClock,
            "CPU time is the perf task clock, which adds some µs to each context switch",
        ),
        (By::Nothing, "there is no CPU time"),
    ];
    let ways: Vec<String> = ways
        .into_iter()
        .filter(|(way, _)| by(*way) > 0)
        .map(|(way, what)| format!("{} {what}", in_cells(by(way))))
        .collect();
    let mixed = match by(By::Interrupts) > 0 && by(By::TaskClock) > 0 {
        true => " CPU time read by two means differs by that.",
        false => "",
    };
    (!read.is_empty()).then(|| UnnamedCaveat {
        text: format!(
            "This kernel leaves interrupts out of a thread's CPU time, and with them a part of what is sent and received over a network: {}.{mixed}",
            ways.join("; ")
        ),
        evidence: match ratio {
            Some(ratio) => format!(
                "a thread that sent to itself over loopback without a pause had {} of the elapsed time as CPU time",
                percent(ratio)
            ),
            None => "the kernel is built with CONFIG_IRQ_TIME_ACCOUNTING; its effect could not be measured".to_owned(),
        },
        remedy: "boot with tsc=noirqtime (x86), or hold both ends to CPUs of their own (--placement) with a --window of 340ms".to_owned(),
        cells: ids(read.iter().map(|(cell, _)| *cell)),
    })
}

fn not_told(view: &View<'_>) -> Option<UnnamedCaveat> {
    let over_a_network = |c: &&CellTrials<'_>| c.cell.transport != Transport::Unix;
    let cells = ids(view.moved().filter(over_a_network));
    (!cells.is_empty()).then(|| UnnamedCaveat {
        text: "It is not known whether this kernel leaves interrupts out of a thread's CPU time. If it does, CPU time over a network is too low.".to_owned(),
        evidence: "the thread that was to show it was taken off its CPU in every try, and the kernel's configuration cannot be read".to_owned(),
        remedy: "stop what else runs and run again; `bytecost doctor` repeats the test".to_owned(),
        cells,
    })
}
