//! Data numbers (`blueprints.md` 5.2): a `float64` in type, exact when integral.

use std::cmp::Ordering;

/// A number of the *data numbers* mode.
#[derive(Clone, Copy, Debug)]
pub enum DataNumber {
    /// Written as an integer that fits `i64`.
    Int(i64),
    /// Written as an integer above `i64::MAX` that fits `u64`.
    Uint(u64),
    Float(f64),
}

const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

impl DataNumber {
    /// Creates a data number from an integer, if it fits `i64` or `u64`.
    pub fn from_integer(value: i128) -> Option<DataNumber> {
        let signed = i64::try_from(value).map(DataNumber::Int);
        signed.or_else(|_| u64::try_from(value).map(DataNumber::Uint)).ok()
    }

    pub fn as_f64(self) -> f64 {
        match self {
            DataNumber::Int(i) => i as f64,
            DataNumber::Uint(u) => u as f64,
            DataNumber::Float(f) => f,
        }
    }

    /// Returns the integer value, if there is one from -2^63 to 2^64-1.
    pub fn integral(self) -> Option<i128> {
        match self {
            DataNumber::Int(i) => Some(i128::from(i)),
            DataNumber::Uint(u) => Some(i128::from(u)),
            DataNumber::Float(f) => {
                let fits = f.fract() == 0.0 && (-TWO_POW_63..TWO_POW_64).contains(&f);
                fits.then_some(f as i128)
            }
        }
    }

    /// Compares by value, exactly between integral numbers; `None` with NaN.
    pub fn compare(self, other: DataNumber) -> Option<Ordering> {
        match (self.integral(), other.integral()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_means_an_integer_of_64_bits() {
        assert_eq!(DataNumber::Float(3.0).integral(), Some(3));
        assert_eq!(DataNumber::Float(1e6).integral(), Some(1_000_000));
        assert_eq!(DataNumber::Float(0.5).integral(), None);
        assert_eq!(DataNumber::Float(TWO_POW_64).integral(), None);
        assert_eq!(DataNumber::Float(f64::NAN).integral(), None);
        assert_eq!(DataNumber::Uint(u64::MAX).integral(), Some(i128::from(u64::MAX)));
    }

    #[test]
    fn comparison_is_exact_above_the_float_range() {
        let near = DataNumber::Int((1 << 53) + 1);
        assert_eq!(near.compare(DataNumber::Int(1 << 53)), Some(Ordering::Greater));
        assert_eq!(DataNumber::Int(3).compare(DataNumber::Float(3.0)), Some(Ordering::Equal));
        assert_eq!(DataNumber::Float(f64::NAN).compare(DataNumber::Int(0)), None);
    }
}
