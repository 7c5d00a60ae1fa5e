//! The published schemas. The page's tests, which have a validator, try real files with them.

#[test]
fn the_published_schemas_are_those_that_the_types_give() {
    for (file, schema) in bytecost_report::schemas() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas");
        let published = std::fs::read_to_string(format!("{root}/{file}.schema.json"));
        assert!(
            published.unwrap() == schema,
            "{file} is not up to date: write it again with `cargo run -p bytecost-report --example sample_page -- schemas schemas`"
        );
    }
}
