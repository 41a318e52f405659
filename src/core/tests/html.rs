//! Whatever a text holds, it stays text.

use hilo_core::chart::{Share, Step, bar, columns, gauge, sparkline};
use hilo_core::figures::{duration, grouped, percent, short};
use hilo_core::html::Html;
use proptest::prelude::*;

const F: prop::num::f64::Any = prop::num::f64::ANY;

fn written(write: impl FnOnce(&mut Html)) -> String {
    let mut html = Html::new();
    write(&mut html);
    html.finish().expect("there is memory")
}

fn text(text: &str) -> String {
    written(|html| html.text(text))
}

#[test]
fn markup_in_a_text_is_text() {
    assert_eq!(text("<script>&'\""), "&#60;script&#62;&#38;&#39;&#34;");
    assert_eq!(text("]]> -->"), "]]&#62; --&#62;");
    let attribute = written(|html| html.line("td", &[("title", "\" onload=\"x")], "a"));
    assert_eq!(attribute, "<td title=\"&#34; onload=&#34;x\">a</td>");
}

#[test]
fn what_does_not_show_is_shown() {
    assert_eq!(text("a\u{202E}b\n\u{85}\u{FEFF}"), "a[U+202E]b[U+000A][U+0085][U+FEFF]");
    assert_eq!(text("Größe 漢 👪"), "Gr&#246;&#223;e &#28450; &#128106;");
}

proptest! {
    /// Only what the program itself writes has a meaning in HTML, and the page is ASCII.
    #[test]
    fn any_text_stays_text(any in "\\PC*|[\\x00-\\x7f\\u{80}-\\u{2fff}]*") {
        let escaped = text(&any);
        prop_assert!(escaped.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{escaped}");
        prop_assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
        for reference in escaped.split('&').skip(1) {
            let number = reference.strip_prefix('#').and_then(|rest| rest.split_once(';'));
            prop_assert!(number.is_some_and(|(number, _)| number.parse::<u32>().is_ok()), "{escaped}");
        }
    }

    #[test]
    fn figures_take_any_number(number in F, digits: i64) {
        for text in [short(number), duration(number), percent(number)] {
            prop_assert!(text.len() < 25, "{text}");
        }
        prop_assert_eq!(grouped(&digits.to_string()).replace(',', ""), digits.to_string());
    }

    /// Also where a product of two of them is infinite.
    #[test]
    fn pictures_take_any_number(since in F, until in F, rate in F, size in prop_oneof![F, Just(f64::MAX), Just(f64::MIN_POSITIVE)]) {
        let share = Share { class: "a", what: "b", size };
        let drawn = written(|html| {
            sparkline(html, &[Step { since, until, rate }], 60.0);
            bar(html, "c", &[share]);
            gauge(html, "d", "e", size);
        });
        let coordinates = drawn.split([' ', '"']).filter(|part| part.starts_with(['M', 'L', 'H', 'V']));
        prop_assert!(coordinates.count() > 0);
        prop_assert!(!drawn.contains("=\"NaN") && !drawn.contains("=\"inf"), "{drawn}");
    }
}

#[test]
fn figures_are_short() {
    let shorts = [(0.0, "0"), (7.0, "7"), (0.25, "0.25"), (999.4, "999"), (999.9, "1.00 k")];
    for (number, expected) in shorts {
        assert_eq!(short(number), expected);
    }
    assert_eq!(short(12_345.0), "12.3 k");
    assert_eq!(short(9.3e18), "9.30 E");
    assert_eq!(grouped("-9223372036854775808"), "-9,223,372,036,854,775,808");
    assert_eq!(grouped("123"), "123");
    assert_eq!(duration(0.0123), "12 ms");
    assert_eq!(duration(5.0), "5.0 s");
    assert_eq!(duration(90.0), "2 min");
    assert_eq!(duration(3.0 * 86_400.0), "3 days");
    assert_eq!(duration(9e12), "> 1,000 years");
    assert_eq!(percent(0.0), "0 %");
    assert_eq!(percent(0.832), "83.2 %");
    assert_eq!(percent(1e-19), "< 0.1 %");
    assert_eq!(percent(0.999_999), "> 99.9 %");
    assert_eq!(percent(1.0), "100 %");
}

/// A sequence that is new has a short line, at the right; one without samples has none.
#[test]
fn a_sparkline_shows_what_is_known() {
    let new = written(|html| {
        sparkline(html, &[Step { since: 15.0, until: 0.0, rate: 10.0 }], 60.0);
    });
    assert!(new.contains("M90.0 2.0H120.0"), "{new}");
    assert!(new.contains("from 10 to 10, lately 10"), "{new}");
    let none = written(|html| sparkline(html, &[], 60.0));
    assert!(!none.contains("class=\"line\""), "{none}");
}

/// No share of a bar or column is too small to be seen.
#[test]
fn a_small_share_is_seen() {
    let share = |size| Share { class: "a", what: "things", size };
    let drawn = written(|html| bar(html, "Here", &[share(1.0), share(0.0), share(1e12)]));
    assert!(drawn.contains("width=\"2.0\""), "{drawn}");
    assert!(drawn.contains("Here: 1 things, 1,000,000,000,000 things"), "{drawn}");
    assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
    let empty = written(|html| columns(html, "Nothing", &[]));
    assert!(empty.contains("<title>Nothing</title>"), "{empty}");
}
