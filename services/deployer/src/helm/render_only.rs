//! Objects of a chart that is rendered and applied without a release (`helm.md` 10.3).

use std::borrow::Cow;

use groundwork_apply::{Manifest, Policy};
use groundwork_helm::{Document, Rendered, documents};
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::{Value, json};

/// Annotation that asks for Landscaper's old handling of dependencies and capabilities. It has no
/// effect here.
pub(super) const OLD_RULES: &str = "helm.groundwork.dev/ignore-dependency-rules";

/// Returns the objects of a rendering, definitions first, and warnings for the user.
///
/// # Errors
///
/// A document is not valid YAML.
pub(super) fn manifests(
    rendered: &Rendered,
    namespace: Option<&str>,
) -> Result<(Vec<Manifest>, Vec<String>), OperationError> {
    let (mut manifests, mut warnings) = (Vec::new(), Vec::new());
    if let Some(namespace) = namespace {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        manifests.push(Manifest { policy: Policy::Keep, manifest: object, ..Manifest::default() });
    }
    // Only hooks of installs and upgrades are applied, as ordinary objects. Weights and delete
    // policies need a release and are ignored.
    let is_applied = |events: &[Cow<'static, str>]| {
        events.iter().any(|event| event.ends_with("-install") || event.ends_with("-upgrade"))
    };
    let hooks = rendered.hooks.iter().filter(|hook| is_applied(&hook.events));
    let hooks = hooks.map(|hook| (hook.file.as_str(), hook.content.as_str()));
    let of = |document: &'_ Document| (document.file.clone(), document.content.clone());
    let texts = rendered.crds.iter().chain(&rendered.documents).map(of);
    let texts = texts.chain(hooks.map(|(file, content)| (file.to_owned(), content.to_owned())));
    for (file, content) in texts {
        for document in documents(&content) {
            let object = groundwork_yaml::from_str(document).map_err(|error| {
                let message = format!("YAML parse error on {file}: {error}");
                OperationError::new("TemplateChart", Reason::RenderHelmValues, message)
            })?;
            if object.is_null() {
                continue;
            }
            if !is_object(&object) {
                warnings.push(format!("{file}: a document without apiVersion and kind was left out"));
                continue;
            }
            manifests.push(Manifest { manifest: object, ..Manifest::default() });
        }
    }
    Ok((manifests, warnings))
}

fn is_object(value: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|member| value[*member].as_str().is_some_and(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use groundwork_helm::{Chart, File, Renderer, Request};

    use super::*;

    #[test]
    fn what_is_applied() {
        let files = vec![
            File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0}"),
            File::new(
                "crds/c.yaml",
                *b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
            ),
            File::new("templates/a.yaml", *b"apiVersion: v1\nkind: ConfigMap\n---\nnote: text\n"),
            File::new(
                "templates/b.yaml",
                *b"apiVersion: v1\nkind: Secret\nmetadata: {annotations: {helm.sh/hook: post-install}}\n",
            ),
            File::new(
                "templates/c.yaml",
                *b"apiVersion: v1\nkind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n",
            ),
        ];
        let rendered = Renderer::new(Chart::from_files(files).unwrap()).render(&Request::default()).unwrap();
        let (manifests, warnings) = manifests(&rendered, Some("shop")).unwrap();
        let kinds: Vec<_> = manifests.iter().map(|one| one.manifest["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["Namespace", "CustomResourceDefinition", "ConfigMap", "Secret"]);
        assert_eq!((manifests[0].policy, manifests[1].policy), (Policy::Keep, Policy::Manage));
        assert_eq!(warnings, ["web/templates/a.yaml: a document without apiVersion and kind was left out"]);
    }
}
