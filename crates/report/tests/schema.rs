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
