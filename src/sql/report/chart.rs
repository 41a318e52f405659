//! The small drawings of the report, as SVG. Each has a title that says what it shows. Classes give
//! the colours.

use maud::{Markup, html};

use super::figures::{group_digits, short};

/// How fast something was from one moment until another, both in seconds before now: since, until,
/// rate.
pub type RateStep = [f64; 3];

/// A share of a bar or a column.
#[derive(Clone, Debug)]
pub struct Share {
    pub class: String,
    pub name: String,
    pub size: f64,
}

impl Share {
    pub fn new(class: impl Into<String>, name: &str, size: f64) -> Share {
        Share { class: class.into(), name: name.into(), size }
    }
}

/// A column over time: its name, and its shares from the bottom up.
pub type Bars = (String, Vec<Share>);

const WIDTH: f64 = 120.0;

/// Draws rates over the last `span` seconds as steps, the largest as high as the picture. Where
/// nothing is known, nothing is drawn.
pub fn sparkline(steps: &[RateStep], span: f64) -> Markup {
    const HEIGHT: f64 = 28.0;
    let known =
        |[since, until, rate]: &RateStep| *until < span && !since.is_nan() && rate.is_finite();
    let steps: Vec<RateStep> = steps.iter().copied().filter(known).collect();
    let most = steps.iter().map(|[.., rate]| *rate).fold(0.0, f64::max);
    let least = steps.iter().map(|[.., rate]| *rate).fold(most, f64::min);
    let last = steps.last().map_or(0.0, |[.., rate]| *rate);
    let title = format!(
        "Values per second in the last {span:.0} s: from {} to {}, lately {}",
        short(least),
        short(most),
        short(last)
    );
    let x = |ago: f64| WIDTH * (1.0 - (ago / span).clamp(0.0, 1.0));
    let y = |rate: f64| HEIGHT - 1.0 - (HEIGHT - 3.0) * if most > 0.0 { rate / most } else { 0.0 };
    let step = |[since, until, rate]: &RateStep| {
        format!("{:.1} {:.1}H{:.1}", x(*since), y(*rate), x(*until))
    };
    let line = format!("M{}", steps.iter().map(step).collect::<Vec<_>>().join("L"));
    let drawn = html! {
        (base([WIDTH, HEIGHT]))
        @if let Some([since, ..]) = steps.first() {
            path.area d={ (line) (format_args!("V{:.1}H{:.1}Z", HEIGHT - 1.0, x(*since))) } {}
            path.line d=(line) {}
        }
    };
    drawing("spark", &title, [WIDTH, HEIGHT], drawn)
}

/// Draws a bar whose shares lie side by side and make the whole.
pub fn bar(title: &str, shares: &[Share]) -> Markup {
    const HEIGHT: f64 = 10.0;
    let drawn = html! {
        (rectangle("rest", [0.0, 0.0, WIDTH, HEIGHT]))
        @for (share, start, width) in places(shares, WIDTH) {
            (rectangle(&share.class, [start, 0.0, width, HEIGHT]))
        }
    };
    drawing("bar", title, [WIDTH, HEIGHT], drawn)
}

/// Draws columns side by side, the highest as high as the picture. Each has a title of its own.
pub fn columns(title: &str, columns: &[Bars]) -> Markup {
    const SIZE: [f64; 2] = [720.0, 96.0];
    const BASE: f64 = SIZE[1] - 1.0;
    let most = columns.iter().map(|(_, shares)| sum(shares)).fold(0.0, f64::max);
    let height = |shares: &[Share]| (BASE - 1.0) * (sum(shares) / most);
    let step = SIZE[0] / columns.len().max(1) as f64;
    let left = |at: usize| step * at as f64;
    let drawn = html! {
        @for (at, (name, shares)) in columns.iter().enumerate() {
            g {
                title { (list_text(name, shares)) }
                @for (share, start, height) in places(shares, height(shares)) {
                    (rectangle(&share.class, [left(at), BASE - start - height, step - 1.5, height]))
                }
            }
        }
        (base(SIZE))
    };
    drawing("columns", title, SIZE, drawn)
}

/// The start and the length of each share on a line of this length. Each share can be seen.
fn places(shares: &[Share], length: f64) -> impl Iterator<Item = (&Share, f64, f64)> {
    const LEAST: f64 = 2.0;
    let free = (length - LEAST * present(shares).count() as f64).max(0.0);
    let mut end = 0.0;
    present(shares).map(move |share| {
        let long = LEAST + free * (share.size / sum(shares));
        end += long;
        (share, end - long, long)
    })
}

/// The shares of something as a text: `Values: 12 in slices, 3 leased`.
pub fn list_text(of: &str, shares: &[Share]) -> String {
    let list: Vec<String> = present(shares)
        .map(|share| format!("{} {}", group_digits(share.size.round() as i64), share.name))
        .collect();
    format!("{of}: {}", if list.is_empty() { "none".into() } else { list.join(", ") })
}

fn present(shares: &[Share]) -> impl Iterator<Item = &Share> {
    shares.iter().filter(|share| share.size > 0.0 && share.size.is_finite())
}

fn sum(shares: &[Share]) -> f64 {
    present(shares).map(|share| share.size).sum()
}

fn drawing(class: &str, title: &str, [width, height]: [f64; 2], content: Markup) -> Markup {
    html! {
        svg class=(class) role="img" aria-label=(title) viewBox={ "0 0 " (width) " " (height) }
            preserveAspectRatio="none" {
            title { (title) }
            (content)
        }
    }
}

/// The line below a drawing.
fn base([width, height]: [f64; 2]) -> Markup {
    html! { path.base d=(format_args!("M0 {:.1}H{width:.1}", height - 0.5)) {} }
}

fn rectangle(class: &str, place: [f64; 4]) -> Markup {
    let [x, y, width, height] = place.map(|number| format!("{number:.1}"));
    html! { rect class=(class) x=(x) y=(y) width=(width) height=(height) {} }
}
