//! Two kinds of pictures: horizontal bars, and lines. Each is readable on white and on black: it has no
//! background, and its text is in a grey between both.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::results::Stat;

const GREY: RGBColor = RGBColor(115, 123, 133);
const FONT: &str = "Helvetica, Arial, sans-serif";
const WIDTH: u32 = 820;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// The scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Log,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(1e-3).log10(),
        }
    }

    /// An axis that holds `values`.
    fn axis(self, values: &[f64]) -> Axis {
        let most = values.iter().copied().fold(1e-3, f64::max);
        match self {
            Scale::Linear => {
                let rough = most / 5.0;
                let unit = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit);
                let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
                let ticks = (0..).map(|n| f64::from(n) * step).take_while(|at| *at <= most * 1.001);
                let ticks = ticks.map(|at| (at, short(at))).collect();
                Axis { low: 0.0, high: most * 1.02, ticks }
            }
            Scale::Log => {
                let above = values.iter().copied().filter(|value| *value > 0.0);
                let low = above.fold(most, f64::min).log10().floor();
                let high = (most.log10() + 0.02).max(low + 1.0);
                let ticks = (0..).map(|n| low + f64::from(n)).take_while(|at| *at <= high);
                let ticks = ticks.map(|at| (at, short(10f64.powf(at)))).collect();
                Axis { low, high, ticks }
            }
        }
    }
}

/// An axis with its ticks and their labels.
#[derive(Clone)]
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Names at equal distances.
    fn of_names(names: &[String]) -> Axis {
        let ticks = names.iter().enumerate().map(|(n, name)| (n as f64, name.clone())).collect();
        Axis { low: -0.15, high: names.len() as f64 - 0.9, ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.low) / (self.high - self.low);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| at == value);
        tick.map(|(_, name)| name.clone()).unwrap_or_default()
    }
}

/// A number for people: three significant digits, with separated thousands.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 999_500.0 {
        format!("{} M", trim(value / 1e6))
    } else if size >= 9_995.0 {
        format!("{} k", trim(value / 1e3))
    } else {
        trim(value)
    }
}

fn trim(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 99.95 => return format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" || text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

fn style<'a>(size: u32, colour: RGBColor, across: HPos) -> TextStyle<'a> {
    (FONT, size).into_font().color(&colour).pos(Pos::new(across, VPos::Center))
}

fn words(area: &Area, text: &str, at: (i32, i32), style: &TextStyle) -> Drawn {
    Ok(area.draw_text(text, style, at)?)
}

fn titles(area: &Area, title: &str, unit: &str) -> Drawn {
    words(area, title, (12, 18), &style(19, GREY, HPos::Left))?;
    words(area, unit, (12, 40), &style(14, GREY, HPos::Left))
}

/// A bar, or a line's point, with its quartiles.
pub struct Bar {
    pub label: String,
    pub stat: Stat,
    pub colour: [u8; 3],
}

fn colour([red, green, blue]: [u8; 3]) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Bars, each with its value at its end and its quartiles as a whisker.
pub fn bars(file: &Path, title: &str, unit: &str, scale: Scale, bars: &[Bar]) -> Drawn {
    const ROW: u32 = 30;
    let height = 60 + ROW * bars.len() as u32 + 36;
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    titles(&area, title, unit)?;
    let values: Vec<f64> = bars.iter().flat_map(|bar| [bar.stat.median, bar.stat.high]).collect();
    let axis = scale.axis(&values);
    let low = axis.low;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(56)
        .margin_right(90)
        .x_label_area_size(36)
        .y_label_area_size(210)
        .build_cartesian_2d(axis, 0.0..bars.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.3))
        .axis_style(GREY.mix(0.6))
        .x_label_style(style(13, GREY, HPos::Center))
        .draw()?;
    for (row, bar) in bars.iter().enumerate() {
        let middle = (bars.len() - row) as f64 - 0.5;
        let end = scale.place(bar.stat.median).max(low);
        let fill = colour(bar.colour).filled();
        chart.draw_series([Rectangle::new([(low, middle - 0.34), (end, middle + 0.34)], fill)])?;
        let ends = [bar.stat.low, bar.stat.high].map(|value| scale.place(value).max(low));
        chart
            .draw_series([PathElement::new(ends.map(|end| (end, middle)), GREY.stroke_width(2))])?;
        let (_, y) = chart.backend_coord(&(low, middle));
        words(&area, &bar.label, (202, y), &style(14, GREY, HPos::Right))?;
        let (x, _) = chart.backend_coord(&(end.max(ends[1]), middle));
        words(&area, &short(bar.stat.median), (x + 8, y), &style(14, GREY, HPos::Left))?;
    }
    Ok(area.present()?)
}

/// A line: a value, if there is one, at each place of the horizontal axis.
pub struct Line {
    pub label: String,
    pub stats: Vec<Option<Stat>>,
    pub colour: [u8; 3],
}

/// Lines over named places, each with its name at its end.
pub fn lines(
    file: &Path,
    (title, unit, across): (&str, &str, &str),
    scale: Scale,
    places: &[String],
    lines: &[Line],
) -> Drawn {
    let area = SVGBackend::new(file, (WIDTH, 460)).into_drawing_area();
    titles(&area, title, unit)?;
    let stats = || lines.iter().flat_map(|line| line.stats.iter().flatten());
    let values: Vec<f64> = stats().map(|stat| stat.median).collect();
    let axis = scale.axis(&values);
    let low = axis.low;
    let mut chart = ChartBuilder::on(&area)
        .margin_top(60)
        .margin_right(190)
        .x_label_area_size(52)
        .y_label_area_size(62)
        .build_cartesian_2d(Axis::of_names(places), axis)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GREY.mix(0.3))
        .axis_style(GREY.mix(0.6))
        .label_style(style(13, GREY, HPos::Center))
        .y_label_style(style(13, GREY, HPos::Right))
        .x_desc(across)
        .axis_desc_style(style(14, GREY, HPos::Center))
        .draw()?;
    let mut ends = Vec::new();
    for line in lines {
        let ink = colour(line.colour);
        let point = |(n, stat): (usize, &Option<Stat>)| {
            stat.map(|stat| (n as f64, scale.place(stat.median).max(low)))
        };
        let points: Vec<_> = line.stats.iter().enumerate().filter_map(point).collect();
        chart.draw_series(LineSeries::new(points.clone(), ink.stroke_width(2)))?;
        chart.draw_series(points.iter().map(|at| Circle::new(*at, 4, ink.filled())))?;
        let end = points.last().map(|at| chart.backend_coord(at));
        ends.extend(end.map(|(x, y)| (x, y, line)));
    }
    for (x, y, line) in spread(ends) {
        words(&area, &line.label, (x + 14, y), &style(14, colour(line.colour), HPos::Left))?;
    }
    Ok(area.present()?)
}

/// Moves names that would overlap down.
fn spread(mut ends: Vec<(i32, i32, &Line)>) -> Vec<(i32, i32, &Line)> {
    const ROW: i32 = 17;
    ends.sort_by_key(|(_, y, _)| *y);
    // Names at the bottom have no room below them: half of the shift goes up instead.
    for n in 1..ends.len() {
        let gap = ROW - (ends[n].1 - ends[n - 1].1);
        if gap > 0 {
            ends[n].1 += gap;
        }
    }
    let floor = 400;
    for n in (0..ends.len()).rev() {
        let below = ends.get(n + 1).map_or(floor, |next| next.1 - ROW);
        ends[n].1 = ends[n].1.min(below);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.05, 2.345678, 42.0, 137.4, 12_345.0, 8_000_000.0].map(short);
        assert_eq!(shown, ["0", "0.05", "2.35", "42", "137", "12.3 k", "8 M"]);
    }
}
