//! Small drawings for a page, as SVG. Each has a title that says what it shows. Classes give the colours.

use crate::figures::{grouped, percent, short};
use crate::html::Html;

/// How fast something was from one moment to another. Times are in seconds before now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub since: f64,
    pub until: f64,
    pub rate: f64,
}

/// A share of a bar: its class, what it is, and how large it is.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub class: &'static str,
    pub what: &'static str,
    pub size: f64,
}

/// A column over time: what it is called, and its shares from the bottom up.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub shares: Vec<Share>,
}

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 28.0;

/// Draws rates over the last `span` seconds as steps, the largest as high as the picture. Where nothing is known, nothing
/// is drawn.
pub fn sparkline(html: &mut Html, steps: &[Step], span: f64) {
    let shown = |step: &&Step| step.until < span && !step.since.is_nan() && step.rate.is_finite();
    let most = steps.iter().filter(shown).map(|step| step.rate).fold(0.0, f64::max);
    let least = steps.iter().filter(shown).map(|step| step.rate).fold(most, f64::min);
    let last = steps.iter().rfind(shown).map_or(0.0, |step| step.rate);
    let title = format!(
        "Values per second in the last {span:.0} s: from {} to {}, lately {}",
        short(least),
        short(most),
        short(last)
    );
    let x = |ago: f64| WIDTH * (1.0 - (ago / span).clamp(0.0, 1.0));
    let y = |rate: f64| HEIGHT - 1.0 - (HEIGHT - 3.0) * if most > 0.0 { rate / most } else { 0.0 };
    let (mut line, mut begin, mut end) = (String::new(), WIDTH, 0.0);
    for step in steps.iter().filter(shown) {
        let pen = if line.is_empty() { 'M' } else { 'L' };
        let (from, to, height) = (x(step.since), x(step.until), y(step.rate));
        line += &format!("{pen}{from:.1} {height:.1}H{to:.1}");
        (begin, end) = (from.min(begin), to.max(end));
    }
    let area = format!("{line}V{:.1}H{begin:.1}Z", HEIGHT - 1.0);
    drawing(html, "spark", &title, WIDTH, HEIGHT, |html| {
        let base = format!("M0 {0:.1}H{WIDTH:.1}", HEIGHT - 0.5);
        html.line("path", &[("class", "base"), ("d", &base)], "");
        if end > begin {
            html.line("path", &[("class", "area"), ("d", &area)], "");
            html.line("path", &[("class", "line"), ("d", &line)], "");
        }
    });
}

/// Draws a bar whose shares lie side by side and make the whole. Each that is there can be seen.
pub fn bar(html: &mut Html, of: &str, shares: &[Share]) {
    const BAR: f64 = 10.0;
    const LEAST: f64 = 2.0;
    let there: Vec<Share> = shares.iter().copied().filter(is_there).collect();
    let whole: f64 = there.iter().map(|share| share.size).sum();
    let named =
        |share: &Share| format!("{} {}", grouped(&format!("{:.0}", share.size)), share.what);
    let title = match there.is_empty() {
        true => format!("{of}: none"),
        false => format!("{of}: {}", there.iter().map(named).collect::<Vec<_>>().join(", ")),
    };
    let width = |share: &Share| LEAST + (WIDTH - LEAST * there.len() as f64) * (share.size / whole);
    drawing(html, "bar", &title, WIDTH, BAR, |html| {
        rectangle(html, "rest", [0.0, 0.0, WIDTH, BAR]);
        let mut x = 0.0;
        for share in &there {
            rectangle(html, share.class, [x, 0.0, width(share), BAR]);
            x += width(share);
        }
    });
}

/// Draws how much of something is used, from 0 to 1.
pub fn gauge(html: &mut Html, of: &str, class: &'static str, fraction: f64) {
    const BAR: f64 = 6.0;
    let title = format!("{of}: {}", percent(fraction));
    let part = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
    drawing(html, "bar", &title, WIDTH, BAR, |html| {
        rectangle(html, "rest", [0.0, 0.0, WIDTH, BAR]);
        if part > 0.0 {
            rectangle(html, class, [0.0, 0.0, (WIDTH * part).max(1.0), BAR]);
        }
    });
}

/// Draws columns side by side, the highest as high as the picture. Each says by itself what it is.
pub fn columns(html: &mut Html, title: &str, columns: &[Column]) {
    const SIZE: (f64, f64) = (720.0, 96.0);
    let sum = |column: &Column| {
        column.shares.iter().filter(|share| is_there(share)).map(|share| share.size).sum::<f64>()
    };
    let most = columns.iter().map(sum).fold(0.0, f64::max);
    let step = SIZE.0 / columns.len().max(1) as f64;
    drawing(html, "columns", title, SIZE.0, SIZE.1, |html| {
        for (at, column) in columns.iter().enumerate() {
            let mut y = SIZE.1 - 1.0;
            let there = column.shares.iter().filter(|share| is_there(share));
            let said = there
                .clone()
                .map(|share| format!("{} {}", grouped(&format!("{:.0}", share.size)), share.what));
            let said = match said.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => format!("{}: none", column.name),
                said => format!("{}: {said}", column.name),
            };
            html.element("g", &[], |html| {
                html.line("title", &[], &said);
                for share in there {
                    let height = ((SIZE.1 - 2.0) * (share.size / most)).max(1.5).min(y);
                    y -= height;
                    let left = step * at as f64;
                    rectangle(html, share.class, [left, y, (step - 1.5).max(1.0), height]);
                }
            });
        }
        let base = format!("M0 {0:.1}H{1:.1}", SIZE.1 - 0.5, SIZE.0);
        html.line("path", &[("class", "base"), ("d", &base)], "");
    });
}

fn is_there(share: &Share) -> bool {
    share.size > 0.0 && share.size.is_finite()
}

fn drawing(
    html: &mut Html,
    class: &'static str,
    title: &str,
    width: f64,
    height: f64,
    content: impl FnOnce(&mut Html),
) {
    let view = format!("0 0 {width:.0} {height:.0}");
    let attributes = [
        ("class", class),
        ("role", "img"),
        ("aria-label", title),
        ("viewBox", &view),
        ("preserveAspectRatio", "none"),
    ];
    html.element("svg", &attributes, |html| {
        html.line("title", &[], title);
        content(html);
    });
}

fn rectangle(html: &mut Html, class: &'static str, [x, y, width, height]: [f64; 4]) {
    let number = |number: f64| format!("{number:.1}");
    let (x, y, width, height) = (number(x), number(y), number(width), number(height));
    let attributes =
        [("class", class), ("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)];
    html.line("rect", &attributes, "");
}
