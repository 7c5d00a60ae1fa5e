//! The questions about why, as a terminal shows them.

use crate::fixture;

use bytecost_analysis::{
    Analysis, CacheLevel, Explanation, Finding, Missing, NoValue, PairSeen, Question,
};
use bytecost_report::{Style, explain, explain_json, explanations};
use bytecost_spec::Measure;

const PLAIN: Style = Style::plain(60);

fn asked() -> Analysis {
    let mut analysis = fixture::analysis();
    let of = |question, missing| Explanation {
        question,
        missing,
        pairs: Vec::new(),
        facts: Vec::new(),
    };
    let rate = |f: &&Finding| f.value == "send-fields" && f.metric.measure == Measure::CpuSPerGb;
    let findings = analysis.findings.iter().filter(rate);
    let pairs = findings.map(|f| PairSeen {
        finding: f.number,
        is_turned: true,
    });
    let explanation = Explanation {
        pairs: pairs.collect(),
        ..of(Question::OneCallAgainstSeveral, None)
    };
    let missing = Missing::Misses {
        level: CacheLevel::L1Data,
        why: NoValue::Recorded("they cannot be counted here:\x1b[31m no counters".to_owned()),
    };
    let open = of(Question::CacheLevel, Some(missing));
    analysis.explanations = vec![explanation, open];
    analysis
}

#[test]
fn every_question_has_its_answer_or_what_is_missing() {
    let text = explain(&asked(), PLAIN);
    assert!(text.lines().all(|line| line.chars().count() <= 60));
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
    let texts = serde_json::to_value(explanations(&analysis)).expect("JSON");
    assert_eq!(value["explanations"], texts);
    assert_eq!(texts[0]["key"], "one-call-against-several");
    assert!(value["crossovers"].is_array());
}
