//! The published schemas. That real files fit them is tested beside the page, where a validator
//! costs nothing to build.

use bytecost_report::SCHEMAS;

#[test]
fn the_published_schemas_are_those_that_the_types_give() {
    for row in SCHEMAS {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas");
        let published = std::fs::read_to_string(format!("{root}/{}.schema.json", row.file));
        assert!(
            published.unwrap() == row.json(),
            "{} is not up to date: write it again with `cargo run -p bytecost-report --example sample_page -- schemas schemas`",
            row.file
        );
    }
}

#[test]
fn the_schema_describes_what_it_is_for() {
    let schema: serde_json::Value = serde_json::from_str(&SCHEMAS[0].json()).unwrap();
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
