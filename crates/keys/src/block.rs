//! Reading and writing of PEM blocks.

use pem::{EncodeConfig, LineEnding, Pem};

/// Returns the first PEM block of a text. The text around it is ignored.
pub fn pem_block(text: &[u8]) -> Option<Pem> {
    pem::parse(text).ok()
}

/// Returns all PEM blocks of a text, in order; no block if one of them is malformed.
pub fn pem_blocks(text: &[u8]) -> Vec<Pem> {
    pem::parse_many(text).unwrap_or_default()
}

/// Writes DER as a PEM block with line feeds.
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(label, der), config)
}
