//! `groundwork component sign` and `verify` (`components.md` 7.6).

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use groundwork_component::{Normalisation, SignatureError, TrustAnchor, prepare, signed, verify};
use groundwork_keys::{Hash, SigningKey};
use groundwork_registry::Store;

use super::pack::{failed, write_packed};
use super::place::{PlaceArguments, VersionName, version_name};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::stdout;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    /// Name of the signature.
    #[arg(long, value_name = "NAME")]
    signature: String,

    /// PEM file with the public key of the signer.
    #[arg(long, value_name = "FILE", required_unless_present = "authorities")]
    public_key: Option<PathBuf>,

    /// PEM file with certificates of authorities, one of which has to vouch for the certificate in
    /// the signature.
    #[arg(long, value_name = "FILE", conflicts_with = "public_key")]
    authorities: Option<PathBuf>,

    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Args)]
pub(super) struct SignArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    /// Name of the signature; one of this name is replaced.
    #[arg(long, value_name = "NAME")]
    signature: String,

    /// PEM file with the RSA private key.
    #[arg(long, value_name = "FILE")]
    private_key: PathBuf,

    /// Normalisation that turns the descriptor into the bytes that are signed.
    #[arg(long, value_enum, default_value_t = NormalisationName::V2)]
    normalisation: NormalisationName,

    /// The transport archive with the version and all that it refers to: a directory or an archive.
    #[arg(long, value_name = "ARCHIVE")]
    from: PathBuf,

    /// Archive to write, with the whole content of the input archive: a file that ends in .tar,
    /// .tgz or .tar.gz, or else a directory.
    #[arg(long, value_name = "TARGET")]
    to: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NormalisationName {
    V1,
    V2,
    V3,
    V4alpha1,
}

impl From<NormalisationName> for Normalisation {
    fn from(name: NormalisationName) -> Self {
        match name {
            NormalisationName::V1 => Self::V1,
            NormalisationName::V2 => Self::V2,
            NormalisationName::V3 => Self::V3,
            NormalisationName::V4alpha1 => Self::V4Alpha1,
        }
    }
}

pub(super) fn verify_version(arguments: &VerifyArguments) -> Result<Ending, Diagnostic> {
    let place = arguments.place.open()?;
    let (_, version) = place.find(&arguments.version)?;
    let read = |file: &Option<PathBuf>| file.as_deref().map(read_text).transpose();
    let trust = TrustAnchor {
        public_key: read(&arguments.public_key)?,
        authorities: read(&arguments.authorities)?,
        now: jiff::Timestamp::now().as_second(),
    };
    let checked = place.with_resolver(&version.reference, |resolver| {
        verify(resolver, &version, &arguments.signature, &trust)
    });
    let VersionName { name, version } = &arguments.version;
    match checked {
        Ok(()) => Ok(stdout::write(&format!(
            "{}: the signature {:?} is valid\n",
            shown(&format!("{name}:{version}")),
            arguments.signature
        ))),
        // An error of reading is not a verdict on the signature, so it has another exit code.
        Err(
            error @ (SignatureError::Resolve(_)
            | SignatureError::Repository { .. }
            | SignatureError::Content(_)),
        ) => Err(failed(&error)),
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(format!("failed verifying signature: {error}"))]);
            Ok(Ending::Failed)
        }
    }
}

pub(super) fn sign_version(arguments: &SignArguments) -> Result<Ending, Diagnostic> {
    let SignArguments { version, signature: name, from, to, .. } = arguments;
    let key = fs::read(&arguments.private_key).map_err(|error| {
        Diagnostic::error(format!("cannot read {}: {error}", arguments.private_key.display()))
    })?;
    let key = SigningKey::parse_rsa(&key)
        .map_err(|error| Diagnostic::error(format!("{}: {error}", arguments.private_key.display())))?;
    let place = PlaceArguments::of_files(from).open()?;
    let (_, found) = place.find(version)?;
    let normalisation = arguments.normalisation.into();
    let (completed, bytes) = place
        .with_resolver(&found.reference, |resolver| prepare(resolver, &found, normalisation))
        .map_err(|error| failed(&error))?;
    let made = key.sign_rsa(Hash::Sha256, &bytes).map_err(|error| failed(&error))?;
    // Sign the version as it is stored, with digests and signature, but without the fields that the
    // resolver added for readers.
    let stored = Store::of_place(&from.display().to_string(), None, None).map_err(Diagnostic::error)?;
    let document = signed(&completed, name, normalisation, &bytes, &made);
    let packed = write_packed(to, |writer| {
        writer.add_all(from)?;
        writer.replace_descriptor(&stored, &version.name, &version.version, &document)
    })?;
    let lines = packed.iter().map(|(name, version)| format!("{}\n", shown(&format!("{name}:{version}"))));
    Ok(stdout::write(&lines.collect::<String>()))
}

fn read_text(path: &Path) -> Result<String, Diagnostic> {
    fs::read_to_string(path)
        .map_err(|error| Diagnostic::error(format!("cannot read {}: {error}", path.display())))
}
