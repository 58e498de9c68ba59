//! Verification and creation of signatures of component versions (`components.md` 7.6).
//!
//! ```text
//! ComponentVersion ──Digests: contents, references, recursively──> descriptor with digests
//! descriptor with digests ──Normalisation──> bytes ──hash──> signature
//! ```

mod normalise;

use std::collections::HashMap;
use std::io::Read as _;

use data_encoding::HEXLOWER;
use groundwork_keys::{Hash, Padding, PublicKey, pem_blocks, verify_chain};
use serde_json::{Value, json};

use crate::access::{Access, ContentError};
use crate::descriptor::Descriptor;
use crate::repository::RepositoryError;
use crate::resolve::{ComponentVersion, ResolveError, Resolver};

pub use normalise::Normalisation;
use normalise::is_none;

/// Longest reference path. A legitimate component is far below it.
const DEEPEST: usize = 100;
const BLOB_DIGEST: &str = "genericBlobDigest/v1";
const ARTIFACT_DIGESTS: [&str; 2] = ["ociArtifactDigest/v1", "ociArtefactDigest/v1"];
const EXCLUDED: &str = "EXCLUDE-FROM-SIGNATURE";
/// Media type of a signature in hex.
pub const RSA_MEDIA_TYPE: &str = "application/vnd.ocm.signature.rsa";
const PEM_MEDIA_TYPE: &str = "application/x-pem-file";
const PKCS1: &str = "RSASSA-PKCS1-V1_5";
const PSS: &str = "RSASSA-PSS";

/// Trusted keys and authorities for a signature.
#[derive(Debug, Clone, Default)]
pub struct TrustAnchor {
    /// Public key in PEM.
    pub public_key: Option<String>,
    /// Certificates of authorities in PEM, used if there is no public key.
    pub authorities: Option<String>,
    /// Time at which certificates must be valid, in seconds since 1970.
    pub now: i64,
}

/// Reason why a signature is not valid.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("signature {name:?} not found; {component} has {found}")]
    NotFound { name: String, component: String, found: String },
    #[error("{component}: {what} {name:?} is not supported")]
    Unknown { component: String, what: &'static str, name: String },
    #[error("signature digest ({signed}) does not match found digest ({found})")]
    Digest { signed: String, found: String },
    #[error("{component}: the digest of {element} ({recorded}) does not match the computed digest ({found})")]
    Element { component: String, element: String, recorded: String, found: String },
    #[error("the signature was not made with the trusted key")]
    Forged,
    #[error("{0}")]
    Key(String),
    #[error("component references form a cycle: {0}")]
    Cycle(String),
    #[error("component references are nested deeper than {DEEPEST} levels")]
    TooDeep,
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error("cannot compute the digest of resource {resource:?} of component {component}: {source}")]
    Repository { resource: String, component: String, source: RepositoryError },
    #[error(
        "cannot compute the digest {algorithm:?} of resource {resource:?} of component {component}: its access \
         ({access}) does not support this algorithm"
    )]
    Unsupported { algorithm: String, resource: String, component: String, access: String },
}

/// Hash and normalisation of a descriptor's digest.
type Algorithms = (HashName, Normalisation);

/// Name of a hash algorithm, in any of its spellings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HashName(String);

impl HashName {
    fn hash(&self) -> Option<Hash> {
        match self.0.as_str() {
            "SHA-256" | "sha256" => Some(Hash::Sha256),
            "SHA-512" | "sha512" => Some(Hash::Sha512),
            _ => None,
        }
    }
}

/// Digest as recorded in a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recorded {
    hash: HashName,
    algorithm: String,
    value: String,
}

impl Recorded {
    fn read(holder: Option<&Value>) -> Option<Self> {
        let holder = holder?;
        let text = |member: &str| holder.get(member).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            hash: HashName(text("hashAlgorithm")?),
            algorithm: text("normalisationAlgorithm")?,
            value: text("value")?,
        })
    }

    fn to_value(&self) -> Value {
        json!({
            "hashAlgorithm": self.hash.0, "normalisationAlgorithm": self.algorithm, "value": self.value,
        })
    }
}

/// Checks that `version`, with all versions that it refers to, matches the signature `name`, and
/// that a trusted signer made it.
///
/// References are followed as written, so `resolver` must have no overwrites.
///
/// # Errors
///
/// See [`SignatureError`].
pub fn verify(
    resolver: &Resolver<'_>,
    version: &ComponentVersion,
    name: &str,
    trust: &TrustAnchor,
) -> Result<(), SignatureError> {
    let component = title(version);
    let signatures = version.descriptor.document().get("signatures").and_then(Value::as_array);
    let signatures = signatures.map_or(&[][..], Vec::as_slice);
    let named = |signature: &&Value| signature.get("name").and_then(Value::as_str) == Some(name);
    let signature = signatures.iter().find(named).ok_or_else(|| {
        let names: Vec<String> = signatures
            .iter()
            .filter_map(|signature| signature.get("name").and_then(Value::as_str))
            .map(|name| format!("{name:?}"))
            .collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        SignatureError::NotFound { name: name.to_owned(), component: component.clone(), found }
    })?;
    let unknown = |what: &'static str, name: &str| SignatureError::Unknown {
        component: component.clone(),
        what,
        name: name.to_owned(),
    };
    let signed =
        Recorded::read(signature.get("digest")).ok_or_else(|| unknown("digest of signature", name))?;
    let algorithms = algorithms(&signed).map_err(|(what, name)| unknown(what, &name))?;
    let hash = algorithms.0.hash().ok_or_else(|| unknown("hash", &algorithms.0.0))?;
    let mut digests = Digests { resolver, known: HashMap::new(), path: Vec::new() };
    let completed = digests.complete(version, &algorithms)?;
    let hashed = matching(&completed, &algorithms, &signed.value)?;
    check(signature.get("signature"), hash, &hashed, trust)
}

/// Returns the descriptor with all its digests, and the bytes to sign.
///
/// # Errors
///
/// Fails as [`verify`] does: all referenced versions and contents must exist.
pub fn prepare(
    resolver: &Resolver<'_>,
    version: &ComponentVersion,
    normalisation: Normalisation,
) -> Result<(Descriptor, Vec<u8>), SignatureError> {
    let mut digests = Digests { resolver, known: HashMap::new(), path: Vec::new() };
    let completed = digests.complete(version, &(HashName("SHA-256".to_owned()), normalisation))?;
    let bytes = normalisation.apply(&completed);
    Ok((completed, bytes))
}

/// Returns a descriptor with a signature over these bytes. It replaces a signature of the same
/// name.
pub fn signed(
    descriptor: &Descriptor,
    name: &str,
    normalisation: Normalisation,
    bytes: &[u8],
    signature: &[u8],
) -> Value {
    let entry = json!({
        "name": name,
        "digest": {
            "hashAlgorithm": "SHA-256", "normalisationAlgorithm": normalisation.name(),
            "value": HEXLOWER.encode(&Hash::Sha256.of(bytes)),
        },
        "signature": {
            "algorithm": PKCS1, "mediaType": RSA_MEDIA_TYPE, "value": HEXLOWER.encode(signature),
        },
    });
    let mut document = descriptor.document().clone();
    let former = document.get("signatures").and_then(Value::as_array).cloned().unwrap_or_default();
    let others = former.into_iter().filter(|other| other.get("name").and_then(Value::as_str) != Some(name));
    document["signatures"] = others.chain([entry]).collect();
    document
}

fn title(version: &ComponentVersion) -> String {
    format!("{}:{}", version.descriptor.name(), version.descriptor.version())
}

/// Returns the algorithms of a descriptor's digest, or the kind and name of an unknown one.
fn algorithms(digest: &Recorded) -> Result<Algorithms, (&'static str, String)> {
    let normalisation = Normalisation::parse(&digest.algorithm)
        .ok_or_else(|| ("normalisation algorithm", digest.algorithm.clone()))?;
    if digest.hash.hash().is_none() {
        return Err(("hash algorithm", digest.hash.0.clone()));
    }
    Ok((digest.hash.clone(), normalisation))
}

/// Returns the hash of a descriptor, if it is the expected one.
fn matching(
    descriptor: &Descriptor,
    (name, normalisation): &Algorithms,
    expected: &str,
) -> Result<Vec<u8>, SignatureError> {
    let hash = name.hash().unwrap_or(Hash::Sha256);
    let hashed = hash.of(&normalisation.apply(descriptor));
    let found = HEXLOWER.encode(&hashed);
    if found == expected {
        return Ok(hashed);
    }
    // Earlier releases of OCM computed other digests under the same algorithm name, so both forms
    // are accepted.
    if *normalisation == Normalisation::V1 {
        let hashed = hash.of(&normalisation.apply_with(descriptor, false));
        if HEXLOWER.encode(&hashed) == expected {
            return Ok(hashed);
        }
    }
    Err(SignatureError::Digest { signed: expected.to_owned(), found })
}

/// Cache of version digests, so that each is computed once.
struct Digests<'a> {
    resolver: &'a Resolver<'a>,
    known: HashMap<(String, Algorithms), Descriptor>,
    /// Path from the root to the current version.
    path: Vec<String>,
}

impl Digests<'_> {
    /// Returns the descriptor with the computed digests. They must match the recorded ones.
    fn complete(
        &mut self,
        version: &ComponentVersion,
        algorithms: &Algorithms,
    ) -> Result<Descriptor, SignatureError> {
        let component = title(version);
        let key = (component.clone(), algorithms.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        if self.path.contains(&component) {
            return Err(SignatureError::Cycle(format!("{} -> {component}", self.path.join(" -> "))));
        }
        if self.path.len() >= DEEPEST {
            return Err(SignatureError::TooDeep);
        }
        self.path.push(component.clone());
        let mut descriptor = version.descriptor.clone();
        for (index, reference) in version.descriptor.references().enumerate() {
            let child = self.resolver.follow(&reference.component_name, &reference.version)?;
            let recorded = Recorded::read(reference.element.get("digest"));
            let own = recorded.as_ref().and_then(|digest| self::algorithms(digest).ok());
            let wanted = own.unwrap_or_else(|| algorithms.clone());
            let completed = self.complete(&child, &wanted)?;
            let element = || format!("reference {:?}", reference.name);
            let digest = found(&completed, &wanted, recorded, &component, element)?;
            descriptor.set_reference_digest(index, digest.to_value());
        }
        for (index, resource) in version.descriptor.resources().enumerate() {
            if let Some(digest) = content_digest(version, &resource, &component)? {
                descriptor.set_resource_digest(index, digest.to_value());
            }
        }
        self.path.pop();
        self.known.insert(key, descriptor.clone());
        Ok(descriptor)
    }
}

/// Returns the digest of a referenced version, which must match the recorded one.
fn found(
    completed: &Descriptor,
    algorithms: &Algorithms,
    recorded: Option<Recorded>,
    component: &str,
    element: impl Fn() -> String,
) -> Result<Recorded, SignatureError> {
    let hash = algorithms.0.hash().unwrap_or(Hash::Sha256);
    match recorded {
        Some(recorded) => match matching(completed, algorithms, &recorded.value) {
            Ok(_) => Ok(recorded),
            Err(SignatureError::Digest { signed, found }) => Err(SignatureError::Element {
                component: component.to_owned(),
                element: element(),
                recorded: signed,
                found,
            }),
            Err(other) => Err(other),
        },
        None => Ok(Recorded {
            hash: algorithms.0.clone(),
            algorithm: algorithms.1.name().to_owned(),
            value: HEXLOWER.encode(&hash.of(&algorithms.1.apply(completed))),
        }),
    }
}

/// Returns the digest of a resource's content; `None` if it has no content, or is excluded from
/// signing.
fn content_digest(
    version: &ComponentVersion,
    resource: &crate::descriptor::Resource,
    component: &str,
) -> Result<Option<Recorded>, SignatureError> {
    let recorded = Recorded::read(resource.digest());
    if is_none(Some(resource.access()))
        || recorded.as_ref().is_some_and(|digest| digest.algorithm == EXCLUDED)
    {
        return Ok(None);
    }
    let failed = |source| SignatureError::Repository {
        resource: resource.name.clone(),
        component: component.to_owned(),
        source,
    };
    let access = Access::parse(resource.access()).map_err(|error| SignatureError::Unsupported {
        algorithm: recorded.as_ref().map_or_else(String::new, |digest| digest.algorithm.clone()),
        resource: resource.name.clone(),
        component: component.to_owned(),
        access: error.to_string(),
    })?;
    let (hash, algorithm) = match &recorded {
        Some(recorded) => (recorded.hash.clone(), recorded.algorithm.clone()),
        None if access.is_artifact() => (HashName("SHA-256".to_owned()), ARTIFACT_DIGESTS[0].to_owned()),
        None => (HashName("SHA-256".to_owned()), BLOB_DIGEST.to_owned()),
    };
    let unknown = |what, name: &str| SignatureError::Unknown {
        component: component.to_owned(),
        what,
        name: name.to_owned(),
    };
    let function = hash.hash().ok_or_else(|| unknown("hash algorithm", &hash.0))?;
    let value = if algorithm == BLOB_DIGEST && !access.is_chart_in_registry() {
        hash_content(version, resource, function).map_err(failed)?
    } else if algorithm == BLOB_DIGEST || ARTIFACT_DIGESTS.contains(&algorithm.as_str()) {
        let digest = version.artifact_digest(&access).map_err(failed)?;
        digest.ok_or_else(|| SignatureError::Unsupported {
            algorithm: algorithm.clone(),
            resource: resource.name.clone(),
            component: component.to_owned(),
            access: access.to_string(),
        })?
    } else {
        return Err(unknown("digest algorithm of a resource", &algorithm));
    };
    if let Some(recorded) = recorded.filter(|recorded| recorded.value != value) {
        return Err(SignatureError::Element {
            component: component.to_owned(),
            element: format!("resource {:?}", resource.name),
            recorded: recorded.value,
            found: value,
        });
    }
    Ok(Some(Recorded { hash, algorithm, value }))
}

/// Hashes content as a stream, without holding it in memory as a whole.
fn hash_content(
    version: &ComponentVersion,
    resource: &crate::descriptor::Resource,
    hash: Hash,
) -> Result<String, RepositoryError> {
    let (access, mut blob) = version.open(resource).map_err(|error| match error {
        ContentError::Repository { source, .. } => source,
        other => RepositoryError::Malformed { address: resource.name.clone(), problem: other.to_string() },
    })?;
    let mut running = hash.begin();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match blob.body.read(&mut buffer) {
            Ok(0) => return Ok(HEXLOWER.encode(&running.finish())),
            Ok(count) => running.update(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(RepositoryError::of_read(&error, &access.to_string())),
        }
    }
}

/// Checks that a trusted signer made the signature over a hash.
fn check(
    signature: Option<&Value>,
    hash: Hash,
    hashed: &[u8],
    trust: &TrustAnchor,
) -> Result<(), SignatureError> {
    let text = |member: &str| {
        signature.and_then(|signature| signature.get(member)).and_then(Value::as_str).unwrap_or_default()
    };
    let key_error = |problem: &str| SignatureError::Key(problem.to_owned());
    let (mut algorithm, value) = (text("algorithm").to_owned(), text("value"));
    // The values of these signatures have other forms than those below.
    if is_named_gap(&algorithm) {
        return Err(SignatureError::Key(format!(
            "signature algorithm {algorithm:?} is not supported: sigstore and GPG signatures are not built yet \
             (README); sign the component with RSA, too, and name that signature in spec.verification"
        )));
    }
    let mut chain: Vec<Vec<u8>> = Vec::new();
    let bytes = if text("mediaType") == PEM_MEDIA_TYPE {
        let mut bytes = None;
        for block in pem_blocks(value.as_bytes()) {
            match block.tag() {
                "SIGNATURE" if bytes.is_none() => {
                    if let Some(named) = block.headers().get("Signature Algorithm") {
                        named.clone_into(&mut algorithm);
                    }
                    bytes = Some(block.contents().to_vec());
                }
                "CERTIFICATE" => chain.push(block.contents().to_vec()),
                _ => {}
            }
        }
        bytes.ok_or_else(|| key_error("the signature has no PEM block SIGNATURE"))?
    } else {
        HEXLOWER
            .decode(value.trim().to_ascii_lowercase().as_bytes())
            .map_err(|_| key_error("the signature is not hexadecimal"))?
    };
    let padding = match algorithm.as_str() {
        PKCS1 => Padding::Pkcs1,
        PSS => Padding::Pss,
        other => return Err(SignatureError::Key(format!("signature algorithm {other:?} is not supported"))),
    };
    let key = match (&trust.public_key, &trust.authorities) {
        (Some(pem), _) => PublicKey::parse(pem).map_err(|error| SignatureError::Key(error.to_string()))?,
        (None, Some(authorities)) => {
            let roots: Vec<Vec<u8>> = pem_blocks(authorities.as_bytes())
                .into_iter()
                .filter(|block| block.tag() == "CERTIFICATE")
                .map(|block| block.contents().to_vec())
                .collect();
            if roots.is_empty() {
                return Err(key_error("the trusted certificates of authorities contain no PEM certificate"));
            }
            if chain.is_empty() {
                return Err(key_error("the signature contains no certificate, and no public key is given"));
            }
            let key = verify_chain(&chain, &roots, trust.now).map_err(SignatureError::Key)?;
            check_issuer(text("issuer"), &chain)?;
            key
        }
        (None, None) => {
            return Err(key_error("neither a public key nor certificates of authorities are given"));
        }
    };
    if key.verifies(padding, hash, hashed, &bytes) { Ok(()) } else { Err(SignatureError::Forged) }
}

/// Reports whether OCM has this algorithm. The list of gaps names it as not supported.
fn is_named_gap(algorithm: &str) -> bool {
    let algorithm = algorithm.to_ascii_lowercase();
    algorithm.starts_with("sigstore") || algorithm == "gpg"
}

/// Checks that the signature's issuer matches the subject of the certificate.
fn check_issuer(issuer: &str, chain: &[Vec<u8>]) -> Result<(), SignatureError> {
    let leaf = chain.first().and_then(|der| groundwork_keys::Certificate::from_der(der).ok());
    if issuer.is_empty() {
        return Ok(());
    }
    let Some(leaf) = leaf else { return Err(SignatureError::Forged) };
    let has = |part: &str| match part.trim().split_once('=') {
        Some(("CN", name)) => leaf.common_name.as_deref() == Some(name),
        Some(("O", name)) => leaf.organization.iter().any(|own| own == name),
        Some(("C", name)) => leaf.country.iter().any(|own| own == name),
        Some(_) => false,
        None => leaf.common_name.as_deref() == Some(part.trim()),
    };
    if issuer.split([',', '+']).all(has) {
        return Ok(());
    }
    let subject = leaf.common_name.unwrap_or_default();
    Err(SignatureError::Key(format!(
        "the signature names the issuer {issuer:?}, but its certificate is for {subject:?}"
    )))
}

#[cfg(test)]
mod tests;
