//! The helm deployer: deploys a chart to the cluster of the Target, either as a release that Helm's
//! own client reads, or rendered and applied (`helm.md` 10).
//!
//! ```text
//! item ──charts──> Prepared: configuration, chart, values for exports
//!                     ├─> release_mode: history, records, hooks, objects
//!                     └─> template_mode: manifests, as those of manifest items
//! ```

mod chart_source;
mod charts;
mod claims;
mod component_chart;
mod configuration;
mod drift;
mod dropping;
mod errors;
mod failing;
mod history;
mod hook_logs;
mod hooks;
mod marks;
mod objects;
mod prepared;
mod redact;
mod release;
mod release_mode;
mod removal;
mod render_only;
mod rendering;
pub(crate) mod status;
mod template_mode;
mod value_exports;
mod waiting;
pub(crate) mod work;

use std::sync::Arc;

use async_trait::async_trait;
use groundwork_api::DeployItem;
use groundwork_apply::{Cluster, DriftReport, Findings, ReadinessRules};
use groundwork_budget::TemplateLimits;
use groundwork_deploy::{Deployer, Failure, Removal, Round, Step};
use groundwork_sandbox::Pool;
use jiff::Timestamp;

pub(crate) use chart_source::ChartSources;
use charts::Charts;
use release_mode::ReleaseMode;
use rendering::Rendering;
use status::rollback_until;

use crate::common::CHART;
use crate::whereabouts::RoundCluster;

/// Deployer of items with charts.
#[derive(Debug, Clone)]
pub(crate) struct HelmDeployer {
    charts: Charts,
    release_mode: ReleaseMode,
}

impl HelmDeployer {
    /// Creates a deployer that renders charts in `workers`. `rules` are the readiness rules of
    /// items that choose none.
    pub(crate) fn new(
        sources: ChartSources,
        workers: Pool,
        limits: TemplateLimits,
        rules: ReadinessRules,
    ) -> Self {
        let charts = Charts { sources, rendering: Rendering::new(workers, limits), rules };
        Self { release_mode: ReleaseMode::new(charts.clone()), charts }
    }

    async fn bring_about(&self, round: &Round<'_>, cluster: Arc<Cluster>) -> Result<Step, Failure> {
        let prepared = self.charts.prepare(round, cluster).await?;
        if prepared.configuration.keeps_releases() {
            self.release_mode.run(prepared).await
        } else {
            template_mode::run(&self.charts, prepared).await
        }
    }
}

#[async_trait]
impl Deployer for HelmDeployer {
    fn type_name(&self) -> &'static str {
        CHART
    }

    fn extension(&self, item: &DeployItem) -> Option<Timestamp> {
        rollback_until(item)
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let place = RoundCluster::of(round).await?;
        let round = Round { item: place.item(), ..*round };
        place.note(self.bring_about(&round, place.cluster()).await)
    }

    async fn check_drift(
        &self,
        round: &Round<'_>,
        before: &Findings,
    ) -> Result<Option<DriftReport>, Failure> {
        drift::check(&self.charts, round, before).await
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure> {
        removal::delete(round).await
    }
}
