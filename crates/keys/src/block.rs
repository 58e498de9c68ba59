//! PEM.

use pem::{EncodeConfig, LineEnding, Pem};

/// The first PEM block of a text; what is around it does not matter.
pub fn pem_block(text: &[u8]) -> Option<Pem> {
    pem::parse(text).ok()
}

/// DER as a PEM block, its lines ended by a line feed.
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(label, der), config)
}
