//! Last log lines of the pods of hooks (`helm.md` 9.4, R34). Helm copies these logs to the output
//! of its command.

use groundwork_apply::{Cluster, ResourceKind};
use serde_json::Value;

use super::objects::Object;

/// Bytes kept of each container's log, counted from its end.
const MOST_BYTES: usize = 4 << 10;
const MOST_LINES: u32 = 200;
/// Bytes requested of a log. The API server counts them from the first requested line, and lines
/// may be long.
const MOST_ASKED: u32 = 256 << 10;
/// Number of pods read for a Job that was retried.
const MOST_PODS: usize = 3;

/// Returns the end of the log of every container, or the reason why a log cannot be read.
pub(super) async fn of(cluster: &Cluster, object: &Object) -> Vec<String> {
    let pods = match pods(cluster, object).await {
        Ok(pods) => pods,
        Err(error) => return vec![format!("the pods of {} cannot be read: {error}", object.reference)],
    };
    let mut logs = Vec::new();
    for pod in pods.iter().rev().take(MOST_PODS) {
        let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
        let metadata = &pod["metadata"];
        let (pod_name, namespace) = (name(metadata), metadata["namespace"].as_str().unwrap_or_default());
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array().into_iter().flatten() {
                let container = name(container);
                let answer = cluster.log(namespace, &pod_name, &container, MOST_LINES, MOST_ASKED).await;
                logs.push(match answer {
                    Ok(text) => format!("log of container {container} of pod {pod_name}:\n{}", end(&text)),
                    Err(error) => {
                        format!("the log of container {container} of pod {pod_name} cannot be read: {error}")
                    }
                });
            }
        }
    }
    logs
}

/// Returns the pods of a Pod or Job, oldest first.
async fn pods(cluster: &Cluster, object: &Object) -> Result<Vec<Value>, groundwork_controller::ApiError> {
    let (name, namespace) = (&object.reference.name, object.reference.namespace.as_deref());
    match object.reference.kind.as_str() {
        "Pod" => Ok(cluster.get_of(&object.kind, &object.reference).await?.into_iter().collect()),
        "Job" => {
            let kind = ResourceKind {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                plural: "pods".to_owned(),
                is_namespaced: true,
                has_status: false,
            };
            let mut pods = cluster.list(&kind, namespace, &format!("job-name={name}")).await?;
            pods.sort_by_key(|pod| {
                pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned()
            });
            Ok(pods)
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns the last bytes of a text, beginning at a whole line if there is one.
fn end(text: &str) -> &str {
    let text = text.trim_end();
    let begin = text.len().saturating_sub(MOST_BYTES);
    if begin == 0 {
        return text;
    }
    let tail = &text[text.ceil_char_boundary(begin)..];
    tail.split_once('\n').map_or(tail, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log() {
        assert_eq!(end("a\nb\n"), "a\nb");
        let lines = format!("{}\nlast", "x".repeat(MOST_BYTES));
        assert_eq!(end(&lines), "last");
        let one = "ä".repeat(MOST_BYTES);
        assert_eq!(end(&one).len(), MOST_BYTES);
    }
}
