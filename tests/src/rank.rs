//! How well two rankings agree.

/// Spearman's rank correlation; equal values share their mean rank.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |v: &[f64]| -> Vec<f64> {
        v.iter()
            .map(|x| {
                let below = v.iter().filter(|y| *y < x).count() as f64;
                let equal = v.iter().filter(|y| *y == x).count() as f64;
                below + (equal + 1.0) / 2.0
            })
            .collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::spearman;

    #[test]
    fn spearman_knows_its_extremes() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 200.0, 3000.0]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]) - 0.8).abs() < 1e-12);
    }
}
