//! Integers of any size.

use std::cmp::Ordering;
use std::rc::Rc;

use num_bigint::BigInt;

use crate::fault::Fault;

/// Integer. One that fits into 64 bits is always `Small`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Int {
    Small(i64),
    Big(Rc<BigInt>),
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        Self::Small(value)
    }
}

impl From<usize> for Int {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or_else(|_| BigInt::from(value).into(), Self::Small)
    }
}

impl From<BigInt> for Int {
    fn from(value: BigInt) -> Self {
        i64::try_from(&value).map_or_else(|_| Self::Big(Rc::new(value)), Self::Small)
    }
}

impl Int {
    pub(crate) fn small(&self) -> Option<i64> {
        match self {
            Self::Small(value) => Some(*value),
            Self::Big(_) => None,
        }
    }

    pub(crate) fn big(&self) -> BigInt {
        match self {
            Self::Small(value) => BigInt::from(*value),
            Self::Big(value) => (**value).clone(),
        }
    }

    /// Returns the number of its 64-bit words, by which the cost of operations grows.
    pub(crate) fn words(&self) -> usize {
        match self {
            Self::Small(_) => 1,
            Self::Big(value) => usize::try_from(value.bits() / 64).unwrap_or(usize::MAX).saturating_add(1),
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::Small(value) => *value < 0,
            Self::Big(value) => value.sign() == num_bigint::Sign::Minus,
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Small(0))
    }

    fn combine(
        &self,
        other: &Self,
        small: fn(i64, i64) -> Option<i64>,
        big: fn(BigInt, BigInt) -> BigInt,
    ) -> Self {
        if let (Self::Small(left), Self::Small(right)) = (self, other)
            && let Some(value) = small(*left, *right)
        {
            return Self::Small(value);
        }
        big(self.big(), other.big()).into()
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        self.combine(other, i64::checked_add, |left, right| left + right)
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        self.combine(other, i64::checked_sub, |left, right| left - right)
    }

    pub(crate) fn multiply(&self, other: &Self) -> Self {
        self.combine(other, i64::checked_mul, |left, right| left * right)
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        self.combine(other, |left, right| Some(left & right), |left, right| left & right)
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        self.combine(other, |left, right| Some(left | right), |left, right| left | right)
    }

    pub(crate) fn xor(&self, other: &Self) -> Self {
        self.combine(other, |left, right| Some(left ^ right), |left, right| left ^ right)
    }

    /// Divides, and rounds down. The divisor is not 0.
    pub(crate) fn floor_divide(&self, other: &Self) -> Self {
        self.combine(
            other,
            |left, right| {
                let quotient = left.checked_div(right)?;
                let is_below = left % right != 0 && (left < 0) != (right < 0);
                Some(if is_below { quotient - 1 } else { quotient })
            },
            |left, right| {
                let quotient = &left / &right;
                let rest = left - &quotient * &right;
                let is_below = rest != BigInt::ZERO && (rest < BigInt::ZERO) != (right < BigInt::ZERO);
                if is_below { quotient - 1 } else { quotient }
            },
        )
    }

    /// Returns the rest of [`Self::floor_divide`], which has the sign of the divisor.
    pub(crate) fn modulo(&self, other: &Self) -> Self {
        self.combine(
            other,
            |left, right| {
                let rest = left.checked_rem(right)?;
                Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
            },
            |left, right| {
                let rest = &left % &right;
                let is_below = rest != BigInt::ZERO && (rest < BigInt::ZERO) != (right < BigInt::ZERO);
                if is_below { rest + right } else { rest }
            },
        )
    }

    pub(crate) fn shift_left(&self, count: u32) -> Self {
        (self.big() << count).into()
    }

    pub(crate) fn shift_right(&self, count: u32) -> Self {
        match self {
            Self::Small(value) => Self::Small(value >> count.min(63)),
            Self::Big(value) => (&**value >> count).into(),
        }
    }

    pub(crate) fn negate(&self) -> Self {
        Self::Small(0).subtract(self)
    }

    /// Returns the nearest float; infinite if it is out of range.
    pub(crate) fn float(&self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is meant")]
            Self::Small(value) => *value as f64,
            // The conversion by text rounds to the nearest float.
            Self::Big(value) => value.to_string().parse().unwrap_or(f64::INFINITY),
        }
    }

    /// Returns the nearest float, if it is finite.
    pub(crate) fn finite(&self) -> Result<f64, Fault> {
        // 20 words are beyond the range, and take long to convert.
        let value = if self.words() > 20 { f64::INFINITY } else { self.float() };
        if value.is_finite() { Ok(value) } else { Err(Fault::new("int too large to convert to float")) }
    }

    /// Returns the integer part of a finite float.
    pub(crate) fn truncated(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let whole = value.trunc();
        if whole.abs() < 9e18 {
            #[expect(clippy::cast_possible_truncation, reason = "the number is whole and in range")]
            return Some(Self::Small(whole as i64));
        }
        // Rust writes all digits of a float.
        BigInt::parse_bytes(format!("{whole:.0}").as_bytes(), 10).map(Self::from)
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(left), Self::Small(right)) => left.cmp(right),
            (Self::Big(left), Self::Big(right)) => left.cmp(right),
            // A number with more than 64 bits exceeds all others on its side of zero.
            (Self::Small(_), Self::Big(_)) if other.is_negative() => Ordering::Greater,
            (Self::Small(_), Self::Big(_)) => Ordering::Less,
            (Self::Big(_), Self::Small(_)) => other.compare(self).reverse(),
        }
    }

    /// Compares with a float, exactly. NaN is greater than all.
    pub(crate) fn compare_float(&self, other: f64) -> Ordering {
        if other.is_nan() || other == f64::INFINITY {
            return Ordering::Less;
        }
        let Some(whole) = Self::truncated(other) else { return Ordering::Greater };
        let fraction = 0.0_f64.partial_cmp(&(other - other.trunc())).unwrap_or(Ordering::Equal);
        self.compare(&whole).then(fraction)
    }
}

impl std::fmt::Display for Int {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Small(value) => value.fmt(f),
            Self::Big(value) => value.fmt(f),
        }
    }
}
