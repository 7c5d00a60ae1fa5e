//! The adaptation of a study to cells that the command line has replaced.

use itertools::Itertools as _;

use super::{Figure, Study};
use crate::axis::{Axis, CellFacts, Value};
use crate::cell::Cell;
use crate::metric::{Measure, Metric, Unit};
use crate::survey::Survey;

impl Study {
    /// Replaces metrics, question and figures that do not fit the movers or servers of the command
    /// line: a wake-up has a latency and no throughput, and a server has requests. Axes that no
    /// longer vary are no longer compared.
    pub fn fit(&mut self, survey: &Survey) {
        let is_chosen = |axis: &Axis| matches!(axis, Axis::Mover | Axis::Server);
        if !self.asked.iter().any(is_chosen) {
            return;
        }
        self.shorten_messages(survey);
        let cells = self.normal_cells(survey);
        let moves = |cell: &&Cell| !survey.mover(&cell.mover).is_some_and(|m| m.moves_nothing());
        let Some(first) = cells.iter().find(moves).or(cells.first()) else {
            return;
        };
        let facts = CellFacts::new(first, survey);
        let metrics = facts.metrics();
        let moving = cells.iter().filter(moves);
        let unit = Unit::of_all(moving.map(|c| CellFacts::new(c, survey).unit()));
        let varies = |axis: Axis| !cells.iter().map(|cell| cell.value(axis)).all_equal();
        if self.compare.iter().any(|c| varies(c.axis)) {
            self.compare.retain(|c| varies(c.axis));
        }
        let has = |metric: &Metric| match metric.measure {
            _ if metrics.contains(metric) => true,
            Measure::RoundTripNs => false,
            Measure::CpuSPerGb | Measure::ThroughputGbitPerS if facts.is_served() => false,
            // A cell that moves bytes or serves requests has all other measures.
            _ => !(facts.wakes() || facts.is_ping() || facts.is_work()),
        };
        let fits = |compared: &[Metric]| compared.first().is_some_and(has);
        if self.compare.iter().all(|c| fits(&c.metrics)) {
            return;
        }
        for compare in &mut self.compare {
            compare.metrics = metrics.to_vec();
        }
        self.title = "As asked on the command line".to_owned();
        self.question = "What do these cost, as asked on the command line?".to_owned();
        self.prediction = "Nothing was written down.".to_owned();
        self.expects.clear();
        self.pairs.clear();
        let series = self.compare.first().map_or(Axis::Mover, |c| c.axis);
        let x = (self.asked.iter().copied())
            .filter(|axis| *axis != series)
            .min_by_key(|axis| !varies(*axis));
        self.figures = vec![Figure {
            title: metrics[0].title(unit),
            x: x.unwrap_or(Axis::Size),
            y: metrics[0],
            series,
            relative: false,
            or: None,
        }];
    }

    /// Makes messages of servers and wake-ups small, unless the command line names a size.
    fn shorten_messages(&mut self, survey: &Survey) {
        if self.asked.contains(&Axis::Size) {
            return;
        }
        let cells = self.normal_cells(survey);
        let is_small = |cell: &Cell| {
            let facts = CellFacts::new(cell, survey);
            facts.is_served() || facts.wakes()
        };
        if cells.iter().any(is_small) {
            for tier in &mut self.tiers {
                tier.axes.retain(|(axis, _)| *axis != Axis::Size);
                tier.axes.push((Axis::Size, vec![Value::Bytes(64)]));
            }
        }
    }

    fn normal_cells(&self, survey: &Survey) -> Vec<Cell> {
        let normal = |(_, cell): (_, Cell)| CellFacts::new(&cell, survey).normal();
        self.cells().into_iter().map(normal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::SMALL;
    use crate::survey::{MoverFacts, Route, WorkKind};

    fn survey() -> Survey {
        let row = |name: &str, route, work| MoverFacts {
            name: name.to_owned(),
            route,
            work,
            ..MoverFacts::default()
        };
        Survey {
            mover_facts: vec![
                row("send", Route::MemoryToSocket, WorkKind::Memory),
                row("writev", Route::MemoryToSocket, WorkKind::Memory),
                row("wake-up", Route::Work, WorkKind::Beats),
                row("work-random", Route::Work, WorkKind::Memory),
                row("ping-a", Route::PingPong, WorkKind::Memory),
                row("ping-b", Route::PingPong, WorkKind::Memory),
            ],
            ..Survey::default()
        }
    }

    fn asked(axes: &[(Axis, &[&str])]) -> Study {
        let text = SMALL.replace(r#"size = ["64KiB"]"#, r#"size = ["256", "1MiB"]"#);
        let mut study = Study::parse(&text).unwrap();
        let owned = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect();
        let values: Vec<(Axis, Vec<String>)> = axes.iter().map(|(a, v)| (*a, owned(v))).collect();
        study.ask(&values).unwrap();
        study.fit(&survey());
        study
    }

    #[test]
    fn metrics_and_baseline_fit_the_chosen_movers() {
        use Axis::{Class, HugePages, Mover, Server};
        let wake: (Axis, &[&str]) = (Mover, &["wake-up"]);
        let random: (Axis, &[&str]) = (Mover, &["work-random"]);
        let classes: (Axis, &[&str]) = (Class, &["other", "fifo"]);
        let pings: (Axis, &[&str]) = (Mover, &["ping-a", "ping-b"]);
        let pages: (Axis, &[&str]) = (HugePages, &["both"]);
        let sends: (Axis, &[&str]) = (Mover, &["send", "writev"]);
        let servers: (Axis, &[&str]) = (Server, &["epoll", "uring"]);
        for (axes, compared, baseline, metric) in [
            (&[wake, classes][..], Class, "other", Measure::LatencyUsP50),
            (&[pings], Mover, "ping-a", Measure::RoundTripNs),
            (&[random, pages], HugePages, "off", Measure::MessagesPerS),
            (&[servers], Server, "epoll", Measure::MessagesPerS),
            (&[sends], Mover, "send", Measure::CpuSPerGb),
        ] {
            let study = asked(axes);
            let [compare] = &study.compare[..] else {
                panic!("{:?}", study.compare);
            };
            let found = (compare.axis, compare.baseline.clone());
            assert_eq!(found, (compared, baseline.into()));
            assert_eq!(compare.metrics[0].measure, metric);
        }
    }

    #[test]
    fn servers_and_wake_ups_have_one_small_size() {
        let sizes = |axes: &[(Axis, &[&str])]| {
            let cells = asked(axes).cells();
            (cells.iter().map(|(_, cell)| cell.size_bytes))
                .sorted()
                .dedup()
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[(Axis::Mover, &["wake-up"])]), [64]);
        assert_eq!(sizes(&[(Axis::Server, &["epoll"])]), [64]);
        assert_eq!(sizes(&[(Axis::Mover, &["send"])]), [256, 1 << 20]);
        let named: &[(Axis, &[&str])] = &[(Axis::Mover, &["wake-up"]), (Axis::Size, &["4KiB"])];
        assert_eq!(sizes(named), [4096]);
    }
}
