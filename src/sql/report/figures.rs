//! Numbers as people read them.

use std::fmt::Display;

/// A whole number with a comma between each three digits: `-1,234,567`.
pub fn group_digits(number: impl Display) -> String {
    let mut text = number.to_string();
    let first_digit = usize::from(text.starts_with('-'));
    let mut at = text.len();
    while at > first_digit + 3 {
        at -= 3;
        text.insert(at, ',');
    }
    text
}

/// A number with three significant digits: `12.3 k`, `0.25`, `7`. A number that is not finite is
/// `?`.
pub fn short(number: f64) -> String {
    const UNITS: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];
    if !number.is_finite() {
        return "?".into();
    }
    // A number that would be rounded to 1000 has the next unit.
    let mut scales = UNITS.into_iter().zip(0..).map(|(unit, power)| (unit, 1000_f64.powi(power)));
    let fitting = scales.find(|(_, scale)| number.abs() < 999.5 * scale);
    let Some((unit, scale)) = fitting else { return format!("{number:.1e}") };
    let decimals = match number.abs() / scale {
        _ if scale == 1.0 && number.fract() == 0.0 => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{:.decimals$}{unit}", number / scale)
}

/// A length of time, in the largest unit of which there are at least 1.5: `90 s` is `2 min`. A
/// negative length counts as none.
pub fn duration(seconds: f64) -> String {
    const YEAR: f64 = 365.25 * 86_400.0;
    const UNITS: [(&str, f64); 6] = [
        ("years", YEAR),
        ("days", 86_400.0),
        ("h", 3600.0),
        ("min", 60.0),
        ("s", 1.0),
        ("ms", 0.001),
    ];
    if seconds >= 1000.0 * YEAR {
        return "> 1,000 years".into();
    }
    let (name, unit) =
        UNITS.into_iter().find(|(_, unit)| seconds >= 1.5 * unit).unwrap_or(UNITS[5]);
    let number = (seconds / unit).max(0.0);
    let decimals = usize::from(unit <= 1.0 && number < 10.0);
    format!("{number:.decimals$} {name}")
}

/// A part of a whole: `83.2 %`. Never `0 %` of something and never `100 %` of less than all.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent {
        _ if percent.is_nan() => "?".into(),
        ..=0.0 => "0 %".into(),
        ..0.05 => "< 0.1 %".into(),
        99.95..100.0 => "> 99.9 %".into(),
        100.0.. => "100 %".into(),
        _ => format!("{percent:.1} %"),
    }
}
