//! Runs of one study on several hosts: each one's verdict, where they disagree and how they differ.

use crate::fixture;

use bytecost_analysis::{Analysis, CaveatKind, PeerFacts, Verdict};
use bytecost_report::Style;
use bytecost_report::hosts::{self, HostRun, HostTable};
use bytecost_spec::study::Family;
use bytecost_spec::{Cell, Host, NetworkCard, PeerSide, RefusedCell};

const STYLE: Style = Style::plain(100);

fn table(analyses: &[(&str, &Analysis)]) -> HostTable {
    let runs = analyses.iter().map(|&(host, analysis)| HostRun {
        host,
        build: Some("b0"),
        analysis,
    });
    hosts::table(&runs.collect::<Vec<_>>())
}

/// Three hosts: at the first comparison `far` is better, `near` is worse, and `odd` has a verdict
/// withheld; at the second `odd` measured nothing. Their kernels and governors differ.
fn three() -> [Analysis; 3] {
    let mut runs = [0; 3].map(|_| fixture::analysis());
    let planted = [
        (0.5, Verdict::Better),
        (2.0, Verdict::Worse),
        (1.0, Verdict::NotDecided),
    ];
    for (run, (ratio, verdict)) in runs.iter_mut().zip(planted) {
        let first = &mut run.findings[0];
        (first.ratio, first.low, first.high) = (ratio, 0.9 * ratio, 1.1 * ratio);
        (first.verdict, first.withheld) = (verdict, None);
        for f in &mut run.findings[1..] {
            f.verdict = Verdict::NotDecided;
        }
    }
    let odd = &mut runs[2];
    odd.findings[0].withheld = Some(CaveatKind("link-limited"));
    let gone = odd.findings.remove(1);
    odd.refused_cells.push(RefusedCell {
        cell: Cell::from_id(&gone.cell).unwrap(),
        why: "no such call here".to_owned(),
    });
    odd.host.kernel = "6.1.0".to_owned();
    let check = odd.host.checks.iter_mut();
    let governor = check.filter(|c| c.name == "frequency governor");
    governor.for_each(|c| c.found = "powersave".to_owned());
    runs
}

#[test]
fn each_host_has_its_own_verdict_and_hosts_are_in_the_order_of_their_ratios() {
    let [far, near, odd] = three();
    let t = table(&[("near", &near), ("odd", &odd), ("far", &far)]);
    let ratios = t.findings[0]
        .hosts
        .iter()
        .map(|h| (h.host.as_str(), h.finding.ratio, h.finding.verdict));
    let expected = [
        ("far", 0.5, Verdict::Better),
        ("odd", 1.0, Verdict::NotDecided),
        ("near", 2.0, Verdict::Worse),
    ];
    assert_eq!(ratios.collect::<Vec<_>>(), expected);
    let own = near.findings.iter().map(|f| {
        let (metric, cell, baseline) = f.key();
        format!("{metric}: {cell} against {baseline}")
    });
    assert!(t.findings.iter().map(|f| f.id.clone()).eq(own));
}

#[test]
fn what_was_not_measured_on_a_host_has_its_reason() {
    let [far, near, odd] = &three();
    let of_all = table(&[("far", far), ("near", near), ("odd", odd)]);
    let second = &of_all.findings[1];
    assert_eq!(second.hosts.len(), 2);
    let gaps = second.gaps.iter();
    let reasons: Vec<(&str, &str)> = gaps.map(|g| (g.host.as_str(), g.why.as_str())).collect();
    assert_eq!(reasons, [("odd", "no such call here")]);
    // A comparison of one host alone is there too, with the others as gaps.
    let t = table(&[("odd", odd), ("far", far)]);
    let added = t.findings.iter().find(|f| f.id == second.id).unwrap();
    assert_eq!((added.hosts.len(), added.gaps.len()), (1, 1));
}

#[test]
fn hosts_disagree_where_one_is_better_and_another_worse_and_nowhere_else() {
    let [far, near, odd] = &three();
    let of_three = table(&[("far", far), ("near", near), ("odd", odd)]);
    let apart = of_three.findings.iter().map(|f| f.hosts_disagree);
    let expected = (0..of_three.findings.len()).map(|i| i == 0);
    assert!(apart.eq(expected));
    let disagreeing = hosts::terminal(&of_three, false, Style::plain(20_000));
    assert!(
        disagreeing.contains("Hosts disagree in 1 comparison:"),
        "{disagreeing}"
    );
    let sentence = "is better on far and worse on near.";
    assert!(disagreeing.contains(sentence), "{disagreeing}");
    let t = table(&[("far", far), ("odd", odd)]);
    let text = hosts::terminal(&t, false, STYLE);
    assert!(text.contains("No comparison is decided better on one host"));
}

#[test]
fn only_what_differs_between_hosts_is_shown() {
    let [far, near, odd] = &three();
    let of_three = table(&[("far", far), ("near", near), ("odd", odd)]);
    let facts: Vec<&str> = of_three
        .differences
        .iter()
        .map(|d| d.fact.as_str())
        .collect();
    assert_eq!(facts, ["Kernel", "frequency governor"]);
    let hosts = of_three.differences[0]
        .values
        .iter()
        .map(|v| v.hosts.join(" "));
    assert_eq!(hosts.collect::<Vec<_>>(), ["far near", "odd"]);
    let t = table(&[("far", far), ("near", near)]);
    assert!(t.differences.is_empty());
    assert!(hosts::terminal(&t, false, STYLE).contains("No fact that is known"));
}

#[test]
fn every_medium_has_every_host_of_every_comparison() {
    let [far, near, odd] = &three();
    let t = table(&[("far", far), ("near", near), ("odd", odd)]);
    let rows = 3 * t.findings.len();
    let csv = String::from_utf8(hosts::csv(&t).unwrap()).unwrap();
    assert_eq!(csv.lines().count(), 1 + rows, "{csv}");
    let mut odd_lines = csv.lines().filter(|line| line.contains("odd,1,0.9,1.1,"));
    assert!(odd_lines.any(|line| line.ends_with(",no verdict,the link is the limit")));
    let all = hosts::terminal(&t, true, STYLE);
    let is_row = |line: &&str| line.contains(" to ") && line.contains('×');
    let lines = |text: &str| text.lines().filter(is_row).count();
    assert_eq!(lines(&all), rows - 1, "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
    assert_eq!(lines(&hosts::markdown(&t)), rows - 1);
    let near_cells = hosts::html(&t).matches("<td>near</td>").count();
    assert!(near_cells >= t.findings.len());
    for text in [all, hosts::markdown(&t), hosts::html(&t), csv] {
        assert!(text.contains("no such call here"), "{text}");
        assert!(text.contains("the link is the limit"), "{text}");
    }
    let json = hosts::json(&t);
    assert!(json.contains("no such call here"), "{json}");
    assert!(json.contains("\"withheld\":\"link-limited\""), "{json}");
}

#[test]
fn a_terminal_has_the_primary_comparisons_and_how_to_get_the_others() {
    let [far, near, _] = three();
    let t = table(&[("far", &far), ("near", &near)]);
    let primary = t.findings.iter().filter(|f| f.family == Family::Primary);
    let others = t.findings.len() - primary.count();
    assert!(others > 0);
    let text = hosts::terminal(&t, false, STYLE);
    let more = format!("{others} more comparisons: --all");
    assert!(text.contains(&more), "{text}");
}

#[test]
fn no_name_of_a_host_breaks_out() {
    let (harm, run) = (fixture::HARM, fixture::hostile());
    let t = table(&[(harm, &run), ("other", &fixture::analysis())]);
    let page = hosts::html(&t);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    let text = hosts::terminal(&t, true, STYLE);
    assert!(!text.contains('\x1b'), "{text}");
    assert!(!hosts::markdown(&t).contains("<script>alert"));
}

#[test]
fn pairs_of_hosts_differ_in_either_machine_and_in_their_cards() {
    let pair = |kernel: &str, mtu| {
        let mut a = fixture::analysis();
        let card = NetworkCard {
            name: "eth0".to_owned(),
            mtu,
            ..NetworkCard::default()
        };
        a.peer = Some(PeerFacts {
            name: "db7".to_owned(),
            round_trip_us: 210,
            path_mtu: None,
            side: PeerSide::Receiver,
            host: Host {
                kernel: kernel.to_owned(),
                ..a.host.clone()
            },
            cards: vec![card.clone()],
            own_cards: vec![card],
        });
        a
    };
    let (one, other) = (pair("6.1.0", 1500), pair("6.8.0", 9000));
    let of_pairs = table(&[("a → db7", &one), ("b → db7", &other)]);
    let facts: Vec<&str> = of_pairs
        .differences
        .iter()
        .map(|d| d.fact.as_str())
        .collect();
    assert_eq!(facts, ["MTU", "Other host: Kernel", "Other host: MTU"]);
    assert!(hosts::terminal(&of_pairs, false, STYLE).contains("on 2 pairs of hosts"));
    let t = table(&[("a", &fixture::analysis()), ("b → db7", &other)]);
    assert!(hosts::terminal(&t, false, STYLE).contains("on 1 host and 1 pair of hosts"));
}
