//! The allowed uses of a certificate's key.

bitflags::bitflags! {
    /// The bits of the extension `keyUsage` (RFC 5280, 4.2.1.3). Bit 0 of the RFC is the lowest bit
    /// here.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct KeyUsage: u16 {
        const DIGITAL_SIGNATURE = 1;
        const CONTENT_COMMITMENT = 1 << 1;
        const KEY_ENCIPHERMENT = 1 << 2;
        const DATA_ENCIPHERMENT = 1 << 3;
        const KEY_AGREEMENT = 1 << 4;
        const CERT_SIGN = 1 << 5;
        const CRL_SIGN = 1 << 6;
        const ENCIPHER_ONLY = 1 << 7;
        const DECIPHER_ONLY = 1 << 8;
    }
}

/// The purposes of the extension `extKeyUsage` (RFC 5280, 4.2.1.12) that Go supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendedKeyUsage {
    Any,
    ServerAuth,
    ClientAuth,
    CodeSigning,
    EmailProtection,
    IpsecEndSystem,
    IpsecTunnel,
    IpsecUser,
    TimeStamping,
    OcspSigning,
    MicrosoftServerGatedCrypto,
    NetscapeServerGatedCrypto,
    MicrosoftCommercialCodeSigning,
    MicrosoftKernelCodeSigning,
}

impl ExtendedKeyUsage {
    /// All purposes, in the order of Go's constants.
    pub const ALL: [Self; 14] = [
        Self::Any,
        Self::ServerAuth,
        Self::ClientAuth,
        Self::CodeSigning,
        Self::EmailProtection,
        Self::IpsecEndSystem,
        Self::IpsecTunnel,
        Self::IpsecUser,
        Self::TimeStamping,
        Self::OcspSigning,
        Self::MicrosoftServerGatedCrypto,
        Self::NetscapeServerGatedCrypto,
        Self::MicrosoftCommercialCodeSigning,
        Self::MicrosoftKernelCodeSigning,
    ];

    /// Returns the object identifier.
    pub fn id(self) -> &'static str {
        match self {
            Self::Any => "2.5.29.37.0",
            Self::ServerAuth => "1.3.6.1.5.5.7.3.1",
            Self::ClientAuth => "1.3.6.1.5.5.7.3.2",
            Self::CodeSigning => "1.3.6.1.5.5.7.3.3",
            Self::EmailProtection => "1.3.6.1.5.5.7.3.4",
            Self::IpsecEndSystem => "1.3.6.1.5.5.7.3.5",
            Self::IpsecTunnel => "1.3.6.1.5.5.7.3.6",
            Self::IpsecUser => "1.3.6.1.5.5.7.3.7",
            Self::TimeStamping => "1.3.6.1.5.5.7.3.8",
            Self::OcspSigning => "1.3.6.1.5.5.7.3.9",
            Self::MicrosoftServerGatedCrypto => "1.3.6.1.4.1.311.10.3.3",
            Self::NetscapeServerGatedCrypto => "2.16.840.1.113730.4.1",
            Self::MicrosoftCommercialCodeSigning => "1.3.6.1.4.1.311.2.1.22",
            Self::MicrosoftKernelCodeSigning => "1.3.6.1.4.1.311.61.1.1",
        }
    }

    pub(crate) fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|usage| usage.id() == id)
    }
}
