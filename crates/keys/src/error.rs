use thiserror::Error;

/// The reason why a text is not a key or certificate, or why one cannot be created. The messages
/// are those of Go and of spiff++ (`spiff.md` 11.3), except for those of Go's DER parser, which are
/// not specified.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    #[error("invalid {0} format (expected pem block)")]
    NoBlock(&'static str),
    #[error("invalid pem block type {0:?}")]
    PrivateKeyBlock(String),
    #[error("unexpected pem block type for certificate: {0:?}")]
    CertificateBlock(String),
    #[error("failed to parse private key: malformed PKCS#1 structure")]
    MalformedPkcs1,
    #[error("failed to parse private key: its numbers have more than 16384 bits")]
    TooLong,
    #[error("failed to parse private key: the primes do not fit the modulus")]
    Primes,
    #[error("failed to parse private key: the exponents do not fit")]
    Exponents,
    #[error("failed to parse EC private key: malformed SEC 1 structure")]
    MalformedSec1,
    #[error("x509: unknown elliptic curve")]
    UnknownCurve,
    #[error("unknown type of public key")]
    UnknownPublicKey,
    #[error("failed to parse DER encoded public key: neither PKIX nor PKCS#1")]
    MalformedPublicKey,
    #[error("the private key does not contain its public key")]
    NoPublicKey,
    #[error("x509: malformed certificate")]
    MalformedCertificate,
    #[error("ssh: only P-256, P-384 and P-521 EC keys are supported")]
    SshCurve,
    #[error(
        "the key cannot sign here: it must be an RSA key of 2048 to 8192 bits, an ECDSA key on P-256, P-384 or P-521, \
         or an Ed25519 key"
    )]
    CannotSign,
    #[error("the cryptographic library reports an error: {0}")]
    Library(&'static str),
    #[error("x509: provided PrivateKey doesn't match parent's PublicKey")]
    OtherIssuer,
    #[error("x509: {0:?} cannot be encoded as an IA5String")]
    NotAscii(String),
    #[error("asn1: structure error: cannot represent time as GeneralizedTime")]
    Time,
}
