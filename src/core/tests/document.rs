//! Documents of sequences: what they say is kept, what is wrong with them has its place, and what
//! differs is found.

use std::collections::BTreeSet;

use hilo_core::compare::differences;
use hilo_core::document::*;
use hilo_core::key_format;
use hilo_core::options::{DataType, Definition, Options};
use hilo_core::plan::Described;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

fn options() -> impl Strategy<Value = Options> {
    let data_type = prop::sample::select(DataType::ALL);
    let numbers = (of(any::<i64>()), of(any::<i64>()), of(any::<i64>()), of(any::<i64>()));
    let sizes = (of(any::<i64>()), of(any::<i64>()), of(any::<i64>()));
    let switches = (of(any::<bool>()), of(any::<bool>()), of(any::<bool>()));
    let texts = (of(any::<String>()), of(any::<String>()), of(any::<String>()));
    (of(data_type), numbers, sizes, switches, texts).prop_map(
        |(data_type, numbers, sizes, (cycle, ordered, gapless), texts)| {
            let (start_value, increment, min_value, max_value) = numbers;
            let (block_size, slice_size, reserve_ahead) = sizes;
            let (key_format, source, description) = texts;
            Options {
                data_type,
                start_value,
                increment,
                min_value,
                max_value,
                cycle,
                ordered,
                block_size,
                slice_size,
                key_format,
                gapless,
                source,
                reserve_ahead,
                description,
            }
        },
    )
}

fn privileges() -> impl Strategy<Value = BTreeSet<Privilege>> {
    use Privilege::*;
    btree_set(prop::sample::select(vec![Usage, Select, Update, Lease]), 0..4)
}

prop_compose! {
    fn numbering()(
        base: i64, nodes in 1..=1024, stripe in 1..=i64::MAX,
    ) -> Numbering {
        Numbering { base, nodes, stripe }
    }
}

prop_compose! {
    fn entry()(
        options in options(),
        owned_by in of(any::<String>()),
        owner in of(any::<String>()),
        grants in of(btree_map("[a-z]{1,4}", privileges(), 0..3)),
        numbering in of(numbering()),
        fed in of(any::<bool>()),
    ) -> Entry {
        let privileges = grants.map(|grants| {
            let grant = |(grantee, privileges)| Grant { grantee, privileges };
            grants.into_iter().map(grant).collect()
        });
        Entry { owned_by, owner, privileges, numbering, fed, ..Entry::new("a".into(), options) }
    }
}

prop_compose! {
    fn document()(
        node in of((0..1024, 1..=1024, any::<String>())), entries in vec(entry(), 1..4),
    ) -> Document {
        let node = node.map(|(id, count, server)| Node { id, count, server });
        let named = |(at, entry)| Entry { name: format!("s{at}"), ..entry };
        Document { hilo: 1, node, sequences: entries.into_iter().enumerate().map(named).collect() }
    }
}

/// The fields and elements of a value, with their places.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(field, value)| (format!("{at}.{field}"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(n, value)| (format!("{at}[{n}]"), value)).collect()
        }
        _ => Vec::new(),
    };
    for (place, value) in inner {
        found.push(place.trim_start_matches('.').to_owned());
        places(value, &place, found);
    }
}

fn pointer(place: &str) -> String {
    format!("/{}", place.replace(['.', '['], "/").replace(']', ""))
}

proptest! {
    #[test]
    fn options_are_the_same_after_a_way_through_json(options in options()) {
        let text = serde_json::to_string(&options).unwrap();
        prop_assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
    }

    #[test]
    fn a_document_is_the_same_after_a_way_through_json(document in document()) {
        let text = serde_json::to_string(&document).unwrap();
        prop_assert_eq!(Document::parse(&text).unwrap(), document);
    }

    #[test]
    fn a_document_with_one_spoiled_field_is_refused_with_its_place(
        document in document(), chosen: prop::sample::Index, way in 0..3,
    ) {
        let mut json = json!(document);
        let mut all = Vec::new();
        places(&json, "", &mut all);
        let mut place = all[chosen.index(all.len())].clone();
        let spoiled = json.pointer_mut(&pointer(&place)).unwrap();
        match spoiled {
            Value::Object(fields) if way == 0 => {
                fields.insert("spoiled".into(), json!(1));
                place += ".spoiled";
            }
            // The fields without their names.
            Value::Object(fields) if way == 1 => *spoiled = fields.values().cloned().collect(),
            Value::Object(_) | Value::Array(_) => *spoiled = json!(1.5),
            _ => *spoiled = json!({"spoiled": 1}),
        }
        prop_assert_eq!(Document::parse(&json.to_string()).unwrap_err().place, place);
    }

    /// A definition says of itself no more than it must, and what it says makes it again.
    #[test]
    fn a_definition_is_what_its_options_make(options in options()) {
        let Ok(definition) = Definition::create(&options) else { return Ok(()) };
        let fewest = definition.options();
        prop_assert_eq!(Definition::create(&fewest).unwrap(), definition.clone().plain());
        prop_assert_eq!(Definition::create(&fewest).unwrap().options(), fewest);
    }

    #[test]
    fn changes_make_one_definition_of_another(one in options(), other in options()) {
        let [one, other] = [one, other].map(|options| Definition::create(&options));
        let (Ok(old), Ok(new)) = (one, other) else { return Ok(()) };
        let (old, new) = (old.plain(), new.plain());
        // A source keeps its increment.
        prop_assume!(old.source.is_none() || old.increment == new.increment);
        let changed = old.alter(&new.changes_of(&old), None, None).unwrap();
        prop_assert_eq!(changed.plain(), new);
    }
}

#[test]
fn numbers_beyond_those_of_floating_point_are_exact() {
    let of = |number: &str| {
        let text =
            format!(r#"{{"hilo": 1, "sequences": [{{"name": "a", "max_value": {number}}}]}}"#);
        Document::parse(&text).map(|document| document.sequences[0].max_value)
    };
    for number in [i64::MAX, i64::MIN, (1 << 53) + 1] {
        assert_eq!(of(&number.to_string()), Ok(Some(number)));
    }
    for number in ["1.0", "1e30", "9223372036854775808"] {
        assert_eq!(of(number).unwrap_err().place, "sequences[0].max_value", "{number}");
    }
}

#[test]
fn faults_have_their_places() {
    for (sequences, place, what) in [
        (json!([{"name": "a"}, {"name": "a"}]), "sequences[1].name", "another sequence"),
        (json!([{}]), "sequences[0]", "missing field `name`"),
        (json!([{"name": "a", "data_type": "text"}]), "sequences[0].data_type", "unknown variant"),
        (
            json!([{"name": "a", "numbering": {"base": 1, "nodes": 1025, "stripe": 1}}]),
            "sequences[0].numbering.nodes",
            "expected a number from 1 to 1024, found 1025",
        ),
    ] {
        let text = json!({"hilo": 1, "sequences": sequences}).to_string();
        let fault = Document::parse(&text).unwrap_err();
        assert_eq!(fault.place, place);
        assert!(fault.what.starts_with(what), "{}", fault.what);
    }
    for (text, place) in [
        (r#"{"hilo": 2, "sequences": []}"#, "hilo"),
        (r#"{"hilo": 1, "sequences": [["a"]]}"#, "sequences[0]"),
        (r#"{"hilo": 1, "node": [1, 2, "north"], "sequences": []}"#, "node"),
        (
            r#"{"hilo": 1, "sequences": [{"name": "a", "numbering": [1, 2, 10]}]}"#,
            "sequences[0].numbering",
        ),
        (
            r#"{"hilo": 1, "sequences": [{"name": "a", "privileges": [["bert", ["USAGE"]]]}]}"#,
            "sequences[0].privileges[0]",
        ),
        ("[1, null, []]", "."),
    ] {
        assert_eq!(Document::parse(text).unwrap_err().place, place);
    }
}

fn described(sequences: Value) -> Vec<Described> {
    let document = json!({"hilo": 1, "sequences": sequences}).to_string();
    let entries = Document::parse(&document).unwrap().sequences;
    entries.into_iter().map(|entry| Described::new(entry).unwrap()).collect()
}

fn wanted(sequence: Value) -> Described {
    described(json!([sequence])).remove(0)
}

fn found() -> Described {
    let privileges = json!([{"grantee": "bert", "privileges": ["USAGE"]}]);
    wanted(json!({"name": "a", "owner": "anna", "privileges": privileges}))
}

#[test]
fn a_sequence_as_the_document_wants_it_is_left_alone() {
    let same = [
        json!({"name": "a"}),
        json!({"name": "a", "owner": "anna", "min_value": 1, "key_format": key_format::DEFAULT}),
        // Twice the same is the same.
        json!({"name": "a", "privileges": [
            {"grantee": "bert", "privileges": []},
            {"grantee": "bert", "privileges": ["USAGE", "USAGE"]},
        ]}),
    ];
    for same in same {
        assert_eq!(wanted(same).changes(&found()), []);
    }
}

#[test]
fn each_difference_is_one_change() {
    let rows = |sequence: Value| -> Vec<_> {
        let rows = wanted(sequence).changes(&found()).into_iter().map(|change| json!(change));
        rows.map(|row| json!([row["action"], row["detail"]])).collect()
    };
    assert_eq!(
        rows(json!({
            "name": "a", "increment": 5, "owner": "bert", "privileges": [], "owned_by": "s.t.c"
        })),
        [
            json!(["alter", {"increment": {"from": 1, "to": 5},
                             "owned_by": {"from": null, "to": "s.t.c"}}]),
            // His privileges end as he becomes the owner.
            json!(["set_owner", {"from": "anna", "to": "bert"}]),
        ]
    );
    let grants = json!([{"grantee": "public", "privileges": ["LEASE", "SELECT"]}]);
    assert_eq!(
        rows(json!({"name": "a", "privileges": grants})),
        [
            json!(["revoke", {"grantee": "bert", "privileges": ["USAGE"]}]),
            json!(["grant", {"grantee": "public", "privileges": ["SELECT", "LEASE"]}]),
        ]
    );
    let numbering = json!({"base": 1, "nodes": 2, "stripe": 1});
    assert_eq!(rows(json!({"name": "a", "numbering": numbering})), [json!(["number", numbering])]);
}

#[test]
fn two_servers_differ_in_what_they_serve() {
    let node = |id, server: &str| Node { id, count: 4, server: server.into() };
    let compare = |mine: Value, theirs: Value, id| -> Vec<String> {
        let (me, other) = (node(0, "north"), node(id, "south"));
        let [mine, theirs] = [mine, theirs].map(described);
        let found = differences((&me, &mine), (&other, &theirs), "Restart.");
        found.into_iter().map(|found| format!("{}: {}", found.severity, found.what)).collect()
    };
    let numbered = |base: i64| json!({"base": base, "nodes": 4, "stripe": 10});
    let one = |base| json!([{"name": "a", "numbering": numbered(base)}]);
    assert!(compare(one(1), one(1), 1).is_empty());
    assert_eq!(
        compare(one(1), one(500), 1),
        ["error: numbered from 1 with node count 4 and stripes of 10 here, and from 500 with \
          node count 4 and stripes of 10 by node 1: both may serve the same values"]
    );
    assert_eq!(
        compare(one(1), one(1), 0),
        ["error: its node id is 0, as that of this server: both serve the same values of 1 \
          sequences, such as \"a\""]
    );
    let fed = json!([{"name": "a", "fed": true, "numbering": numbered(500)}]);
    assert!(compare(one(1), fed, 1).is_empty());
    let unnumbered = || json!([{"name": "a"}]);
    for nothing in [json!([]), unnumbered()] {
        assert_eq!(
            compare(one(1), nothing.clone(), 1),
            ["warning: does not serve 1 sequences, such as \"a\", which several nodes serve"]
        );
        assert_eq!(
            compare(nothing, one(1), 1),
            ["warning: serves 1 sequences, such as \"a\", which this server does not serve"]
        );
    }
    let owned = json!([{"name": "a", "owner": "anna", "numbering": numbered(1)}]);
    let granted = json!([{"name": "a", "privileges": [], "numbering": numbered(1)}]);
    for other in [owned, granted] {
        let differ = ["warning: owner or privileges differ on node 1"];
        assert_eq!(compare(one(1), other, 1), differ);
    }
    // A sequence that no other node serves may belong to anybody.
    assert!(compare(unnumbered(), json!([{"name": "a", "owner": "anna"}]), 1).is_empty());
    let other = json!([{"name": "a", "ordered": true, "increment": 2, "numbering": numbered(1)}]);
    assert_eq!(compare(one(1), other, 1), ["error: increment, ordered differs on node 1"]);
}
