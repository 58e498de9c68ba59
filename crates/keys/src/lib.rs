//! Keys and certificates in PEM, as Go's `crypto` packages read and write them.
//!
//! Both template languages follow programs written in Go: sprig creates keys and certificates,
//! spiff++ reads and checks them, too. The common parts are here. Error texts that differ between
//! the languages are in their crates.
//!
//! * [`pem_block`], [`to_pem`]: reading and writing of the PEM text around a key.
//! * [`PrivateKey`], [`PublicKey`], [`Certificate`]: reading, without any randomness. The code is
//!   pure Rust, except where an ECDSA public key has to be derived.
//! * [`PublicKey::verifies`], [`verify_chain`]: checks of RSA signatures and of certificate chains,
//!   in pure Rust.
//! * [`SigningKey`], [`TbsCertificate`]: new keys and certificates, by a library in C (`aws-lc`)
//!   that draws its own randomness.
//! * [`new_dsa_key`]: a new DSA key from random bytes of the caller.

mod block;
mod certificate;
mod der;
mod dsa;
mod error;
mod private_key;
mod public_key;
mod signing;
mod tbs;
mod usage;
mod verify;

pub use block::{pem_block, pem_blocks, to_pem};
pub use certificate::Certificate;
pub use dsa::{DSA_RANDOM_BYTES, new_dsa_key};
pub use error::KeyError;
pub use pem::Pem;
pub use private_key::PrivateKey;
pub use public_key::PublicKey;
pub use signing::{Algorithm, SigningKey};
pub use tbs::{Issuer, Subject, TbsCertificate};
pub use usage::{ExtendedKeyUsage, KeyUsage};
pub use verify::{Hash, Padding, RunningHash, verify_chain};
