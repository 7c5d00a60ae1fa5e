//! Questions about why, each answered from the run or said what is missing.

use bytecost_spec::{Axis, Measure, Metric, units};

use crate::crossovers::{Curve, curves, is_open};
use crate::phrases;
use crate::result::{CellResult, Estimate, Explanation};
use crate::view::View;

mod asynchronous;
mod cache_steps;
mod caches;
mod causes;
mod copies;
mod cpu_distance;
mod cpu_time;
mod footprint;
mod huge_pages;
mod isolation;
mod one_call;
mod placements;
mod questions;
mod ranges;
mod sendfile;
mod servers;
mod shared_core;
mod threads;
mod unexpected;
mod zero_copy;
mod zero_copy_from;

/// Rows of numbers that are told of one kind; the rest is in the tables.
const MOST_ROWS: usize = 8;

/// All that a question may look at.
pub(crate) struct Why<'v> {
    view: &'v View<'v>,
    varied: &'v [Axis],
}

/// What there is to say to a question.
struct Explained {
    /// The answer in one sentence, or what is missing for one.
    answer: Result<String, String>,
    numbers: Vec<String>,
    evidence: Vec<String>,
    would_change: &'static str,
    findings: Vec<String>,
}

/// What a run must be about for a question to be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Ways to send over a socket, with and without a copy.
    Sockets,
    /// Files; each question says by itself whether the run is about it.
    Files,
    /// Servers and their clients.
    Servers,
    /// Anything that a question of sockets, files or servers is about.
    Both,
    /// Whatever the run is about; each question says by itself whether it has something to say.
    All,
}

struct Question {
    key: &'static str,
    text: &'static str,
    of: Of,
    /// None where the run is not about what the question asks.
    ask: fn(&Why<'_>) -> Option<Explained>,
}

/// Movers that the questions of sockets are about: a run with none of them is about something
/// else.
const ABOUT: &[&str] = &["send-fields", "sendmsg", "send-zerocopy", "uring-send-zc"];

/// The questions that the run is about, each with its answer or with what is missing.
pub(crate) fn all(view: &View<'_>, varied: &[Axis]) -> Vec<Explanation> {
    let why = Why { view, varied };
    let about = |mover: &str| ABOUT.contains(&mover);
    let serves = view.trials.moving().any(|c| c.cell.is_served());
    let sockets = view.trials.moving().any(|c| about(&c.cell.mover));
    let mut asked: Vec<Explanation> = Vec::new();
    let mut about_something = false;
    for question in questions::OF_ALL
        .iter()
        .chain(questions::QUESTIONS)
        .chain(questions::OF_WORK)
    {
        let is_asked = match question.of {
            Of::Sockets => sockets,
            Of::Servers => serves,
            Of::Files => !serves,
            Of::All => true,
            Of::Both => about_something,
        };
        if let Some(told) = is_asked.then(|| (question.ask)(&why)).flatten() {
            about_something |= question.of != Of::All;
            asked.push(question.told(told));
        }
    }
    asked
}

impl Question {
    fn told(&self, told: Explained) -> Explanation {
        let (answer, missing) = match told.answer {
            Ok(answer) => (Some(phrases::capital(&answer)), None),
            Err(missing) => (None, Some(missing)),
        };
        Explanation {
            key: self.key.to_owned(),
            question: self.text.to_owned(),
            would_change: answer.is_some().then(|| told.would_change.to_owned()),
            answer,
            numbers: told.numbers,
            evidence: told.evidence,
            missing,
            findings: told.findings,
        }
    }
}

impl<'v> Why<'v> {
    /// A mover against another over size, in every place: those with most sizes first, then in
    /// the order of the plan.
    fn over_size(&self, baseline: &str, value: &str) -> Vec<Curve<'v>> {
        let mut curves = curves(self.view, self.varied, Axis::Mover, baseline, Axis::Size);
        curves.retain(|c| c.value == value);
        curves.sort_by_key(|c| std::cmp::Reverse(c.points.len()));
        curves
    }

    /// The first metric of the study, and CPU time per byte and throughput beside it.
    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = vec![self.view.main_metric()];
        for measure in [Measure::CpuSPerGb, Measure::ThroughputGbitPerS] {
            if metrics.iter().all(|m| m.measure != measure) {
                metrics.push(Metric::both(measure));
            }
        }
        metrics
    }

    /// The measured cells of a mover.
    fn cells(&self, mover: &str) -> impl Iterator<Item = &'v CellResult> {
        let own = move |c: &&CellResult| c.cell.mover == mover && c.trials > 0;
        self.view.cells.iter().filter(own)
    }

    /// Movers that the survey says are zero-copy, with what copies in the same way; only pairs
    /// whose zero-copy half is in the plan.
    fn zero_copy_pairs(&self) -> Vec<(&'static str, &'static str)> {
        const PAIRS: [(&str, &str); 4] = [
            ("send-zerocopy", "sendmsg"),
            ("send-zerocopy", "send"),
            ("uring-send-zc", "uring-send"),
            ("uring-send-zc", "send"),
        ];
        let planned = |mover: &str| self.view.trials.moving().any(|c| c.cell.mover == mover);
        PAIRS
            .into_iter()
            .filter(|(zero, _)| planned(zero))
            .collect()
    }

    /// Why a mover cannot be held against another over size.
    fn why_no_curve(&self, baseline: &str, value: &str) -> String {
        for mover in [baseline, value] {
            if self.cells(mover).next().is_none() {
                return format!("no cell with mover `{mover}` was measured");
            }
        }
        let stalled = [baseline, value].into_iter().find(|mover| {
            let mut own = self.cells(mover);
            own.all(|c| self.view.stalls.waits(&c.id).is_some())
        });
        if let Some(mover) = stalled {
            return format!(
                "every cell of `{mover}` waits for the timer of delayed acknowledgements: needs cells with --nodelay on"
            );
        }
        let mut sizes: Vec<u64> = self.cells(value).map(|c| c.cell.size_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < 2 {
            return "needs at least two message sizes".to_owned();
        }
        format!(
            "no two cells that differ in `{baseline}` and `{value}` alone have three blocks in common at two sizes"
        )
    }

    /// Where two ways cross in the first of the metrics in which that is decided; else what is
    /// missing in the first.
    fn first_crossing(
        &self,
        curve: &Curve<'_>,
        metrics: &[Metric],
    ) -> Result<(String, Vec<String>), String> {
        let mut answers = metrics.iter().map(|metric| self.crossing(curve, *metric));
        let Some(first) = answers.next() else {
            return Err("no metric is compared".to_owned());
        };
        first.or_else(|missing| answers.find_map(Result::ok).ok_or(missing))
    }

    /// The answer that a crossover gives, with the ratio at both ends of the range.
    fn crossing(&self, curve: &Curve<'_>, metric: Metric) -> Result<(String, Vec<String>), String> {
        let crossover = curve
            .crossover(self.view, metric)
            .ok_or_else(|| format!("{} was not had at two sizes", phrases::metric(metric)))?;
        let ratios = curve.ratios(metric);
        let (Some((_, first)), Some((_, last))) = (ratios.first(), ratios.last()) else {
            return Err("no size has three blocks".to_owned());
        };
        if is_open(&crossover.outcome) {
            let blocks = curve.points[0].pairing.log_ratios(metric).len();
            return Err(format!(
                "the intervals of {blocks} blocks leave it open for `{}` against `{}` in {}: needs more blocks (--budget)",
                curve.value,
                curve.baseline,
                phrases::metric(metric)
            ));
        }
        let [least, most] =
            [&crossover.range.0, &crossover.range.1].map(|v| curve.along.circumstance(v));
        let sentence = format!(
            "{}; {least} the ratio is {}, {most} {}.",
            crossover.sentence.trim_end_matches('.'),
            phrases::ratio(first.value, first.low, first.high),
            phrases::ratio(last.value, last.low, last.high)
        );
        Ok((sentence, crossover.findings))
    }
}

/// The rows of all curves in each metric, as many as are shown.
fn rows(curves: &[Curve<'_>], metrics: &[Metric]) -> Vec<String> {
    let of_metric = |metric: &Metric| {
        let metric = *metric;
        curves.iter().filter_map(move |c| row(c, metric))
    };
    metrics.iter().flat_map(of_metric).take(MOST_ROWS).collect()
}

/// A curve's ratios as a row: `` `sendmsg` against `send-fields`, CPU time per byte: 0.2× (…) at
/// 256 B; … ``; none where there are none.
fn row(curve: &Curve<'_>, metric: Metric) -> Option<String> {
    let ratios = curve.ratios(metric);
    if ratios.is_empty() {
        return None;
    }
    let told: Vec<String> = ratios
        .iter()
        .map(|(x, r)| {
            let ratio = phrases::ratio(r.value, r.low, r.high);
            format!("{ratio} {}", curve.along.circumstance(x))
        })
        .collect();
    let mut head = format!(
        "{} against {}, {}",
        curve.axis.subject(&curve.value),
        curve.axis.subject(&curve.baseline),
        phrases::metric(metric)
    );
    let place = phrases::circumstances(&curve.place);
    if !place.is_empty() {
        head.push_str(&format!(", {place}"));
    }
    Some(format!("{head}: {}", told.join("; ")))
}

/// An estimate with its unit and interval: `9.1 Gbit/s (8.9 to 9.3)`.
fn estimate(e: &Estimate, metric: Metric) -> String {
    let unit = metric.measure.row().unit;
    let value = format!("{} {unit}", units::number(e.value));
    let value = value.trim_end();
    match (e.low, e.high) {
        (Some(low), Some(high)) => format!(
            "{value} ({} to {})",
            units::number(low),
            units::number(high)
        ),
        _ => value.to_owned(),
    }
}

/// Why a metric cannot be had: the refusal of its counter, else what its cells say.
fn why_absent(view: &View<'_>, metric: Metric, counter: &str) -> String {
    let refused = &view.input.manifest.survey.counters_refused;
    let refusal = refused.iter().find(|r| r.what.contains(counter));
    let absent = || view.cells.iter().find_map(|c| c.absent.get(&metric));
    let why = refusal.map(|r| &r.why).or_else(absent);
    why.map_or_else(
        || "they were not counted".to_owned(),
        |w| w.trim_end_matches('.').to_owned(),
    )
}
