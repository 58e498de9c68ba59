//! `set-image` (`packagevariants.md` 8.5).

use groundwork_yaml::tree::Node;

use super::fields::{pairs, visit};
use super::{text, type_of};
use crate::render::ResourceList;

#[derive(Default)]
struct Config {
    name: String,
    new_name: String,
    new_tag: String,
    digest: String,
}

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let config = config(list.config.as_ref())?;
    let mut count = 0;
    for item in &mut list.items {
        let Some(pod) = pod_spec(text(&item.root, &["kind"])) else { continue };
        for containers in ["containers", "initContainers"] {
            visit(&mut item.root, &format!("{pod}/{containers}[]/image"), false, &mut |image| {
                let new = image.as_str().and_then(|old| config.apply(old).filter(|new| new != old));
                if let Some(new) = new.filter(|new| list.meter.bytes(new.len())) {
                    image.set_text(&new);
                    count += 1;
                }
            });
        }
    }
    list.info(format!("summary: updated a total of {count} image(s)"));
    Ok(())
}

fn config(config: Option<&Node>) -> Result<Config, String> {
    let mut found = Config::default();
    let given = match config.map(type_of) {
        Some(("SetImage", "fn.kpt.dev/v1alpha1")) => pairs(config.and_then(|config| config.get("image"))),
        Some(("ConfigMap", "v1")) => pairs(config.and_then(|config| config.get("data"))),
        Some((kind, api_version)) => {
            return Err(format!(
                "unknown functionConfig Kind={kind} ApiVersion={api_version}, expect `ConfigMap` or `SetImage`"
            ));
        }
        None => Vec::new(),
    };
    for (key, value) in given {
        match key.as_str() {
            "name" => found.name = value,
            "newName" => found.new_name = value,
            "newTag" => found.new_tag = value,
            "digest" => found.digest = value,
            _ => return Err(format!("ConfigMap has wrong field name {key}")),
        }
    }
    if found.name.is_empty() {
        return Err("must specify `name`".to_owned());
    }
    if [&found.new_name, &found.new_tag, &found.digest].into_iter().all(String::is_empty) {
        return Err("must specify one of `newName`, `newTag`, or `digest`".to_owned());
    }
    Ok(found)
}

fn pod_spec(kind: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some("spec"),
        "PodTemplate" => Some("template/spec"),
        "Deployment" | "StatefulSet" | "ReplicaSet" | "DaemonSet" => Some("spec/template/spec"),
        _ => None,
    }
}

impl Config {
    /// Returns the new image; `None` for an image with another name.
    fn apply(&self, image: &str) -> Option<String> {
        let name = image.split('@').next().unwrap_or(image);
        let name = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => name,
            _ => name,
        };
        if name != self.name {
            return None;
        }
        let new = if self.new_name.is_empty() { name } else { &self.new_name };
        let version = match (self.digest.as_str(), self.new_tag.as_str()) {
            ("", "") => image.get(name.len()..).unwrap_or_default().to_owned(),
            ("", tag) => format!(":{tag}"),
            (digest, _) => format!("@{digest}"),
        };
        Some(format!("{new}{version}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, said};

    /// Digests take precedence over tags, and both over the old ones (`packagevariants.md` 8.5).
    #[test]
    fn images() {
        let pod = |image: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nspec:\n  initContainers: [{{image: '{image}'}}]\n  containers:\n  - image: {image} # c\n"
            )
        };
        for (to, old, new) in [
            (&[("name", "app"), ("newTag", "2")][..], "app", "app:2"),
            (&[("name", "app"), ("newTag", "2")], "app:1@sha256:00", "app:2"),
            (&[("name", "app"), ("newTag", "2"), ("digest", "sha256:11")], "app:1", "app@sha256:11"),
            (&[("name", "host:5000/app"), ("newName", "other")], "host:5000/app:1", "other:1"),
            (&[("name", "app"), ("newName", "reg/app")], "app@sha256:00", "reg/app@sha256:00"),
            (&[("name", "app"), ("newTag", "2")], "apps:1", "apps:1"),
        ] {
            check("set-image", &config(to), &pod(old), &pod(new));
        }
        let to = config(&[("name", "a"), ("newTag", "2")]);
        assert_eq!(said("set-image", &to, &pod("a")), ["info summary: updated a total of 2 image(s)"]);
        for (kind, path) in [("DaemonSet", "spec: {template: {spec"), ("PodTemplate", "template: {a: {spec")]
        {
            let object =
                |tag: &str| format!("kind: {kind}\n{path}: {{containers: [{{image: a{tag}}}]}}}}}}\n");
            let is_read = kind == "DaemonSet";
            check("set-image", &to, &object(""), &object(if is_read { ":2" } else { "" }));
        }
        check(
            "set-image",
            &to,
            "kind: PodTemplate\ntemplate: {spec: {containers: [{image: a}]}}\n",
            "kind: PodTemplate\ntemplate: {spec: {containers: [{image: a:2}]}}\n",
        );
    }

    #[test]
    fn configs() {
        let own = "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetImage\nimage: {name: a, newTag: 2}\n";
        assert_eq!(said("set-image", own, ""), ["info summary: updated a total of 0 image(s)"]);
        check_error("set-image", "", "", "must specify `name`");
        check_error("set-image", &config(&[("newTag", "2")]), "", "must specify `name`");
        check_error(
            "set-image",
            &config(&[("name", "a")]),
            "",
            "must specify one of `newName`, `newTag`, or `digest`",
        );
        check_error(
            "set-image",
            &config(&[("name", "a"), ("tag", "b")]),
            "",
            "ConfigMap has wrong field name tag",
        );
    }
}
