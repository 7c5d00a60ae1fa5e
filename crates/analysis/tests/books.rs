//! The books of a cell: planted holes are found on any clock, and nothing is chosen by its outcome.

use bytecost_analysis::{Analysis, CaveatKind, CellBooks, Closed, Finding, Verdict};
use bytecost_spec::evidence::{CpuAccounts, CpuLine, CpuUser};
use bytecost_spec::host::Obstacle;
use bytecost_spec::sample::{Block, Repeat};
use bytecost_spec::{Cell, CircumstanceKind, Counter, Measure, Metric, Sample, Side};
use bytecost_stats::Generator;

use crate::world::{Found, MOVERS, STUDY, True, World, fires, put, scale, silent, study_of};

const WINDOW_NS: f64 = 1e8;
const COST: Metric = Metric::both(Measure::CpuSPerGb);

#[derive(Clone, Copy)]
struct Machine {
    cpus: f64,
    /// Step of its idle time, in ns.
    step_ns: f64,
    /// True if the scheduler's own account of all tasks can be read.
    has_tasks: bool,
}

const HERE: Machine = Machine {
    cpus: 2.0,
    step_ns: 1e7,
    has_tasks: true,
};

/// Interrupts on idle CPUs that are there in any window.
const FEW_INTERRUPTS_NS: f64 = 3e5;

/// Writes the machine's readings into every sample: its sides, a little of others and of the
/// kernel's, and what `hidden_ns` says works for the sender on nobody's account.
fn kept(machine: Machine, blocks: u32, hidden_ns: impl Fn(&Cell) -> f64) -> World {
    let world = World::new(STUDY).run(3, blocks, 0.02, |_| True::costs(0.2));
    with_machine(world, machine, 18, hidden_ns, |_| FEW_INTERRUPTS_NS)
}

/// The same of a world, with interrupts on idle CPUs, which are in no task's time.
fn with_machine(
    mut world: World,
    machine: Machine,
    seed: u64,
    hidden_ns: impl Fn(&Cell) -> f64,
    interrupts_ns: impl Fn(&Cell) -> f64,
) -> World {
    let mut g = Generator::new(seed);
    world.by_cell(|cell, sample| {
        let hidden = hidden_ns(cell);
        let of = |side: &bytecost_spec::SideReadings| {
            side.readings[&Counter::CpuNs].measured().unwrap_or(0) as f64
        };
        let own = of(&sample.sender) + sample.receiver.as_ref().map_or(0.0, of);
        let (kernel, others, coordinator) = (4e5, 1e6, 2e5);
        let tasks = own + hidden + kernel + others + coordinator;
        let idle = machine.cpus * WINDOW_NS - tasks - interrupts_ns(cell);
        // The clock's step begins anywhere.
        let phase = g.unit() * machine.step_ns;
        let idle = ((idle + phase) / machine.step_ns).floor() * machine.step_ns;
        let mut read = vec![
            (Counter::MachineElapsedNs, WINDOW_NS),
            (Counter::MachineCpus, machine.cpus),
            (Counter::MachineIdleNs, idle),
            (Counter::KernelThreadsNs, kernel),
            (Counter::OtherProcessesNs, others),
            (Counter::InstrumentNs, coordinator),
        ];
        read.extend(
            machine
                .has_tasks
                .then_some((Counter::MachineTasksNs, tasks)),
        );
        for (counter, ns) in read {
            put(&mut sample.machine, counter, ns.max(0.0) as u64);
        }
    });
    world
}

fn is_hidden(cell: &Cell) -> bool {
    cell.mover == "sendfile" && cell.size_bytes == 1 << 20
}

fn hole(ns: f64) -> impl Fn(&Cell) -> f64 {
    move |cell| if is_hidden(cell) { ns } else { 0.0 }
}

fn hidden(analysis: &Analysis) -> &CellBooks {
    let mut books = analysis.books.iter();
    let own = |b: &&CellBooks| is_hidden(&Cell::from_id(&b.cell).expect("an id"));
    books.find(own).expect("books of the cell")
}

#[test]
fn books_without_a_hole_are_closed_and_add_up() {
    let world = kept(HERE, 20, |_| 0.0);
    let analysis = world.analyse();
    assert_eq!(analysis.books.len(), 16);
    for books in &analysis.books {
        assert_eq!(books.closed, Closed::Yes, "{books:?}");
        let sum: f64 = books.lines.iter().map(|l| l.share).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        assert!(books.left_over.abs() < 0.001, "{books:?}");
        assert!((books.machine_over_own - 1.0).abs() < 0.1, "{books:?}");
    }
    silent(&world, "books-open");
    silent(&world, "books-not-closed");
}

// Invariant 11.
#[test]
fn hidden_work_withholds_the_verdicts_of_cpu_time_and_no_others() {
    // A fifth of the sides' time, by nobody's clock.
    let world = kept(HERE, 20, hole(2e7));
    let analysis = world.analyse();
    let id = world.id("sendfile", 1 << 20);
    let found = hidden(&analysis);
    assert_eq!(found.closed, Closed::No);
    assert!(found.low > 0.03 && found.left_over > 0.1, "{found:?}");
    fires(&world, "books-open", 1, "left over");
    // With its baseline.
    fires(&world, "books-not-closed", 2, "left over");
    for finding in analysis.findings.iter().filter(|f| f.cell == id) {
        let withheld = finding.withheld == Some(CaveatKind("books-not-closed"));
        assert_eq!(withheld, finding.metric == COST, "{finding:?}");
        if withheld {
            assert_eq!(finding.verdict, Verdict::NotDecided);
        }
    }
    let others = analysis.findings.iter().filter(|f| f.cell != id);
    assert!(others.clone().all(|f| f.withheld.is_none()));
    assert!(others.count() > 10);
}

#[test]
fn time_that_is_counted_twice_is_a_hole_too() {
    let analysis = kept(HERE, 20, hole(-2e7)).analyse();
    let found = hidden(&analysis);
    assert_eq!((found.closed, found.left_over < -0.03), (Closed::No, true));
}

#[test]
fn workers_that_a_side_has_measured_are_its_own_and_no_hole() {
    let workers_ns = 2e7;
    let mut world = kept(HERE, 20, hole(workers_ns));
    world.change(is_hidden, |sample| {
        let readings = &mut sample.sender.readings;
        let cpu = readings[&Counter::CpuNs].measured().unwrap();
        put(readings, Counter::CpuNs, cpu + workers_ns as u64);
        put(readings, Counter::WorkersNs, workers_ns as u64);
    });
    let analysis = world.analyse();
    let found = hidden(&analysis);
    assert_eq!(found.closed, Closed::Yes, "{found:?}");
    let mut lines = found.lines.iter();
    let workers = lines.find(|l| l.user == CpuUser::SenderWorkers).unwrap();
    assert!((workers.share - workers_ns / 2.0 / WINDOW_NS).abs() < 0.001);
}

#[test]
fn interrupts_that_a_side_has_in_its_cpu_time_are_not_counted_again() {
    // A kernel whose tasks' clocks leave interrupts out: those of its CPU are added to a side's.
    let interrupts_ns = 2e7;
    let mut world = kept(HERE, 20, |_| 0.0);
    world.each(|sample| {
        let readings = &mut sample.sender.readings;
        let cpu = readings[&Counter::CpuNs].measured().unwrap();
        let clocks = cpu - interrupts_ns as u64;
        put(readings, Counter::ThreadCpuNs, clocks);
        let tasks = sample.machine[&Counter::MachineTasksNs].measured().unwrap();
        let tasks = tasks - interrupts_ns as u64;
        put(&mut sample.machine, Counter::MachineTasksNs, tasks);
    });
    for books in world.analyse().books {
        assert_eq!(books.closed, Closed::Yes, "{books:?}");
        let share = books.interrupts.unwrap();
        assert!(share.low < 0.01 && share.value < 0.03, "{share:?}");
    }
}

#[test]
fn where_idle_time_has_steps_of_ten_ms_the_sum_over_blocks_shows_the_hole() {
    let v2 = Machine {
        has_tasks: false,
        ..HERE
    };
    // A hole of 1 % of the sides' time is nothing that such a clock can show in 40 blocks, and
    // it does not say that it could.
    let small = kept(v2, 40, |_| 1e6).analyse();
    let is_open = |b: &&CellBooks| b.closed == Closed::No;
    assert_eq!(small.books.iter().find(is_open), None);
    // One of a fifth is found in a single cell on a machine of 64 CPUs as well.
    let large = Machine { cpus: 64.0, ..v2 };
    for machine in [v2, large] {
        let analysis = kept(machine, 40, hole(3e7)).analyse();
        let found = hidden(&analysis);
        assert_eq!(found.closed, Closed::No, "{found:?}");
        let open = analysis.books.iter().filter(is_open);
        assert!(open.count() <= 1, "the hole alone is shown");
    }
}

#[test]
fn a_clock_that_is_too_coarse_does_not_pass() {
    // Six windows of 100 ms with steps of 100 ms say nothing to 3 %.
    let coarse = Machine {
        step_ns: 1e8,
        has_tasks: false,
        ..HERE
    };
    let world = kept(coarse, 6, |_| 0.0);
    let passes = |b: &CellBooks| b.closed == Closed::Yes;
    assert!(!world.analyse().books.iter().any(passes));
    fires(&world, "books-not-closed", 16, "95 % intervals");
}

#[test]
fn books_that_are_known_less_well_decide_less() {
    // Steps of 10 ms in 6 windows leave ± 4 % open: enough to turn 0.95, and not 0.7.
    let v2 = Machine {
        has_tasks: false,
        ..HERE
    };
    for (times, stands) in [(0.95, false), (0.7, true)] {
        let truth = |cell: &Cell| True::both(if is_hidden(cell) { times } else { 1.0 });
        let verdict = |machine| {
            let world = World::new(STUDY).run(3, 6, 0.002, truth);
            let world = with_machine(world, machine, 18, |_| 0.0, |_| FEW_INTERRUPTS_NS);
            let id = world.id("sendfile", 1 << 20);
            world.analyse().of_cell(COST, &id).verdict
        };
        assert_eq!(verdict(HERE), Verdict::Better, "{times}");
        assert_eq!(verdict(v2) == Verdict::Better, stands, "{times}");
    }
}

/// A world in which one mover costs its sides so much, and interrupts on idle CPUs work for one, in
/// ns a window; the sides use 120 ms.
fn interrupted(times: f64, mover: &'static str, interrupts_ns: f64) -> World {
    let truth = move |cell: &Cell| {
        let is_dear = cell.mover == "send-zerocopy";
        True::both(if is_dear { times } else { 1.0 })
    };
    let interrupts = move |cell: &Cell| {
        let works = cell.mover == mover;
        FEW_INTERRUPTS_NS + if works { interrupts_ns } else { 0.0 }
    };
    let world = World::new(STUDY).run(5, 20, 0.01, truth);
    with_machine(world, HERE, 18, |_| 0.0, interrupts)
}

#[test]
fn interrupts_on_idle_cpus_are_a_part_of_the_cost_in_both_directions() {
    let finding = |world: &World| {
        let id = world.id("send-zerocopy", 1 << 20);
        world.analyse().of_cell(COST, &id).clone()
    };
    let check = |world: &World, ratio: f64, verdict: Verdict| {
        let found = finding(world);
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.low < ratio && ratio < found.high, "{found:?}");
    };
    // By its sides alone it is better, and with the copy in softirq it is worse.
    check(
        &interrupted(0.78, "send-zerocopy", 0.0),
        0.78,
        Verdict::Better,
    );
    let world = interrupted(0.78, "send-zerocopy", 6e7);
    check(&world, 0.78 * 1.5, Verdict::Worse);
    fires(&world, "idle-interrupts", 16, "interrupts on idle CPUs");
    // The other way round.
    check(&interrupted(1.2, "send", 0.0), 1.2, Verdict::Worse);
    check(&interrupted(1.2, "send", 6e7), 1.2 / 1.5, Verdict::Better);

    let analysis = world.analyse();
    let id = world.id("send-zerocopy", 1 << 20);
    let books = analysis.books.iter().find(|b| b.cell == id).unwrap();
    let share = books.interrupts.unwrap();
    assert!(share.low < 0.5 && 0.5 < share.high, "{share:?}");
    assert_eq!(
        (books.closed, books.interrupts_charged),
        (Closed::Yes, true)
    );
    let cost = |metric: Metric| analysis.of_id(&id).estimates[&metric].value;
    let [sender, receiver] = [Side::Sender, Side::Receiver].map(|side| Metric { side, ..COST });
    let sides = cost(sender) + cost(receiver);
    let within = (cost(COST) / sides - 1.5).abs();
    assert!(
        within < 0.05,
        "both sides have them, and neither by itself: {within}"
    );
}

/// Interrupts on idle CPUs of windows in steps of 10 ms are noise of 3 % a window: where none
/// matter, nothing is added and no interval is wider; where all cells have them, none comes out
/// better than another.
#[test]
fn equal_cells_stay_equal_with_interrupts_on_idle_cpus_and_without() {
    let mut alarms = 0;
    for seed in 0..15 {
        let bare = || World::new(&study_of(MOVERS)).run(seed, 12, 0.01, |_| True::costs(0.2));
        let kept = |ns: f64| with_machine(bare(), HERE, 100 + seed, |_| 0.0, move |_| ns);
        let quiet = kept(FEW_INTERRUPTS_NS).analyse();
        let ratios = |a: &Analysis| {
            let findings = a.findings.iter();
            findings
                .map(|f| (f.ratio, f.low, f.high))
                .collect::<Vec<_>>()
        };
        assert_eq!(ratios(&quiet), ratios(&bare().analyse()));
        let busy = kept(4e7).analyse();
        assert!(busy.books.iter().all(|b| b.interrupts_charged));
        let is_decided = |f: &Finding| matches!(f.verdict, Verdict::Better | Verdict::Worse);
        let costs = busy.findings.iter().filter(|f| f.metric == COST);
        alarms += u32::from(costs.clone().any(is_decided));
    }
    // One run in twenty by chance.
    assert!(alarms <= 3, "{alarms}");
}

#[test]
fn cells_whose_interrupts_cannot_be_read_next_to_others_have_no_verdict_on_cpu_time() {
    let known = interrupted(0.78, "send-zerocopy", 6e7);
    silent(&known, "idle-interrupts-differ");
    silent(&interrupted(0.78, "send", 0.0), "idle-interrupts");
    let mut unknown = interrupted(0.78, "send-zerocopy", 6e7);
    unknown.change(is_hidden, |sample| {
        sample.machine.remove(&Counter::MachineTasksNs);
    });
    fires(&unknown, "idle-interrupts-differ", 2, "means over windows");
    let id = unknown.id("sendfile", 1 << 20);
    let analysis = unknown.analyse();
    assert!(analysis.of_cell(COST, &id).withheld.is_some());
}

/// A token bucket of 2 Gbit/s: the sides use 7.5 ms of a window, and steps of 10 ms are read next to
/// them. The copy that a zero-copy send leaves to softirq cannot be seen, nor be left out.
#[test]
fn behind_a_token_bucket_no_cost_is_better_for_what_softirq_does_in_its_place() {
    let verdict = |copy_ns: f64, is_shaped: bool| {
        let truth = |cell: &Cell| {
            let is_zero_copy = cell.mover == "send-zerocopy";
            True::both(if is_zero_copy { 0.78 } else { 1.0 }).at_rate(2.0)
        };
        let interrupts = |cell: &Cell| {
            let copies = cell.mover == "send-zerocopy";
            FEW_INTERRUPTS_NS + if copies { copy_ns } else { 0.0 }
        };
        let world = World::new(STUDY).run(5, 12, 0.01, truth);
        let mut world = with_machine(world, HERE, 18, |_| 0.0, interrupts);
        if is_shaped {
            world.each(|sample| {
                sample.obstacles.push(Obstacle {
                    kind: CircumstanceKind::Qdisc,
                    place: "lo".to_owned(),
                    found: "tbf, 2.00 Gbit/s".to_owned(),
                    limits: true,
                });
            });
        }
        let id = world.id("send-zerocopy", 1 << 20);
        world.analyse().of_cell(COST, &id).verdict
    };
    assert_eq!(verdict(0.0, false), Verdict::Better);
    assert_eq!(verdict(1.9e6, true), Verdict::NotDecided);
    assert_eq!(verdict(2e7, true), Verdict::Worse);
}

/// Trials for evidence that have the accounts of the CPUs, of a cell.
fn count_interrupts(world: &mut World, cell: usize, interrupts_ns: u64) {
    let line = |user, ns| CpuLine {
        user,
        name: String::new(),
        ns,
        interrupts_ns: 0,
    };
    for _ in 0..3 {
        let mut evidence = world.evidence_of(cell);
        evidence.accounts = Some(CpuAccounts {
            cpus: 2,
            elapsed_ns: WINDOW_NS as u64,
            lines: vec![
                line(CpuUser::SenderThreads, 80_000_000),
                line(CpuUser::ReceiverThreads, 40_000_000),
                line(CpuUser::Interrupts, interrupts_ns),
            ],
            ..CpuAccounts::default()
        });
        world.evidence.push(evidence);
    }
}

#[test]
fn interrupts_that_tracepoints_counted_are_preferred() {
    let mut world = kept(HERE, 12, |_| 0.0);
    let place = world.place("sendfile", 1 << 20);
    // Interrupts that any counted trial has are those of an idle machine.
    let idle_ns = 2_000_000;
    count_interrupts(&mut world, place, 60_000_000 + idle_ns);
    let other = world.place("send", 1 << 20);
    count_interrupts(&mut world, other, idle_ns);
    let analysis = world.analyse();
    let share = hidden(&analysis).interrupts.unwrap();
    assert!((share.value - 0.5).abs() < 1e-6, "{share:?}");
    let id = world.id("sendfile", 1 << 20);
    let finding = analysis.of_cell(COST, &id);
    assert!((1.35..1.65).contains(&finding.ratio), "{finding:?}");
}

/// The block, which is repeated because of others.
fn repeated(block: &Block) -> Block {
    Block {
        repeated_because: Some(Repeat::OtherProcesses {
            cpus_thousandths: 500,
        }),
        ..block.clone()
    }
}

fn second(block: u32) -> Block {
    Block {
        block,
        attempt: 1,
        ..Block::default()
    }
}

/// A mover whose second thread spins in half of its trials: it costs twice as much there.
fn sham(g: &mut Generator, sample: &mut Sample) {
    if g.unit() < 0.5 {
        scale(&mut sample.sender.readings, Counter::CpuNs, 2.0);
    }
}

/// Blocks are measured again for what others did: the sham's cost comes out the same with repeats
/// and without. If each of its dear trials were repeated, it would come out cheaper.
// Invariant 11.
#[test]
fn repeats_do_not_choose_by_what_a_mover_does_itself() {
    let measured = |seed, repeats: bool| {
        let mut g = Generator::new(seed);
        let study = study_of("mover = [\"send\", \"sendfile\"]\nsize = [\"1MiB\"]");
        let run = |run_seed| World::new(&study).run(run_seed, 30, 0.02, |_| True::costs(0.2));
        let mut world = run(seed);
        world.change(is_hidden, |sample| sham(&mut g, sample));
        if repeats {
            // A third of the blocks are disturbed by others, and made again.
            let again = run(seed + 100);
            let disturbed: Vec<u32> = (0..30).filter(|_| g.unit() < 0.33).collect();
            let mut more = again.samples.clone();
            more.retain(|s| disturbed.contains(&s.trial.block));
            for sample in &mut more {
                sample.trial.attempt = 1;
                if is_hidden(&world.cells[sample.trial.cell as usize]) {
                    sham(&mut g, sample);
                }
            }
            world.samples.extend(more);
            for block in disturbed {
                let first = &mut world.blocks[block as usize];
                *first = repeated(first);
                world.blocks.push(second(block));
            }
        }
        let id = world.id("sendfile", 1 << 20);
        world.analyse().of_cell(COST, &id).ratio.ln()
    };
    let mean = |repeats| (0..40).map(|seed| measured(seed, repeats)).sum::<f64>() / 40.0;
    let (with, without) = (mean(true), mean(false));
    // Two means of 40, of deviations of about 0.07 each.
    assert!((with - without).abs() < 0.05, "{with} {without}");
    assert!(without > 0.15, "the sham costs more: {without}");
}

#[test]
fn first_attempts_that_say_something_else_are_reported() {
    let world = |dear: f64| {
        let mut world = World::new(STUDY).run(5, 12, 0.005, |_| True::costs(0.2));
        let mut first = world.samples.clone();
        for sample in &mut first {
            if is_hidden(&world.cells[sample.trial.cell as usize]) {
                scale(&mut sample.sender.readings, Counter::CpuNs, dear);
            }
        }
        world.blocks = world.blocks.iter().map(repeated).collect();
        world.blocks.extend((0..12).map(second));
        world.samples.iter_mut().for_each(|s| s.trial.attempt = 1);
        world.samples.splice(0..0, first);
        world
    };
    fires(&world(1.3), "repeats-matter", 1, "");
    silent(&world(1.0), "repeats-matter");
}

#[test]
fn only_the_attempt_at_a_block_that_stands_counts() {
    let mut world = World::new(STUDY).run(1, 12, 0.01, |_| True::costs(0.2));
    let before = world.analyse();
    // A first attempt at every block, ten times as dear, and a third that was cut short.
    let dear = |attempt| {
        let mut samples = world.samples.clone();
        for sample in &mut samples {
            scale(&mut sample.sender.readings, Counter::CpuNs, 10.0);
            sample.trial.attempt = attempt;
        }
        samples
    };
    let (first, third) = (dear(0), dear(2));
    let mut blocks: Vec<Block> = world.blocks.iter().map(repeated).collect();
    world.blocks.iter_mut().for_each(|b| b.attempt = 1);
    world.samples.iter_mut().for_each(|s| s.trial.attempt = 1);
    world.samples.splice(0..0, first);
    world.samples.extend(third);
    blocks.append(&mut world.blocks);
    world.blocks = blocks;
    let after = world.analyse();
    assert_eq!(before.findings, after.findings);
    assert_eq!(before.cells, after.cells);
    let run = &after.run;
    assert_eq!(3 * (run.trials - run.repeated), run.trials);
}

#[test]
fn what_others_did_is_nearer_than_cpu_time_that_is_unaccounted_for() {
    let mut world = kept(HERE, 20, hole(2e7));
    fires(&world, "books-open", 1, "left over");
    for block in &mut world.blocks {
        block.others_ns = block.elapsed_ns;
    }
    silent(&world, "books-open");
    fires(&world, "busy-machine", 0, "1.00 CPUs");
}
