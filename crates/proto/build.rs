//! Compiles the contracts with protox, a compiler that is itself a crate, so that no protoc has to
//! be installed.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message;

const ROOT: &str = "../../proto";
const AREAS: [&str; 7] = ["component", "deployer", "packages", "renderer", "resolver", "variant", "watcher"];
/// Contracts of servers that are not ours.
const OTHERS: [&str; 1] = ["evaluator/evaluator.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let own = AREAS.map(|area| format!("groundwork/{area}/v1/{area}.proto"));
    let files = own.into_iter().chain(OTHERS.map(str::to_owned));
    // Keep the source info: reflection shows the comments.
    let descriptors = protox::Compiler::new([ROOT])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(files)?
        .file_descriptor_set();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    std::fs::write(out.join(Path::new("descriptors.bin")), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // lib.rs implements `Debug` for these by hand, since their content may be a secret value
        // that must not reach a log.
        .skip_debug([
            ".groundwork.component.v1.Json",
            ".groundwork.deployer.v1.MakeKubeconfigResponse",
            ".groundwork.packages.v1.File",
        ])
        .compile_fds(descriptors)?;
    Ok(())
}
