//! The lists that the command prints.

use crate::fixture;

use bytecost_report::Style;
use bytecost_report::tables;
use bytecost_spec::manifest::{ComparisonRounds, MetricRounds, RoundNoise, RoundVariance};
use bytecost_spec::round::MachineKernel;
use bytecost_spec::survey::{
    MoverFacts, ReceiverFacts, Route, ServerFacts, ServerSurvey, ServiceFacts,
};
use bytecost_spec::{
    Counter, Measure, Metric, Refusal, RoundConditions, RunProgress, Study, Support, Survey,
    Transport,
};

const PLAIN: Style = Style::plain(100);

fn survey() -> Survey {
    let server = |name: &str, refused: Option<&str>| ServerFacts {
        name: name.to_owned(),
        summary: format!("one thread for all connections: {name} tells which are ready"),
        refused: refused.map(str::to_owned),
        ..ServerFacts::default()
    };
    let mover = |name: &str, summary: &str, caution: Option<&str>| MoverFacts {
        name: name.to_owned(),
        summary: summary.to_owned(),
        route: Route::MemoryToSocket,
        descriptors_per_flow: 1,
        caution: caution.map(str::to_owned),
        ..MoverFacts::default()
    };
    let support = |name: &str, transport, refused: Option<&str>| Support {
        name: name.to_owned(),
        transport,
        refused: refused.map(str::to_owned),
    };
    let (tcp, unix) = (Transport::Loopback, Transport::Unix);
    let no = Some("Unix sockets do not take MSG_ZEROCOPY (EOPNOTSUPP)");
    let zerocopy =
        "sendmsg(2) with MSG_ZEROCOPY; the buffer is held until the kernel gives it back";
    let gift = "memory to a pipe, the pipe to the socket";
    let caution = Some("nothing says when its pages may be written again.");
    Survey {
        mover_facts: vec![
            mover("send", "one send(2) a message", None),
            mover("send-zerocopy", zerocopy, None),
            mover("vmsplice", gift, caution),
        ],
        receiver_facts: vec![ReceiverFacts {
            name: "recv".to_owned(),
            summary: "one recv(2) after the other".to_owned(),
            sees_content: true,
        }],
        movers: vec![
            support("send", tcp, None),
            support("send", unix, None),
            support("send-zerocopy", tcp, None),
            support("send-zerocopy", unix, no),
            support("vmsplice", tcp, None),
        ],
        receivers: vec![support("recv", tcp, None), support("recv", unix, None)],
        serving: Some(ServerSurvey {
            servers: vec![
                server("epoll", None),
                server("uring", Some("server `uring`: not permitted here (EPERM)")),
            ],
            services: vec![ServiceFacts {
                name: "echo".to_owned(),
                summary: "what was sent".to_owned(),
                sizes: Some((1, 65_536)),
            }],
            limits: None,
            generator: Some("epoll: no ring (not permitted here)".to_owned()),
            filter_refused: None,
        }),
        congestion_controls: vec!["reno".to_owned(), "cubic".to_owned()],
        counters_refused: vec![Refusal {
            subject: Counter::Cycles,
            why: "this machine has no hardware counters".to_owned(),
        }],
        ..Survey::default()
    }
}

fn study() -> Study {
    Study {
        name: "send-copies".to_owned(),
        question: "From what message size does it pay to skip a copy or a call?".to_owned(),
        ..Study::default()
    }
}

fn runs() -> Vec<RunProgress> {
    let run = |[id, started, study, state]: [&str; 4], records| RunProgress {
        id: id.to_owned(),
        started: started.to_owned(),
        study: study.to_owned(),
        records,
        state: state.to_owned(),
    };
    let newer =
        "manifest.json: format 9 is newer than this version reads (1): take a newer bytecost";
    let id = "2026-11-21T0312-send-copies";
    vec![
        run([id, "2026-11-21T03:12:44Z", "send-copies", "complete"], 874),
        run(["broken", "", "", newer], 0),
    ]
}

/// A metric that eight rounds have, and one with too few comparisons to be typical of others.
fn noise() -> Vec<(RoundConditions, RoundNoise)> {
    let between = |deviation: f64| RoundVariance {
        variance: deviation * deviation,
        degrees: 7.0,
    };
    let [cost, rate] = [Measure::CpuSPerGb, Measure::ThroughputGbitPerS].map(Metric::both);
    let comparison = |metric, cell: &str, rounds, deviation| ComparisonRounds {
        metric,
        baseline: "a".to_owned(),
        cell: cell.to_owned(),
        rounds,
        between: between(deviation),
    };
    let noise = RoundNoise {
        metrics: vec![MetricRounds {
            metric: cost,
            between: between(0.025),
        }],
        comparisons: vec![
            comparison(cost, "b", 8, 0.0),
            comparison(cost, "c", 8, 0.04),
            comparison(cost, "d", 6, 0.02),
            comparison(rate, "b", 3, 0.07),
        ],
        ..RoundNoise::ASSUMED
    };
    let conditions = RoundConditions {
        machine: MachineKernel {
            machine_id_hash: "hash".to_owned(),
            kernel: "6.1.0".to_owned(),
        },
        cpus_allowed: vec![0, 1],
        peer: None,
        warmup_ms: 10,
        window_ms: 40,
        design: None,
    };
    vec![(conditions, noise)]
}

#[test]
fn what_works_here_and_why_not() {
    insta::assert_snapshot!("list", tables::list(&survey(), &[study()], PLAIN));
}

#[test]
fn what_this_machine_is() {
    let host = fixture::analysis().host;
    let text = tables::doctor(&host, PLAIN);
    assert!(text.starts_with(&host.cpu_model), "{text}");
    for check in &host.checks {
        let mut lines = text
            .lines()
            .map(|l| l.trim_start_matches(['✓', '·', '!', ' ']));
        let first = check.found.split(' ').next().unwrap();
        let is_own = |line: &str| line.starts_with(&check.name) && line.contains(first);
        assert!(lines.any(is_own), "{}: {text}", check.name);
    }
}

#[test]
fn which_runs_there_are() {
    insta::assert_snapshot!("runs", tables::runs(&runs(), &noise(), PLAIN));
    let assumed = tables::runs(&runs(), &[], PLAIN);
    assert!(assumed.contains("Assumed: ±7.1 %"), "{assumed}");
}

#[test]
fn lists_keep_within_the_terminal() {
    let mut survey = survey();
    survey.mover_facts[1].name = "m".repeat(64);
    let mut host = fixture::analysis().host;
    host.checks[0].name = "n".repeat(90);
    for width in [50, 80, 100] {
        let style = Style::plain(width);
        for text in [
            tables::list(&survey, &[study()], style),
            tables::doctor(&host, style),
            tables::runs(&runs(), &noise(), style),
        ] {
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn marks_are_coloured_only_where_colour_is_asked_for() {
    let color = true;
    let painted = Style { color, ..PLAIN };
    assert!(tables::list(&survey(), &[], painted).contains("\x1b[31m✗"));
    assert!(!tables::list(&survey(), &[], PLAIN).contains('\x1b'));
    assert!(!tables::doctor(&fixture::analysis().host, PLAIN).contains('\x1b'));
}
