//! Questions about sockets and of every run: answered where decided, else short on what is missing.

use bytecost_spec::survey::{MoverFacts, Release};
use bytecost_spec::{Cell, Counter, Sample};

use crate::world::{
    self, At, Found, True, World, answered, by_mover, missing, put, round_noise, study_of,
};

/// Comparisons without a verdict: the misses of ways and of numbers of flows.
const MISSES: &str = r#"
[[compare]]
axis = "mover"
baseline = "send"
metrics = ["l1d_load_misses_per_kib", "llc_load_misses_per_kib"]
family = "exploratory"

[[compare]]
axis = "threads"
baseline = "1"
metrics = ["l1d_load_misses_per_kib", "llc_load_misses_per_kib"]
family = "exploratory"
"#;

fn asked(axes: &str) -> World {
    let mut world = World::new(&(study_of(axes) + MISSES));
    let fields = ["send-fields", "sendmsg"].map(|name| MoverFacts {
        uses_fields: true,
        ..world::facts(name, Release::AtReturn, true)
    });
    world.manifest.survey.mover_facts.extend(fields);
    world = world.run(3, 12, 0.003, |cell| {
        let copied = (cell.mover == "send-zerocopy").then_some(1.0);
        True::both(planted(cell)).copied(copied)
    });
    for (mover, times) in [("send-fields", 8), ("send-zerocopy", 2)] {
        world.change(by_mover(mover), |s| {
            let sent = s.sender.readings[&Counter::Messages].measured();
            let calls = times * sent.expect("messages");
            put(&mut s.sender.readings, Counter::Calls, calls);
        });
    }
    world
}

/// The same on a path where nothing copies.
fn uncopied(axes: &str) -> World {
    let mut world = asked(axes);
    let none = [(Counter::CompletionsCopied, 0)];
    world.put(by_mover("send-zerocopy"), At::Sender, none);
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

fn set(sample: &mut Sample, counter: Counter, value: u64) {
    for side in sample.sides_mut() {
        put(&mut side.readings, counter, value);
    }
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
    let analysis = asked(MOVERS).analyse();
    let words = ["no difference that matters at 64 KiB and at 1 MiB"];
    let found = answered(&analysis, key, &words);
    // Pairs that the study does not compare are left out.
    let shown = format!("{found:?}");
    assert!(
        !shown.contains("`sendmsg` compared with `send-fields`"),
        "{shown}"
    );
    let no_fields = MOVERS.replace("\"send-fields\", ", "");
    missing(&asked(&no_fields).analyse(), key, &["no way with"]);
}

#[test]
fn zero_copy_is_known_by_its_facts_and_not_by_its_name() {
    let key = "zero-copy-against-copying";
    let known = uncopied(MOVERS).analyse();
    let better = "compared with `send` in CPU time per byte: better at 1 MiB, 0.5";
    answered(&known, key, &["`send-zerocopy`", better]);
    let mut unknown = uncopied(MOVERS);
    unknown.rename("send-zerocopy", "page-lender");
    let renamed = known.answer(key).replace("send-zerocopy", "page-lender");
    assert_eq!(unknown.analyse().answer(key), renamed);
}

#[test]
fn why_zero_copy_is_not_always_fastest() {
    let key = "zero-copy-not-fastest";
    let dear = uncopied(MOVERS).analyse();
    answered(&dear, key, &["costs more than the copy that it saves"]);
    // Without the kernel's word nothing is said of copies.
    let mut silent = asked(MOVERS);
    for counter in [Counter::Completions, Counter::CompletionsCopied] {
        silent.hide(counter, "no flags");
    }
    missing(&silent.analyse(), key, &["no completion was flagged"]);
}

#[test]
fn which_cache_level_gains_most() {
    let key = "cache-level";
    let mut copied = asked(MOVERS);
    count_misses(&mut copied, |_| true, 4.0, 2.0);
    missing(&copied.analyse(), key, &["withheld"]);
    let mut world = uncopied(MOVERS);
    count_misses(&mut world, |c| c.mover != "send-zerocopy", 4.0, 2.0);
    count_misses(&mut world, |c| c.mover == "send-zerocopy", 3.6, 0.5);
    let words = ["The last level cache: `send-zerocopy` has 0.2", "of `send`"];
    answered(&world.analyse(), key, &words);
    // Eight times fewer misses are within what rounds differ by.
    world.manifest.rounds = round_noise(2.0);
    answered(&world.analyse(), key, &["None was shown to gain"]);
    let mut alike = uncopied(MOVERS);
    count_misses(&mut alike, |_| true, 4.0, 2.0);
    answered(&alike.analyse(), key, &["None was shown to gain"]);
}

#[test]
fn threads_and_caches_are_reported_apart_from_too_few_cpus() {
    let key = "threads-and-caches";
    let counted = |cpus: u32| {
        let axes = MOVERS.replace("mover = ", "threads = [1, 2, 4]\nmover = ");
        let mut world = asked(&axes);
        world.manifest.host.cpus_allowed = (0..cpus).collect();
        count_misses(&mut world, |c| c.threads == 1, 4.0, 1.0);
        count_misses(&mut world, |c| c.threads == 2, 4.0, 1.5);
        count_misses(&mut world, |c| c.threads == 4, 4.0, 3.0);
        world.analyse()
    };
    let with_turns = [
        "With a CPU for each thread, from 1 flow to 2 flows",
        "1.50× ",
        "with threads that take turns on the CPUs, from 1 flow to 4 flows",
        "3.00× ",
    ];
    answered(&counted(4), key, &with_turns);
    let a_cpu_each = ["With a CPU for each thread, from 1 flow to 4 flows"];
    answered(&counted(8), key, &a_cpu_each);
    let words = ["With threads that take turns", "from 1 flow to 4 flows"];
    answered(&counted(2), key, &words);
    let mut one = asked(MOVERS);
    count_misses(&mut one, |_| true, 4.0, 2.0);
    let why = "needs cells with several numbers of flows";
    missing(&one.analyse(), key, &[why]);
}

#[test]
fn a_run_about_something_else_is_not_asked() {
    let axes = "mover = [\"send\", \"sendfile\"]\nsize = [\"4KiB\", \"1MiB\"]";
    assert!(asked(axes).analyse().explanations.is_empty());
    // Without any sample each question says what is missing.
    let mut empty = asked(MOVERS);
    empty.samples.clear();
    let analysis = empty.analyse();
    let asked = &analysis.explanations;
    assert_eq!(asked.len(), 5, "{asked:?}");
    let is_open = |e: &bytecost_analysis::Explanation| e.missing.is_some();
    assert!(asked.iter().all(is_open));
}
