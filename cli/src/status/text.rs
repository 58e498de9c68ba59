//! Prints the tree of an Installation as text.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use groundwork_api::{DeployItem, Execution, Kind as _};
use groundwork_lifecycle::overview::{Node, NodeError};
use groundwork_lifecycle::waits::{Wait, elapsed};
use jiff::Timestamp;

use crate::terminal::shown;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const BUSY: Style = AnsiColor::Yellow.on_default();

/// Line of the tree before its columns are aligned.
struct Line<'a> {
    /// Branch in front of the name; `below` is the one in front of the lines below.
    branch: String,
    below: String,
    label: String,
    node: &'a Node,
    errors: Vec<(&'static str, &'a NodeError)>,
}

/// Formats the tree, one line per Installation or item, with errors below it. An Execution has no
/// line; its items take its place.
pub(super) fn tree(root: &Node, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let label = format!("{}/{}", root.namespace, root.name);
    collect(root, label, String::new(), "", &mut lines);
    let length = |line: &Line<'_>| line.branch.chars().count() + line.label.chars().count();
    let width = lines.iter().map(length).max().unwrap_or_default();
    let mut text = String::new();
    for line in &lines {
        let padding = " ".repeat(width - length(line));
        let elapsed = line.node.times.elapsed(now).map(elapsed).unwrap_or_default();
        let content = line.node.content.as_deref().unwrap_or_default();
        let style = style(line.node);
        let phase = format!("{style}{:<14}{style:#}", shown(&phase(line.node)));
        let row = format!(
            "{}{}{padding}  {phase}  {elapsed:<8}  {}",
            line.branch,
            shown(&line.label),
            shown(content)
        );
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}", row.trim_end());
        if let Some(wait) = wait(line.node) {
            let _ = writeln!(text, "{}… {}", line.below, shown(&wait.sentence(now)));
        }
        if let Some(drift) = &line.node.drift {
            let _ = writeln!(text, "{}~ Drifted: {}", line.below, shown(drift));
        }
        for (whose, error) in &line.errors {
            let message = format!("{whose}{}: {}", error.reason, error.message);
            for (index, part) in message.lines().enumerate() {
                let mark = if index == 0 { "!" } else { " " };
                let _ = writeln!(text, "{}{mark} {}", line.below, shown(part));
            }
        }
    }
    text
}

/// Returns the reason that an object waits. An Execution that waits has no line, so its wait shows
/// at the Installation.
fn wait(node: &Node) -> Option<&Wait> {
    let mut executions = node.nodes.iter().filter(|below| below.kind == Execution::KIND);
    node.waits_for.as_ref().or_else(|| executions.find_map(|execution| execution.waits_for.as_ref()))
}

fn collect<'a>(node: &'a Node, label: String, branch: String, below: &str, lines: &mut Vec<Line<'a>>) {
    let (executions, nested): (Vec<&Node>, Vec<&Node>) =
        node.nodes.iter().partition(|below| below.kind == Execution::KIND);
    let mut errors: Vec<(&'static str, &NodeError)> =
        node.error.as_ref().map(|error| ("", error)).into_iter().collect();
    errors.extend(executions.iter().filter_map(|node| Some(("Execution: ", node.error.as_ref()?))));
    let children: Vec<&Node> =
        executions.iter().flat_map(|execution| &execution.nodes).chain(nested).collect();
    // Errors and waits of a node are printed beside the branch to its children.
    let beside = if children.is_empty() { "  " } else { "│ " };
    lines.push(Line { branch, below: format!("{below}{beside}"), label, node, errors });
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (fork, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let kind = if child.kind == DeployItem::KIND { "item" } else { "installation" };
        let name = child.template.as_deref().unwrap_or(&child.name);
        let name = if name == child.name { name.to_owned() } else { format!("{name} ({})", child.name) };
        let label = format!("{kind} {name}");
        collect(child, label, format!("{below}{fork}"), &format!("{below}{trunk}"), lines);
    }
}

/// Returns the phase, with facts that the phase alone does not show.
pub(super) fn phase(node: &Node) -> String {
    let mut phase = match (node.phase.as_str(), node.is_running) {
        ("", true) => "Waiting".to_owned(),
        ("", false) => "-".to_owned(),
        // The job was requested but has not begun, so the phase is still that of the former job.
        ("Succeeded" | "Failed" | "DeleteFailed", true) => "Waiting".to_owned(),
        (phase, _) => phase.to_owned(),
    };
    if node.is_deleting && !phase.contains("Delet") {
        phase.push_str(" (deleting)");
    }
    if let Some(requested) = &node.requested {
        let _ = write!(phase, " ({requested} requested)");
    }
    phase
}

fn style(node: &Node) -> Style {
    match node {
        node if node.has_failed() => BAD,
        node if node.is_running || node.is_deleting || node.requested.is_some() => BUSY,
        node if node.phase.is_empty() => Style::new(),
        _ => GOOD,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use groundwork_api::Installation;
    use groundwork_lifecycle::overview::Times;
    use groundwork_lifecycle::waits::Look;

    use super::*;

    fn node(kind: &'static str, template: &str, phase: &str, nodes: Vec<Node>) -> Node {
        let name = if template.is_empty() { "shop".to_owned() } else { format!("{template}-x") };
        Node {
            kind,
            namespace: "team".into(),
            name,
            template: (!template.is_empty()).then(|| template.into()),
            content: None,
            phase: phase.into(),
            job_id: "j".into(),
            is_running: false,
            is_deleting: false,
            requested: None,
            error: None,
            waits_for: None,
            drift: None,
            times: Times::default(),
            nodes,
        }
    }

    fn error(message: &str) -> Option<NodeError> {
        let (operation, reason) = ("Reconcile".to_owned(), "Told".to_owned());
        Some(NodeError { operation, reason, message: message.into(), codes: Vec::new() })
    }

    #[test]
    fn drift_is_told_below_its_item() {
        let mut item = node("DeployItem", "server", "Succeeded", vec![]);
        item.drift = Some("changed since the last job: shop/web of type ConfigMap is gone".into());
        let text = tree(&node(Installation::KIND, "", "Succeeded", vec![item]), Timestamp::UNIX_EPOCH);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(
            plain.contains("~ Drifted: changed since the last job: shop/web of type ConfigMap is gone\n"),
            "{plain}"
        );
    }

    #[test]
    fn what_is_waited_for_is_told_below_whoever_waits() {
        let mut item = node("DeployItem", "server", "Progressing", vec![]);
        item.waits_for = Some(Wait {
            what: "a deployer".into(),
            since: Some(Timestamp::from_second(10).unwrap()),
            next_look: Some(Look::Within(Duration::from_secs(30))),
        });
        let mut execution = node("Execution", "", "Failed", vec![item]);
        execution.waits_for = Some(Wait { what: "others".into(), since: None, next_look: None });
        let root = node(Installation::KIND, "", "Progressing", vec![execution]);
        let text = tree(&root, Timestamp::from_second(200).unwrap());
        let plain = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines[1], "│ … waits for others", "{plain}");
        assert_eq!(
            lines[3], "     … waits for a deployer, since 3m10s (looked at again within 30s)",
            "{plain}"
        );
    }

    #[test]
    fn a_tree_reads_from_the_root_to_the_leaves() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let mut item = node("DeployItem", "server", "Failed", vec![]);
        item.content = Some("landscaper.gardener.cloud/mock".into());
        item.error = error("as told\nin two lines \u{1b}[2J");
        let mut execution = node("Execution", "", "Failed", vec![item]);
        execution.error = error("has failed or missing deploy items");
        let leaf = node("Installation", "leaf", "", vec![]);
        let mut web = node("Installation", "web", "Succeeded", vec![leaf]);
        web.is_running = true;
        let mut root = node(Installation::KIND, "", "Failed", vec![execution, web]);
        root.times = Times { trigger: at(10), finished: at(100), ..Times::default() };
        root.requested = Some("reconcile".into());
        let text = tree(&root, Timestamp::from_second(200).unwrap());
        let plain = anstream::adapter::strip_str(&text).to_string();
        let expected = "\
team/shop                     Failed (reconcile requested)  1m30s
│ ! Execution: Told: has failed or missing deploy items
├─ item server (server-x)     Failed                    landscaper.gardener.cloud/mock
│    ! Told: as told
│      in two lines \\u{1b}[2J
└─ installation web (web-x)   Waiting
   └─ installation leaf (leaf-x)  -
";
        // The width of a column depends on its longest entry, so compare only the words.
        let words = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(words(&plain), words(expected), "{plain}");
        let starts: Vec<usize> = plain.lines().filter_map(|line| line.find("  Failed")).collect();
        assert!(starts.len() == 2, "{plain}");
    }

    #[test]
    fn phases_tell_what_a_status_does_not() {
        let mut object = node("Installation", "", "", vec![]);
        assert_eq!(phase(&object), "-");
        object.is_running = true;
        assert_eq!(phase(&object), "Waiting");
        object.phase = "Progressing".into();
        assert_eq!(phase(&object), "Progressing");
        object.is_deleting = true;
        assert_eq!(phase(&object), "Progressing (deleting)");
        object.phase = "Deleting".into();
        assert_eq!(phase(&object), "Deleting");
    }
}
