//! From the Installation to its component versions (`components.md` 4.1).

use groundwork_api::{Context, Installation};
use groundwork_blueprint::Components;
use groundwork_component::{
    ComponentVersion, Finding, InlineSet, Overwrites, Reference, RepositoryContext, Resolver, Substitution,
    lint,
};

use super::{Inputs, Outcome, OverwriteReport, PREREQUISITES, Problem, record_overwrites};
use crate::failure::Failure;

/// The component versions of a job.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) substitution: Option<Substitution>,
    /// The version that the Installation itself names; absent for blueprints without a component.
    pub(super) root: Option<ComponentVersion>,
    pub(super) components: Components,
}

pub(super) fn prepare(inputs: &Inputs<'_>, outcome: &mut Outcome) -> Result<Prepared, Problem> {
    let installation = inputs.installation;
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let name = installation.spec.context();
    let context = inputs.context.ok_or_else(|| {
        let cause = format!("context \"{namespace}/{name}\" not found");
        Failure::caused_by(PREREQUISITES, "CalculateContext", ("Context", "GetContext"), cause)
    })?;
    let overwrites = overwrites(inputs, context, outcome)?;
    let inline = inline(installation)?;
    outcome.warnings.extend_from_slice(inline.warnings());
    let Some(original) = original_reference(installation, context, &inline) else {
        outcome.obsolete_conditions.push(groundwork_component::OVERWRITE_CONDITION);
        return Ok(Prepared::default());
    };
    let substitution = substitute(context, &overwrites, &original, outcome);
    if substitution.effective.repository.is_none()
        && context.ocm_config_map().is_none()
        && inline.get(&substitution.effective.name, &substitution.effective.version).is_none()
    {
        let cause = format!(
            "RepositoryContextMissing: neither the installation nor context {name:?} defines a repository context \
             and the context has no ocmConfig"
        );
        return Err(Failure::new(PREREQUISITES, "CalculateContext", cause).into());
    }
    resolve(inputs, overwrites, &inline, substitution)
}

/// E4 is a failure even where no component is concerned (`components.md` 3.2).
fn overwrites(inputs: &Inputs<'_>, context: &Context, outcome: &mut Outcome) -> Result<Overwrites, Problem> {
    let Some(name) = context.overwrites() else { return Ok(Overwrites::default()) };
    let object = inputs.overwrites.ok_or_else(|| {
        let cause = format!(
            "context '{}' references ComponentVersionOverwrites resource '{name}', which cannot be found: \
             not found in namespace {}",
            context.metadata.name.as_deref().unwrap_or_default(),
            inputs.installation.metadata.namespace.as_deref().unwrap_or_default(),
        );
        let inner = ("ComponentVersionOverwrites", "GetComponentVersionOverwrites");
        Failure::caused_by(PREREQUISITES, "CalculateContext", inner, cause)
    })?;
    let overwrites = Overwrites::from(object);
    outcome.warnings.extend(lint(&overwrites).iter().map(|finding| warning(name, finding)));
    Ok(overwrites)
}

fn warning(object: &str, finding: &Finding) -> String {
    match finding {
        Finding::NeverApplies { rule } => format!(
            "rule {} of {object} can never apply: for every reference it matches, earlier rules have set one of its \
             attributes; put specific rules before general ones",
            rule + 1
        ),
        Finding::ReplacesNothing { rule } => {
            format!("rule {} of {object} replaces nothing: its substitution is empty", rule + 1)
        }
        Finding::UntypedRepository { rule } => format!(
            "rule {} of {object} puts in a repositoryContext without a type, which no lookup can use",
            rule + 1
        ),
    }
}

fn inline(installation: &Installation) -> Result<InlineSet, Problem> {
    let definition =
        installation.spec.component_descriptor.as_ref().and_then(|component| component.inline.get());
    let Some(definition) = definition else { return Ok(InlineSet::default()) };
    InlineSet::new(definition)
        .map_err(|error| Failure::new(PREREQUISITES, "InitInstallationOperation", error.to_string()).into())
}

/// The reference as written, with the Context's repository where none is given.
fn original_reference(
    installation: &Installation,
    context: &Context,
    inline: &InlineSet,
) -> Option<Reference> {
    let of_context = || context.repository_context.get().cloned().and_then(RepositoryContext::new);
    let definition = installation.spec.component_descriptor.as_ref()?;
    if let Some(reference) = &definition.reference {
        let own = reference.repository_context.get().cloned().and_then(RepositoryContext::new);
        return Some(Reference {
            repository: own.or_else(of_context),
            name: reference.component_name.clone(),
            version: reference.version.clone(),
        });
    }
    let root = inline.root()?;
    Some(Reference {
        repository: root.repository_context().or_else(of_context),
        name: root.name().to_owned(),
        version: root.version().to_owned(),
    })
}

/// Without overwrites there is no condition, and an old one is removed (D-3).
fn substitute(
    context: &Context,
    overwrites: &Overwrites,
    original: &Reference,
    outcome: &mut Outcome,
) -> Substitution {
    let (substitution, outcomes) = overwrites.explain(original);
    if context.overwrites().is_none() {
        outcome.obsolete_conditions.push(groundwork_component::OVERWRITE_CONDITION);
    } else {
        let report =
            OverwriteReport { rules: overwrites.clone(), substitution: substitution.clone(), outcomes };
        record_overwrites(report, outcome);
    }
    substitution
}

fn resolve(
    inputs: &Inputs<'_>,
    overwrites: Overwrites,
    inline: &InlineSet,
    substitution: Substitution,
) -> Result<Prepared, Problem> {
    let resolver = Resolver::new(inputs.repositories, &overwrites, inline, &substitution);
    let unreachable = |cause: &dyn std::fmt::Display| {
        let message = format!("unable to create installation operation: {cause}");
        Failure::new(PREREQUISITES, "InitInstallationOperation", message)
    };
    let root = resolver.lookup(&substitution.effective).map_err(|error| unreachable(&error))?;
    let versions = resolver.closure(&root).map_err(|error| unreachable(&error))?;
    let descriptors = versions.into_iter().map(|version| version.descriptor).collect();
    let context = substitution.effective.repository.clone();
    Ok(Prepared {
        root: Some(root),
        components: Components::new(descriptors, overwrites, context),
        substitution: Some(substitution),
    })
}
