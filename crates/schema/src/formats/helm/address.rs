//! IP addresses, with the messages of Go's `net/netip`.

use groundwork_go::text::quote;

use super::{Checked, integer, no};

pub(super) fn ipv4(text: &str) -> Checked {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return no("expected four decimals");
    }
    groups.into_iter().try_for_each(|group| {
        if group.len() > 1 && group.starts_with('0') {
            return no("leading zeros");
        }
        match integer(group.as_bytes())? {
            0..=255 => Ok(()),
            _ => no("decimal must be between 0 and 255"),
        }
    })
}

pub(super) fn ipv6(text: &str) -> Checked {
    if !text.contains(':') {
        return no("missing colon");
    }
    match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => last_fields(text, text)?,
        Some(b'%') => return complaint(text, "missing IPv6 address", ""),
        _ => {
            let (address, zone) =
                text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
            if zone == Some("") {
                return complaint(text, "zone must be a non-empty string", "");
            }
            groups(text, address)?;
        }
    }
    if text.contains('%') { no("zone id is not a part of ipv6 address") } else { Ok(()) }
}

fn complaint(text: &str, problem: &str, at: &str) -> Checked {
    let place = if at.is_empty() { String::new() } else { format!(" (at {})", quote(at.as_bytes())) };
    no(format!("ParseAddr({}): {problem}{place}", quote(text.as_bytes())))
}

/// Number of groups in an IPv6 address.
const ALL: usize = 8;

/// The groups of an address that have been read, and the rest of the text.
struct Groups<'t> {
    text: &'t str,
    rest: &'t str,
    count: usize,
    has_gap: bool,
}

/// Checks eight groups of digits, some of which may be left out once.
fn groups(text: &str, address: &str) -> Checked {
    let mut groups = Groups { text, rest: address, count: 0, has_gap: false };
    if let Some(behind) = address.strip_prefix("::") {
        if behind.is_empty() {
            return Ok(());
        }
        groups = Groups { rest: behind, has_gap: true, ..groups };
    }
    while groups.count < ALL && groups.next()? {}
    let Groups { rest, count, has_gap, .. } = groups;
    match (rest, count < ALL) {
        ("", true) if !has_gap => complaint(text, "address string too short", ""),
        ("", false) if has_gap => complaint(text, "the :: must expand to at least one field of zeros", ""),
        ("", _) => Ok(()),
        _ => complaint(text, "trailing garbage after address", rest),
    }
}

impl Groups<'_> {
    fn complain<T>(&self, problem: &str) -> Result<T, String> {
        Err(complaint(self.text, problem, self.rest).err().unwrap_or_default())
    }

    /// Reads a group and the colon behind it. Returns whether another group may follow.
    fn next(&mut self) -> Result<bool, String> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return self.complain("each group must have 4 or less digits");
        }
        if digits == 0 {
            return self.complain("each colon-separated field must have at least one digit");
        }
        if self.rest[digits..].starts_with('.') {
            if !self.has_gap && self.count != ALL - 2 {
                return self.complain("embedded IPv4 address must replace the final 2 fields of the address");
            }
            if self.count + 2 > ALL {
                return self
                    .complain("too many hex fields to fit an embedded IPv4 at the end of the address");
            }
            last_fields(self.text, self.rest)?;
            (self.count, self.rest) = (self.count + 2, "");
            return Ok(false);
        }
        self.count += 1;
        self.rest = &self.rest[digits..];
        if self.rest.is_empty() {
            return Ok(false);
        }
        let Some(behind) = self.rest.strip_prefix(':') else {
            return self.complain("unexpected character, want colon");
        };
        if behind.is_empty() {
            return self.complain("colon must be followed by more characters");
        }
        self.rest = behind;
        if let Some(behind) = self.rest.strip_prefix(':') {
            if self.has_gap {
                return self.complain("multiple :: in address");
            }
            (self.has_gap, self.rest) = (true, behind);
        }
        Ok(!self.rest.is_empty())
    }
}

/// Checks an IPv4 address at the end of an IPv6 address.
fn last_fields(text: &str, address: &str) -> Checked {
    let (mut value, mut digits, mut dots) = (0_u32, 0, 0);
    for (at, byte) in address.bytes().enumerate() {
        let rest = address.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return complaint(text, "IPv4 field has octet with leading zero", "");
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return complaint(text, "IPv4 field has value >255", "");
                }
            }
            b'.' if digits == 0 || at + 1 == address.len() => {
                return complaint(text, "IPv4 field must have at least one digit", rest);
            }
            b'.' if dots == 3 => return complaint(text, "IPv4 address too long", ""),
            b'.' => (value, digits, dots) = (0, 0, dots + 1),
            _ => return complaint(text, "unexpected character", rest),
        }
    }
    if dots < 3 { complaint(text, "IPv4 address too short", "") } else { Ok(()) }
}
