//! Ports of the host that a project uses, from Compose's own view of file, environment and `.env`.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{COMPOSE, entries, raw};

/// Port of the host, and the service that publishes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) service: String,
    pub(super) target: u16,
    pub(super) port: u16,
}

/// Environment variable that sets a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortVariable {
    pub(crate) name: String,
    pub(crate) default: u16,
    service: String,
    target: u16,
}

/// Returns the variables of all published ports, by name.
pub(crate) fn port_variables(workspace: &Path) -> Result<Vec<PortVariable>> {
    port_variables_of(workspace, COMPOSE)
}

/// Returns the variables of one file.
pub(super) fn port_variables_of(workspace: &Path, file: &str) -> Result<Vec<PortVariable>> {
    let document = raw(workspace, file)?;
    let mut all = Vec::new();
    for (service, value) in entries(document.get("services")) {
        for text in value["ports"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let variable = port_variable(service, text);
            all.push(variable.with_context(|| {
                format!("compose.yaml: {service}: port {text} is not 127.0.0.1:${{VARIABLE:-PORT}}:PORT")
            })?);
        }
    }
    all.sort_by(|one: &PortVariable, other| one.name.cmp(&other.name));
    Ok(all)
}

fn port_variable(service: &str, text: &str) -> Option<PortVariable> {
    let (variable, target) = text.strip_prefix("127.0.0.1:${")?.split_once("}:")?;
    let (name, default) = variable.split_once(":-")?;
    Some(PortVariable {
        name: name.to_owned(),
        default: default.parse().ok()?,
        service: service.to_owned(),
        target: target.parse().ok()?,
    })
}

/// Returns the published ports in the output of `docker compose config --format json`, which lists
/// only services that would start.
pub(super) fn wanted(configuration: &Value) -> Vec<Published> {
    let of = |(service, value): (&str, &Value)| {
        let ports = value["ports"].as_array().cloned().unwrap_or_default();
        let published = |port: &Value| {
            let target = u16::try_from(port["target"].as_u64()?).ok()?;
            Some(Published {
                service: service.to_owned(),
                target,
                port: port["published"].as_str()?.parse().ok()?,
            })
        };
        ports.iter().filter_map(published).collect::<Vec<_>>()
    };
    entries(configuration.get("services")).flat_map(of).collect()
}

/// Returns the ports that containers of the project already use, from the lines of `docker compose
/// ps --format json`.
pub(super) fn held(containers: &[Value]) -> BTreeSet<u16> {
    let publishers =
        containers.iter().flat_map(|container| container["Publishers"].as_array().into_iter().flatten());
    let ports = publishers.filter_map(|publisher| publisher["PublishedPort"].as_u64());
    ports.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port != 0).collect()
}

/// Returns an error if another program uses one of the ports.
pub(super) fn are_free(wanted: &[Published], held: &BTreeSet<u16>, variables: &[PortVariable]) -> Result<()> {
    for published in wanted.iter().filter(|published| !held.contains(&published.port)) {
        let Published { service, target, port } = published;
        let Err(error) = TcpListener::bind(("127.0.0.1", *port)) else { continue };
        let variable =
            variables.iter().find(|variable| variable.service == *service && variable.target == *target);
        let variable = variable.map_or("the variable in compose.yaml", |variable| &variable.name);
        bail!(
            "port {port} of {service} cannot be used ({error}): choose another with {variable}=PORT, in the environment or in \
             .env, or stop the program that listens there"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variable(name: &str, service: &str, target: u16) -> PortVariable {
        PortVariable { name: name.to_owned(), default: 1, service: service.to_owned(), target }
    }

    #[test]
    fn every_port_of_the_file_has_a_variable() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let all = port_variables(workspace).unwrap();
        let renderer = all.iter().find(|variable| variable.name == "GROUNDWORK_RENDERER_ADMIN_PORT").unwrap();
        assert_eq!((renderer.default, &*renderer.service, renderer.target), (9452, "renderer", 8081));
        let mut defaults: Vec<u16> = all.iter().map(|variable| variable.default).collect();
        defaults.sort_unstable();
        defaults.dedup();
        assert_eq!(defaults.len(), all.len(), "two services cannot have the same port");
        for text in ["9441:8080", "127.0.0.1:9441:8080", "127.0.0.1:${A}:8080", "127.0.0.1:${A:-x}:8080"] {
            assert_eq!(port_variable("a", text), None, "{text}");
        }
    }

    /// A service of a profile that is not selected is not in the configuration, and needs no port.
    #[test]
    fn only_what_starts_wants_its_ports() {
        let configuration = json!({"name": "groundwork", "services": {
            "nats": {"ports": [{"mode": "ingress", "host_ip": "127.0.0.1", "target": 4222, "published": "9999", "protocol": "tcp"}]},
            "install": {},
        }});
        let nats = Published { service: "nats".to_owned(), target: 4222, port: 9999 };
        assert_eq!(wanted(&configuration), [nats]);
    }

    #[test]
    fn a_port_of_somebody_else_is_named_with_its_variable() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let wanted = [Published { service: "kube-apiserver".to_owned(), target: 6443, port }];
        let variables = [variable("OTHER", "kube-apiserver", 1), variable("API", "kube-apiserver", 6443)];
        let error = are_free(&wanted, &BTreeSet::new(), &variables).unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {port} of kube-apiserver cannot be used")), "{error}");
        assert!(error.contains("with API=PORT, in the environment or in .env"), "{error}");
        // The project runs already and uses the port itself.
        let container = json!({"Service": "kube-apiserver", "Publishers": [
            {"URL": "127.0.0.1", "TargetPort": 6443, "PublishedPort": port, "Protocol": "tcp"},
            {"URL": "", "TargetPort": 1, "PublishedPort": 0, "Protocol": "tcp"},
        ]});
        let held = held(&[container]);
        assert_eq!(held.len(), 1);
        assert!(are_free(&wanted, &held, &variables).is_ok());
        drop(taken);
        assert!(are_free(&wanted, &BTreeSet::new(), &variables).is_ok());
    }
}
