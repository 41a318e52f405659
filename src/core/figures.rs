//! Numbers as people read them.

/// With a comma between each three digits: `-1,234,567`. Takes a number in decimal digits.
pub fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// With three digits that matter: `12.3 k`, `0.25`, `7`. What is not a finite number: `?`.
pub fn short(number: f64) -> String {
    const UNITS: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];
    if !number.is_finite() {
        return "?".into();
    }
    if number.abs() >= 999.5e18 {
        return format!("{number:.1e}");
    }
    let (mut scaled, mut unit) = (number.abs(), 0);
    // What would be rounded to 1000 has the next unit.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        (scaled, unit) = (scaled / 1000.0, unit + 1);
    }
    let decimals = match scaled {
        _ if unit == 0 && scaled.fract() == 0.0 => 0,
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{scaled:.decimals$}{}", UNITS[unit])
}

/// A length of time, in its largest unit: `90 s` is `2 min`. Negative ones count as none.
pub fn duration(seconds: f64) -> String {
    // Each unit with its length in seconds, and the length up to which it is used.
    const UNITS: [(&str, f64, f64); 6] = [
        ("ms", 0.001, 1.0),
        ("s", 1.0, 90.0),
        ("min", 60.0, 90.0 * 60.0),
        ("h", 3600.0, 48.0 * 3600.0),
        ("days", 86_400.0, 730.0 * 86_400.0),
        ("years", 365.25 * 86_400.0, 1000.0 * 365.25 * 86_400.0),
    ];
    if seconds.is_nan() {
        return "?".into();
    }
    let seconds = seconds.max(0.0);
    let Some((name, unit, _)) = UNITS.iter().find(|(.., until)| seconds < *until) else {
        return "> 1,000 years".into();
    };
    let number = seconds / unit;
    match (*name, number) {
        ("ms", ..1.0) => format!("{number:.2} ms"),
        ("ms", ..10.0) => format!("{number:.1} ms"),
        ("s", ..10.0) => format!("{number:.1} s"),
        _ => format!("{number:.0} {name}"),
    }
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
