//! Rulings on claims: the first run that can decides, and nothing is hidden.

use bytecost_analysis::{Audited, Ruling};
use bytecost_report::Style;
use bytecost_report::audit::{
    AuditFigure, AuditText, FigureSubject, Settled, json, settled, terminal,
};

use crate::fixture;

fn audited(id: &str, ruling: Ruling, measured: Option<&str>) -> AuditText {
    AuditText {
        id: id.to_owned(),
        source: "blog".to_owned(),
        claim: format!("what {id} says"),
        ruling,
        words: format!("as {id} is ruled"),
        because: format!("because of {id}."),
        of_study: false,
        figures: vec![AuditFigure {
            subject: FigureSubject::Quantity("throughput, at 4 KiB".to_owned()),
            published: Some("3.00×".to_owned()),
            measured: measured.map(str::to_owned),
        }],
        findings: Vec::new(),
    }
}

#[test]
fn the_first_run_that_can_settles_a_claim() {
    let open = |measured| fixture::audited(0, Ruling::Undecided, measured);
    let check = |audits: &[(&str, Audited)], expected: &str| {
        let runs = audits
            .iter()
            .map(|(run, a)| (Some((*run).to_owned()), vec![a.clone()]));
        assert_eq!(settled(runs.collect())[0].run.as_deref(), Some(expected));
    };
    let holds = fixture::audited(0, Ruling::Confirmed, Some(2.0));
    let fails = fixture::audited(0, Ruling::Refuted, Some(0.5));
    check(
        &[
            ("1", open(None)),
            ("2", holds.clone()),
            ("3", fails.clone()),
        ],
        "2",
    );
    check(&[("1", fails), ("2", holds)], "1");
    check(&[("1", open(None)), ("2", open(Some(1.0)))], "2");
    check(&[("1", open(None)), ("2", open(None))], "1");
    // Of two runs without a ruling, the one whose study measures the claim gives the reason.
    let of_study = Audited {
        of_study: true,
        ..open(None)
    };
    check(&[("1", open(None)), ("2", of_study)], "2");
}

#[test]
fn rulings_are_told_with_both_figures_and_the_silent_ones_shortly() {
    let row = |run: &str, audited: AuditText| Settled {
        run: Some(run.to_owned()),
        audited,
    };
    let all = [
        row("r1", audited("one", Ruling::Refuted, Some("0.50×"))),
        row(
            "r2",
            audited("two", Ruling::ConfirmedForAnotherReason, Some("2.00×")),
        ),
        row("r1", audited("three", Ruling::Undecided, None)),
        row("r1", audited("\u{1b}[2Jfour", Ruling::Undecided, None)),
    ];
    let style = Style::plain(60);
    let text = terminal(&all, style);
    insta::assert_snapshot!("audit", text);
    assert!(text.lines().all(|l| l.chars().count() <= 60), "{text}");
    let value: serde_json::Value = serde_json::from_str(&json(&all)).unwrap();
    assert_eq!(value["claims"][1]["run"], "r2");
    assert_eq!(value["claims"][1]["ruling"], "confirmed-for-another-reason");
    assert!(terminal(&[], style).contains("0 claims"));
}
