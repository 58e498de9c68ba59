//! Keys of associative lists (`packagevariants.md` 7.5), from built-in kinds and known CRDs.

use groundwork_yaml::tree::Node;
use serde_json::Value;

use crate::crd::Schemas;

/// Schema of a field.
#[derive(Debug, Clone)]
pub(crate) enum Schema<'a> {
    /// No schema is known.
    Unknown,
    /// Field of a built-in kind, by its path; items of lists are `[]`.
    BuiltIn { kind: &'a BuiltIn, path: String },
    /// `metadata` of any kind, or a field in it.
    Metadata { path: String },
    /// Field of a kind with a CRD.
    Crd { schema: &'a Value, is_root: bool },
}

/// Identity of list elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Values of key fields, the first of which is required.
    Fields(Vec<Key>),
    /// The whole value of the element identifies it.
    Value,
}

/// Key field, and its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) default: Option<String>,
}

/// Kind of Kubernetes, with the path of its pod template or pod spec.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    api_version: &'static str,
    kind: &'static str,
}

impl<'a> Schema<'a> {
    /// Returns the schema of the first object whose kind is known.
    pub(crate) fn of(objects: [Option<&Node>; 3], crds: &'a Schemas) -> Self {
        objects.into_iter().flatten().find_map(|object| Self::of_one(object, crds)).unwrap_or(Self::Unknown)
    }

    fn of_one(object: &Node, crds: &'a Schemas) -> Option<Self> {
        let (api_version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
        if let Some(kind) =
            BUILT_IN.iter().find(|known| known.api_version == api_version && known.kind == kind)
        {
            return Some(Self::BuiltIn { kind, path: String::new() });
        }
        let schema = crds.get(&(api_version.to_owned(), kind.to_owned()))?;
        Some(Self::Crd { schema, is_root: true })
    }

    /// Returns the schema of a member.
    pub(crate) fn member(&self, name: &str) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Metadata { path } => Self::Metadata { path: format!("{path}.{name}") },
            Self::BuiltIn { path, .. } if path.is_empty() && name == "metadata" => {
                Self::Metadata { path: String::new() }
            }
            Self::BuiltIn { kind, path } => {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                if kind.template().is_some_and(|template| path == format!("{template}.metadata")) {
                    return Self::Metadata { path: String::new() };
                }
                Self::BuiltIn { kind, path }
            }
            Self::Crd { is_root: true, .. } if name == "metadata" => Self::Metadata { path: String::new() },
            Self::Crd { schema, .. } => {
                let property = schema.get("properties").and_then(|properties| properties.get(name));
                let found =
                    property.or_else(|| schema.get("additionalProperties").filter(|found| found.is_object()));
                found.map_or(Self::Unknown, |schema| Self::Crd { schema, is_root: false })
            }
        }
    }

    /// Returns the schema of the items of a list.
    pub(crate) fn item(&self) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Metadata { path } => Self::Metadata { path: format!("{path}[]") },
            Self::BuiltIn { kind, path } => Self::BuiltIn { kind, path: format!("{path}[]") },
            Self::Crd { schema, .. } => {
                schema.get("items").map_or(Self::Unknown, |schema| Self::Crd { schema, is_root: false })
            }
        }
    }

    /// Reports whether no schema describes the field, so that an embedded object may name its own
    /// type.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Unknown | Self::BuiltIn { .. } => true,
            Self::Metadata { .. } => false,
            Self::Crd { schema, .. } => schema.get("properties").is_none(),
        }
    }

    /// Returns the keys of the list; `None` if it is not associative.
    pub(crate) fn keys(&self) -> Option<Keys> {
        match self {
            Self::Unknown => None,
            Self::Metadata { path } => match path.as_str() {
                ".finalizers" => Some(Keys::Value),
                ".ownerReferences" => Some(by(&["uid"])),
                _ => None,
            },
            Self::BuiltIn { kind, path } => kind.keys(path),
            Self::Crd { schema, .. } => keys_of_crd(schema),
        }
    }
}

fn by(names: &[&str]) -> Keys {
    let key = |name: &&str| Key {
        name: (*name).to_owned(),
        default: (*name == "protocol").then(|| "TCP".to_owned()),
    };
    Keys::Fields(names.iter().map(key).collect())
}

fn keys_of_crd(schema: &Value) -> Option<Keys> {
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let strings = |name: &str| -> Vec<String> {
        let items = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let is_merged = text("x-kubernetes-patch-strategy").is_some_and(|strategy| strategy.contains("merge"));
    let mut names = match text("x-kubernetes-list-type") {
        _ if is_merged => {
            let names = strings("x-kubernetes-list-map-keys");
            if names.is_empty() {
                text("x-kubernetes-patch-merge-key").map(str::to_owned).into_iter().collect()
            } else {
                names
            }
        }
        Some("map") => strings("x-kubernetes-list-map-keys"),
        Some("set") => Vec::new(),
        _ => return None,
    };
    names.retain(|name| !name.is_empty());
    if names.is_empty() {
        return Some(Keys::Value);
    }
    let default = |name: &str| {
        let default = schema.pointer("/items/properties")?.get(name)?.get("default")?;
        Some(default.as_str().map_or_else(|| default.to_string(), str::to_owned))
    };
    Some(Keys::Fields(names.into_iter().map(|name| Key { default: default(&name), name }).collect()))
}

impl BuiltIn {
    /// Returns the path of the pod template.
    fn template(&self) -> Option<&'static str> {
        match (self.api_version, self.kind) {
            ("v1", "PodTemplate") => Some("template"),
            ("v1", "ReplicationController")
            | ("batch/v1", "Job")
            | ("apps/v1", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => Some("spec.template"),
            (_, "CronJob") => Some("spec.jobTemplate.spec.template"),
            _ => None,
        }
    }

    fn keys(&self, path: &str) -> Option<Keys> {
        let pod = match (self.kind, self.template()) {
            ("Pod", _) => path.strip_prefix("spec."),
            (_, Some(template)) => path.strip_prefix(template).and_then(|path| path.strip_prefix(".spec.")),
            _ => None,
        };
        if let Some(keys) = pod.and_then(keys_of_pod_spec) {
            return Some(keys);
        }
        match (self.kind, path) {
            ("Service", "spec.ports") => Some(by(&["port", "protocol"])),
            ("ServiceAccount", "secrets")
            | ("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration", "webhooks")
            | ("CSINode", "spec.drivers") => Some(by(&["name"])),
            ("Node", "spec.podCIDRs") => Some(Keys::Value),
            ("Pod", "status.podIPs") => Some(by(&["ip"])),
            ("Node", "status.addresses") | ("ComponentStatus", "conditions") => Some(by(&["type"])),
            (
                "DaemonSet"
                | "Deployment"
                | "ReplicaSet"
                | "StatefulSet"
                | "Job"
                | "Namespace"
                | "Node"
                | "PersistentVolumeClaim"
                | "Pod"
                | "ReplicationController"
                | "Service"
                | "PodDisruptionBudget"
                | "APIService",
                "status.conditions",
            ) => Some(by(&["type"])),
            _ => None,
        }
    }
}

fn keys_of_pod_spec(path: &str) -> Option<Keys> {
    let (list, member) = path.split_once("[].").unwrap_or((path, ""));
    match (list, member) {
        ("containers" | "initContainers" | "ephemeralContainers" | "volumes" | "imagePullSecrets", "")
        | ("containers" | "initContainers" | "ephemeralContainers", "env") => Some(by(&["name"])),
        ("hostAliases", "") => Some(by(&["ip"])),
        ("topologySpreadConstraints", "") => Some(by(&["topologyKey", "whenUnsatisfiable"])),
        ("containers" | "initContainers", "ports") => Some(by(&["containerPort", "protocol"])),
        ("containers" | "initContainers" | "ephemeralContainers", "volumeMounts") => Some(by(&["mountPath"])),
        ("containers" | "initContainers" | "ephemeralContainers", "volumeDevices") => {
            Some(by(&["devicePath"]))
        }
        _ => None,
    }
}

macro_rules! built_in {
    ($($api_version:literal: $($kind:literal)+;)+) => {
        &[$($(BuiltIn { api_version: $api_version, kind: $kind },)+)+]
    };
}

/// Kinds of Kubernetes 1.21, with their apiVersions.
static BUILT_IN: &[BuiltIn] = built_in! {
    "v1": "Binding" "ComponentStatus" "ConfigMap" "Endpoints" "Event" "LimitRange" "Namespace" "Node" "PersistentVolume"
        "PersistentVolumeClaim" "Pod" "PodTemplate" "ReplicationController" "ResourceQuota" "Secret" "Service" "ServiceAccount";
    "apps/v1": "ControllerRevision" "DaemonSet" "Deployment" "ReplicaSet" "StatefulSet";
    "batch/v1": "CronJob" "Job";
    "batch/v1beta1": "CronJob";
    "autoscaling/v1": "HorizontalPodAutoscaler" "Scale";
    "autoscaling/v2beta1": "HorizontalPodAutoscaler";
    "autoscaling/v2beta2": "HorizontalPodAutoscaler";
    "admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration";
    "admissionregistration.k8s.io/v1beta1": "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration";
    "apiextensions.k8s.io/v1": "CustomResourceDefinition";
    "apiextensions.k8s.io/v1beta1": "CustomResourceDefinition";
    "apiregistration.k8s.io/v1": "APIService";
    "apiregistration.k8s.io/v1beta1": "APIService";
    "authentication.k8s.io/v1": "TokenReview";
    "authentication.k8s.io/v1beta1": "TokenReview";
    "authorization.k8s.io/v1": "LocalSubjectAccessReview" "SelfSubjectAccessReview" "SelfSubjectRulesReview" "SubjectAccessReview";
    "authorization.k8s.io/v1beta1": "LocalSubjectAccessReview" "SelfSubjectAccessReview" "SelfSubjectRulesReview" "SubjectAccessReview";
    "certificates.k8s.io/v1": "CertificateSigningRequest";
    "certificates.k8s.io/v1beta1": "CertificateSigningRequest";
    "coordination.k8s.io/v1": "Lease";
    "coordination.k8s.io/v1beta1": "Lease";
    "discovery.k8s.io/v1": "EndpointSlice";
    "discovery.k8s.io/v1beta1": "EndpointSlice";
    "events.k8s.io/v1": "Event";
    "events.k8s.io/v1beta1": "Event";
    "extensions/v1beta1": "Ingress";
    "flowcontrol.apiserver.k8s.io/v1beta1": "FlowSchema" "PriorityLevelConfiguration";
    "networking.k8s.io/v1": "Ingress" "IngressClass" "NetworkPolicy";
    "networking.k8s.io/v1beta1": "Ingress" "IngressClass";
    "node.k8s.io/v1": "RuntimeClass";
    "node.k8s.io/v1beta1": "RuntimeClass";
    "scheduling.k8s.io/v1": "PriorityClass";
    "scheduling.k8s.io/v1beta1": "PriorityClass";
    "policy/v1": "PodDisruptionBudget";
    "policy/v1beta1": "Eviction" "PodDisruptionBudget" "PodSecurityPolicy";
    "rbac.authorization.k8s.io/v1": "ClusterRole" "ClusterRoleBinding" "Role" "RoleBinding";
    "rbac.authorization.k8s.io/v1beta1": "ClusterRole" "ClusterRoleBinding" "Role" "RoleBinding";
    "storage.k8s.io/v1": "CSIDriver" "CSINode" "StorageClass" "VolumeAttachment";
    "storage.k8s.io/v1beta1": "CSIDriver" "CSINode" "CSIStorageCapacity" "StorageClass" "VolumeAttachment";
};
