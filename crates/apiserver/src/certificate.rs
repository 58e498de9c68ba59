//! Certificate of the server: from files that are read again when they change, or its own.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rcgen::generate_simple_self_signed;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// PEM files with a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} has no certificate, or {} not its key: {problem}", files.certificate.display(), files.key.display())]
    Unusable { files: CertificateFiles, problem: String },
    #[error("a certificate cannot be made: {0}")]
    NotMade(String),
}

/// The present certificate.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// `None` for the server's own certificate.
    files: Option<CertificateFiles>,
    present: RwLock<Arc<CertifiedKey>>,
    /// The server's own certificate in PEM, which its clients have to trust.
    own: Option<String>,
}

impl Certificate {
    /// Reads the files or, without files, makes a certificate for a DNS name. Its key never leaves
    /// the process, so it is valid for as long as the process runs.
    pub(crate) fn new(files: Option<CertificateFiles>, name: &str) -> Result<Self, CertificateError> {
        if let Some(files) = files {
            let present = RwLock::new(Arc::new(read(&files)?));
            return Ok(Self { files: Some(files), present, own: None });
        }
        let not_made = |problem: &dyn std::fmt::Display| CertificateError::NotMade(problem.to_string());
        let made = generate_simple_self_signed([name.to_owned()]).map_err(|error| not_made(&error))?;
        let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes());
        let key =
            any_supported_type(&key.map_err(|error| not_made(&error))?).map_err(|error| not_made(&error))?;
        let present = CertifiedKey::new(vec![made.cert.der().clone()], key);
        Ok(Self { files: None, present: RwLock::new(Arc::new(present)), own: Some(made.cert.pem()) })
    }

    /// Returns the certificate that clients have to trust, in PEM; `None` if it comes from files.
    pub(crate) fn own(&self) -> Option<&str> {
        self.own.as_deref()
    }

    /// Reads the files again. Files that cannot be used, such as those of an unfinished renewal,
    /// leave the former certificate in place.
    pub(crate) fn renew(&self) {
        let Some(files) = &self.files else { return };
        match read(files) {
            Ok(read) => *self.present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read),
            Err(error) => tracing::warn!(%error, "the certificate of the API stays as it was"),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn read(files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
    let bytes = |path: &PathBuf| {
        std::fs::read(path).map_err(|source| CertificateError::Unreadable { path: path.clone(), source })
    };
    let (certificate, key) = (bytes(&files.certificate)?, bytes(&files.key)?);
    let unusable = |problem: String| CertificateError::Unusable { files: files.clone(), problem };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable("it is empty".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(error.to_string()))?;
    let key = any_supported_type(&key).map_err(|error| unusable(error.to_string()))?;
    let read = CertifiedKey::new(chain, key);
    match read.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(read),
        Err(error) => Err(unusable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(certificate: &Certificate) -> Vec<CertificateDer<'static>> {
        certificate.present.read().unwrap().cert.clone()
    }

    #[test]
    fn files_are_read_again() {
        let folder = std::env::temp_dir().join(format!("groundwork-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
        let write = || {
            let made = generate_simple_self_signed(["a".to_owned()]).unwrap();
            std::fs::write(&files.certificate, made.cert.pem()).unwrap();
            std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        };
        write();
        let certificate = Certificate::new(Some(files.clone()), "unused").unwrap();
        let first = present(&certificate);
        write();
        certificate.renew();
        let second = present(&certificate);
        assert_ne!(first, second);
        std::fs::write(&files.key, "no key").unwrap();
        certificate.renew();
        assert_eq!(present(&certificate), second, "an unfinished renewal changes nothing");
        let refused = Certificate::new(Some(files), "unused").unwrap_err();
        assert!(matches!(refused, CertificateError::Unusable { .. }), "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_own_one_is_made() {
        let certificate = Certificate::new(None, "api.groundwork-system.svc").unwrap();
        assert!(certificate.own().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(present(&certificate).len(), 1);
    }
}
