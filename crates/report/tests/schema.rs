//! The published schema of `findings.json`. That a real `findings.json` fits it is tested beside
//! the page, where a validator costs nothing to build.

use bytecost_report::schema_json;

#[test]
fn the_published_schema_is_the_one_that_the_types_give() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/findings.schema.json"
    );
    let published = std::fs::read_to_string(path).unwrap();
    assert!(
        published == schema_json(),
        "{path} is not up to date: write it again with `cargo run -p bytecost-report --example sample_page -- schemas/findings.schema.json schema`"
    );
}

#[test]
fn the_schema_describes_what_it_is_for() {
    let schema: serde_json::Value = serde_json::from_str(&schema_json()).unwrap();
    assert_eq!(schema["title"], "bytecost findings.json");
    let required = schema["required"].as_array().unwrap();
    for field in [
        "host",
        "cells",
        "findings",
        "caveats",
        "refusals",
        "loop_floor_ns_per_message",
    ] {
        assert!(schema["properties"][field].is_object(), "{field}");
        assert!(
            required.iter().any(|r| r == field) || field == "loop_floor_ns_per_message",
            "{field}"
        );
    }
}
