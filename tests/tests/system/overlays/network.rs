//! Checks that NetworkPolicies permit the connections that the programs need, and no others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::pods::Workload;

/// All policies of an overlay, which are in one namespace.
pub(super) struct Policies(Vec<Value>);

impl Policies {
    pub(super) fn of<'a>(documents: impl Iterator<Item = &'a Value>) -> Self {
        Self(documents.cloned().collect())
    }

    /// Reports whether a pod may send packets to a pod with these labels. `None` stands for an
    /// address outside of the cluster.
    fn leaves(&self, from: &Value, to: Option<&Value>, port: u64) -> bool {
        self.lets_through("Egress", "egress", "to", from, to, port)
    }

    fn enters(&self, to: &Value, from: Option<&Value>, port: u64) -> bool {
        self.lets_through("Ingress", "ingress", "from", to, from, port)
    }

    fn passes(&self, from: &Value, to: &Value, port: u64) -> bool {
        self.leaves(from, Some(to), port) && self.enters(to, Some(from), port)
    }

    fn lets_through(
        &self,
        kind: &str,
        rules: &str,
        peers: &str,
        of: &Value,
        other: Option<&Value>,
        port: u64,
    ) -> bool {
        let has_kind =
            |spec: &Value| spec["policyTypes"].as_array().is_some_and(|kinds| kinds.contains(&json!(kind)));
        let specs = self.0.iter().map(|policy| &policy["spec"]);
        let selecting: Vec<&Value> =
            specs.filter(|spec| has_kind(spec) && selects(&spec["podSelector"], of)).collect();
        let is_wanted = |rule: &Value| {
            let ports = rule["ports"].as_array();
            let fits =
                ports.is_none_or(|ports| ports.iter().any(|given| given["port"].as_u64() == Some(port)));
            let Some(peers) = rule[peers].as_array() else { return fits };
            let Some(other) = other else { return false };
            // A peer with a namespace selector matches pods of other namespaces, so it counts only
            // if it selects all of them.
            let here =
                |peer: &Value| peer["namespaceSelector"].as_object().is_none_or(serde_json::Map::is_empty);
            fits && peers.iter().any(|peer| here(peer) && selects(&peer["podSelector"], other))
        };
        let all_rules = selecting.iter().filter_map(|spec| spec[rules].as_array()).flatten();
        // A pod without any policy accepts all traffic.
        selecting.is_empty() || all_rules.into_iter().any(is_wanted)
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let listed = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.into_iter().all(|(key, value)| &labels[key] == value)
        && listed.into_iter().all(|expression| {
            let key = expression["key"].as_str().unwrap_or_default();
            let values = expression["values"].as_array();
            expression["operator"] == "In" && values.is_some_and(|values| values.contains(&labels[key]))
        })
}

/// Checks every connection between our pods against the list of required ones.
pub(super) fn check(policies: &Policies, workloads: &[Workload]) -> Result<()> {
    let short = |workload: &Workload| workload.name().trim_start_matches("groundwork-").to_owned();
    let caller = json!({"groundwork.dev/grpc-client": "true"});
    let stranger = json!({"app": "stranger"});
    for from in workloads {
        let (name, labels) = (short(from), from.labels());
        let is_bus = name == "nats";
        for to in workloads {
            for port in [4222, 6222, 8222, 8080, 8081] {
                let needed = match (name.as_str(), short(to).as_str(), port) {
                    ("nats", "nats", 6222)
                    | ("renderer" | "console", "resolver", 8080)
                    | ("renderer", "deployer" | "deployer-manifest" | "deployer-helm", 8080)
                    | ("console", "renderer" | "variant", 8080)
                    | ("variant", "watcher", 8080) => true,
                    (_, "nats", 4222) => !is_bus,
                    _ => false,
                };
                let passes = policies.passes(labels, to.labels(), port);
                ensure!(passes == needed, "{name} to {} on {port}: {passes}", short(to));
            }
        }
        for port in [443, 6443] {
            ensure!(policies.leaves(labels, None, port) != is_bus, "{name} to the API server on {port}");
        }
        // Registries and chart repositories may have any address.
        let fetches = name == "deployer-helm";
        ensure!(policies.leaves(labels, None, 80) == fetches, "{name} to any address");
        for port in [4222, 6222, 8080, 8081, 8222] {
            ensure!(!policies.enters(labels, Some(&stranger), port), "a stranger to {name} on {port}");
        }
        let is_client = name.starts_with("deployer") || ["console", "target-sync"].contains(&name.as_str());
        let answers = !is_bus && !is_client;
        ensure!(policies.enters(labels, Some(&caller), 8080) == answers, "a caller to {name}");
    }
    Ok(())
}
