//! What huge pages gain where memory is worked on: how far the translation buffers reach.

use bytecost_spec::units::bytes_in_words;
use bytecost_spec::{Axis, Cell, HugePages, Measure, Metric};

use super::{Explained, Why};
use crate::phrases;
use crate::result::{Finding, Verdict};

const METRIC: Metric = Metric::both(Measure::CpuNsPerMessage);

/// An order of access, in huge pages against small ones, by rising working set.
struct Course<'v> {
    mover: String,
    points: Vec<(u64, &'v Finding)>,
}

pub(super) fn ask(why: &Why<'_>) -> Option<Explained> {
    let input = why.view.input;
    let asks = |cell: &Cell| cell.huge_pages == HugePages::On;
    let planned = why.view.trials.moving().any(|c| asks(c.cell));
    let mut refused = input
        .refusals
        .iter()
        .filter(|r| Cell::from_id(&r.what).is_some_and(|c| asks(&c)));
    let refusal = refused.next();
    if !planned && refusal.is_none() {
        return None;
    }
    let courses = courses(why);
    let answer = match (courses.is_empty(), refusal) {
        (false, _) => Ok(format!(
            "{}.",
            courses.iter().map(told).collect::<Vec<_>>().join("; ")
        )),
        (true, Some(refusal)) => Err(refusal.why.clone()),
        (true, None) => {
            Err("needs the same work with --huge-pages off and on, in three blocks".to_owned())
        }
    };
    let all = || {
        courses
            .iter()
            .flat_map(|c| c.points.iter().map(move |p| (c, p)))
    };
    Some(Explained {
        answer,
        numbers: all()
            .map(|(course, (bytes, f))| {
                format!(
                    "`{}` over {}: {} the CPU time of an access in small pages",
                    course.mover,
                    bytes_in_words(*bytes),
                    phrases::ratio(f.ratio, f.low, f.high)
                )
            })
            .collect(),
        evidence: vec![
            "which pages the memory lay in was read in /proc/self/smaps before each trial, and a trial whose memory lay in others failed".to_owned(),
            "an entry of the translation buffers (TLB) covers one page: beyond what all of them cover, an access must also find out where its page is, and a huge page is worth as many small ones as fit into it".to_owned(),
        ],
        would_change: "another order of access: in order the next page is known before it is needed, so that its translation is too; and under a hypervisor, whether the host backs the guest's memory with huge pages",
        findings: all().map(|(_, (_, f))| f.id.clone()).collect(),
    })
}

/// Each mover over its working sets, alone on its CPU.
fn courses<'v>(why: &Why<'v>) -> Vec<Course<'v>> {
    let mut courses: Vec<Course<'v>> = Vec::new();
    for finding in why.view.findings {
        let of_pages = finding.axis == Axis::HugePages && finding.metric == METRIC;
        let is_on = finding.baseline_value == "off" && finding.value == "on";
        let Some(cell) = Cell::from_id(&finding.cell).filter(|_| of_pages && is_on) else {
            continue;
        };
        if !cell.neighbour.is_idle() || cell.threads != 1 {
            continue;
        }
        let point = (cell.size_bytes, finding);
        match courses.iter_mut().find(|c| c.mover == cell.mover) {
            Some(course) => course.points.push(point),
            None => courses.push(Course {
                mover: cell.mover,
                points: vec![point],
            }),
        }
    }
    for course in &mut courses {
        course.points.sort_by_key(|(bytes, _)| *bytes);
        course.points.dedup_by_key(|(bytes, _)| *bytes);
    }
    courses
}

/// From which working set on huge pages are cheaper at each further one, and how much at most.
fn told(course: &Course<'_>) -> String {
    let mover = &course.mover;
    let better = |f: &Finding| f.verdict == Verdict::Better;
    let last_other = course.points.iter().rposition(|(_, f)| !better(f));
    let from = last_other.map_or(0, |at| at + 1);
    let gains = course.points.iter().filter(|(_, f)| better(f));
    let most = gains.min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let Some((at, most)) = most else {
        return format!("`{mover}`: no gain is shown");
    };
    let most = format!(
        "{} less over {}",
        phrases::change(most.ratio),
        bytes_in_words(*at)
    );
    match course.points.get(from) {
        Some((bytes, _)) if from > 0 => {
            format!(
                "`{mover}`: cheaper from {} on, up to {most}",
                bytes_in_words(*bytes)
            )
        }
        Some(_) => format!("`{mover}`: cheaper over every working set, up to {most}"),
        None => format!("`{mover}`: cheaper over some working sets, up to {most}"),
    }
}
