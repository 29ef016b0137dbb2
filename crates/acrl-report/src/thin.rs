//! Fewer points that look the same.

/// Which of the points to keep, at most `most` and in order, so that the curve through them looks like the whole one:
/// the largest triangle in each of equal buckets (Steinarsson, 2013). The first and the last are always kept if `most`
/// is at least 2, and of a bucket with a gap (a number that is not finite) the gap.
pub(crate) fn thin(x: &[f64], y: &[f64], most: usize) -> Vec<usize> {
    let count = x.len().min(y.len());
    if count <= most {
        return (0..count).collect();
    }
    if most < 3 {
        return [0, count - 1].into_iter().take(most).collect();
    }
    // The points between the first and the last, in `most - 2` buckets.
    let edge = |bucket: usize| 1 + bucket * (count - 2) / (most - 2);
    let mut kept = Vec::with_capacity(most);
    kept.push(0);
    let mut last = 0;
    for bucket in 0..most - 2 {
        let (from, to) = (edge(bucket), edge(bucket + 1));
        let next = if bucket + 3 == most { count - 1..count } else { to..edge(bucket + 2) };
        let centre = (mean(&x[next.clone()]), mean(&y[next]));
        let area = |i: usize| {
            let (ax, ay) = (x[i] - x[last], y[i] - y[last]);
            let (bx, by) = (centre.0 - x[last], centre.1 - y[last]);
            (ax * by - ay * bx).abs()
        };
        let mut best = from;
        let mut largest = f64::NEG_INFINITY;
        for i in from..to {
            if !(x[i].is_finite() && y[i].is_finite()) {
                best = i;
                break;
            }
            // After a gap there is no triangle; then the first will do.
            let size = area(i);
            if size > largest {
                (best, largest) = (i, size);
            }
        }
        kept.push(best);
        last = best;
    }
    kept.push(count - 1);
    kept
}

/// Of what is finite.
fn mean(values: &[f64]) -> f64 {
    let finite = || values.iter().filter(|v| v.is_finite());
    finite().sum::<f64>() / finite().count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_ends_peaks_and_gaps_in_order() {
        let x: Vec<f64> = (0..10_000).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|x| (x / 700.0).sin()).collect();
        y[1234] = 9.0;
        y[7777] = -9.0;
        y[5000] = f64::NAN;
        for most in [3, 10, 500] {
            let kept = thin(&x, &y, most);
            assert_eq!(kept.len(), most);
            assert_eq!((kept[0], kept[most - 1]), (0, 9999));
            assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let kept = thin(&x, &y, 500);
        assert!([1234, 5000, 7777].iter().all(|i| kept.contains(i)));
    }

    #[test]
    fn leaves_few_points_alone() {
        assert_eq!(thin(&[1.0, 2.0, 3.0], &[0.0; 3], 3), [0, 1, 2]);
        assert_eq!(thin(&[], &[], 5), Vec::<usize>::new());
        assert_eq!(thin(&[1.0, 2.0, 3.0], &[0.0; 3], 2), [0, 2]);
        assert_eq!(thin(&[1.0, 2.0, 3.0], &[0.0; 3], 0), Vec::<usize>::new());
    }
}
