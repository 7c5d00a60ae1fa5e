//! Questions about sockets and those of every run: answered where the run decides them, and short
//! about what is missing elsewhere.

use bytecost_spec::survey::{MoverFacts, Release};
use bytecost_spec::{Cell, Counter, Reading, Refusal, Sample};
use bytecost_stats::Generator;

use crate::world::{
    self, At, True, World, answered, at, begins, missing, of, put, question, study_of,
};

/// A world of the ways that the questions are about.
fn asked(axes: &str, ratio: fn(&Cell) -> f64) -> World {
    let mut world = World::new(&study_of(axes));
    let fields = ["send-fields", "sendmsg"].map(|name| MoverFacts {
        uses_fields: true,
        ..world::facts(name, Release::AtReturn, true)
    });
    world.manifest.survey.mover_facts.extend(fields);
    let mut world = world.run(3, 12, 0.003, move |cell| True {
        receiver_ns_per_byte: 0.1 * ratio(cell),
        copied: (cell.mover == "send-zerocopy").then_some(1.0),
        ..True::costs(0.2 * ratio(cell))
    });
    for (mover, times) in [("send-fields", 8), ("send-zerocopy", 2)] {
        world.change(of(mover), |s| {
            let sent = s.sender.readings[&Counter::Messages].measured();
            let calls = times * sent.expect("messages");
            put(&mut s.sender.readings, Counter::Calls, calls);
        });
    }
    world
}

/// The same on a path where nothing copies.
fn uncopied(axes: &str, ratio: fn(&Cell) -> f64) -> World {
    let mut world = asked(axes, ratio);
    let none = [(Counter::CompletionsCopied, 0)];
    world.put(of("send-zerocopy"), At::Sender, none);
    world
}

const MOVERS: &str = r#"mover = ["send", "send-fields", "sendmsg", "send-zerocopy"]
size = ["256", "4KiB", "64KiB", "1MiB"]"#;

/// Eight calls are expensive at small sizes; zero-copy costs more than copying below 64 KiB.
fn planted(cell: &Cell) -> f64 {
    let along = (cell.size_bytes as f64 / 256.0).ln() / 4096.0_f64.ln();
    match cell.mover.as_str() {
        "send-fields" => (1.6 * (1.0 - 1.5 * along).max(0.0)).exp(),
        "send-zerocopy" => (1.2 - 1.8 * along).exp(),
        _ => 1.0,
    }
}

fn zero_copy_costs_more(cell: &Cell) -> f64 {
    let is_zero_copy = cell.mover == "send-zerocopy";
    if is_zero_copy { 1.4 } else { 1.0 }
}

fn set(sample: &mut Sample, counter: Counter, value: u64) {
    for side in sample.sides_mut() {
        put(&mut side.readings, counter, value);
    }
}

/// Noise of a third of all values, so that nothing of CPU time or throughput is decided.
fn drown(world: &mut World) {
    let mut g = Generator::new(1);
    let mut next = |below: u64| g.next_u64() % below;
    world.each(|s| {
        set(s, Counter::CpuNs, 1_000_000 + next(3_000_000));
        for moved in s.sides_mut().flat_map(|side| &mut side.flows) {
            moved.elapsed_ns += next(3 * moved.elapsed_ns);
        }
    });
}

/// Cache misses as they would be counted: so many per KiB of each level.
fn count_misses(world: &mut World, which: fn(&Cell) -> bool, l1d: f64, llc: f64) {
    world.change(which, |s| {
        let bytes = s.sender.readings[&Counter::Bytes].measured();
        // A trial's own noise, so that intervals have a width.
        let noise = 1.0 + 0.01 * f64::from(s.trial.block % 5);
        let times = noise * bytes.expect("bytes") as f64 / 1024.0;
        set(s, Counter::L1dLoadMisses, (1e3 * times * l1d) as u64);
        set(s, Counter::LlcLoadMisses, (1e3 * times * llc) as u64);
        set(s, Counter::PerfEnabledNs, 1000);
        set(s, Counter::PerfRunningNs, 1000);
    });
}

#[test]
fn one_call_against_several_is_answered_at_decided_sizes() {
    let key = "one-call-against-several";
    let analysis = asked(MOVERS, planted).analyse();
    let words = [
        "`send` compared with `send-fields` in CPU time per byte: better at 256 B and at 4 KiB, 0.20",
        "no difference that matters at 64 KiB and at 1 MiB",
    ];
    let found = answered(&analysis, key, &words);
    // What the study does not compare has numbers and no verdict.
    let answer = found.answer.as_ref().unwrap();
    assert!(!answer.contains("sendmsg"), "{found:#?}");
    let of_one = |n: &String| n.starts_with("`sendmsg` compared with `send-fields`");
    assert!(found.numbers.iter().any(of_one));
    let calls = |e: &String| e.starts_with("`send-fields`: 8.00 system calls");
    assert!(found.evidence.iter().any(calls), "{found:#?}");
    let no_fields = MOVERS.replace("\"send-fields\", ", "");
    missing(&asked(&no_fields, planted).analyse(), key, &["no way with"]);
}

#[test]
fn zero_copy_against_copying_is_answered_at_decided_sizes() {
    let key = "zero-copy-against-copying";
    // What the kernel copied after all says nothing of zero-copy.
    let copied = asked(MOVERS, planted).analyse();
    let found = missing(&copied, key, &["withheld", "the kernel copied 100 %"]);
    assert!(!found.numbers.is_empty(), "{found:#?}");
    let better = "compared with `send` in CPU time per byte: better at 1 MiB, 0.5";
    let analysis = uncopied(MOVERS, planted).analyse();
    let words = ["`send-zerocopy`", better, "worse at 256 B and at 4 KiB"];
    let of_known = answered(&analysis, key, &words);
    let dear = uncopied(MOVERS, zero_copy_costs_more).analyse();
    let everywhere = "worse at 256 B, at 4 KiB, at 64 KiB and at 1 MiB";
    answered(&dear, key, &[everywhere]);
    let mut noisy = uncopied(MOVERS, |_| 1.0);
    drown(&mut noisy);
    missing(&noisy.analyse(), key, &["not decided in 4 comparisons"]);
    // Nobody knows a mover by its name.
    let mut unknown = uncopied(MOVERS, planted);
    unknown.rename("send-zerocopy", "page-lender");
    let analysis = unknown.analyse();
    let told = answered(&analysis, key, &["`page-lender`", better]);
    let told = told.answer.clone();
    let known = of_known.answer.as_ref().unwrap();
    assert_eq!(told.unwrap(), known.replace("send-zerocopy", "page-lender"));
}

#[test]
fn why_zero_copy_is_not_always_fastest() {
    let key = "zero-copy-not-fastest";
    let copied = asked(MOVERS, planted).analyse();
    let words = [
        "It saves no copy here, and what it adds comes on top (up to 2.0 calls per message with completions, instead of 1.0)",
        "the kernel copied 100 %",
    ];
    answered(&copied, key, &words);
    let dear = uncopied(MOVERS, planted).analyse();
    answered(&dear, key, &["costs more than the copy that it saves"]);
    let half = |c: &Cell| if c.mover == "send-zerocopy" { 0.5 } else { 1.0 };
    let cheap = uncopied(MOVERS, half).analyse();
    answered(&cheap, key, &["It was not shown to be worse here"]);
    // Without the kernel's word nothing is said of copies.
    let mut silent = asked(MOVERS, planted);
    silent.each(|s| {
        for counter in [Counter::Completions, Counter::CompletionsCopied] {
            let absent = Reading::absent("no flags");
            s.sender.readings.insert(counter, absent);
        }
    });
    missing(&silent.analyse(), key, &["no completion was flagged"]);
}

#[test]
fn which_cache_level_gains_most() {
    let key = "cache-level";
    let mut copied = asked(MOVERS, planted);
    count_misses(&mut copied, |_| true, 4.0, 2.0);
    missing(&copied.analyse(), key, &["withheld"]);
    let mut world = uncopied(MOVERS, planted);
    count_misses(&mut world, |c| c.mover != "send-zerocopy", 4.0, 2.0);
    count_misses(&mut world, |c| c.mover == "send-zerocopy", 3.6, 0.5);
    let words = ["The last level cache: `send-zerocopy` has 0.2", "of `send`"];
    answered(&world.analyse(), key, &words);
    let mut alike = uncopied(MOVERS, planted);
    count_misses(&mut alike, |_| true, 4.0, 2.0);
    answered(&alike.analyse(), key, &["None was shown to gain"]);
}

/// A run by threads on so many CPUs.
fn with_threads(cpus: u32) -> World {
    let axes = MOVERS.replace("mover = ", "threads = [1, 2, 4]\nmover = ");
    let mut world = asked(&axes, planted);
    world.manifest.host.cpus_allowed = (0..cpus).collect();
    world
}

#[test]
fn threads_and_caches_are_told_apart_from_too_few_cpus() {
    let key = "threads-and-caches";
    let counted = |cpus: u32| {
        let mut world = with_threads(cpus);
        count_misses(&mut world, |c| c.threads == 1, 4.0, 1.0);
        count_misses(&mut world, |c| c.threads == 2, 4.0, 1.5);
        count_misses(&mut world, |c| c.threads == 4, 4.0, 3.0);
        world.analyse()
    };
    let words = [
        "With a CPU for each thread, from 1 flow to 2 flows",
        "1.50× ",
        "with threads that take turns on the CPUs, from 1 flow to 4 flows",
        "3.00× ",
    ];
    answered(&counted(4), key, &words);
    let words = ["With a CPU for each thread, from 1 flow to 4 flows"];
    answered(&counted(8), key, &words);
    let words = ["With threads that take turns", "from 1 flow to 4 flows"];
    answered(&counted(2), key, &words);
    let mut one = asked(MOVERS, planted);
    count_misses(&mut one, |_| true, 4.0, 2.0);
    let why = "needs cells with several numbers of flows";
    missing(&one.analyse(), key, &[why]);
}

#[test]
fn an_absent_counter_has_one_reason_and_its_questions_come_last() {
    let mut world = with_threads(4);
    let guest = "this virtual machine has no hardware counters";
    for counter in [Counter::L1dLoadMisses, Counter::LlcLoadMisses] {
        world.manifest.survey.counters_refused.push(Refusal {
            what: counter.name().to_owned(),
            why: guest.to_owned(),
        });
    }
    // A trial says only that it did not ask, and that --perf on does.
    world.each(|s| {
        for counter in [Counter::L1dLoadMisses, Counter::LlcLoadMisses] {
            let absent = Reading::absent("left out of this trial: --perf on counts them");
            s.sender.readings.insert(counter, absent);
        }
    });
    let analysis = world.analyse();
    missing(&analysis, "cache-level", &[guest, "--evidence footprint"]);
    let last = analysis.explanations.last().unwrap();
    assert_eq!(last.key, "threads-and-caches");
    missing(&analysis, &last.key, &[guest]);
    let reasons = analysis.cells.iter().flat_map(|c| c.absent.values());
    assert!(reasons.clone().any(|r| r == guest));
    assert!(!reasons.clone().any(|r| r.contains("--perf")));
}

const EXPECTS: &str = r#"
[[expect]]
metric = "cpu_s_per_gb"
axis = "mover"
baseline = "send"
value = "send-zerocopy"
outcome = "worse"

[[expect]]
metric = "cpu_s_per_gb"
axis = "mover"
baseline = "send"
value = "send-fields"
where = { size = ["1MiB"] }
outcome = "no difference"
"#;

#[test]
fn a_prediction_that_fell_is_told_and_so_is_what_is_not_decided() {
    let key = "unexpected";
    let movers = format!("{MOVERS}\n{EXPECTS}");
    let analysis = asked(&movers, planted).analyse();
    let words = "The prediction fell in 2 of 5 findings that it speaks of: `send-zerocopy` was expected to be worse than `send` in CPU time per byte and was not in 2 of 4 places";
    let found = answered(&analysis, key, &[words]);
    assert_eq!(found.findings.len(), 2);
    begins(&found.numbers[1], "expected worse: `send-zerocopy` ");
    let mut worse = asked(&movers, zero_copy_costs_more);
    let all = "Nothing so far: 5 findings that the prediction speaks of came out as expected.";
    answered(&worse.analyse(), key, &[all]);
    // Of one size nothing is decided, and that is said.
    let mut up = false;
    worse.change(at("send-zerocopy", 256), |s| {
        up = !up;
        set(s, Counter::CpuNs, if up { 9_000_000 } else { 60_000_000 });
    });
    let words = ["4 findings", "; 1 more is not decided."];
    answered(&worse.analyse(), key, &words);
    let elsewhere = movers
        .replace("send-zerocopy\"\noutcome", "vmsplice\"\noutcome")
        .replace("\"send-fields\", ", "");
    let elsewhere = asked(&elsewhere, planted).analyse();
    missing(&elsewhere, key, &["no finding that the prediction"]);
    // It is asked wherever a study expects something, and nowhere else.
    let others = "mover = [\"send\", \"sendfile\"]\nsize = [\"4KiB\", \"1MiB\"]";
    assert!(question(&asked(MOVERS, planted).analyse(), key).is_none());
    let expecting = asked(&format!("{others}\n{EXPECTS}"), |_| 1.0).analyse();
    assert!(question(&expecting, key).is_some());
}

#[test]
fn a_run_about_something_else_is_not_asked() {
    let axes = "mover = [\"send\", \"sendfile\"]\nsize = [\"4KiB\", \"1MiB\"]";
    assert!(asked(axes, |_| 1.0).analyse().explanations.is_empty());
    // Without any sample each question says what is missing.
    let mut empty = asked(MOVERS, planted);
    empty.samples.clear();
    let analysis = empty.analyse();
    let asked = &analysis.explanations;
    assert_eq!(asked.len(), 5, "{asked:?}");
    let is_open = |e: &bytecost_analysis::Explanation| e.answer.is_none() && e.missing.is_some();
    assert!(asked.iter().all(is_open));
}
