//! Keys: one value, one key, and back.

use hilo_core::key_format::{KeyFormat, KeyFormatError, KeyReadError, PrefixError};
use proptest::prelude::*;
use std::collections::HashMap;

fn key(format: &KeyFormat, name: &str, server: &str, value: i64) -> String {
    let frame = format.frame(name.as_bytes(), server.as_bytes());
    String::from_utf8(frame.key(value, &mut [0; 20]).concat()).unwrap()
}

fn read(format: &KeyFormat, name: &str, server: &str, key: &str) -> Result<i64, KeyReadError> {
    format.frame(name.as_bytes(), server.as_bytes()).read(key.as_bytes())
}

fn parse(format: &str) -> KeyFormat {
    KeyFormat::parse(format).unwrap()
}

#[test]
fn the_keys_of_the_documentation() {
    let default = KeyFormat::default();
    assert_eq!(default, parse("{name}/{server}{value}"));
    assert_eq!(key(&default, "orders", "NorthServer/", 1), "orders/NorthServer/1");
    assert_eq!(key(&default, "orders", "", 1), "orders/1");
    assert_eq!(key(&parse("{name}/{value}-{server}"), "orders", "A", 1), "orders/1-A");
    assert_eq!(key(&parse("PROJ-9012-{value:04}"), "any", "", 1001), "PROJ-9012-1001");
    assert_eq!(key(&parse("{{{name}}}:{value}"), "a", "", 7), "{a}:7");
}

#[test]
fn zeros_are_filled_in_behind_the_sign() {
    let format = parse("{value:04}");
    let keys: Vec<_> =
        [0, 7, -7, 9999, 10000, -999, -1000].map(|value| key(&format, "", "", value)).into();
    assert_eq!(keys, ["0000", "0007", "-007", "9999", "10000", "-999", "-1000"]);
    assert_eq!(key(&parse("{value:019}"), "", "", 1), "0000000000000000001");
    assert_eq!(key(&parse("{value:019}"), "", "", i64::MIN), i64::MIN.to_string());
}

#[test]
fn formats_that_are_refused() {
    use KeyFormatError::*;
    let refused = |format: &str| KeyFormat::parse(format).unwrap_err();
    assert_eq!(refused("{name}"), NoValue);
    assert_eq!(refused(""), NoValue);
    assert_eq!(refused("{{value}}"), NoValue);
    assert_eq!(refused("{value}{value:03}"), SeveralValues);
    assert_eq!(refused("{server}{value}{server}"), SeveralServers);
    assert_eq!(refused("{Value}"), Unknown("Value".into()));
    assert_eq!(refused("{value:4}"), Unknown("value:4".into()));
    assert_eq!(refused("{}{value}"), Unknown("".into()));
    assert_eq!(refused("{value:0}"), Width("".into()));
    assert_eq!(refused("{value:00}"), Width("0".into()));
    assert_eq!(refused("{value:020}"), Width("20".into()));
    assert_eq!(refused("{value:0+4}"), Width("+4".into()));
    assert_eq!(refused("{value:004}"), Width("04".into()));
    assert_eq!(refused("a{value"), Unbalanced { brace: '{', position: 1 });
    assert_eq!(refused("{value}}"), Unbalanced { brace: '}', position: 7 });
    assert_eq!(refused("a\n{value}"), Control { code: 10, position: 1 });
    assert_eq!(refused("é\u{85}{value}"), Control { code: 0x85, position: 2 });
    assert_eq!(refused(&"x".repeat(300)), TooLong { length: 300 });
}

#[test]
fn only_the_canonical_key_is_read() {
    let format = KeyFormat::default();
    assert_eq!(read(&format, "orders", "N/", "orders/N/12"), Ok(12));
    for (key, error) in [
        ("orders/N/012", KeyReadError::NotCanonical),
        ("orders/N/-0", KeyReadError::NotCanonical),
        ("orders/N/+1", KeyReadError::NotANumber),
        ("orders/N/", KeyReadError::NotANumber),
        ("orders/N/-", KeyReadError::NotANumber),
        ("orders/N/1 ", KeyReadError::NotANumber),
        ("orders/N/9223372036854775808", KeyReadError::OutOfRange),
        ("orders/S/1", KeyReadError::Begin),
        ("Orders/N/1", KeyReadError::Begin),
    ] {
        assert_eq!(read(&format, "orders", "N/", key), Err(error), "{key}");
    }
    let format = parse("{value:04}-{server}");
    assert_eq!(read(&format, "", "A", "0012-A"), Ok(12));
    assert_eq!(read(&format, "", "A", "12-A"), Err(KeyReadError::NotCanonical));
    assert_eq!(read(&format, "", "A", "00012-A"), Err(KeyReadError::NotCanonical));
    assert_eq!(read(&format, "", "A", "0012-B"), Err(KeyReadError::End));
}

#[test]
fn what_stands_before_and_behind_the_value_never_shares_a_byte() {
    let format = parse("aba{value}ba");
    assert_eq!(read(&format, "", "", "aba"), Err(KeyReadError::End));
    assert_eq!(read(&format, "", "", "aba1ba"), Ok(1));
}

#[test]
fn prefixes_that_are_refused() {
    let check = |format: &str, prefix: &str, min_value| {
        parse(format).check_prefix(b"orders", prefix.as_bytes(), min_value)
    };
    let default = "{name}/{server}{value}";
    assert_eq!(check(default, "", -1), Ok(()));
    assert_eq!(check(default, "North/", -1), Ok(()));
    assert_eq!(check(default, "A1", 0), Err(PrefixError::End('1')));
    assert_eq!(check(default, "A-", 0), Ok(()));
    assert_eq!(check(default, "A-", -1), Err(PrefixError::End('-')));
    assert_eq!(check("{server}/{value}", "A1", -1), Ok(()));
    assert_eq!(check("{server}-{value}", "A1", -1), Ok(()));
    assert_eq!(check("{server}-{value}", "A-", -1), Err(PrefixError::End('-')));
    assert_eq!(check("{server}-1{value}", "A1", -1), Err(PrefixError::End('1')));
    assert_eq!(check("{server}-1{value}", "A1", 0), Ok(()));
    assert_eq!(check("{server}{name}{value}", "A1", -1), Ok(()));
    let by_name = parse("{server}{name}{value}").check_prefix(b"42", b"A1", 0);
    assert_eq!(by_name, Err(PrefixError::End('1')));
    assert_eq!(check("{value}{server}", "1A", -1), Err(PrefixError::Begin('1')));
    assert_eq!(check("{value}-{server}", "1", -1), Ok(()));
    assert_eq!(check("{value}", "1", -1), Ok(()));
    let control = Err(PrefixError::Control { code: 9, position: 1 });
    assert_eq!(check("{value}", "A\t", -1), control);
}

/// All texts of up to `length` characters out of `letters`.
fn texts(letters: &str, length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|text| letters.chars().map(move |letter| format!("{text}{letter}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Every short gap between prefix and value, every short prefix that passes, every small value. The
/// letters are few, so that they meet in every possible way.
#[test]
fn servers_with_prefixes_that_pass_never_share_a_key() {
    let prefixes = texts("1-a", 4);
    for gap in texts("1-a", 3) {
        for format in [format!("{{server}}{gap}{{value}}"), format!("{{value}}{gap}{{server}}")] {
            for min_value in [0, -1111] {
                let format = parse(&format);
                let mut seen = HashMap::new();
                for prefix in &prefixes {
                    if format.check_prefix(b"", prefix.as_bytes(), min_value).is_err() {
                        continue;
                    }
                    for value in [1, 11, 111, 1111, -1, -11, -111, -1111] {
                        if value < min_value {
                            continue;
                        }
                        let key = key(&format, "", prefix, value);
                        let other = seen.insert(key.clone(), (prefix, value));
                        assert_eq!(other, None, "{key} of {prefix} {value}, {format:?}");
                    }
                }
            }
        }
    }
}

/// Each refusal has a reason: with the separator that the hint proposes, all pass.
#[test]
fn a_separator_lets_every_prefix_pass() {
    for prefix in texts("1-a", 3) {
        for format in ["{server}/{value}", "{value}/{server}"] {
            assert_eq!(parse(format).check_prefix(b"1", prefix.as_bytes(), -1), Ok(()));
        }
    }
}

fn any_format() -> impl Strategy<Value = KeyFormat> {
    let text = "[a-z0-9/-]{0,4}|\\{name\\}|\\{\\{|\\}\\}|é";
    let part = || prop::collection::vec(text, 0..3).prop_map(|parts| parts.concat());
    let value = prop_oneof![
        Just("{value}".to_string()),
        (1..=19).prop_map(|width| format!("{{value:0{width}}}"))
    ];
    (part(), any::<bool>(), part(), value, part()).prop_map(|(a, server, b, value, c)| {
        parse(&format!("{a}{}{b}{value}{c}", if server { "{server}" } else { "" }))
    })
}

fn any_value() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -1000i64..1000, Just(i64::MIN), Just(i64::MAX)]
}

proptest! {
    #[test]
    fn a_key_leads_back_to_its_value(
        format in any_format(), name in "[a-z0-9/-]{1,5}", server in "[a-z0-9/-]{0,3}",
        value in any_value(),
    ) {
        let key = key(&format, &name, &server, value);
        prop_assert_eq!(read(&format, &name, &server, &key), Ok(value));
    }

    #[test]
    fn two_values_have_two_keys(
        format in any_format(), name in "[0-9-]{1,3}", server in "[0-9-]{0,2}",
        a in any_value(), b in any_value(),
    ) {
        let keys = [a, b].map(|value| key(&format, &name, &server, value));
        prop_assert_eq!(keys[0] == keys[1], a == b);
    }

    #[test]
    fn what_is_read_is_what_would_be_written(
        format in any_format(), name in "[0-9-]{1,2}", text in "[a0-9/-]{0,8}",
    ) {
        if let Ok(value) = read(&format, &name, "", &text) {
            prop_assert_eq!(key(&format, &name, "", value), text);
        }
    }

    #[test]
    fn no_format_panics(format in "[{}valuenmsr:0-9é]{0,20}|\\PC{0,20}") {
        let _ = KeyFormat::parse(&format);
    }
}
