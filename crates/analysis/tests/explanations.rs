//! Each question is answered where the run bears an answer, and says what is missing elsewhere.

mod world;

use bytecost_analysis::{Analysis, Explanation};
use bytecost_spec::host::Cpu;
use bytecost_spec::{Cell, Counter, Reading, Refusal, Sample};
use world::{STUDY, True, World};

/// A world of the ways that the questions are about.
fn asked(axes: &str, ratio: fn(&Cell) -> f64) -> World {
    let (start, end) = (
        STUDY.find("mover = [").expect("axes"),
        STUDY.find("\n\n[[compare]]").expect("a comparison"),
    );
    let study = STUDY.replace(&STUDY[start..end], axes);
    World::new(&study).run(3, 12, 0.003, move |cell| True {
        receiver_ns_per_byte: 0.1 * ratio(cell),
        copied: (cell.mover == "send-zerocopy").then_some(1.0),
        ..True::costs(0.2 * ratio(cell))
    })
}

/// The same on a path where nothing copies.
fn uncopied(axes: &str, ratio: fn(&Cell) -> f64) -> World {
    let mut world = asked(axes, ratio);
    world.change(
        |c| c.mover == "send-zerocopy",
        |s| {
            let none = Reading::Measured(0);
            s.sender.readings.insert(Counter::CompletionsCopied, none);
        },
    );
    world
}

const MOVERS: &str = r#"mover = ["send", "send-fields", "sendmsg", "send-zerocopy"]
size = ["256", "4KiB", "64KiB", "1MiB"]"#;

/// Eight calls are dear at small sizes; zero-copy is dearer than copying up to 64 KiB.
fn planted(cell: &Cell) -> f64 {
    let along = (cell.size_bytes as f64 / 256.0).ln() / 4096.0_f64.ln();
    match cell.mover.as_str() {
        "send-fields" => (1.6 * (1.0 - 1.5 * along).max(0.0)).exp(),
        "send-zerocopy" => (1.2 - 1.8 * along).exp(),
        _ => 1.0,
    }
}

fn find<'a>(analysis: &'a Analysis, key: &str) -> &'a Explanation {
    let found = analysis.explanations.iter().find(|e| e.key == key);
    found.unwrap_or_else(|| panic!("no {key}"))
}

/// Holds an answered question to the parts of its answer.
#[track_caller]
fn answered<'a>(analysis: &'a Analysis, key: &str, parts: &[&str]) -> &'a Explanation {
    let found = find(analysis, key);
    let answer = found
        .answer
        .as_deref()
        .unwrap_or_else(|| panic!("{found:#?}"));
    for part in parts {
        assert!(answer.contains(part), "no `{part}` in {answer}");
    }
    assert!(
        found.missing.is_none() && found.would_change.is_some(),
        "{found:#?}"
    );
    assert!(answer.ends_with('.') && !answer.contains('\n'), "{answer}");
    found
}

/// Holds a question without an answer to what it says is missing.
#[track_caller]
fn missing(analysis: &Analysis, key: &str, parts: &[&str]) {
    let found = find(analysis, key);
    let said = found
        .missing
        .as_deref()
        .unwrap_or_else(|| panic!("{found:#?}"));
    for part in parts {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(
        found.answer.is_none() && found.would_change.is_none(),
        "{found:#?}"
    );
}

fn set(sample: &mut Sample, counter: Counter, value: u64) {
    let reading = Reading::Measured(value);
    for side in [Some(&mut sample.sender), sample.receiver.as_mut()]
        .into_iter()
        .flatten()
    {
        side.readings.insert(counter, reading.clone());
    }
}

/// Cache misses as they would be counted: so many per KiB of each level.
fn count_misses(world: &mut World, which: fn(&Cell) -> bool, l1d: f64, llc: f64) {
    world.change(which, |s| {
        let kib = s.sender.readings[&Counter::Bytes]
            .measured()
            .expect("bytes") as f64
            / 1024.0;
        // A trial's own noise, so that intervals have a width.
        let noise = 1.0 + 0.01 * f64::from(s.trial.block % 5);
        set(s, Counter::L1dLoadMisses, (1e3 * kib * l1d * noise) as u64);
        set(s, Counter::LlcLoadMisses, (1e3 * kib * llc * noise) as u64);
        set(s, Counter::PerfEnabledNs, 1000);
        set(s, Counter::PerfRunningNs, 1000);
    });
}

#[test]
fn from_what_size_one_call_beats_several() {
    let key = "one-call-against-several";
    let analysis = asked(MOVERS, planted).analyse();
    let found = answered(
        &analysis,
        key,
        &[
            "`sendmsg` is better than `send-fields` in CPU time per byte up to about ",
            "(95 % interval ",
            "at 256 B the ratio is 0.20",
        ],
    );
    assert!(
        found.numbers[0].starts_with("`sendmsg` against `send-fields`, CPU time per byte: "),
        "{found:#?}"
    );
    assert!(
        found
            .evidence
            .iter()
            .any(|e| e.starts_with("`send-fields`: 1.00 system calls")),
        "{found:#?}"
    );

    let one_size = MOVERS.replace("\"256\", \"4KiB\", \"64KiB\", ", "");
    missing(
        &asked(&one_size, planted).analyse(),
        key,
        &["at least two message sizes"],
    );
    let no_fields = MOVERS.replace("\"send-fields\", ", "");
    missing(
        &asked(&no_fields, planted).analyse(),
        key,
        &["no cell with mover `send-fields`"],
    );
}

#[test]
fn from_what_size_zero_copy_beats_copying() {
    let key = "zero-copy-against-copying";
    // What the kernel copied after all says nothing of zero-copy.
    let copied = asked(MOVERS, planted).analyse();
    missing(&copied, key, &["withheld", "the kernel copied 100 %"]);
    let found = find(&copied, key);
    assert!(!found.numbers.is_empty(), "{found:#?}");
    let asked = uncopied;
    let analysis = asked(MOVERS, planted).analyse();
    answered(
        &analysis,
        key,
        &[
            "`send-zerocopy` is better than `sendmsg` in CPU time per byte from about 6",
            " KiB (95 % interval ",
        ],
    );
    let dear = |c: &Cell| if c.mover == "send-zerocopy" { 1.4 } else { 1.0 };
    answered(
        &asked(MOVERS, dear).analyse(),
        key,
        &["at no size from 256 B to 1 MiB better than `sendmsg`"],
    );
    let mut noisy = asked(MOVERS, |_| 1.0);
    let mut flip = 0_u64;
    noisy.change(
        |_| true,
        |s| {
            flip = flip
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            set(s, Counter::CpuNs, 1_000_000 + (flip >> 40) % 3_000_000);
        },
    );
    // What one metric leaves open, the next may decide.
    answered(&noisy.analyse(), key, &["in throughput"]);
    noisy.change(
        |_| true,
        |s| {
            flip = flip
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            for side in [&mut s.sender].into_iter().chain(&mut s.receiver) {
                for moved in &mut side.flows {
                    moved.elapsed_ns += (flip >> 40) % (3 * moved.elapsed_ns);
                }
            }
        },
    );
    missing(&noisy.analyse(), key, &["needs more blocks"]);
}

#[test]
fn why_zero_copy_is_not_always_fastest() {
    let key = "zero-copy-not-fastest";
    let mut world = asked(MOVERS, planted);
    world.change(
        |c| c.mover == "send-zerocopy",
        |s| {
            let sent = s.sender.readings[&Counter::Messages]
                .measured()
                .expect("messages");
            s.sender
                .readings
                .insert(Counter::Calls, Reading::Measured(2 * sent));
        },
    );
    let found = world.analyse();
    let found = answered(
        &found,
        key,
        &[
            "Because it saves no copy here: the kernel copied 100 % of its buffers",
            "up to 2.0 calls a message with completions taken in, instead of 1.0",
        ],
    );
    assert!(
        found
            .numbers
            .iter()
            .any(|n| n.contains("over loopback: copied after all 100 %")),
        "{found:#?}"
    );

    let cheap = |c: &Cell| if c.mover == "send-zerocopy" { 0.5 } else { 1.0 };
    answered(&asked(MOVERS, cheap).analyse(), key, &["Here it is: "]);
    // Without the kernel's word nothing is said of copies.
    let mut silent = asked(MOVERS, planted);
    silent.change(
        |_| true,
        |s| {
            for counter in [Counter::Completions, Counter::CompletionsCopied] {
                s.sender
                    .readings
                    .insert(counter, Reading::absent("no flags"));
            }
        },
    );
    missing(&silent.analyse(), key, &["the kernel's word"]);
}

#[test]
fn which_cache_level_gains_most() {
    let key = "cache-level";
    let mut copied = asked(MOVERS, planted);
    count_misses(&mut copied, |_| true, 4.0, 2.0);
    missing(&copied.analyse(), key, &["withheld"]);
    let asked = uncopied;
    let mut world = asked(MOVERS, planted);
    count_misses(&mut world, |c| c.mover != "send-zerocopy", 4.0, 2.0);
    count_misses(&mut world, |c| c.mover == "send-zerocopy", 3.6, 0.5);
    let found = world.analyse();
    let found = answered(
        &found,
        key,
        &[
            "The last level cache: `send-zerocopy` has 0.2",
            "of `sendmsg`",
        ],
    );
    assert_eq!(found.numbers.len(), 4, "{found:#?}");

    let mut none = asked(MOVERS, planted);
    none.manifest.survey.counters_refused.push(Refusal {
        what: "l1d_load_misses".to_owned(),
        why: "this virtual machine has no hardware counters".to_owned(),
    });
    missing(
        &none.analyse(),
        key,
        &["cannot be counted here: this virtual machine has no hardware counters"],
    );
    let mut alike = asked(MOVERS, planted);
    count_misses(&mut alike, |_| true, 4.0, 2.0);
    answered(&alike.analyse(), key, &["None was shown to gain"]);
}

#[test]
fn threads_and_caches_are_told_apart_from_too_few_cpus() {
    let key = "threads-and-caches";
    let axes = MOVERS.replace("mover = ", "threads = [1, 2, 4]\nmover = ");
    let with = |cpus: u32| {
        let mut world = asked(&axes, planted);
        world.manifest.host.cpus_allowed = (0..cpus).collect();
        world.manifest.host.cpus = Vec::<Cpu>::new();
        world
    };
    let counted = |cpus: u32| {
        let mut world = with(cpus);
        count_misses(&mut world, |c| c.threads == 1, 4.0, 1.0);
        count_misses(&mut world, |c| c.threads == 2, 4.0, 1.5);
        count_misses(&mut world, |c| c.threads == 4, 4.0, 3.0);
        world.analyse()
    };
    let found = counted(4);
    let found = answered(
        &found,
        key,
        &[
            "With a CPU for each thread, from 1 flow to 2 flows",
            "1.50× ",
            "from there to 4 flows, where threads take turns on the CPUs",
            "2.00× ",
        ],
    );
    assert_eq!(found.numbers.len(), 3);
    assert!(
        found.numbers[2].starts_with("4 flows, more threads than CPUs ("),
        "{found:#?}"
    );
    assert!(found.numbers[1].contains("Gbit/s a flow"), "{found:#?}");
    answered(
        &counted(8),
        key,
        &[
            "With a CPU for each thread, from 1 flow to 4 flows",
            "3.00× ",
        ],
    );
    answered(&counted(2), key, &["there are more threads than CPUs"]);

    // Without counters the caches are not spoken of.
    missing(
        &with(2).analyse(),
        key,
        &[
            "cache misses cannot be counted here",
            "cannot be told apart",
        ],
    );
    missing(
        &asked(MOVERS, planted).analyse(),
        key,
        &["needs cells with several numbers of flows"],
    );
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
fn what_was_unexpected_is_what_came_otherwise() {
    let key = "unexpected";
    let movers = format!("{MOVERS}\n{EXPECTS}");
    let analysis = asked(&movers, planted).analyse();
    let found = answered(
        &analysis,
        key,
        &[
            "2 of 5 findings that the prediction speaks of came out otherwise: `send-zerocopy` was expected to be worse than `send` in CPU time per byte and in 2 of 4 places was not",
        ],
    );
    assert_eq!(found.findings.len(), 2);
    assert!(
        found.numbers[1].starts_with("expected worse: `send-zerocopy` is "),
        "{found:#?}"
    );
    let dear = |c: &Cell| if c.mover == "send-zerocopy" { 1.4 } else { 1.0 };
    answered(
        &asked(&movers, dear).analyse(),
        key,
        &["Nothing: all of the 5 findings"],
    );
    missing(
        &asked(MOVERS, planted).analyse(),
        key,
        &["states no expectation"],
    );
    let elsewhere = movers
        .replace("send-zerocopy\"\noutcome", "vmsplice\"\noutcome")
        .replace("\"send-fields\", ", "");
    missing(
        &asked(&elsewhere, planted).analyse(),
        key,
        &["no finding that the prediction speaks of"],
    );
}

#[test]
fn a_run_about_something_else_is_not_asked() {
    let axes = "mover = [\"send\", \"sendfile\"]\nsize = [\"4KiB\", \"1MiB\"]";
    assert!(asked(axes, |_| 1.0).analyse().explanations.is_empty());
    // Without any sample each question says what is missing.
    let mut empty = asked(MOVERS, planted);
    empty.samples.clear();
    let analysis = empty.analyse();
    assert_eq!(analysis.explanations.len(), 6);
    assert!(
        analysis
            .explanations
            .iter()
            .all(|e| e.answer.is_none() && e.missing.is_some())
    );
}
