//! `groundwork component`: component versions in directories, archives and registries
//! (`components.md` 5, 6).

mod fetch;
mod pack;
mod place;
mod push;
mod sign;
mod tree;

use clap::{Args, Subcommand, ValueEnum};
use groundwork_component::SchemaVersion;
use groundwork_yaml as yaml;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::stdout;
use place::{PlaceArguments, VersionName, version_name};

#[derive(Debug, Args)]
pub(crate) struct ComponentArguments {
    #[command(subcommand)]
    command: ComponentCommand,
}

#[derive(Debug, Subcommand)]
enum ComponentCommand {
    /// Print the descriptor of a component version.
    ///
    /// Exit code 2: the version does not exist, or cannot be read.
    Get(GetArguments),
    /// Print a component version with its resources and references.
    ///
    /// Follows all references as they are written, without overwrites. Exit code 1: the target of a
    /// reference does not exist; the others are printed. 2: the version does not exist.
    Tree(tree::TreeArguments),
    /// Write the content of a resource to a file, or to standard output.
    ///
    /// The content is compared with its digest. Exit code 2: the content cannot be read; no file is
    /// written.
    Fetch(fetch::FetchArguments),
    /// Pack component versions into a transport archive.
    ///
    /// The archive is a directory, a tar or a compressed tar. The same sources always give the same
    /// bytes. Exit code 2: nothing is written.
    Pack(pack::PackArguments),
    /// Verify the signature of a component version and all its references.
    ///
    /// All contents are read and compared. Exit code 1: the signature is not valid. 2: the
    /// descriptor or a content cannot be read.
    Verify(sign::VerifyArguments),
    /// Sign a component version in an archive.
    ///
    /// The signature covers the digests of everything that the version refers to. Exit code 2:
    /// nothing is written.
    Sign(sign::SignArguments),
    /// Write component versions into a registry.
    ///
    /// Exit code 1: the registry has a version with other content; versions before it are written.
    /// 2: the registry refuses, or cannot be reached.
    Push(push::PushArguments),
}

#[derive(Debug, Args)]
struct GetArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    #[command(flatten)]
    place: PlaceArguments,

    /// Schema version to print [default: the one in which the descriptor is stored].
    #[arg(long, value_enum, value_name = "VERSION")]
    schema: Option<Schema>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Schema {
    V2,
    V3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(crate) fn run(arguments: &ComponentArguments) -> Ending {
    let ended = match &arguments.command {
        ComponentCommand::Get(arguments) => get(arguments),
        ComponentCommand::Tree(arguments) => tree::run(arguments),
        ComponentCommand::Fetch(arguments) => fetch::run(arguments),
        ComponentCommand::Pack(arguments) => pack::run(arguments),
        ComponentCommand::Verify(arguments) => sign::verify_version(arguments),
        ComponentCommand::Sign(arguments) => sign::sign_version(arguments),
        ComponentCommand::Push(arguments) => push::run(arguments),
    };
    ended.unwrap_or_else(|error| {
        diagnostic::print(&[error]);
        Ending::Unusable
    })
}

fn get(arguments: &GetArguments) -> Result<Ending, Diagnostic> {
    let (_, version) = arguments.place.open()?.find(&arguments.version)?;
    let schema = match arguments.schema {
        None => version.descriptor.schema(),
        Some(Schema::V2) => SchemaVersion::V2,
        Some(Schema::V3) => SchemaVersion::V3,
    };
    let document = match arguments.schema {
        None => version.descriptor.document().clone(),
        Some(_) => version.descriptor.to_schema(schema),
    };
    Ok(stdout::write(&match arguments.output {
        Format::Yaml => yaml::to_string(&document),
        Format::Json => format!("{document:#}\n"),
    }))
}
