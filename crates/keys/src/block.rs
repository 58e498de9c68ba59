//! PEM.

use pem::{EncodeConfig, LineEnding, Pem};

/// The first PEM block of a text; what is around it does not matter.
pub fn pem_block(text: &[u8]) -> Option<Pem> {
    pem::parse(text).ok()
}

/// All PEM blocks of a text, in order; none if one of them is malformed.
pub fn pem_blocks(text: &[u8]) -> Vec<Pem> {
    pem::parse_many(text).unwrap_or_default()
}

/// DER as a PEM block, its lines ended by a line feed.
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(label, der), config)
}
