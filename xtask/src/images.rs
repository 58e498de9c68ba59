//! `cargo xtask images`: builds or pulls the images that compose.yaml names.
//!
//! With `--local` no registry is needed: the servers come from `cargo xtask servers` and need no
//! shared libraries, and our programs bring the few that they need. Each image is one layer,
//! imported under the name in compose.yaml.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Server, find, image_environment};

use crate::compose::{Model, Service, docker_compose};
use crate::{commands, servers};

/// Servers in images of other projects, by the last part of the image's name: the path of the
/// program in the image, which is also its entry point.
const SERVERS: [(&str, Server, &str); 5] = [
    ("etcd", Server::Etcd, "/usr/local/bin/etcd"),
    ("kube-apiserver", Server::KubeApiserver, "/usr/local/bin/kube-apiserver"),
    ("kube-controller-manager", Server::KubeControllerManager, "/usr/local/bin/kube-controller-manager"),
    ("nats", Server::NatsServer, "/nats-server"),
    ("registry", Server::Registry, "/bin/registry"),
];
const REGISTRY_CONFIGURATION: &str =
    "version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/registry}}\nhttp: {addr: \":5000\"}\n";
/// Libraries that the C library loads by itself to resolve names.
const NAME_LIBRARIES: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds our images and pulls the others. With `local`, builds all of them on this machine.
pub(crate) fn run(workspace: &Path, local: bool) -> Result<()> {
    let model = Model::read(workspace)?;
    if local {
        make(workspace, &model)?;
    } else {
        run_compose(workspace, &["pull", "--ignore-buildable"])?;
        run_compose(workspace, &["build"])?;
    }
    report(&model)
}

/// Makes sure that all needed images exist, and builds them locally if they cannot be pulled.
pub(crate) fn ensure_all(workspace: &Path) -> Result<()> {
    let model = Model::read(workspace)?;
    if names(&model).iter().all(|name| size(name).is_some()) {
        return Ok(());
    }
    if let Err(error) = run(workspace, false) {
        println!("making images here: {error:#}");
        make(workspace, &model)?;
    }
    report(&model)
}

fn run_compose(workspace: &Path, arguments: &[&str]) -> Result<()> {
    let status = docker_compose(workspace, arguments).status().context("cannot run `docker compose`")?;
    ensure!(status.success(), "`docker compose {}` failed ({status})", arguments.join(" "));
    Ok(())
}

fn names(model: &Model) -> BTreeSet<&str> {
    model.services().filter(Service::is_default).map(|service| service.image()).collect()
}

fn make(workspace: &Path, model: &Model) -> Result<()> {
    servers::run(workspace)?;
    let wanted: BTreeSet<_> = model.services().filter_map(|service| service.program()).collect();
    let mut build = vec!["build", "--release", "--locked", "--workspace", "--bin", "groundwork-wait"];
    build.extend(wanted.iter().flat_map(|program| ["--bin", program.as_str()]));
    commands::run(workspace, "cargo", &build)?;
    let programs = commands::target_folder(workspace)?.join("release");
    let mut done = BTreeSet::new();
    for service in model.services().filter(Service::is_default) {
        if !done.insert(service.image()) {
            continue;
        }
        match service.program() {
            Some(program) => import_ours(&programs, &program, service.image())?,
            None => import_server(service)?,
        }
    }
    for line in left_out(model).filter(|(image, _)| size(image).is_none()).map(told) {
        println!("{line}");
    }
    Ok(())
}

/// Returns images of other projects that only a profile needs, with the profile. They cannot be
/// built locally, because this machine does not have their programs.
fn left_out(model: &Model) -> impl Iterator<Item = (&str, &str)> {
    let others = model.services().filter(|service| service.target().is_none());
    others.filter_map(|service| Some((service.image(), service.profile()?)))
}

fn told((image, profile): (&str, &str)) -> String {
    format!(
        "{image}: not made, since it is not built here; the profile `{profile}` works only where it can be pulled"
    )
}

/// Returns the source of an image of another project, by the last part of its name.
fn server_of(image: &str) -> Option<&'static (&'static str, Server, &'static str)> {
    let path = image.rsplit_once(':').map_or(image, |(path, _)| path);
    let last = path.rsplit('/').next()?;
    SERVERS.iter().find(|(name, ..)| *name == last)
}

fn import_server(service: Service<'_>) -> Result<()> {
    let image = service.image();
    let (name, server, place) =
        server_of(image).with_context(|| format!("no program is known for {image}"))?;
    let mut entries = vec![Entry::program(place, find(*server)?.path)];
    let mut changes = vec![format!("ENTRYPOINT [\"{place}\"]")];
    if *name == "registry" {
        let content = Content::Text(REGISTRY_CONFIGURATION.to_owned());
        entries.push(Entry { place: "/etc/distribution/config.yml".to_owned(), content, mode: 0o644 });
        changes.push("CMD [\"serve\", \"/etc/distribution/config.yml\"]".to_owned());
    }
    import(image, &entries, &changes)
}

fn import_ours(programs: &Path, program: &str, image: &str) -> Result<()> {
    let mut entries = Vec::new();
    let mut libraries = BTreeSet::new();
    // Health checks need `groundwork-wait` in every image, since the images have no shell.
    for name in [program, "groundwork-wait"] {
        let file = programs.join(name);
        libraries.extend(shared_libraries(&file)?);
        entries.push(Entry::program(&format!("/usr/local/bin/{name}"), file));
    }
    entries.extend(libraries.into_iter().map(|path| Entry::program(&path.display().to_string(), path)));
    let names = Content::Text("hosts: files dns\n".to_owned());
    entries.push(Entry { place: "/etc/nsswitch.conf".to_owned(), content: names, mode: 0o644 });
    if Path::new(AUTHORITIES).exists() {
        let content = Content::File(AUTHORITIES.into());
        entries.push(Entry { place: AUTHORITIES.to_owned(), content, mode: 0o644 });
    }
    let entrypoint = format!("ENTRYPOINT [\"/usr/local/bin/{program}\"]");
    let mut changes = vec![entrypoint, "USER 65532:65532".to_owned()];
    changes.extend(image_environment().map(|(name, value)| format!("ENV {name}={value}")));
    import(image, &entries, &changes)
}

/// Returns the shared libraries of a program, by `ldd`, under the paths where the program looks for
/// them.
fn shared_libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run `ldd`")?;
    ensure!(
        output.status.success(),
        "ldd {}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let mut paths: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect();
    let folders: BTreeSet<_> = paths.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    for folder in folders {
        paths.extend(NAME_LIBRARIES.iter().map(|name| folder.join(name)).filter(|path| path.exists()));
    }
    Ok(paths)
}

/// File of an image.
struct Entry {
    place: String,
    content: Content,
    mode: u32,
}

enum Content {
    File(PathBuf),
    Text(String),
}

impl Entry {
    fn program(place: &str, file: PathBuf) -> Self {
        Self { place: place.to_owned(), content: Content::File(file), mode: 0o755 }
    }
}

/// Passes an archive to `docker import`.
fn import(image: &str, entries: &[Entry], changes: &[String]) -> Result<()> {
    let mut command = Command::new("docker");
    command.arg("import");
    for change in changes {
        command.args(["--change", change]);
    }
    let mut docker = command
        .args(["-", image])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run `docker import`")?;
    let input = docker.stdin.take().context("`docker import` reads no input")?;
    let written = write_archive(input, entries);
    let status = docker.wait()?;
    ensure!(status.success(), "`docker import` of {image} failed ({status})");
    written.with_context(|| format!("cannot write the archive of {image}"))?;
    println!("{image}: made");
    Ok(())
}

fn write_archive(out: impl Write, entries: &[Entry]) -> Result<()> {
    let mut archive = tar::Builder::new(out);
    for entry in entries {
        let mut content = Vec::new();
        match &entry.content {
            Content::Text(text) => content.extend_from_slice(text.as_bytes()),
            Content::File(path) => {
                let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
                file.read_to_end(&mut content)?;
            }
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(0);
        archive.append_data(&mut header, entry.place.trim_start_matches('/'), content.as_slice())?;
    }
    archive.into_inner()?.flush()?;
    Ok(())
}

/// Returns the size of an image in bytes; `None` if it does not exist.
fn size(image: &str) -> Option<u64> {
    let arguments = ["image", "inspect", "--format", "{{.Size}}", image];
    let output = Command::new("docker").args(arguments).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn report(model: &Model) -> Result<()> {
    println!("{:>10}  image", "MiB");
    for name in names(model) {
        let Some(size) = size(name) else { bail!("{name} is not there") };
        #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
        let size = size as f64 / f64::from(1 << 20);
        println!("{size:>10.1}  {name}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_is_told_with_its_profile() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let model = Model::read(workspace).unwrap();
        let left_out: Vec<_> = left_out(&model).collect();
        assert!(
            matches!(left_out[..], [(image, "observability")] if image.starts_with("jaegertracing/jaeger:"))
        );
        assert!(told(left_out[0]).contains("the profile `observability` works only where it can be pulled"));
        let made = model.services().filter(|service| service.is_default() && service.target().is_none());
        for service in made {
            assert!(server_of(service.image()).is_some(), "{} cannot be made", service.name);
        }
    }
}
