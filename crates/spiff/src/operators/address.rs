//! IP addresses and networks as strings (`spiff.md` 7.3).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::issue::Issue;

/// An address as a number, with its bits (32 or 128) because IPv4 and IPv6 have different ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    number: u128,
    bits: u32,
}

/// A network prefix. `address` may be any address of the network, not only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: Address,
    pub(crate) prefix: u32,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let address = match text.parse().ok()? {
            IpAddr::V4(address) => Self::v4(address),
            // As in Go, `::ffff:1.2.3.4` is the IPv4 address 1.2.3.4.
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => Self::v4(address),
                None => Self { number: address.to_bits(), bits: 128 },
            },
        };
        Some(address)
    }

    fn v4(address: Ipv4Addr) -> Self {
        Self { number: u128::from(address.to_bits()), bits: 32 }
    }

    fn last(self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// Returns the address `offset` further, or `None` beyond the range **[D18]**.
    pub(crate) fn plus(self, offset: i128) -> Option<Self> {
        let number = self.number.checked_add_signed(offset).filter(|number| *number <= self.last())?;
        Some(Self { number, ..self })
    }

    /// Returns the number of addresses from `other` to this one, in 64 bits.
    pub(crate) fn distance(self, other: Self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "64 bits that wrap, as in spiff++")]
        let difference = self.number.wrapping_sub(other.number) as i64;
        difference
    }

    pub(crate) fn is_same_kind(self, other: Self) -> bool {
        self.bits == other.bits
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.number) {
            Ok(number) if self.bits == 32 => Ipv4Addr::from_bits(number).fmt(formatter),
            _ => Ipv6Addr::from_bits(self.number).fmt(formatter),
        }
    }
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address = Address::parse(address)?;
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= address.bits)?;
        Some(Self { address, prefix })
    }

    /// Returns the number of addresses of the network minus one.
    fn host_mask(self) -> u128 {
        self.address.last().checked_shr(self.prefix).unwrap_or(0)
    }

    pub(crate) fn first(self) -> Address {
        Address { number: self.address.number & !self.host_mask(), ..self.address }
    }

    pub(crate) fn last(self) -> Address {
        Address { number: self.address.number | self.host_mask(), ..self.address }
    }

    /// Returns the number of addresses; `None` if it needs more than 63 bits.
    pub(crate) fn size(self) -> Option<i64> {
        i64::try_from(self.host_mask()).ok()?.checked_add(1)
    }

    pub(crate) fn contains(self, address: Address) -> bool {
        address.is_same_kind(self.address) && (self.first()..=self.last()).contains(&address)
    }

    /// Returns the same prefix with the address `offset` further, within the network.
    pub(crate) fn plus(self, offset: i128) -> Result<Self, Issue> {
        let moved = self.address.plus(offset).filter(|address| self.contains(*address));
        let address = moved.ok_or("resulting ip address not in CIDR range")?;
        Ok(Self { address, ..self })
    }

    /// Returns the network of the same size that is `count` networks further.
    pub(crate) fn times(self, count: i64) -> Result<Self, Issue> {
        let beyond = || Issue::new("resulting ip address not in range");
        let size = i128::from(self.size().ok_or_else(beyond)?);
        let address = self.first().plus(size * i128::from(count)).ok_or_else(beyond)?;
        Ok(Self { address, ..self })
    }

    /// Returns the first of the largest networks of which at least `count` fit into this one.
    pub(crate) fn split(self, count: i64) -> Result<Self, Issue> {
        let Some(last) = u64::try_from(count).ok().and_then(|count| count.checked_sub(1)) else {
            return Err("IP address division requires a positive integer argument".into());
        };
        let prefix = self.prefix + (u64::BITS - last.leading_zeros());
        if prefix > self.address.bits {
            return Err("divisor too large for CIDR network size".into());
        }
        Ok(Self { address: self.first(), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}
