//! Trials of a cell in two groups: planted regimes that the ratios hide, and such that they share.

use bytecost_analysis::{Analysis, Gap, PartingReading, TwoGroups};
use bytecost_spec::{Cell, Counter, Measure, Metric, Sample};
use bytecost_stats::Generator;

use crate::world::{Found, MOVERS, True, World, at, facts, put, scale_cpu_time, study_of};

const COST: Metric = Metric::both(Measure::CpuSPerGb);

fn quiet(blocks: u32, noise: f64) -> World {
    let study = study_of(MOVERS);
    let mut world = World::new(&study).run(1, blocks, noise, |_| True::costs(0.2));
    let sendfile = facts("sendfile", bytecost_spec::survey::Release::Never, true);
    world.manifest.survey.mover_facts.push(sendfile);
    world
}

/// Lets half of the trials of some cells cost 3.5 times as much, each by a draw of its own.
fn parted(world: &mut World, which: impl Fn(&Cell) -> bool, mark: impl Fn(&mut Sample, bool)) {
    let mut g = Generator::new(11);
    world.change(which, |sample| {
        let is_dear = g.below(2) == 0;
        scale_cpu_time(sample, if is_dear { 3.5 } else { 1.0 });
        mark(sample, is_dear);
    });
}

/// Segments of which several messages are joined in one, or each of which has one.
fn segments(sample: &mut Sample, is_dear: bool) {
    let readings = &mut sample.sender.readings;
    let messages = readings[&Counter::Messages].measured().unwrap();
    let each = if is_dear { messages } else { messages / 5 };
    put(readings, Counter::TcpDataSegments, each);
}

fn groups<'a>(analysis: &'a Analysis, id: &str) -> Option<&'a TwoGroups> {
    let groups = &analysis.of_id(id).two_groups;
    groups.iter().find(|g| g.metric == COST)
}

/// The baseline varies so much that no two groups are found in the ratios.
#[test]
fn two_groups_that_the_ratios_hide_withhold_the_verdict_and_have_no_one_number() {
    let mut world = quiet(24, 0.003);
    let mut g = Generator::new(3);
    world.change(at("send", 4096), |s| {
        scale_cpu_time(s, (0.35 * g.normal()).exp())
    });
    let id = world.id("sendfile", 4096);
    let before = world.analyse();
    assert_eq!(groups(&before, &id), None);
    assert!(before.of_id(&id).estimates.contains_key(&COST));
    assert_eq!(before.of_cell(COST, &id).withheld, None);
    parted(&mut world, at("sendfile", 4096), segments);
    let analysis = world.analyse();
    let found = groups(&analysis, &id).unwrap();
    assert!((0.3..0.7).contains(&found.upper.share), "{found:?}");
    assert!(
        (found.upper.value / found.lower.value - 3.5).abs() < 0.1,
        "{found:?}"
    );
    let by = found.parted_by.as_ref().unwrap();
    assert_eq!(by.reading, PartingReading::SegmentsPerMessage);
    assert_eq!(by.upper, [1.0, 1.0]);
    let cell = analysis.of_id(&id);
    for metric in [COST, Metric::both(Measure::CpuNsPerMessage)] {
        assert!(!cell.estimates.contains_key(&metric));
        assert!(matches!(cell.gap(metric), Some(Gap::TwoGroups(_))));
    }
    assert!(analysis.of_cell(COST, &id).withheld.is_some());
}

#[test]
fn a_reading_that_does_not_part_the_groups_is_not_named() {
    let mut world = quiet(24, 0.003);
    let mut g = Generator::new(4);
    let draws: Vec<bool> = (0..100).map(|_| g.below(2) == 0).collect();
    parted(&mut world, at("sendfile", 4096), |sample, _| {
        segments(sample, draws[sample.trial.block as usize]);
    });
    let analysis = world.analyse();
    let found = groups(&analysis, &world.id("sendfile", 4096)).unwrap();
    assert_eq!(found.parted_by, None);
}

#[test]
fn cells_that_change_groups_in_the_same_blocks_keep_their_verdict() {
    let verdict = |mut world: World, together: bool| {
        let ids = [world.id("send", 4096), world.id("sendfile", 4096)];
        let mut g = Generator::new(9);
        let draws: Vec<bool> = (0..24).map(|_| g.below(2) == 0).collect();
        world.change(
            |c| c.size_bytes == 4096,
            |sample| {
                let block = sample.trial.block as usize;
                let is_sendfile = sample.cell.contains("/sendfile/");
                let is_late = is_sendfile && !together;
                let is_dear = draws[(block + if is_late { 7 } else { 0 }) % 24];
                scale_cpu_time(sample, if is_dear { 4.0 } else { 1.0 });
            },
        );
        let analysis = world.analyse();
        assert!(ids.iter().all(|id| groups(&analysis, id).is_some()));
        analysis.of_cell(COST, &ids[1]).withheld.is_none()
    };
    assert!(verdict(quiet(24, 0.01), true));
    assert!(!verdict(quiet(24, 0.01), false));
}
