//! Ways with conditions in the advice: never first, never without their conditions, and like compared
//! with like.

use bytecost_analysis::{Analysis, Situation, Subject};
use bytecost_spec::survey::{Condition, MoverFacts, ReceiverFacts, Release, Route};
use bytecost_spec::{Axis, Cell, Counter, Measure, Metric, Side};

use crate::file_worlds;
use crate::server_worlds::{run, server};
use crate::work_worlds::{STUDY, truth, work};
use crate::world::{True, World, facts, fires, one, put, row, scale, silent, study};

const READS: &str = study!(
    "reads",
    r#"
[axes]
mover = ["pread", "mmap-touch", "uring-read", "uring-sqpoll"]
size = ["64KiB", "1MiB"]
cache = ["warm"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["throughput_gbit_per_s"]
"#
);

const TO_NULL: &str = study!(
    "to-null",
    r#"
[axes]
mover = ["read-null", "sendfile-null"]
size = ["64KiB", "1MiB"]
cache = ["warm"]

[[compare]]
axis = "mover"
baseline = "read-null"
metrics = ["throughput_gbit_per_s"]
"#
);

const SENDS: &str = study!(
    "sends",
    r#"
[axes]
mover = ["send", "send-zerocopy", "uring-send-zc", "vmsplice"]
size = ["4KiB", "1MiB"]
receiver = ["recv", "recv-discard"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb"]

[[compare]]
axis = "receiver"
baseline = "recv"
metrics = ["cpu_s_per_gb"]
"#
);

fn with_condition(name: &str, route: Route, condition: Condition) -> MoverFacts {
    MoverFacts {
        condition: Some(condition),
        ..row(name, route)
    }
}

/// A world in which each mover reaches so many Gbit/s.
fn world(study: &str, rows: Vec<MoverFacts>, gbit_per_s: fn(&Cell) -> f64) -> World {
    let mut world = World::new(study);
    world.manifest.survey.mover_facts = rows;
    world = world.run(4, 12, 0.003, |cell| {
        True::costs(0.2).at_rate(gbit_per_s(cell))
    });
    world.each(|sample| sample.receiver = None);
    world
}

fn situation(analysis: &Analysis, subject: Subject) -> &Situation {
    let all = &analysis.advice.situations;
    let own: Vec<&Situation> = all.iter().filter(|s| s.subject == subject).collect();
    let only: &&Situation = one(&own);
    only
}

/// A way that is better wherever it is named with these conditions alone.
#[track_caller]
fn never_without(analysis: &Analysis, way: &str, conditions: &[Condition]) {
    let situations = || analysis.advice.situations.iter();
    let gains = situations()
        .flat_map(|s| &s.conditional)
        .filter(|c| c.gain.value == way)
        .map(|c| &c.conditions);
    let uses = situations()
        .flat_map(|s| &s.uses)
        .filter(|u| u.value == way);
    let named: Vec<_> = gains.chain(uses.map(|u| &u.conditions)).collect();
    assert!(
        !named.is_empty(),
        "{way}: {:#?}",
        analysis.advice.situations
    );
    for own in named {
        assert!(
            own.len() == conditions.len() && conditions.iter().all(|c| own.contains(c)),
            "{way}: {own:?}"
        );
    }
}

fn advises_nothing(analysis: &Analysis) -> bool {
    let mut uses = analysis.advice.situations.iter().flat_map(|s| &s.uses);
    uses.all(|u| !u.conditions.is_empty())
}

#[test]
fn what_only_touches_a_page_is_not_advised_to_who_reads_it() {
    let rows = vec![
        row("pread", Route::FileToMemory),
        with_condition(
            "mmap-touch",
            Route::FileToMemory,
            Condition::OneByteOfEachPage,
        ),
        MoverFacts {
            uses_uring: true,
            ..row("uring-read", Route::FileToMemory)
        },
        MoverFacts {
            uses_uring: true,
            ..with_condition("uring-sqpoll", Route::FileToMemory, Condition::PollingCpu)
        },
    ];
    let analysis = world(READS, rows, |cell| match cell.mover.as_str() {
        "mmap-touch" => 40.0,
        "uring-read" => 6.0,
        "uring-sqpoll" => 8.0,
        _ => 4.0,
    })
    .analyse();
    let reads = situation(&analysis, Subject::ReadFile);
    assert_eq!(one(&reads.uses).value, "pread");
    assert_eq!(reads.uses[0].gain, None);
    never_without(&analysis, "mmap-touch", &[Condition::OneByteOfEachPage]);
    // A mover that only touches pages, or has more conditions, excludes no other mover.
    never_without(&analysis, "uring-read", &[Condition::Uring]);
    let polled = [Condition::PollingCpu, Condition::Uring];
    never_without(&analysis, "uring-sqpoll", &polled);
}

#[test]
fn taking_a_file_to_nothing_is_shown_and_not_advised() {
    let rows = vec![
        row("read-null", Route::FileToNull),
        with_condition("sendfile-null", Route::FileToNull, Condition::NoDataNeeded),
    ];
    let quick = |cell: &Cell| if cell.mover == "read-null" { 4.0 } else { 16.0 };
    let analysis = world(TO_NULL, rows, quick).analyse();
    let to_null = situation(&analysis, Subject::FileToNull);
    assert!(to_null.uses.is_empty() && to_null.may_be_best.is_empty());
    never_without(&analysis, "sendfile-null", &[Condition::NoDataNeeded]);
    assert!(advises_nothing(&analysis));
}

#[test]
fn a_way_is_compared_with_those_that_need_no_more_than_it_does() {
    let held = |name: &str| facts(name, Release::AtCompletion, true);
    let mut world = World::new(SENDS);
    world.manifest.survey.mover_facts = vec![
        facts("send", Release::AtReturn, true),
        held("send-zerocopy"),
        MoverFacts {
            uses_uring: true,
            needs_linux: Some((6, 0)),
            ..held("uring-send-zc")
        },
        facts("vmsplice", Release::Never, true),
    ];
    let sees_content = |name: &str| ReceiverFacts {
        name: name.to_owned(),
        sees_content: name == "recv",
        ..ReceiverFacts::default()
    };
    world.manifest.survey.receiver_facts = ["recv", "recv-discard"].map(sees_content).to_vec();
    let analysis = world
        .run(4, 12, 0.003, |cell| {
            let discards = if cell.receiver == "recv-discard" {
                0.5
            } else {
                1.0
            };
            let mover = match cell.mover.as_str() {
                "send-zerocopy" => 0.7,
                "uring-send-zc" => 0.5,
                "vmsplice" => 0.9,
                _ => 1.0,
            };
            True::both(mover * discards)
        })
        .analyse();
    let all = &analysis.advice.situations;
    for situation in all.iter().filter(|s| s.subject == Subject::DataInMemory) {
        assert_eq!(one(&situation.uses).value, "send");
        let ways = situation.conditional.iter().map(|c| c.gain.value.word());
        let expected = ["send-zerocopy", "uring-send-zc", "vmsplice"];
        assert_eq!(ways.collect::<Vec<&str>>(), expected);
    }
    let completion = Condition::NotWrittenUntilCompletion;
    never_without(&analysis, "send-zerocopy", &[completion]);
    let more = [completion, Condition::Uring, Condition::Linux(6, 0)];
    never_without(&analysis, "uring-send-zc", &more);
    for situation in all.iter().filter(|s| s.axis == Axis::Receiver) {
        assert_eq!(one(&situation.uses).value, "recv");
        let discards = one(&situation.conditional);
        assert_eq!(discards.conditions, [Condition::NoDataNeeded]);
    }
}

#[test]
fn pinned_threads_are_advised_under_their_condition_alone() {
    let analysis = work(STUDY, 0, truth(1.3, 2.0, 1.3)).analyse();
    never_without(&analysis, "same-cpu", &[Condition::CpusAlone]);
    // The baseline has the condition too: the way is named with it all the same.
    never_without(&analysis, "same-cache", &[Condition::CpusAlone]);
}

fn of_servers(analysis: &Analysis) -> Vec<&Situation> {
    let all = analysis.advice.situations.iter();
    all.filter(|s| s.axis == Axis::Server && s.baseline == "epoll")
        .collect()
}

/// A world of servers in which `select` and `thread` answer so many times as often as `epoll` while
/// all connections are busy.
fn busy(times: f64, is_kept: fn(&Cell) -> bool) -> Analysis {
    let mut world = run();
    world.keep(is_kept);
    let is_faster = |c: &Cell| ["select", "thread"].contains(&server(c)) && c.serving.idle == 0;
    world.change(is_faster, |sample| {
        for flow in &mut sample.sender.flows {
            flow.messages = (flow.messages as f64 * times) as u64;
        }
    });
    world.analyse()
}

#[test]
fn a_server_is_advised_only_if_idle_connections_were_measured() {
    let with_idle = busy(4.0, |_| true);
    for situation in of_servers(&with_idle) {
        let uses = situation.uses.iter();
        assert!(uses.clone().all(|u| u.value == "epoll"), "{uses:?}");
        assert!(uses.clone().all(|u| u.conditions.is_empty()), "{uses:?}");
    }
    let select = [Condition::DescriptorsBelow(1024), Condition::NoneIdle];
    never_without(&with_idle, "select", &select);
    let thread = [Condition::ThreadEach, Condition::IdleNotMeasured];
    never_without(&with_idle, "thread", &thread);

    let analysis = busy(4.0, |c| c.serving.idle == 0);
    assert!(advises_nothing(&analysis));
    let conditional = analysis
        .advice
        .situations
        .iter()
        .flat_map(|s| &s.conditional);
    let missing =
        |c: &bytecost_analysis::Conditional| c.conditions.contains(&Condition::IdleNotMeasured);
    assert!(conditional.clone().any(missing));
}

#[test]
fn many_connections_are_never_answered_with_one_and_all_are_named() {
    let analysis = busy(1.0, |_| true);
    let mut several = 0;
    for situation in of_servers(&analysis) {
        let is_one = situation.subject == Subject::OneConnection;
        let place = &situation.place;
        let is_alone =
            situation.measured == ["1"] || place.contains(&(Axis::Connections, "1".into()));
        let has_idle = place.iter().any(|(axis, _)| *axis == Axis::Idle);
        assert_eq!(is_one, is_alone && !has_idle, "{situation:?}");
        several += usize::from(!is_one);
    }
    assert_eq!(several, 2, "500 busy ones, and one busy one among 900");
}

#[test]
fn where_clients_are_busy_on_both_sides_the_cost_of_a_request_decides() {
    let clients = |busy_ms: fn(&Cell) -> u64| {
        let mut world = run();
        world.by_cell(|cell, sample| {
            let busy_ns = busy_ms(cell) * 1_000_000;
            put(
                &mut sample.sender.readings,
                Counter::GeneratorBusyNs,
                busy_ns,
            );
            if server(cell) == "thread" {
                let own = &mut sample.receiver.as_mut().unwrap().readings;
                scale(own, Counter::CpuNs, 2.0);
            }
        });
        world
    };
    fires(&clients(|_| 95), "clients-busy", 9, "95 % to 95 %");
    silent(&clients(|_| 85), "clients-busy");
    let metric = |busy_ms: fn(&Cell) -> u64| {
        let analysis = clients(busy_ms).analyse();
        let mut situations = analysis.advice.situations.iter();
        let many = situations.find(|s| s.baseline == "epoll" && s.measured == ["500"]);
        many.unwrap().metric
    };
    let cost = Metric {
        measure: Measure::CpuNsPerMessage,
        side: Side::Server,
    };
    let rate = Metric::both(Measure::MessagesPerS);
    assert_eq!(metric(|_| 95), cost);
    assert_eq!(metric(|_| 85), rate);
    // On one side alone the other server is the slower one.
    assert_eq!(metric(|c| if server(c) == "epoll" { 95 } else { 60 }), rate);
}

#[test]
fn a_baseline_that_goes_by_blocks_is_named_with_its_block() {
    let study = file_worlds::SENDS.replace(", \"mmap-send\"", "").replace(
        "cache = [\"warm\", \"cold\"]",
        "cache = [\"warm\"]\nblock = [\"4KiB\"]",
    );
    let quick = |c: &Cell| file_worlds::speed(if c.mover == "sendfile" { 20.0 } else { 4.0 });
    let analysis = file_worlds::sends(&study, quick).analyse();
    let first = &analysis.advice.situations[0];
    assert_eq!(first.uses[0].value, "sendfile");
    assert_eq!(first.baseline_block, Some("4KiB".into()));
}
