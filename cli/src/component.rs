//! `groundwork component`: component versions in directories, archives and registries (`components.md` 5, 6).

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
    /// Exit code 2: there is none, or it cannot be read.
    Get(GetArguments),
    /// Print a component version with its resources and everything that it refers to, as it is written: without any overwrites.
    ///
    /// Exit code 1: a reference leads nowhere; the others are printed. 2: there is no such version.
    Tree(tree::TreeArguments),
    /// Write the content of a resource to a file, or to standard output.
    ///
    /// The content is compared with its digest. Exit code 2: it cannot be had; no file is written.
    Fetch(fetch::FetchArguments),
    /// Pack component versions into a transport archive: a directory, a tar or a compressed tar.
    ///
    /// The same sources always give the same bytes. Exit code 2: nothing is written.
    Pack(pack::PackArguments),
    /// Check that a component version, and all that it refers to, is what somebody has signed.
    ///
    /// All contents are read and compared. Exit code 1: the signature does not hold. 2: something cannot be had.
    Verify(sign::VerifyArguments),
    /// Sign a component version in an archive, with the digests of all that it refers to.
    ///
    /// Exit code 2: nothing is written.
    Sign(sign::SignArguments),
    /// Write component versions into a registry.
    ///
    /// Exit code 1: a version is there with other content; those before it are written. 2: the registry refuses, or cannot be reached.
    Push(push::PushArguments),
}

#[derive(Debug, Args)]
struct GetArguments {
    /// The component version, as NAME:VERSION.
    #[arg(value_name = "NAME:VERSION", value_parser = version_name)]
    version: VersionName,

    #[command(flatten)]
    place: PlaceArguments,

    /// Schema version to print [default: the one that it is stored in].
    #[arg(long, value_enum, value_name = "VERSION")]
    schema: Option<Schema>,

    /// What to print.
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
