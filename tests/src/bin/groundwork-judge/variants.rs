//! Sets and variants, one per line: `expand`, `validate` and `mutate`.

use anyhow::Result;
use groundwork_api::strict::Schemas;
use groundwork_api::{Kind, PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_fleet::{Bundle, ExpandError, Expanded, validate_set, validate_variant};
use groundwork_krm::{GivenObjects, Mutation};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::answer::{Failure, Output, answer, files, objects, texts};
use crate::lines::answer_lines;

/// Namespace of objects that name none.
const NAMESPACE: &str = "default";
/// Name of a package revision if its line gives none.
const REVISION: &str = "draft";

pub(crate) fn expand() -> Result<()> {
    answer_lines(|line| answer(line, expand_line))
}

pub(crate) fn mutate() -> Result<()> {
    answer_lines(|line| answer(line, mutate_line))
}

pub(crate) fn validate() -> Result<()> {
    answer_lines(|line| answer(line, validate_line))
}

type Members = Map<String, Value>;

fn expand_line(members: &mut Members) -> Result<Output, Failure> {
    let set: PackageVariantSet = required(members)?;
    let namespace = namespace(&set);
    let refused = texts(members, "listErrors")?;
    let mut bundle = Bundle::new(&namespace);
    let typed = [
        ("packageRevisions", PackageRevision::API_VERSION, PackageRevision::KIND),
        ("repositories", Repository::API_VERSION, Repository::KIND),
    ];
    for (member, api_version, kind) in typed {
        for (index, mut object) in objects(members, member)?.into_iter().enumerate() {
            prune(&mut object);
            for (field, expected) in [("apiVersion", api_version), ("kind", kind)] {
                match object.get(field).and_then(Value::as_str) {
                    None => object[field] = json!(expected),
                    Some(given) if given == expected => {}
                    Some(_) => {
                        return Err(Failure::input(format!(
                            "{member}[{index}] must be a {kind} of {api_version}"
                        )));
                    }
                }
            }
            add(&mut bundle, &object, member, index)?;
        }
    }
    for (index, mut object) in objects(members, "objects")?.into_iter().enumerate() {
        prune(&mut object);
        add(&mut bundle, &object, "objects", index)?;
    }
    for (kind, why) in &refused {
        refuse(&mut bundle, &set, kind, why);
    }
    let Expanded { variants: children, target_counts: counts, failures } =
        bundle.expand_in_order(&set).map_err(|error| failure(&error))?;
    let children: Vec<Value> =
        children.into_iter().map(|(name, spec)| json!({"name": name, "spec": spec})).collect();
    let warnings = failures.iter().map(ExpandError::to_string).collect();
    Ok(Output { value: json!({"children": children, "targetCounts": counts}), warnings })
}

fn add(bundle: &mut Bundle, object: &Value, member: &str, index: usize) -> Result<(), Failure> {
    bundle.add(object).map_err(|error| Failure::input(format!("{member}[{index}]: {error}")))
}

/// Makes lists of a kind fail, for each version in which the set requests the kind.
fn refuse(bundle: &mut Bundle, set: &PackageVariantSet, kind: &str, why: &str) {
    if kind == Repository::KIND {
        bundle.refuse(Repository::API_VERSION, kind, why);
    }
    let selectors = set.spec.targets.iter().filter_map(|target| target.object_selector.as_ref());
    for selector in selectors.filter(|selector| selector.kind.as_deref() == Some(kind)) {
        bundle.refuse(selector.api_version.as_deref().unwrap_or_default(), kind, why);
    }
}

fn failure(error: &ExpandError) -> Failure {
    match error {
        ExpandError::Invalid(errors) => Failure::validation(errors.clone()),
        other => Failure::new(other.reason(), other.to_string()),
    }
}

fn validate_line(members: &mut Members) -> Result<Output, Failure> {
    let errors = match (members.contains_key("packageVariant"), members.contains_key("packageVariantSet")) {
        (true, false) => validate_variant(&required::<PackageVariant>(members)?.spec),
        (false, true) => validate_set(&required::<PackageVariantSet>(members)?),
        _ => return Err(Failure::input("one of packageVariant and packageVariantSet must be given")),
    };
    Ok(json!({"errors": errors}).into())
}

fn namespace(object: &impl groundwork_api::ResourceExt) -> String {
    object.namespace().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| NAMESPACE.to_owned())
}

/// Takes the variant or set out of the members, decoded as an API server with strict validation
/// decodes it.
fn required<K: Kind + DeserializeOwned>(members: &mut Members) -> Result<K, Failure> {
    let member = format!("{}{}", K::KIND[..1].to_lowercase(), &K::KIND[1..]);
    let mut object =
        members.remove(&member).ok_or_else(|| Failure::input(format!("{member} must be given")))?;
    if !object.is_object() {
        return Err(Failure::input(format!("{member} must be an object")));
    }
    prune(&mut object);
    for (field, expected) in [("apiVersion", K::API_VERSION), ("kind", K::KIND)] {
        match object.get(field) {
            None => object[field] = json!(expected),
            Some(given) if *given == expected => {}
            Some(_) => return Err(Failure::decode(format!("{field}: must be {expected:?}"))),
        }
    }
    if object.get("metadata").is_none() {
        object["metadata"] = json!({});
    }
    let node = groundwork_api::strict::node(&object.to_string())
        .map_err(|error| Failure::input(error.to_string()))?;
    let findings = Schemas::shared().check(K::API_VERSION, K::KIND, &node).unwrap_or_default();
    if let Some((_, problem)) = findings.first() {
        return Err(Failure::decode(problem));
    }
    serde_path_to_error::deserialize(object)
        .map_err(|error| Failure::decode(format!("{}: {}", error.path(), error.inner())))
}

/// Removes null members, as API servers do.
fn prune(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(prune);
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

fn mutate_line(members: &mut Members) -> Result<Output, Failure> {
    let variant: PackageVariant = required(members)?;
    let files = files(members, "files")?;
    let own = namespace(&variant);
    let (namespace, revision) = revision(members, &own)?;
    let objects = objects(members, "objects")?;
    let refused = texts(members, "listErrors")?;
    let errors = validate_variant(&variant.spec);
    if !errors.is_empty() {
        return Err(Failure::validation(errors));
    }
    let cluster = GivenObjects { namespace: own, objects, refused };
    let mutation =
        Mutation { variant: &variant, namespace: &namespace, revision: &revision, cluster: &cluster };
    let mutated = groundwork_krm::mutate(files.as_ref(), &mutation)
        .map_err(|error| Failure::new(error.reason(), error.to_string()))?;
    Ok(json!({"files": mutated.files, "changed": mutated.changed}).into())
}

/// Takes namespace and name of the package revision out of the members, for error messages.
fn revision(members: &mut Members, namespace: &str) -> Result<(String, String), Failure> {
    let wrong = || Failure::input("packageRevision must be an object with the texts namespace and name");
    let given = match members.remove("packageRevision") {
        None => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(wrong()),
    };
    let text = |member: &str, default: &str| match given.get(member) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(wrong()),
    };
    Ok((text("namespace", namespace)?, text("name", REVISION)?))
}
