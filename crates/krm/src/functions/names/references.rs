//! Fields of Kubernetes objects that contain the names of other objects.

use groundwork_yaml::tree::Node;

use super::super::fields::{template, visit};
use super::super::meter::Meter;
use super::super::{group, text};
use super::{Renames, namespace_of};

/// Fields of a pod spec, with the kind that they name.
static OF_PODS: &[(&str, &str)] = &[
    ("ServiceAccount", "serviceAccountName"),
    ("ServiceAccount", "serviceAccount"),
    ("PriorityClass", "priorityClassName"),
    ("Secret", "imagePullSecrets[]/name"),
    ("ConfigMap", "volumes[]/configMap/name"),
    ("ConfigMap", "volumes[]/projected/sources[]/configMap/name"),
    ("Secret", "volumes[]/secret/secretName"),
    ("Secret", "volumes[]/projected/sources[]/secret/name"),
    ("PersistentVolumeClaim", "volumes[]/persistentVolumeClaim/claimName"),
];

/// Fields of a container, with the kind that they name.
static OF_CONTAINERS: &[(&str, &str)] = &[
    ("ConfigMap", "env[]/valueFrom/configMapKeyRef/name"),
    ("Secret", "env[]/valueFrom/secretKeyRef/name"),
    ("ConfigMap", "envFrom[]/configMapRef/name"),
    ("Secret", "envFrom[]/secretRef/name"),
];

/// Fields of other kinds: the kind with the field, the named kind, and the path.
static OF_KINDS: &[(&str, &str, &str)] = &[
    ("StatefulSet", "Service", "spec/serviceName"),
    ("StatefulSet", "StorageClass", "spec/volumeClaimTemplates[]/spec/storageClassName"),
    ("Ingress", "Service", "spec/rules[]/http/paths[]/backend/service/name"),
    ("Ingress", "Service", "spec/rules[]/http/paths[]/backend/serviceName"),
    ("Ingress", "Service", "spec/defaultBackend/service/name"),
    ("Ingress", "Service", "spec/backend/serviceName"),
    ("Ingress", "Secret", "spec/tls[]/secretName"),
    ("Ingress", "IngressClass", "spec/ingressClassName"),
    ("ServiceAccount", "Secret", "secrets[]/name"),
    ("ServiceAccount", "Secret", "imagePullSecrets[]/name"),
    ("PersistentVolumeClaim", "PersistentVolume", "spec/volumeName"),
    ("PersistentVolumeClaim", "StorageClass", "spec/storageClassName"),
    ("PersistentVolume", "StorageClass", "spec/storageClassName"),
];

/// Maps with a name and a namespace, and the named kind if the map does not contain it.
static WITH_NAMESPACE: &[(&str, &str, &str)] = &[
    ("HorizontalPodAutoscaler", "", "spec/scaleTargetRef"),
    ("RoleBinding", "", "roleRef"),
    ("ClusterRoleBinding", "", "roleRef"),
    ("RoleBinding", "", "subjects[]"),
    ("ClusterRoleBinding", "", "subjects[]"),
    ("PersistentVolume", "PersistentVolumeClaim", "spec/claimRef"),
    ("MutatingWebhookConfiguration", "Service", "webhooks[]/clientConfig/service"),
    ("ValidatingWebhookConfiguration", "Service", "webhooks[]/clientConfig/service"),
    ("APIService", "Service", "spec/service"),
    ("CustomResourceDefinition", "Service", "spec/conversion/webhook/clientConfig/service"),
];

/// Updates the names of other objects in an object.
pub(super) fn update(root: &mut Node, renames: &Renames, meter: &Meter) {
    let (kind, namespace) = (text(root, &["kind"]).to_owned(), namespace_of(root).to_owned());
    let mut update = |path: &str, wanted: &str| {
        visit(root, path, false, &mut |name| set(name, wanted, &namespace, renames, meter));
    };
    for (_, wanted, path) in OF_KINDS.iter().filter(|(of, ..)| *of == kind) {
        update(path, wanted);
    }
    if let Some(pod) = pod_spec(root, &kind) {
        let mut update = |path: &str, wanted: &str| {
            visit(root, &format!("{pod}/{path}"), false, &mut |name| {
                set(name, wanted, &namespace, renames, meter);
            });
        };
        for (wanted, path) in OF_PODS {
            update(path, wanted);
        }
        for (wanted, path) in OF_CONTAINERS {
            for containers in ["containers[]", "initContainers[]", "ephemeralContainers[]"] {
                update(&format!("{containers}/{path}"), wanted);
            }
        }
    }
    for (_, wanted, path) in WITH_NAMESPACE.iter().filter(|(of, ..)| *of == kind) {
        visit(root, path, false, &mut |reference| {
            let said = text(reference, &["kind"]).to_owned();
            let wanted = if wanted.is_empty() { said.as_str() } else { wanted };
            let own = text(reference, &["namespace"]).to_owned();
            let namespace = if own.is_empty() { &namespace } else { &own };
            if let Some(name) = reference.get_mut("name") {
                set(name, wanted, namespace, renames, meter);
            }
        });
    }
}

fn pod_spec(root: &Node, kind: &str) -> Option<String> {
    match (kind, group(root)) {
        ("Pod", "") => Some("spec".to_owned()),
        ("PodTemplate", "") => Some("template/spec".to_owned()),
        (kind, group) => template(group, kind).map(|template| format!("{template}/spec")),
    }
}

/// Updates a name of an object in the same namespace, or of one without a namespace.
fn set(name: &mut Node, kind: &str, namespace: &str, renames: &Renames, meter: &Meter) {
    let Some(old) = name.as_str() else { return };
    let new = [namespace, ""]
        .into_iter()
        .find_map(|namespace| renames.get(&[kind.to_owned(), namespace.to_owned(), old.to_owned()]));
    if let Some(new) = new.filter(|new| meter.bytes(new.len())) {
        name.set_text(new);
    }
}
