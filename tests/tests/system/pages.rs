//! The commands of the pages in `docs/` do what the pages say: a person types them, so a test does.
//!
//! Blocks marked `sh` are run, all of a page in one shell; a block marked `text` right after one is what it prints, with `…` for what
//! differs from run to run (alone on a line: for lines). Commands that need Docker or a cluster with nodes are not marked.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Program, Server, find, servers_or_skip};
use groundwork_tests::{System, get, wait_for, workspace};

use crate::echo_server::options;
use crate::support::PATIENCE;

/// Commands, and what they print if the page shows it.
#[derive(Debug, PartialEq)]
struct Step {
    line: usize,
    commands: String,
    printed: Option<String>,
}

/// The steps of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    let mut last = "";
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((index + 1, language, String::new())),
            (Some((_, _, text)), None) => _ = writeln!(text, "{line}"),
            (None, None) => {
                if !line.is_empty() {
                    last = "";
                }
            }
            (Some(_), Some(_)) => {
                let Some((line, language, text)) = open.take() else { continue };
                match (language, steps.last_mut()) {
                    ("sh", _) => steps.push(Step { line, commands: text, printed: None }),
                    ("text", Some(step)) if last == "sh" => step.printed = Some(text),
                    _ => {}
                }
                last = language;
            }
        }
    }
    steps
}

/// Whether a text is what a page shows.
fn is_shown(shown: &str, text: &str) -> bool {
    let (shown, text): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), text.lines().collect());
    matches(&shown, &text, &|shown| *shown == "…", &|shown, text| {
        let (shown, text): (Vec<char>, Vec<char>) = (shown.chars().collect(), text.chars().collect());
        matches(&shown, &text, &|shown| *shown == '…', &|shown, text| shown == text)
    })
}

fn matches<T>(
    pattern: &[T],
    text: &[T],
    is_any: &dyn Fn(&T) -> bool,
    is_one: &dyn Fn(&T, &T) -> bool,
) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((first, rest)) if is_any(first) => {
            (0..=text.len()).any(|skipped| matches(rest, &text[skipped..], is_any, is_one))
        }
        Some((first, rest)) => text
            .split_first()
            .is_some_and(|(next, after)| is_one(first, next) && matches(rest, after, is_any, is_one)),
    }
}

/// Runs the steps of a page in one shell, and compares what they print.
async fn run(name: &str, page: &str, folder: &Path, variables: &[(&str, String)]) -> Result<()> {
    let steps = steps(page);
    let mut script = "set -eu\n".to_owned();
    for (index, step) in steps.iter().enumerate() {
        _ = writeln!(script, "{{\n{}}} > printed-{index}", step.commands);
    }
    let mut command = Command::new("bash");
    command
        .arg("-c")
        .arg(script)
        .current_dir(folder)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let mut command = tokio::process::Command::from(command);
    let limited = tokio::time::timeout(4 * PATIENCE, command.kill_on_drop(true).output());
    let output = limited.await.with_context(|| format!("{name} does not end"))??;
    for (index, step) in steps.iter().enumerate() {
        let place = format!("{name}:{}", step.line);
        let printed =
            std::fs::read_to_string(folder.join(format!("printed-{index}"))).with_context(|| {
                format!("{place} was not reached: {}", String::from_utf8_lossy(&output.stderr))
            })?;
        if let Some(shown) = &step.printed
            && !is_shown(shown, &printed)
        {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{place} shows\n{shown}\nbut this is printed:\n{printed}\nand of errors on the whole page:\n{errors}"
            );
        }
    }
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A folder as a checkout has it for somebody who reads the page.
fn checkout() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for part in ["examples", "k8s"] {
        std::os::unix::fs::symlink(workspace().join(part), folder.path().join(part))?;
    }
    Ok(folder)
}

fn folder_of(program: &Path) -> Result<String> {
    Ok(program.parent().context("a program lies in a folder")?.display().to_string())
}

/// `groundwork up` with a NATS server, and its ports by the numbers that pages name.
async fn up(system: &System, repositories: &Path) -> Result<(Program, Vec<(u16, u16)>)> {
    let mut command = Command::new(system.binary("groundwork")?);
    command.args(["up", "--nats", &system.nats.url(), "--repositories"]).arg(repositories);
    let mut ports = Vec::new();
    for (name, usual) in [("admin", 9440), ("resolver", 9441), ("renderer", 9442), ("watcher", 9443)] {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.args([format!("--{name}-address"), format!("127.0.0.1:{port}")]);
        ports.push((usual, port));
    }
    command.env("KUBECONFIG", system.plane.kubeconfig());
    let program = Program::start("up", &command)?;
    let admin = ports[0].1;
    wait_for("groundwork up is ready", PATIENCE, async || match get(admin, "/readyz").await {
        Ok((200, _)) => Ok(()),
        Ok((_, problems)) => Err(problems),
        Err(error) => Err(error.to_string()),
    })
    .await
    .with_context(|| std::fs::read_to_string(program.log()).unwrap_or_default())?;
    Ok((program, ports))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_all_pages_work() -> Result<()> {
    let options = options();
    let repositories = options.repositories.clone().context("the example has a repository map")?;
    let Some(system) = System::servers(options).await? else { return Ok(()) };
    if !servers_or_skip(&[Server::Grpcurl]) {
        return Ok(());
    }
    let grpcurl = find(Server::Grpcurl)?.path;
    let (program, ports) = up(&system, &repositories).await?;
    let kubectl = PathBuf::from(system.plane.kubectl()?.get_program());
    let programs = [folder_of(&system.binary("groundwork")?)?, folder_of(&kubectl)?, folder_of(&grpcurl)?];
    let path = format!("{}:{}", programs.join(":"), std::env::var("PATH").unwrap_or_default());
    let variables = [
        ("PATH", path),
        ("KUBECONFIG", system.plane.kubeconfig().display().to_string()),
        ("GROUNDWORK_NATS_URL", system.nats.url()),
    ];
    let mut run_steps = 0;
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(workspace().join("docs"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    pages.sort();
    for path in pages.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut page = std::fs::read_to_string(path)?;
        for (usual, port) in &ports {
            page = page.replace(&format!("127.0.0.1:{usual}"), &format!("127.0.0.1:{port}"));
        }
        run_steps += steps(&page).len();
        let log = || std::fs::read_to_string(program.log()).unwrap_or_default();
        run(&name, &page, checkout()?.path(), &variables).await.with_context(log)?;
    }
    ensure!(run_steps >= 12, "only {run_steps} blocks were run");
    Ok(())
}

#[test]
fn blocks_are_found_and_compared() {
    let page = "```sh\na\n```\n\n```text\nb …\n```\nwords\n```text\nnot of a command\n```\n```yaml\nc: d\n```\n```sh\ne\n```\nf\n```text\ng\n```\n";
    let step = |line, commands: &str, printed: Option<&str>| Step {
        line,
        commands: commands.to_owned(),
        printed: printed.map(str::to_owned),
    };
    assert_eq!(steps(page), [step(1, "a\n", Some("b …\n")), step(15, "e\n", None)]);
    for (shown, text, is_same) in [
        ("a\nb", "a\nb\n", true),
        ("a …c", "a bc", true),
        ("a …c", "a bd", false),
        ("…\nz", "a\nb\nz", true),
        ("…\nz", "a\nb", false),
        ("…", "", true),
        ("a", "a\nb", false),
    ] {
        assert_eq!(is_shown(shown, text), is_same, "{shown:?} {text:?}");
    }
}
