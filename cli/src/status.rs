//! `groundwork status`: shows the state of Installations.

mod text;

use std::io::{IsTerminal as _, Write};
use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use groundwork_api::{Installation, ResourceExt};
use groundwork_lifecycle::overview::{Members, Node};
use groundwork_lifecycle::parent_name;
use groundwork_lifecycle::waits::{Clock, elapsed};
use jiff::Timestamp;
use kube::api::{Api, ListParams};

use crate::ending::Ending;
use crate::live::{self, Cluster, InstallationName, Live, LiveError, NamespaceArgument, installation_name};
use crate::terminal::{aligned, shown};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Limit in characters for a message in a table.
const LONGEST_MESSAGE: usize = 100;
/// Interval at which times on the screen are updated.
const TICK: Duration = Duration::from_secs(1);
/// Terminal sequence that clears the screen and moves the cursor to its top.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The Installation, as NAMESPACE/NAME or NAME. Without it all root Installations of the
    /// namespace are listed.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = installation_name)]
    installation: Option<InstallationName>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    /// List the Installations of all namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "installation"])]
    all_namespaces: bool,

    /// Show the tree again whenever something of it changes, until the Installation is gone.
    #[arg(short, long, requires = "installation")]
    watch: bool,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Readable text.
    Text,
    /// One JSON object per line: an Installation with everything below it.
    Json,
}

/// Prints a tree or a table.
pub(crate) fn run(arguments: &StatusArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("status").await?;
        let mut out = anstream::stdout();
        match &arguments.installation {
            None => list(&cluster, arguments, &mut out).await?,
            Some(name) => {
                let (namespace, name) = cluster.place(name, &arguments.namespace);
                if arguments.watch {
                    let mut live = cluster.follow(&namespace, &name).await?;
                    let missing = LiveError::Missing { namespace, name };
                    return watch(&mut live, missing, arguments.output, &mut out).await;
                }
                let tree = read(&cluster, &namespace, &name).await?;
                print(&tree, arguments.output, &mut out)?;
            }
        }
        Ok(Ending::Rendered)
    })
}

/// Reads the tree of an Installation once.
async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Node, LiveError> {
    let mut follower = groundwork_renderer::Follower::new(cluster.objects.clone(), namespace, name);
    follower.read().await?;
    let missing = || LiveError::Missing { namespace: namespace.to_owned(), name: name.to_owned() };
    follower.tree().ok_or_else(missing)
}

async fn watch(
    live: &mut Live,
    missing: LiveError,
    format: Format,
    out: &mut impl Write,
) -> Result<Ending, LiveError> {
    let is_screen = format == Format::Text && std::io::stdout().is_terminal();
    let mut tree = live.tree().ok_or(missing)?;
    loop {
        if is_screen {
            write!(out, "{CLEAR}")?;
        }
        print(&tree, format, out)?;
        {
            let mut changed = pin!(live.changed());
            loop {
                tokio::select! {
                    changed = &mut changed => break changed?,
                    // Elapsed times grow without any change of an object, so print again.
                    () = tokio::time::sleep(TICK), if is_screen && tree.is_running => {
                        write!(out, "{CLEAR}")?;
                        print(&tree, format, out)?;
                    }
                }
            }
        }
        match live.tree() {
            Some(now) => tree = now,
            None => return Ok(Ending::Rendered),
        }
    }
}

/// Prints a tree.
fn print(tree: &Node, format: Format, out: &mut impl Write) -> Result<(), LiveError> {
    match format {
        Format::Text => write!(out, "{}", text::tree(tree, Timestamp::now()))?,
        Format::Json => {
            serde_json::to_writer(&mut *out, tree).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}

/// Prints a tree as text, as other commands do at their end.
pub(crate) fn print_tree(tree: &Node) -> Result<(), LiveError> {
    print(tree, Format::Text, &mut anstream::stdout())
}

/// Prints one line for each root.
async fn list(cluster: &Cluster, arguments: &StatusArguments, out: &mut impl Write) -> Result<(), LiveError> {
    let client = cluster.client.clone();
    let namespace = &arguments.namespace.namespace;
    let namespace = namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
    let api: Api<Installation> = match arguments.all_namespaces {
        true => Api::all(client),
        false => Api::namespaced(client, &namespace),
    };
    let mut parameters = ListParams::default().limit(PAGE);
    let mut rows = Vec::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| LiveError::Watch {
            verb: "list",
            plural: "installations",
            namespace: if arguments.all_namespaces { "(all)".to_owned() } else { namespace.clone() },
            is_final: live::is_final(&error),
            problem: groundwork_telemetry::innermost_cause(&error),
        })?;
        let roots = page.items.into_iter().filter(|installation| parent_name(installation).is_none());
        rows.extend(roots.filter_map(alone));
        match live::next_page(&parameters, page.metadata.continue_)? {
            Some(next) => parameters = next,
            None => break,
        }
    }
    match arguments.output {
        Format::Json => {
            for row in &rows {
                print(row, Format::Json, out)?;
            }
        }
        Format::Text => write!(out, "{}", table(&rows, Timestamp::now()))?,
    }
    Ok(out.flush()?)
}

/// Returns an Installation without the objects below it.
fn alone(installation: Installation) -> Option<Node> {
    let name = installation.name_any();
    let mut members = Members::default();
    members.insert_installation(installation);
    members.tree(&name, &Clock::now())
}

fn table(rows: &[Node], now: Timestamp) -> String {
    if rows.is_empty() {
        return "no Installations\n".to_owned();
    }
    let mut cells = vec![["INSTALLATION", "PHASE", "TOOK", "COMPONENT", "MESSAGE"].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let message = row.error.as_ref().map(|error| error.message.lines().next().unwrap_or_default());
        let message = message.unwrap_or_default();
        let short: String = message.chars().take(LONGEST_MESSAGE).collect();
        let ellipsis = if short.len() < message.len() { "…" } else { "" };
        [
            format!("{}/{}", row.namespace, row.name),
            text::phase(row),
            row.times.elapsed(now).map(elapsed).unwrap_or_default(),
            row.content.clone().unwrap_or_default(),
            format!("{short}{ellipsis}"),
        ]
        .map(|cell| shown(&cell).into_owned())
    }));
    aligned(&cells)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_root() {
        let object = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": "shop", "namespace": "team"}, "spec": {"blueprint": {}},
            "status": {"phase": "Failed", "jobID": "j", "jobIDFinished": "j", "observedGeneration": 1,
                "lastError": {"operation": "o", "reason": "r", "message": format!("{}\nmore", "m".repeat(200))},
                "transitionTimes": {"triggerTime": "2026-01-01T00:00:00Z", "finishedTime": "2026-01-01T00:00:05Z"}}});
        let row = alone(serde_json::from_value(object).unwrap()).unwrap();
        let text = table(&[row], Timestamp::UNIX_EPOCH);
        let expected = format!(
            "INSTALLATION  PHASE   TOOK  COMPONENT  MESSAGE\nteam/shop     Failed  5s               {}…\n",
            "m".repeat(100)
        );
        assert_eq!(text, expected);
        assert_eq!(table(&[], Timestamp::UNIX_EPOCH), "no Installations\n");
    }
}
