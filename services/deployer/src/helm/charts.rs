//! Fetches, loads and renders the charts of items. Loading and rendering run in workers.

use std::sync::Arc;

use groundwork_api::ResourceExt as _;
use groundwork_apply::{Cluster, ReadinessRules};
use groundwork_deploy::{Failure, Round};
use groundwork_helm::{Release, values};
use groundwork_lifecycle::deployer::missing_configuration;
use groundwork_lifecycle::{OperationError, Reason};
use serde_json::Map;

use super::chart_source::{self, ChartSources};
use super::configuration::Configuration;
use super::errors::{rendering_error, unreachable_cluster};
use super::prepared::{Prepared, warnings};
use super::rendering::{Rendering, RenderingError, capabilities};
use super::value_exports;
use super::work::{Input, Said};
use crate::common::other_clusters;

/// Source and renderer of charts.
#[derive(Debug, Clone)]
pub(super) struct Charts {
    pub(super) sources: ChartSources,
    pub(super) rendering: Rendering,
    /// Readiness rules of items that choose none.
    pub(super) rules: ReadinessRules,
}

impl Charts {
    /// Fetches and loads the chart of an item, and reads its exports from values.
    pub(super) async fn prepare<'a>(
        &self,
        round: &'a Round<'a>,
        cluster: Arc<Cluster>,
    ) -> Result<Prepared<'a>, Failure> {
        let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
        let mut configuration = Configuration::parse(config)?;
        configuration.readiness_checks.rules.get_or_insert(self.rules);
        let others = other_clusters(round, &configuration.target_names()).await?;
        let archive = self.sources.fetch(&configuration.chart, round).await?;
        let tenant = round.item.namespace().unwrap_or_default();
        let chart = self.rendering.load(archive, tenant).await.map_err(|error| match error {
            RenderingError::Chart(text) | RenderingError::Work(text) => {
                chart_source::broken(format!("unable to load chart from archive: {text}"))
            }
            RenderingError::Fault(text) => {
                OperationError::transient("TemplateChart", Reason::GetHelmChart, text)
            }
        })?;
        let versions = cluster.versions().await.map_err(|error| unreachable_cluster(&error))?;
        let given = configuration.values.as_object().cloned().unwrap_or_default();
        let values = if configuration.keeps_releases() { values::floats(given) } else { given };
        let warnings = warnings(&configuration, round.item);
        let capabilities = capabilities(&versions);
        let exports = Map::new();
        let mut prepared = Prepared {
            round,
            configuration,
            cluster,
            others,
            chart,
            capabilities,
            values,
            exports,
            warnings,
        };
        if !value_exports::of(&prepared.configuration).is_empty() {
            let input = prepared.input(prepared.release(0, false));
            let tree = self.rendering.describe(&prepared.chart, input).await;
            let tree = tree.map_err(|error| rendering_error(Reason::PrepareHelmValues, &error, false))?;
            prepared.exports = value_exports::read(&prepared.configuration, &tree, &prepared.capabilities)?;
        }
        Ok(prepared)
    }

    /// Renders a chart as a release, in a worker.
    pub(super) async fn render(
        &self,
        prepared: &Prepared<'_>,
        release: Release,
        skip_schema: bool,
        reason: Reason,
    ) -> Result<Said, OperationError> {
        let input = Input { skip_schema, ..prepared.input(release) };
        let outcome = self.rendering.render(&prepared.chart, input, Arc::clone(&prepared.cluster)).await;
        outcome.result.map_err(|error| rendering_error(reason, &error, outcome.is_cluster_dependent))
    }
}
