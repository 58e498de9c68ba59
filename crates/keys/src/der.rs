//! Reading and writing of DER.

use num_bigint::BigUint;
use x509_parser::der_parser::ber::BerObject;
use x509_parser::der_parser::parse_der;
use yasna::DERWriter;
use yasna::models::ObjectIdentifier;

/// Returns the members of a sequence that takes up all of `der`.
pub(crate) fn members(der: &[u8]) -> Option<Vec<BerObject<'_>>> {
    let (rest, sequence) = parse_der(der).ok()?;
    sequence.as_sequence().ok().filter(|_| rest.is_empty()).cloned()
}

/// Returns the members of a sequence of non-negative integers.
pub(crate) fn numbers(der: &[u8]) -> Option<Vec<BigUint>> {
    members(der)?
        .iter()
        .map(|member| member.as_biguint().ok().map(|number| BigUint::from_bytes_be(&number.to_bytes_be())))
        .collect()
}

/// Writes a sequence of non-negative integers.
pub(crate) fn write_numbers(numbers: &[&BigUint]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for number in numbers {
                writer.next().write_biguint(number);
            }
        });
    })
}

/// Writes an object identifier, given as numbers with dots.
pub(crate) fn write_oid(writer: DERWriter<'_>, id: &str) {
    let components = id.split('.').filter_map(|component| component.parse().ok()).collect();
    writer.write_oid(&ObjectIdentifier::new(components));
}

/// Writes bytes as a BIT STRING without unused bits.
pub(crate) fn write_bits(writer: DERWriter<'_>, bytes: &[u8]) {
    writer.write_bitvec_bytes(bytes, bytes.len() * 8);
}
