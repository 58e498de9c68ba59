//! Check of the signature that an Installation requires of its component (`components.md` 7.6).

use groundwork_api::{Context, Installation, SecretReference, VerificationSignature};
use groundwork_component::{Repositories, TrustAnchor};

use super::component::Selection;
use super::{Inputs, PREREQUISITES};
use crate::error::OperationError;
use crate::imports::ImportedObjects;
use crate::reason::Reason;

/// Policy that decides which components must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignaturePolicy {
    /// Only components of Installations that ask for verification must be signed.
    #[default]
    DoNotEnforce,
    /// All components must be signed.
    Enforce,
    /// Unsigned components are allowed, even if an Installation asks for verification.
    Disabled,
}

impl SignaturePolicy {
    /// Returns the policy of this name. An unknown name gives the strictest policy.
    pub fn parse(name: &str) -> Self {
        match name {
            "DoNotEnforce" => Self::DoNotEnforce,
            "Disabled" => Self::Disabled,
            _ => Self::Enforce,
        }
    }

    fn concerns(self, installation: &Installation) -> bool {
        match self {
            Self::DoNotEnforce => installation.spec.verification.is_some(),
            Self::Enforce => true,
            Self::Disabled => false,
        }
    }
}

/// Settings of the signature check.
#[derive(Debug, Clone, Copy)]
pub struct SignatureCheck {
    pub policy: SignaturePolicy,
    /// Time at which certificates must be valid, in seconds since 1970.
    pub now: i64,
}

/// Returns the names of the Secrets that the signatures of an Installation are checked with. The
/// Secrets are in the namespace of the Context.
pub fn signature_secrets<'a>(installation: &Installation, context: &'a Context) -> Vec<&'a str> {
    let anchor = installation
        .spec
        .verification
        .as_ref()
        .and_then(|verification| context.verification_signatures.get(&verification.signature_name));
    let references = anchor.into_iter().flat_map(|anchor| {
        [&anchor.public_key_secret_reference, &anchor.ca_certificate_secret_reference].into_iter().flatten()
    });
    references.map(|reference| reference.name.as_str()).filter(|name| !name.is_empty()).collect()
}

/// Step 7 of `components.md` 4.1. An Installation without a component always passes.
pub(super) fn verify(
    check: SignatureCheck,
    inputs: &Inputs<'_>,
    selection: &Selection,
    repositories: &dyn Repositories,
) -> Result<(), OperationError> {
    let installation = inputs.installation;
    if !check.policy.concerns(installation) {
        return Ok(());
    }
    let missing = |problem: String| OperationError::new(PREREQUISITES, Reason::ExtractVerifyInfo, problem);
    let verification = installation.spec.verification.as_ref().ok_or_else(|| {
        missing(
            "installation.Spec.Verification cant be nil: every component has to be signed here".to_owned(),
        )
    })?;
    let name = verification.signature_name.as_str();
    if name.is_empty() {
        return Err(missing("installation.Spec.Verification.SignatureName must be set".to_owned()));
    }
    let anchor = inputs.context.and_then(|context| context.verification_signatures.get(name));
    let anchor = anchor.ok_or_else(|| {
        missing(format!("context.VerificationSignatures does not contain a key for signature name '{name}'"))
    })?;
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let trust = trust(anchor, namespace, inputs.objects, check.now).map_err(missing)?;
    let root = selection.root(repositories)?;
    selection.verify(repositories, &root, name, &trust).map_err(|error| {
        OperationError::new(
            PREREQUISITES,
            Reason::VerifySignature,
            format!("failed verifying signature: {error}"),
        )
    })
}

fn trust(
    anchor: &VerificationSignature,
    namespace: &str,
    objects: &dyn ImportedObjects,
    now: i64,
) -> Result<TrustAnchor, String> {
    let read = |reference: &Option<SecretReference>| {
        reference.as_ref().map(|reference| entry(reference, namespace, objects)).transpose()
    };
    let public_key = read(&anchor.public_key_secret_reference)?;
    let authorities = read(&anchor.ca_certificate_secret_reference)?;
    Ok(TrustAnchor { public_key, authorities, now })
}

fn entry(
    reference: &SecretReference,
    namespace: &str,
    objects: &dyn ImportedObjects,
) -> Result<String, String> {
    let SecretReference { name, key, .. } = reference;
    let own = reference.namespace.as_deref().filter(|text| !text.is_empty()).unwrap_or(namespace);
    if own != namespace {
        return Err(format!(
            "secret \"{own}/{name}\" is in another namespace than the context; keys for signatures are read only from \
             the namespace of the context"
        ));
    }
    let key = key.as_deref().filter(|key| !key.is_empty()).ok_or_else(|| {
        format!("the reference to secret \"{own}/{name}\" has no key; name the entry of the secret")
    })?;
    let entries = objects.secret(name).ok_or_else(|| format!("secret \"{own}/{name}\" not found"))?;
    let value = entries.get(key).ok_or_else(|| format!("secret \"{own}/{name}\" has no key {key:?}"))?;
    String::from_utf8(value.clone())
        .map_err(|_| format!("{key:?} of secret \"{own}/{name}\" is not UTF-8 text"))
}
