//! Addresses of the public internet (RFC 6890).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reports whether an address belongs to the public internet (RFC 6890): not to this machine, a
/// private network, or a network for special uses.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_protocol = first == 192 && second == 0 && third == 0;
    let is_benchmark = first == 198 && (18..20).contains(&second);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_protocol
        || is_benchmark
        || first == 0
        || first >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, ..] = segments;
    let is_global = (0x2000..0x4000).contains(&first);
    let is_documentation = first == 0x2001 && second == 0xdb8;
    // Some IPv6 addresses embed an IPv4 address: check that one (6to4), or refuse them (Teredo).
    let embedded = Ipv4Addr::from((u32::from(segments[1]) << 16) | u32::from(segments[2]));
    let leads_inside = (first == 0x2002 && !is_public_v4(embedded)) || (first == 0x2001 && second == 0);
    // Prefix of translators to IPv4, 64:ff9b::/96.
    let is_translated = first == 0x64 && second == 0xff9b;
    let translated = Ipv4Addr::from((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    (is_global && !is_documentation && !leads_inside) || (is_translated && is_public_v4(translated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_addresses() {
        for text in
            ["8.8.8.8", "100.128.0.1", "198.20.0.1", "2606:4700::1", "64:ff9b::808:808", "2002:808:808::1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "10.1.2.3",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:0:1::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }
}
