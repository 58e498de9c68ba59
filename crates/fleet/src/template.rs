//! Evaluation of a template for one site (`packagevariants.md` 4.3 to 4.5).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{
    Downstream, Function, FunctionTemplate, InjectionSelector, IntOrString, List, Map, MapExpr, OneOrMany,
    PackageContext, PackageVariantSpec, PackageVariantTemplate, Pipeline, Upstream,
};

use crate::expression::{Expressions, Scope, Shown};
use crate::targets::Site;

/// Data shared by all sites of one upstream.
pub(crate) struct Surroundings<'a> {
    pub(crate) upstream: &'a Upstream,
    /// Upstream revision in the form of expressions; `None` if no store is known.
    pub(crate) upstream_shown: Option<Shown>,
    /// Repositories of the namespace by name.
    pub(crate) repositories: &'a BTreeMap<&'a str, Shown>,
}

/// Returns the variant of a site. Errors begin with a field of the target.
pub(crate) fn render(
    template: Option<&PackageVariantTemplate>,
    site: &Site<'_>,
    around: &Surroundings<'_>,
    expressions: &mut Expressions,
) -> Result<PackageVariantSpec, String> {
    let spec = |repo: String, package: String| PackageVariantSpec {
        upstream: Some(written(around.upstream)),
        downstream: Some(Downstream { repo: Some(repo), package: Some(package) }),
        ..PackageVariantSpec::default()
    };
    let Some(template) = template else {
        return Ok(spec(site.repository.to_owned(), site.package.to_owned()));
    };
    let mut scope = Scope::new(site.repository, site.package);
    if let Some(upstream) = &around.upstream_shown {
        scope.set("upstream", upstream);
    }
    scope.set("target", &site.seen.shown(site.repository, site.package));
    let mut writer = Writer { expressions, scope };
    let given = template.downstream.clone().unwrap_or_default();
    let repo = writer.text(
        "template.downstream.repoExpr",
        given.repo_expr.as_deref(),
        given.repo,
        site.repository,
    )?;
    let Some(repository) = around.repositories.get(repo.as_str()) else {
        return Err(format!("template: repository {repo:?} could not be loaded"));
    };
    writer.scope.set("repository", repository);
    let package = writer.text(
        "template.downstream.packageExpr",
        given.package_expr.as_deref(),
        given.package,
        site.package,
    )?;
    Ok(PackageVariantSpec {
        adoption_policy: template.adoption_policy.clone(),
        deletion_policy: template.deletion_policy.clone(),
        update_strategy: template.update_strategy.clone(),
        labels: writer.map("template.labelExprs", &template.labels, &template.label_exprs)?,
        annotations: writer.map(
            "template.annotationExprs",
            &template.annotations,
            &template.annotation_exprs,
        )?,
        package_context: writer.context(template)?,
        injectors: writer.injectors(template)?,
        pipeline: writer.pipeline(template)?,
        ..spec(repo, package)
    })
}

/// Returns the upstream without empty texts.
fn written(upstream: &Upstream) -> Upstream {
    let is_empty = |revision: &IntOrString| matches!(revision, IntOrString::String(text) if text.is_empty());
    Upstream {
        revision: upstream.revision.clone().filter(|revision| !is_empty(revision)),
        workspace_name: text(&upstream.workspace_name),
        ..upstream.clone()
    }
}

fn text(written: &Option<String>) -> Option<String> {
    written.clone().filter(|text| !text.is_empty())
}

fn list<T: Clone>(written: &List<T>) -> List<T> {
    if written.is_empty() { List::absent() } else { written.clone() }
}

/// Evaluator in the scope of one site.
struct Writer<'a> {
    expressions: &'a mut Expressions,
    scope: Scope,
}

impl Writer<'_> {
    fn evaluate(&mut self, source: &str, field: impl FnOnce() -> String) -> Result<String, String> {
        self.expressions.evaluate(source, &self.scope).map_err(|error| format!("{}: {error}", field()))
    }

    fn text(
        &mut self,
        field: &str,
        computed: Option<&str>,
        fixed: Option<String>,
        default: &str,
    ) -> Result<String, String> {
        match (computed.filter(|source| !source.is_empty()), fixed.filter(|text| !text.is_empty())) {
            (Some(source), _) => self.evaluate(source, || field.to_owned()),
            (None, Some(fixed)) => Ok(fixed),
            (None, None) => Ok(default.to_owned()),
        }
    }

    fn map(
        &mut self,
        field: &str,
        fixed: &Map<String>,
        computed: &OneOrMany<MapExpr>,
    ) -> Result<Map<String>, String> {
        let mut map = (**fixed).clone();
        // The validation has already checked that each entry has one key and one value.
        for (index, entry) in computed.entries(field).unwrap_or_default().iter().enumerate() {
            let key = match (&entry.key_expr, &entry.key) {
                (Some(source), _) => self.evaluate(source, || format!("{field}[{index}].keyExpr"))?,
                (None, key) => key.clone().unwrap_or_default(),
            };
            if key.is_empty() {
                return Err(format!("{field}[{index}]: the key is empty"));
            }
            let value = match (&entry.value_expr, &entry.value) {
                (Some(source), _) => self.evaluate(source, || format!("{field}[{index}].valueExpr"))?,
                (None, value) => value.clone().unwrap_or_default(),
            };
            map.insert(key, value);
        }
        Ok(if map.is_empty() { Map::absent() } else { map.into() })
    }

    fn context(&mut self, template: &PackageVariantTemplate) -> Result<Option<PackageContext>, String> {
        let Some(given) = &template.package_context else { return Ok(None) };
        let data = self.map("template.packageContext.dataExprs", &given.data, &given.data_exprs)?;
        let mut remove_keys: BTreeSet<String> = given.remove_keys.iter().cloned().collect();
        for (index, source) in given.remove_key_exprs.iter().enumerate() {
            remove_keys.insert(
                self.evaluate(source, || format!("template.packageContext.removeKeyExprs[{index}]"))?,
            );
        }
        let mut context = PackageContext { data, ..PackageContext::default() };
        if !remove_keys.is_empty() {
            context.remove_keys = remove_keys.into_iter().collect();
        }
        Ok(Some(context))
    }

    fn injectors(
        &mut self,
        template: &PackageVariantTemplate,
    ) -> Result<OneOrMany<InjectionSelector>, String> {
        let mut selectors = Vec::new();
        for (field, given) in template.injectors("template").unwrap_or_default() {
            let name = match given.name_expr.as_deref().filter(|source| !source.is_empty()) {
                Some(source) => self.evaluate(source, || format!("{field}.nameExpr"))?,
                None => given.name.unwrap_or_default(),
            };
            let (group, version, kind) = (given.group, given.version, given.kind);
            selectors.push(InjectionSelector { group, version, kind, name });
        }
        Ok(if selectors.is_empty() { OneOrMany::default() } else { selectors.into() })
    }

    fn pipeline(&mut self, template: &PackageVariantTemplate) -> Result<Option<Pipeline>, String> {
        let Some(given) = &template.pipeline else { return Ok(None) };
        let validators = self.functions(&given.validators, "template.pipeline.validators")?;
        let mutators = self.functions(&given.mutators, "template.pipeline.mutators")?;
        if validators.is_empty() && mutators.is_empty() {
            return Ok(None);
        }
        let mut pipeline = Pipeline::default();
        if !validators.is_empty() {
            pipeline.validators = validators.into();
        }
        if !mutators.is_empty() {
            pipeline.mutators = mutators.into();
        }
        Ok(Some(pipeline))
    }

    fn functions(&mut self, given: &[FunctionTemplate], field: &str) -> Result<Vec<Function>, String> {
        let mut functions = Vec::with_capacity(given.len());
        for (index, template) in given.iter().enumerate() {
            let field = format!("{field}[{index}].configMapExprs");
            functions.push(Function {
                image: text(&template.image),
                exec: text(&template.exec),
                tag: text(&template.tag),
                config_path: text(&template.config_path),
                config_map: self.map(&field, &template.config_map, &template.config_map_exprs)?,
                name: text(&template.name),
                selectors: list(&template.selectors),
                exclude: list(&template.exclude),
            });
        }
        Ok(functions)
    }
}
