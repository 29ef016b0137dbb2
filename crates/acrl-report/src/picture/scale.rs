//! From numbers to pixels, and the round numbers in between.

use crate::Axis;

/// An axis with a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    log: bool,
    start: f64,
    end: f64,
}

impl Scale {
    /// Takes `axis.range`, or else one around `values`.
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, air: bool) -> Self {
        let usable = |v: &f64| v.is_finite() && (!axis.log || *v > 0.0);
        let bounds = values.filter(usable).fold(None, |range, v| match range {
            None => Some((v, v)),
            Some((low, high)) => Some((v.min(low), v.max(high))),
        });
        let given = axis.range.filter(|(from, to)| usable(from) && usable(to) && from != to);
        let place = |v: f64| if axis.log { v.log10() } else { v };
        let (from, to) = match (given, bounds) {
            (Some((from, to)), _) => (place(from), place(to)),
            (None, Some((low, high))) => roomy(place(low), place(high), axis.log, air),
            (None, None) => (0.0, 1.0),
        };
        Self { from, to, log: axis.log, start: 0.0, end: 1.0 }
    }

    pub(super) fn between(from: f64, to: f64) -> Self {
        Self { from, to, log: false, start: 0.0, end: 1.0 }
    }

    /// The pixels of the two ends.
    pub(super) fn on(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    /// The pixel of a number; NaN if it has none.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        if !value.is_finite() {
            return f64::NAN;
        }
        self.start + (value - self.from) / (self.to - self.from) * (self.end - self.start)
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        let share = (self.at(value) - self.start) / (self.end - self.start);
        (-1e-9..=1.0 + 1e-9).contains(&share)
    }

    /// At most `most` or so round numbers with their labels.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let (low, high) = (self.from.min(self.to), self.from.max(self.to));
        if self.log && high - low > 1.0 {
            let step = ((high - low) / most.max(1) as f64).ceil().max(1.0) as i32;
            let powers = (low.ceil() as i32..=high.floor() as i32).filter(|power| power % step == 0);
            return powers.map(|power| (10_f64.powi(power), power_label(power))).collect();
        }
        let (low, high) = if self.log { (10_f64.powf(low), 10_f64.powf(high)) } else { (low, high) };
        let step = round_step((high - low) / most.max(1) as f64);
        let largest = low.abs().max(high.abs());
        let (unit, sign) = match largest {
            v if v >= 1e7 => (1e6, "M"),
            v if v >= 1e4 => (1e3, "k"),
            _ => (1.0, ""),
        };
        let decimals = (-(step / unit).log10().floor()).clamp(0.0, 12.0) as usize;
        let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        let label = |value: f64| match value == 0.0 {
            true => "0".to_owned(),
            false => format!("{:.decimals$}{sign}", value / unit).replace('-', "−"),
        };
        (first..=last).map(|k| k as f64 * step).map(|value| (value, label(value))).collect()
    }
}

/// Some air, but what is close to 0 begins there.
fn roomy(low: f64, high: f64, log: bool, air: bool) -> (f64, f64) {
    if low == high {
        let air = if log {
            0.5
        } else if low == 0.0 {
            1.0
        } else {
            0.1 * low.abs()
        };
        return (low - air, high + air);
    }
    let air = if air { 0.06 * (high - low) } else { 0.0 };
    if !log && low >= 0.0 && low < 0.35 * high && air > 0.0 {
        (0.0, high + air)
    } else {
        (low - air, high + air)
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    if !(least.is_finite() && least > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

fn power_label(power: i32) -> String {
    match power {
        -3..=3 => format!("{}", 10_f64.powi(power)),
        _ => {
            let digits = power.to_string();
            let raised = |c: char| match c {
                '-' => '⁻',
                '1' => '¹',
                '2' => '²',
                '3' => '³',
                c => char::from_u32('⁰' as u32 + (c as u32 - '0' as u32)).unwrap_or(c),
            };
            format!("10{}", digits.chars().map(raised).collect::<String>())
        }
    }
}

/// Four digits or so, as a person would write it.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let text = match size {
        -4.0..=5.0 => format!("{value:.*}", (3.0 - size).clamp(0.0, 8.0) as usize),
        _ => return format!("{value:.2e}").replace('-', "−"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: f64, to: f64) -> Vec<String> {
        Scale::between(from, to).ticks(6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(0.0, 100_000.0), ["0", "20k", "40k", "60k", "80k", "100k"]);
        assert_eq!(labels(-0.03, 0.03), ["−0.03", "−0.02", "−0.01", "0", "0.01", "0.02", "0.03"]);
        assert_eq!(labels(0.0, 3e7), ["0", "5M", "10M", "15M", "20M", "25M", "30M"]);
        let axis = Axis { log: true, ..Axis::default() };
        let log = Scale::of(&axis, [0.0, 1e-5, 10.0].into_iter(), true);
        let labels: Vec<_> = log.ticks(10).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1", "10"]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.2, 1.0 / 3.0, 12_345.6, -2.5, 0.0, 1e-7, f64::NAN].map(number);
        assert_eq!(shown, ["0.2", "0.3333", "12346", "−2.5", "0", "1.00e−7", "–"]);
    }

    #[test]
    fn nothing_to_show_is_still_a_scale() {
        for values in [vec![], vec![f64::NAN], vec![3.0], vec![0.0]] {
            let scale = Scale::of(&Axis::default(), values.into_iter(), true).on(0.0, 100.0);
            assert!(scale.at(0.5).is_finite() && !scale.ticks(5).is_empty());
        }
    }
}
