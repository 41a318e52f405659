//! Texts, numbers and pictures of the page, which need no Postgres: whatever a text holds, it stays
//! text.

#[path = "../../../../src/sql/report/chart.rs"]
mod chart;
#[path = "../../../../src/sql/report/figures.rs"]
mod figures;
#[path = "../../../../src/sql/report/text.rs"]
mod text;

use maud::html;
use proptest::prelude::*;

use self::chart::{Share, bar, columns, list_text, sparkline};
use self::figures::{duration, group_digits, percent, short};

const F: prop::num::f64::Any = prop::num::f64::ANY;

/// A text of somebody else's as it stands in the page.
fn escape(foreign: &str) -> String {
    text::ascii(&html! { (text::visible(foreign)) }.0)
}

#[test]
fn markup_in_a_text_is_text() {
    assert_eq!(escape("<script>&'\""), "&lt;script&gt;&amp;'&quot;");
    assert_eq!(escape("]]> -->"), "]]&gt; --&gt;");
    let attribute = html! { td title=("\" onload=\"x") { "a" } };
    assert_eq!(attribute.0, "<td title=\"&quot; onload=&quot;x\">a</td>");
}

#[test]
fn what_does_not_show_is_shown() {
    assert_eq!(escape("a\u{202E}b\n\u{85}\u{FEFF}"), "a[U+202E]b[U+000A][U+0085][U+FEFF]");
    assert_eq!(escape("Größe 漢 👪"), "Gr&#246;&#223;e &#28450; &#128106;");
}

proptest! {
    /// Only what the program itself writes has a meaning in HTML, and the page is ASCII.
    #[test]
    fn any_text_stays_text(any in "\\PC*|[\\x00-\\x7f\\u{80}-\\u{2fff}]*") {
        let escaped = escape(&any);
        prop_assert!(escaped.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{escaped}");
        prop_assert!(!escaped.contains(['<', '>', '"']), "{escaped}");
        for reference in escaped.split('&').skip(1) {
            let (name, _) = reference.split_once(';').expect("a reference ends");
            let number = name.strip_prefix('#').is_some_and(|number| number.parse::<u32>().is_ok());
            prop_assert!(number || ["amp", "lt", "gt", "quot"].contains(&name), "{escaped}");
        }
    }

    #[test]
    fn figures_take_any_number(number in F, digits: i64) {
        for text in [short(number), duration(number), percent(number)] {
            prop_assert!(text.len() < 25, "{text}");
        }
        prop_assert_eq!(group_digits(digits).replace(',', ""), digits.to_string());
    }

    /// Also where a product of two of them is infinite.
    #[test]
    fn pictures_take_any_number(since in F, until in F, rate in F, size in prop_oneof![F, Just(f64::MAX), Just(f64::MIN_POSITIVE)]) {
        let shares = [Share::new("a", "b", size)];
        let drawn = html! {
            (sparkline(&[[since, until, rate]], 60.0))
            (bar(&list_text("c", &shares), &shares))
        }.0;
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
    assert_eq!(group_digits("-9223372036854775808"), "-9,223,372,036,854,775,808");
    assert_eq!(group_digits("123"), "123");
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
    let new = sparkline(&[[15.0, 0.0, 10.0]], 60.0).0;
    assert!(new.contains("M90.0 2.0H120.0"), "{new}");
    assert!(new.contains("from 10 to 10, lately 10"), "{new}");
    let none = sparkline(&[], 60.0).0;
    assert!(!none.contains("class=\"line\""), "{none}");
}

/// No share of a bar or column is too small to be seen.
#[test]
fn a_small_share_is_seen() {
    let shares = [1.0, 0.0, 1e12].map(|size| Share::new("a", "things", size));
    let drawn = bar("Here", &shares).0;
    assert!(drawn.contains("width=\"2.0\""), "{drawn}");
    assert_eq!(list_text("Here", &shares), "Here: 1 things, 1,000,000,000,000 things");
    assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
    let empty = columns("Nothing", &[]).0;
    assert!(empty.contains("<title>Nothing</title>"), "{empty}");
}
