//! Numbers and quantities as people read them, on pages and in text.

use acrl::Direction;

/// A number with so many significant digits, in plain notation where that is readable.
pub fn number(x: f64, digits: usize) -> String {
    // Less than this is rounding.
    if x.abs() < 1e-12 {
        return "0".to_owned();
    }
    let magnitude = x.abs().log10().floor() as i32;
    if !x.is_finite() || !(-5..=9).contains(&magnitude) {
        return format!("{x:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A bound: "≥ 0.3".
pub fn bound(direction: Direction, value: f64, digits: usize) -> String {
    let sign = if direction == Direction::AtLeast { '≥' } else { '≤' };
    format!("{sign} {}", number(value, digits))
}

/// A number of things: "1 step", "2 steps".
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// 1234567 as 1,234,567.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        for (x, expected) in [
            (1.0 / 3.0, "0.3333"),
            (0.0, "0"),
            (1.0, "1"),
            (12345.6, "12346"),
            (-0.05, "-0.05"),
            (-3e-17, "0"),
            (1.5e-7, "1.500e-7"),
            (2e12, "2.000e12"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(number(x, 4), expected);
        }
    }
}
