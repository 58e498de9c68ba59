//! Exact decimal numbers for float arithmetic (`gotemplate.md` 11): operands enter in their
//! shortest decimal form.

use std::cmp::Ordering;

use groundwork_go::strconv::{FloatVerb, append_float};

/// Decimals that a division keeps, as in the library that sprig uses.
const DIVISION_DECIMALS: i32 = 16;

/// The number `±digits * 10^exponent`, the digits most significant first and without leading zeros.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    pub(super) fn zero() -> Decimal {
        Decimal { negative: false, digits: Vec::new(), exponent: 0 }
    }

    /// Returns the shortest decimal form of a float; NaN and infinities have none.
    pub(super) fn from_float(f: f64) -> Option<Decimal> {
        f.is_finite().then(|| {
            let mut text = Vec::new();
            append_float(&mut text, f, FloatVerb::Exponent, None);
            Decimal::parse(&crate::text::lossy(&text))
        })
    }

    pub(super) fn from_integer(i: i128) -> Decimal {
        Decimal::parse(&i.to_string())
    }

    /// Reads a plain number with optional sign, point and exponent.
    fn parse(text: &str) -> Decimal {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(decimals.bytes()).filter(u8::is_ascii_digit).map(|b| b - b'0');
        let exponent = exponent.parse::<i32>().unwrap_or(0) - i32::try_from(decimals.len()).unwrap_or(0);
        Decimal { negative: text.starts_with('-'), digits: digits.collect(), exponent }.normal()
    }

    fn normal(mut self) -> Decimal {
        let zeros = self.digits.iter().take_while(|&&digit| digit == 0).count();
        self.digits.drain(..zeros);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        if self.digits.is_empty() { Decimal::zero() } else { self }
    }

    /// Returns the nearest float.
    pub(super) fn to_float(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}0{digits}e{}", self.exponent).parse().unwrap_or(0.0)
    }

    /// Returns the exact integer, if the number is an integer of at most 20 digits.
    pub(super) fn to_integer(&self) -> Option<i128> {
        if self.exponent < 0 || self.digits.len() as i32 + self.exponent > 20 {
            return None;
        }
        let magnitude = self.shifted(0).iter().fold(0, |value: i128, &digit| value * 10 + i128::from(digit));
        Some(if self.negative { -magnitude } else { magnitude })
    }

    pub(super) fn negated(mut self) -> Decimal {
        // Zero has no sign here, so that comparisons and sums see one zero.
        self.negative = !self.negative && !self.is_zero();
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn add(&self, other: &Decimal) -> Decimal {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other.clone() } else { self.clone() };
        }
        let exponent = self.exponent.min(other.exponent);
        let (a, b) = (self.shifted(exponent), other.shifted(exponent));
        let (negative, digits) = match (self.negative == other.negative, compare(&a, &b)) {
            (true, _) => (self.negative, add_digits(&a, &b)),
            (false, Ordering::Less) => (other.negative, subtract_digits(&b, &a)),
            (false, _) => (self.negative, subtract_digits(&a, &b)),
        };
        Decimal { negative, digits, exponent }.normal()
    }

    pub(super) fn multiply(&self, other: &Decimal) -> Decimal {
        let mut sums = vec![0u64; self.digits.len() + other.digits.len()];
        for (i, &a) in self.digits.iter().enumerate() {
            for (j, &b) in other.digits.iter().enumerate() {
                sums[i + j + 1] += u64::from(a) * u64::from(b);
            }
        }
        let mut carry = 0;
        for sum in sums.iter_mut().rev() {
            carry += *sum;
            *sum = carry % 10;
            carry /= 10;
        }
        let digits = sums.into_iter().map(|digit| digit as u8).collect();
        let negative = self.negative != other.negative;
        Decimal { negative, digits, exponent: self.exponent + other.exponent }.normal()
    }

    /// Returns the quotient with 16 decimals, rounded half away from zero, or `None` for a zero
    /// divisor.
    pub(super) fn divide(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        // Divides integers: dividend * 10^16 / divisor, on a common exponent.
        let exponent = self.exponent.min(other.exponent);
        let mut dividend = self.shifted(exponent);
        dividend.resize(dividend.len() + DIVISION_DECIMALS as usize, 0);
        let divisor = other.shifted(exponent);
        let mut quotient = Vec::with_capacity(dividend.len());
        let mut remainder: Vec<u8> = Vec::new();
        for digit in dividend {
            if !remainder.is_empty() || digit != 0 {
                remainder.push(digit);
            }
            let mut times = 0;
            while compare(&remainder, &divisor) != Ordering::Less {
                remainder = subtract_digits(&remainder, &divisor);
                times += 1;
            }
            quotient.push(times);
        }
        if compare(&add_digits(&remainder, &remainder), &divisor) != Ordering::Less {
            quotient = add_digits(&quotient, &[1]);
        }
        let negative = self.negative != other.negative;
        Some(Decimal { negative, digits: quotient, exponent: -DIVISION_DECIMALS }.normal())
    }

    /// Returns the digits of the same number on a lower exponent.
    fn shifted(&self, exponent: i32) -> Vec<u8> {
        let mut digits = self.digits.clone();
        digits.resize(digits.len() + (self.exponent - exponent).unsigned_abs() as usize, 0);
        digits
    }
}

fn significant(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    &digits[zeros..]
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (significant(a), significant(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn add_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut sum, mut carry) = (Vec::with_capacity(a.len().max(b.len()) + 1), 0);
    let (mut a, mut b) = (a.iter().rev(), b.iter().rev());
    loop {
        let (digit_a, digit_b) = (a.next(), b.next());
        if digit_a.is_none() && digit_b.is_none() && carry == 0 {
            break;
        }
        let total = digit_a.unwrap_or(&0) + digit_b.unwrap_or(&0) + carry;
        sum.push(total % 10);
        carry = total / 10;
    }
    sum.reverse();
    sum
}

/// Returns `a - b` for `a >= b`, without leading zeros.
fn subtract_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut difference, mut borrow) = (Vec::with_capacity(a.len()), 0);
    let mut b = significant(b).iter().rev();
    for &digit in a.iter().rev() {
        let taken = b.next().unwrap_or(&0) + borrow;
        borrow = u8::from(digit < taken);
        difference.push(digit + 10 * borrow - taken);
    }
    while difference.last() == Some(&0) {
        difference.pop();
    }
    difference.reverse();
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(f: f64) -> Decimal {
        Decimal::from_float(f).unwrap()
    }

    #[test]
    fn arithmetic_is_decimal() {
        assert_eq!(of(0.1).add(&of(0.2)).to_float(), 0.3);
        assert_eq!(of(1.0).add(&of(1.0).negated()).to_float(), 0.0);
        assert_eq!(of(0.5).add(&of(-2.0)).to_float(), -1.5);
        assert!(of(0.0).add(&of(0.0).negated()).to_float().is_sign_positive());
        assert_eq!(of(1.1).multiply(&of(-1.1)).to_float(), -1.21);
        assert_eq!(of(1e308).add(&of(1e-300)).to_float(), 1e308);
    }

    #[test]
    fn division_keeps_16_decimals() {
        assert_eq!(of(1.0).divide(&of(3.0)).unwrap().to_float(), 0.3333333333333333);
        assert_eq!(of(2.0).divide(&of(3.0)).unwrap().to_float(), 0.6666666666666667);
        assert_eq!(of(-7.0).divide(&of(2.0)).unwrap().to_float(), -3.5);
        assert_eq!(of(1e-20).divide(&of(1.0)).unwrap().to_float(), 0.0);
        assert!(of(1.0).divide(&of(0.0)).is_none());
    }
}
