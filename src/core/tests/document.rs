//! Documents: what they say of a definition makes it again. A fault of one is told with the path of
//! the field.

use hilo_core::document::{Described, Document, changes, difference};
use hilo_core::key_format;
use hilo_core::options::{DataType, Definition, Options};
use proptest::prelude::*;

fn parse(sequences: &str) -> Result<Document, (String, String)> {
    let json = format!(r#"{{"hilo": 1, "sequences": {sequences}}}"#);
    Document::parse(&json).map_err(|error| (error.path, error.what))
}

#[track_caller]
fn assert_refused(sequences: &str, path: &str, what: &str) {
    let (at, found) = parse(sequences).expect_err(sequences);
    assert_eq!(at, path, "{sequences}: {found}");
    assert!(found.contains(what), "{sequences}: {found}");
    assert!(
        !found.contains('`') && !found.contains("line") && !found.contains("struct"),
        "{found}"
    );
}

#[test]
fn a_document_is_refused_with_the_path_of_the_field() {
    for (sequences, path, what) in [
        (r#"[{"name": "a"}, {"name": "b", "slice": 1}]"#, "sequences[1].slice", "unknown field"),
        (r#"[{"name": "a", "slice_size": "ten"}]"#, "sequences[0].slice_size", "string \"ten\""),
        (r#"[{"name": "a", "slice_size": 1.5}]"#, "sequences[0].slice_size", "floating point"),
        (
            r#"[{"name": "a", "min_value": 9223372036854775808}]"#,
            "sequences[0].min_value",
            "bigint",
        ),
        (r#"[{"name": "a", "cycle": "yes"}]"#, "sequences[0].cycle", "boolean"),
        (r#"[{"name": "a", "data_type": "text"}]"#, "sequences[0].data_type", "smallint"),
        (r#"[{"name": "a", "data_type": {"bigint": null}}]"#, "sequences[0].data_type", "string"),
        (r#"[{"name": 1}]"#, "sequences[0].name", "string"),
        (r#"[{"increment": 1}]"#, "sequences[0]", "missing field \"name\""),
        (r#"["a"]"#, "sequences[0]", "an object"),
        (r#"[["a"]]"#, "sequences[0]", "an object"),
        (r#"{}"#, "sequences", "an array"),
        (r#"null"#, "sequences", "an array"),
        (r#"[{"name": "a"}, {"name": "b"}, {"name": "a"}]"#, "sequences[2].name", "sequences[0]"),
        (r#"[{"name": "a", "privileges": {}}]"#, "sequences[0].privileges", "an array"),
        (r#"[{"name": "a", "privileges": ["x"]}]"#, "sequences[0].privileges[0]", "an object"),
        (
            r#"[{"name": "a", "privileges": [{"grantee": "x", "privileges": "USAGE"}]}]"#,
            "sequences[0].privileges[0].privileges",
            "an array",
        ),
        (
            r#"[{"name": "a", "privileges": [{"grantee": "x", "privileges": [1]}]}]"#,
            "sequences[0].privileges[0].privileges[0]",
            "string",
        ),
        (
            r#"[{"name": "a", "privileges": [{"grantee": "x", "privileges": ["ALL"]}]}]"#,
            "sequences[0].privileges[0].privileges[0]",
            "expected USAGE, SELECT or UPDATE",
        ),
        (
            r#"[{"name": "a",
                 "privileges": [{"grantee": "x", "privileges": ["USAGE", "USAGE"]}]}]"#,
            "sequences[0].privileges[0].privileges[1]",
            "twice",
        ),
        (
            r#"[{"name": "a", "privileges": [{"grantee": "x", "privileges": []},
                                             {"grantee": "x", "privileges": []}]}]"#,
            "sequences[0].privileges[1].grantee",
            "twice",
        ),
    ] {
        assert_refused(sequences, path, what);
    }
}

#[test]
fn what_is_no_document_is_refused_as_a_whole() {
    let whole = |json: &str| Document::parse(json).map_err(|error| (error.path, error.what));
    for (json, path) in [
        ("[]", "."),
        ("[1, []]", "."),
        ("1", "."),
        ("{}", "."),
        (r#"{"hilo": 1}"#, "."),
        (r#"{"hilo": 2, "sequences": []}"#, "hilo"),
        (r#"{"hilo": "1", "sequences": []}"#, "hilo"),
        (r#"{"hilo": 1, "sequences": [], "more": 1}"#, "more"),
    ] {
        let (at, what) = whole(json).expect_err(json);
        assert_eq!(at, path, "{json}: {what}");
    }
}

#[test]
fn null_stands_for_a_field_that_is_left_out() {
    let document = parse(r#"[{"name": "a", "min_value": null, "owner": null}]"#).unwrap();
    assert_eq!(document, parse(r#"[{"name": "a"}]"#).unwrap());
}

#[test]
fn what_is_at_its_default_is_left_out() {
    let plain = Definition::create(&Options::default()).unwrap();
    let described = Described { name: "a".into(), ..Described::default() };
    assert_eq!(Described::of("a".into(), &plain), described);
    let formatted = Definition { key_format: Some(key_format::DEFAULT.into()), ..plain.clone() };
    assert_eq!(Described::of("a".into(), &formatted), described);
    assert_eq!(difference(&plain, &formatted), None);
}

fn definitions() -> impl Strategy<Value = Definition> {
    let some = || proptest::option::of(-40_000i64..40_000);
    let size = || proptest::option::of(1i64..20);
    let types =
        prop_oneof![Just(DataType::SmallInt), Just(DataType::Integer), Just(DataType::BigInt)];
    let formats = prop_oneof![
        Just(None),
        Just(Some("{value}".to_owned())),
        Just(Some(key_format::DEFAULT.to_owned()))
    ];
    let numbers = (some(), some(), some(), some());
    (types, numbers, any::<[bool; 3]>(), size(), size(), formats).prop_filter_map(
        "the options fit together",
        |(data_type, (start, increment, min, max), flags, block, slice, key_format)| {
            let [cycle, ordered, gapless] = flags;
            Definition::create(&Options {
                data_type: Some(data_type),
                start_value: start,
                increment,
                min_value: min,
                max_value: max,
                cycle: Some(cycle),
                ordered: Some(ordered),
                block_size: block,
                slice_size: slice.map(|size| size as _),
                key_format,
                gapless: Some(gapless),
                source: None,
                reserve_ahead: None,
            })
            .ok()
        },
    )
}

/// The default key format, written out, means the same as none.
fn meaning(definition: Definition) -> Definition {
    let key_format = definition.key_format.filter(|format| format != key_format::DEFAULT);
    Definition { key_format, ..definition }
}

proptest! {
    #[test]
    fn a_description_makes_the_definition_again(definition in definitions()) {
        let described = Described::of("a".into(), &definition);
        let document = Document { hilo: 1, node: None, sequences: vec![described] };
        let json = serde_json::to_string(&document).unwrap();
        let read = Document::parse(&json).unwrap();
        let made = Definition::create(&read.sequences[0].options()).unwrap();
        prop_assert_eq!(made, meaning(definition));
    }

    #[test]
    fn altered_by_the_difference_one_definition_becomes_the_other(
        old in definitions(), new in definitions()
    ) {
        match difference(&old, &new) {
            None => {
                prop_assert!(changes(&old, &new).is_empty());
                prop_assert_eq!(meaning(old), meaning(new));
            }
            Some(options) => {
                prop_assert!(!changes(&old, &new).is_empty());
                let altered = old.alter(&options, None, None).unwrap();
                prop_assert_eq!(meaning(altered.clone()), meaning(new.clone()));
                prop_assert_eq!(difference(&altered, &new), None);
            }
        }
    }
}

/// A numbering that no node can have is refused with its place.
#[test]
fn numberings() {
    let document = |numbering: &str| {
        Document::parse(&format!(
            r#"{{"hilo": 1, "sequences": [{{"name": "a", "numbering": {numbering}}}]}}"#
        ))
    };
    let good = document(r#"{"base": -7, "nodes": 1024, "stripe": 1}"#).unwrap();
    assert_eq!(good.sequences[0].numbering.map(|numbering| numbering.base), Some(-7));
    assert!(document("null").unwrap().sequences[0].numbering.is_none());
    for (bad, path) in [
        (r#"{"base": 1, "nodes": 0, "stripe": 1}"#, "sequences[0].numbering.nodes"),
        (r#"{"base": 1, "nodes": 1025, "stripe": 1}"#, "sequences[0].numbering.nodes"),
        (r#"{"base": 1, "nodes": 2, "stripe": 0}"#, "sequences[0].numbering.stripe"),
        (r#"{"base": 1, "nodes": 2}"#, "sequences[0]"),
        (r#"[1, 2, 3]"#, "sequences[0]"),
        (r#"{"base": 1, "nodes": 2, "stripe": 5, "epoch": 1}"#, "sequences[0]"),
    ] {
        let error = document(bad).unwrap_err();
        assert!(error.path.starts_with(path), "{bad}: {error:?}");
    }
}
