//! Creation of a child object from a template (`blueprints.md` 9.4, 9.5).

use std::collections::BTreeMap;

use groundwork_api::{
    AnyJson, BlueprintDefinition, BlueprintReference, ComponentDescriptorDefinition,
    ComponentVersionReference, InlineBlueprint, Installation, InstallationSpec, InstallationTemplate,
    InstallationTemplateBlueprint, metadata::annotation, metadata::label,
};
use groundwork_component::{CdUri, CdUriError, Descriptor, InlineError, InlineSet, Reference};

use crate::components::Components;

/// Installation whose children are created.
#[derive(Debug)]
pub struct Parent<'a> {
    installation: &'a Installation,
    effective: Option<&'a Reference>,
    components: &'a Components,
    /// Descriptors in the parent's spec; empty unless its component is inline.
    inline: InlineSet,
}

/// Complete labels and annotations of a child, which are reset on every run (`blueprints.md` 9.5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildMetadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Error of a template that cannot become a child. Callers prepend `unable to create installation
/// for <template>: ` and use the reason `CreateOrUpdateInstallation`.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("a blueprint must be defined")]
    NoBlueprint,
    #[error("exactly one of [ref, filesystem] must be set (currently set: [ref, filesystem])")]
    BothBlueprints,
    /// Error SUB-004 (`blueprints.md` 10): the parent has no component.
    #[error("no component descriptor defined to resolve the blueprint ref")]
    NoComponent,
    /// Error SUB-004 (`blueprints.md` 10): the address leads to no blueprint.
    #[error("unable to resolve blueprint ref in component descriptor {component}: {source}")]
    Reference { component: String, source: BlueprintRefError },
    #[error(transparent)]
    Inline(#[from] InlineError),
}

/// Error SUB-004 (`blueprints.md` 10): reason why a `cd://` address leads to no blueprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlueprintRefError {
    #[error(transparent)]
    Uri(CdUriError),
    /// The text equals that of Landscaper.
    #[error("the selector seems to contain more path segements after a external resource")]
    AfterResource,
    #[error("component reference {0} cannot be found")]
    ComponentReference(String),
    #[error("component {0} cannot be found")]
    Component(String),
    #[error("local resource {0} cannot be found")]
    Resource(String),
    #[error("expected a resource from the component descriptor {0}")]
    NoResource(String),
}

impl From<CdUriError> for BlueprintRefError {
    fn from(error: CdUriError) -> Self {
        match error {
            CdUriError::AfterResource => Self::AfterResource,
            other => Self::Uri(other),
        }
    }
}

/// Resource that an address leads to.
struct Holder<'a> {
    resource: String,
    /// Component version that contains the resource, with overwrites applied.
    descriptor: &'a Descriptor,
    /// Name and version as written in the last component reference of the address; `None` for the
    /// parent's own component.
    written: Option<(String, String)>,
}

impl<'a> Parent<'a> {
    /// Creates the parent. `effective` is its own component version with overwrites applied,
    /// `components` the closure. Both are empty for a parent without component.
    ///
    /// # Errors
    ///
    /// The parent's own inline component descriptor is malformed. Such a parent could not be
    /// rendered either.
    pub fn new(
        installation: &'a Installation,
        effective: Option<&'a Reference>,
        components: &'a Components,
    ) -> Result<Self, ChildError> {
        let definition = installation.spec.component_descriptor.as_ref();
        // A reference takes precedence, as in the selection of the parent's own component.
        let inline = definition.filter(|definition| definition.reference.is_none());
        let inline = match inline.and_then(|definition| definition.inline.get()) {
            Some(descriptor) => InlineSet::new(descriptor)?,
            None => InlineSet::default(),
        };
        Ok(Self { installation, effective, components, inline })
    }

    /// Returns the spec of the child. It replaces the spec of an existing child: fields that a
    /// template cannot set and a child does not inherit (`automaticReconcile`, `verification`) are
    /// absent.
    ///
    /// # Errors
    ///
    /// The template has no blueprint, two of them, or one that cannot be found.
    pub fn child_spec(&self, template: &InstallationTemplate) -> Result<InstallationSpec, ChildError> {
        let (blueprint, component_descriptor) = self.definitions(template.blueprint.as_ref())?;
        Ok(InstallationSpec {
            context: self.installation.spec.context.clone(),
            component_descriptor,
            blueprint,
            imports: template.imports.clone(),
            import_data_mappings: template.import_data_mappings.clone(),
            exports: template.exports.clone(),
            export_data_mappings: template.export_data_mappings.clone(),
            optimization: template.optimization.clone(),
            ..InstallationSpec::default()
        })
    }

    /// Returns labels and annotations of the child. The caller adds finalizer and owner, which are
    /// the same for all objects of an Installation.
    pub fn child_metadata(&self, template: &InstallationTemplate) -> ChildMetadata {
        let metadata = &self.installation.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let own = (annotation::SUBINSTALLATION_NAME.to_owned(), template.name().to_owned());
        let passed_on = metadata.annotations.iter().flatten();
        let passed_on = passed_on.filter(|(key, _)| *key == annotation::CACHE_HELM_CHARTS);
        ChildMetadata {
            labels: BTreeMap::from([(label::ENCOMPASSED_BY.to_owned(), name)]),
            annotations: passed_on.map(|(key, value)| (key.clone(), value.clone())).chain([own]).collect(),
        }
    }

    /// Returns component and blueprint definition by the table of `blueprints.md` 9.4.
    fn definitions(
        &self,
        blueprint: Option<&InstallationTemplateBlueprint>,
    ) -> Result<(BlueprintDefinition, Option<ComponentDescriptorDefinition>), ChildError> {
        let blueprint = blueprint.ok_or(ChildError::NoBlueprint)?;
        let reference = blueprint.reference.as_deref().filter(|reference| !reference.is_empty());
        match (reference, blueprint.filesystem.get()) {
            (None, None) => Err(ChildError::NoBlueprint),
            (Some(_), Some(_)) => Err(ChildError::BothBlueprints),
            (None, Some(filesystem)) => {
                let inline = InlineBlueprint { filesystem: AnyJson::from(filesystem.clone()) };
                let blueprint =
                    BlueprintDefinition { inline: Some(inline), ..BlueprintDefinition::default() };
                Ok((blueprint, self.installation.spec.component_descriptor.clone()))
            }
            (Some(reference), None) => {
                let root = self.components.root().ok_or(ChildError::NoComponent)?;
                let holder = self
                    .find(root, reference)
                    .map_err(|source| ChildError::Reference { component: root.name().to_owned(), source })?;
                let component = self.component_of(&holder);
                let reference = BlueprintReference { resource_name: holder.resource };
                let blueprint =
                    BlueprintDefinition { reference: Some(reference), ..BlueprintDefinition::default() };
                Ok((blueprint, Some(component)))
            }
        }
    }

    /// Follows an address. The resource must exist in the overwritten component.
    fn find(&self, root: &'a Descriptor, address: &str) -> Result<Holder<'a>, BlueprintRefError> {
        let uri = CdUri::parse(address)?;
        let (mut descriptor, mut written) = (root, None);
        for name in uri.reference_names() {
            let reference = descriptor
                .reference(name)
                .ok_or_else(|| BlueprintRefError::ComponentReference(name.clone()))?;
            descriptor = self
                .components
                .follow(&reference.component_name, &reference.version)
                .ok_or_else(|| BlueprintRefError::Component(name.clone()))?;
            written = Some((reference.component_name, reference.version));
        }
        let resource = uri
            .resource_name()
            .ok_or_else(|| BlueprintRefError::NoResource(descriptor.name().to_owned()))?
            .to_owned();
        if descriptor.resource(&resource).is_err() {
            return Err(BlueprintRefError::Resource(resource));
        }
        Ok(Holder { resource, descriptor, written })
    }

    /// Returns the component of a child whose blueprint is in that component version.
    ///
    /// References are passed on as written, because the child applies the overwrites itself
    /// (`components.md` 2.6). The parent's own component is passed by its effective name: the
    /// effective repository context, which the child inherits, contains that version, but maybe not
    /// the one before overwrites.
    fn component_of(&self, holder: &Holder<'_>) -> ComponentDescriptorDefinition {
        let inline = match &holder.written {
            None => self.inline.root().and_then(|_| {
                let definition = self.installation.spec.component_descriptor.as_ref()?;
                definition.inline.get()
            }),
            Some((name, version)) => self.inline.get(name, version).map(Descriptor::document),
        };
        if let Some(inline) = inline {
            let inline = AnyJson::from(inline.clone());
            return ComponentDescriptorDefinition { inline, ..ComponentDescriptorDefinition::default() };
        }
        let own = || (holder.descriptor.name().to_owned(), holder.descriptor.version().to_owned());
        let (component_name, version) = holder.written.clone().unwrap_or_else(own);
        let context = self.effective.and_then(|reference| reference.repository.as_ref());
        let reference = ComponentVersionReference {
            repository_context: AnyJson::from(context.map(|context| context.as_value().clone())),
            component_name,
            version,
        };
        ComponentDescriptorDefinition {
            reference: Some(reference),
            ..ComponentDescriptorDefinition::default()
        }
    }
}

/// Returns the name of the child's object: the template's name and five characters that are the
/// same on every attempt (`blueprints.md` 9.5).
///
/// `suffix` computes these characters from the template's name and the parent, by the rule of
/// `installations.md` 7.2. It is a parameter, because the hash is part of the stored format and is
/// defined only once, in `groundwork-lifecycle`.
pub fn child_object_name(template: &str, suffix: impl FnOnce(&str) -> String) -> String {
    format!("{template}-{}", suffix(template))
}
