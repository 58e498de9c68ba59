//! Selection of the component versions of an Installation (`components.md` 4.1).

use groundwork_api::{Context, ErrorCode, Installation};
use groundwork_component::{
    ComponentVersion, Descriptor, Finding, GraphEntry, InlineSet, OCM_CONFIG_KEY, OVERWRITE_CONDITION,
    Overwrites, Reference, Repositories, RepositoryContext, RepositoryError, ResolveError, Resolver,
    ResolverRules, SignatureError, Substitution, TrustAnchor, lint,
};
use serde::{Deserialize, Serialize};

use super::{
    Inputs, JobError, JobOutcome, OverwriteReport, PREREQUISITES, Subject, Warning, record_overwrites,
};
use crate::error::OperationError;
use crate::reason::Reason;

/// Component version that an Installation uses, with the rules for following its references.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Selection {
    pub(super) substitution: Substitution,
    pub(super) overwrites: Overwrites,
    inline: InlineSet,
    rules: ResolverRules,
}

/// Steps 1 to 6 of `components.md` 4.1: computes the effective reference before any lookup. `None`
/// without a component.
pub(super) fn select(inputs: &Inputs<'_>, outcome: &mut JobOutcome) -> Result<Option<Selection>, JobError> {
    let installation = inputs.installation;
    let name = installation.spec.context();
    let context = inputs.context.ok_or_else(|| {
        let cause = format!("context \"{}/{name}\" not found", namespace(installation));
        OperationError::caused_by(
            PREREQUISITES,
            Reason::CalculateContext,
            ("Context", &Reason::GetContext),
            cause,
        )
    })?;
    let overwrites = overwrites(inputs, context, outcome)?;
    let inline = inline(installation)?;
    outcome.warnings.extend(inline.warnings().iter().cloned().map(Warning::from));
    let Some(original) = original_reference(installation, context, &inline) else {
        outcome.obsolete_conditions.push(OVERWRITE_CONDITION);
        return Ok(None);
    };
    let substitution = substitute(context, &overwrites, &original, outcome);
    outcome.reference = Some(substitution.clone());
    if substitution.effective.repository.is_none()
        && context.ocm_config_map().is_none()
        && inline.get(&substitution.effective.name, &substitution.effective.version).is_none()
    {
        let cause = format!(
            "RepositoryContextMissing: neither the installation nor context {name:?} defines a repository context \
             and the context has no ocmConfig"
        );
        return Err(OperationError::new(PREREQUISITES, Reason::CalculateContext, cause).into());
    }
    let rules = resolver_rules(inputs, context, outcome)?;
    Ok(Some(Selection { substitution, overwrites, inline, rules }))
}

impl Selection {
    /// Step 8 of `components.md` 4.1: reads the version that the Installation itself names.
    pub(super) fn root(&self, repositories: &dyn Repositories) -> Result<ComponentVersion, OperationError> {
        self.resolver(repositories).lookup(&self.substitution.effective).map_err(|error| unreachable(&error))
    }

    /// Step 10 of `components.md` 4.1: reads the root and all versions that it refers to.
    pub(super) fn closure(
        &self,
        repositories: &dyn Repositories,
        root: &ComponentVersion,
    ) -> Result<Vec<ComponentVersion>, OperationError> {
        self.resolver(repositories).closure(root).map_err(|error| unreachable(&error))
    }

    pub(super) fn inline(&self) -> &[Descriptor] {
        self.inline.descriptors()
    }

    /// Step 7 of `components.md` 4.1: verifies the signature without overwrites, because the signer
    /// has signed the original descriptors.
    pub(super) fn verify(
        &self,
        repositories: &dyn Repositories,
        root: &ComponentVersion,
        name: &str,
        trust: &TrustAnchor,
    ) -> Result<(), SignatureError> {
        let none = Overwrites::default();
        let resolver =
            Resolver::new(repositories, &none, &self.inline, &self.substitution).with_rules(&self.rules);
        groundwork_component::verify(&resolver, root, name, trust)
    }

    /// Returns the closure, reference by reference, as far as the repositories can deliver it.
    pub(super) fn graph(&self, repositories: &dyn Repositories) -> Vec<GraphEntry> {
        self.resolver(repositories).graph(&self.substitution.original)
    }

    fn resolver<'a>(&'a self, repositories: &'a dyn Repositories) -> Resolver<'a> {
        Resolver::new(repositories, &self.overwrites, &self.inline, &self.substitution)
            .with_rules(&self.rules)
    }
}

fn unreachable(cause: &ResolveError) -> OperationError {
    let message = format!("unable to create installation operation: {cause}");
    let error = OperationError::new(PREREQUISITES, Reason::InitInstallationOperation, message);
    match cause.repository() {
        // Error E20 of `components.md` 8: the credentials are wrong, not the configuration of the
        // component.
        Some(RepositoryError::Denied { .. }) => {
            OperationError { codes: vec![ErrorCode::Unauthorized], ..error }
        }
        _ => error,
    }
}

fn namespace(installation: &Installation) -> &str {
    installation.metadata.namespace.as_deref().unwrap_or_default()
}

/// Reads the overwrites. Missing overwrites are an error (`components.md` 8, E4) even for an
/// Installation without a component (`components.md` 3.2).
fn overwrites(
    inputs: &Inputs<'_>,
    context: &Context,
    outcome: &mut JobOutcome,
) -> Result<Overwrites, JobError> {
    let Some(name) = context.overwrites() else { return Ok(Overwrites::default()) };
    let object = inputs.overwrites.ok_or_else(|| {
        let cause = format!(
            "context '{}' references ComponentVersionOverwrites resource '{name}', which cannot be found: \
             not found in namespace {}",
            context.metadata.name.as_deref().unwrap_or_default(),
            namespace(inputs.installation),
        );
        let inner = ("ComponentVersionOverwrites", &Reason::GetComponentVersionOverwrites);
        OperationError::caused_by(PREREQUISITES, Reason::CalculateContext, inner, cause)
    })?;
    let overwrites = Overwrites::from(object);
    outcome.warnings.extend(findings(name, &overwrites));
    Ok(overwrites)
}

/// Returns warnings about overwrite rules that have no effect, or an unusable one, for the author
/// of the overwrites.
pub fn findings(object: &str, overwrites: &Overwrites) -> Vec<Warning> {
    lint(overwrites).iter().map(|finding| warning(object, finding)).collect()
}

fn warning(object: &str, finding: &Finding) -> Warning {
    let (rule, problem) = match finding {
        Finding::NeverApplies { rule } => (
            *rule,
            "can never apply: for every reference it matches, earlier rules have set one of its attributes; put \
             specific rules before general ones",
        ),
        Finding::ReplacesNothing { rule } => (*rule, "has no effect: its substitution is empty"),
        Finding::UntypedRepository { rule } => {
            (*rule, "sets a repositoryContext without a type, which cannot be used")
        }
    };
    Warning {
        about: Subject::OverwriteRule(rule),
        message: format!("rule {} of {object} {problem}", rule + 1),
    }
}

fn inline(installation: &Installation) -> Result<InlineSet, JobError> {
    let definition =
        installation.spec.component_descriptor.as_ref().and_then(|component| component.inline.get());
    let Some(definition) = definition else { return Ok(InlineSet::default()) };
    InlineSet::new(definition).map_err(|error| {
        OperationError::new(PREREQUISITES, Reason::InitInstallationOperation, error.to_string()).into()
    })
}

/// Returns the reference as written, with the Context's repository if it names none.
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

/// Applies the overwrites. Without overwrites the condition is removed if an earlier job has set it
/// (`components.md` 10.1, D-3).
fn substitute(
    context: &Context,
    overwrites: &Overwrites,
    original: &Reference,
    outcome: &mut JobOutcome,
) -> Substitution {
    let (substitution, outcomes) = overwrites.explain(original);
    if context.overwrites().is_none() {
        outcome.obsolete_conditions.push(OVERWRITE_CONDITION);
    } else {
        let report =
            OverwriteReport { rules: overwrites.clone(), substitution: substitution.clone(), outcomes };
        record_overwrites(report, outcome);
    }
    substitution
}

/// Returns the resolvers from the OCM configuration of the Context (`components.md` 1.6, and E6 in
/// `components.md` 8).
fn resolver_rules(
    inputs: &Inputs<'_>,
    context: &Context,
    outcome: &mut JobOutcome,
) -> Result<ResolverRules, JobError> {
    let Some(name) = context.ocm_config_map() else { return Ok(ResolverRules::default()) };
    let namespace = namespace(inputs.installation);
    let registries_error =
        |message: String| OperationError::new(PREREQUISITES, Reason::SetupRegistries, message);
    let entries = inputs.objects.config_map(name).ok_or_else(|| {
        registries_error(format!("ocm configuration config map \"{namespace}/{name}\" not found"))
    })?;
    let text = entries.get(OCM_CONFIG_KEY).ok_or_else(|| {
        registries_error(format!(
            "ocm configuration config map does not contain key {OCM_CONFIG_KEY:?} (config map \"{namespace}/{name}\")"
        ))
    })?;
    let (rules, warnings) = ResolverRules::parse(&String::from_utf8_lossy(text)).map_err(|error| {
        registries_error(format!("invalid ocm config in {name:?} in namespace {namespace:?}: {error}"))
    })?;
    let place = |warning: String| Warning::from(format!("ocm config in {name:?}: {warning}"));
    outcome.warnings.extend(warnings.into_iter().map(place));
    Ok(rules)
}
