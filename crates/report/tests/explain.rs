//! The questions about why, as a terminal shows them.

use crate::fixture;

use bytecost_analysis::{Analysis, Explanation};
use bytecost_report::{Style, explain, explain_json};

const PLAIN: Style = Style::plain(60);

fn asked() -> Analysis {
    let mut analysis = fixture::analysis();
    let explanation = Explanation {
        key: "one-call-against-several".to_owned(),
        question: "From what message size does one call beat one call for each field?".to_owned(),
        answer: Some("At every size from 256 B to 1 MiB.".to_owned()),
        numbers: vec![
            "`sendmsg` against `send-fields`, CPU time per byte: 0.19× (0.18 to 0.20) at 256 B"
                .to_owned(),
        ],
        evidence: vec!["`send-fields`: 8 system calls per message of the sender".to_owned()],
        would_change: Some("other --fields".to_owned()),
        missing: None,
        findings: Vec::new(),
    };
    let open = Explanation {
        key: "cache-level".to_owned(),
        question: "Which cache level gains most?".to_owned(),
        answer: None,
        numbers: Vec::new(),
        evidence: Vec::new(),
        would_change: None,
        missing: Some("misses cannot be counted here:\x1b[31m no counters".to_owned()),
        findings: Vec::new(),
    };
    analysis.explanations = vec![explanation, open];
    analysis
}

#[test]
fn every_question_has_its_answer_or_what_is_missing() {
    let text = explain(&asked(), PLAIN);
    assert!(text.lines().all(|line| line.chars().count() <= 60));
    // What follows is of the run itself.
    let (questions, _) = text.split_once("Ratios are of the first").unwrap();
    insta::assert_snapshot!("explain", questions);
}

#[test]
fn a_run_that_is_about_something_else_says_so() {
    let mut analysis = asked();
    analysis.explanations.clear();
    assert!(
        explain(&analysis, PLAIN)
            .starts_with("This run has no cell that these questions are about")
    );
}

#[test]
fn machines_get_the_same_as_json() {
    let analysis = asked();
    let value: serde_json::Value = serde_json::from_str(&explain_json(&analysis)).expect("JSON");
    assert_eq!(value["run"], analysis.run.id.as_str());
    let back: Vec<Explanation> =
        serde_json::from_value(value["explanations"].clone()).expect("explanations");
    assert_eq!(back, analysis.explanations);
    assert!(value["crossovers"].is_array());
}
