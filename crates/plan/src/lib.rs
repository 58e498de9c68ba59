//! Plans: the effects on a cluster of applying objects, computed before the objects are applied.
//!
//! ```text
//! Landscape (objects of the cluster) + Landscape (objects to apply)
//!    └─ causes: roots with a reason to run, in the order in which they run
//!         └─ walk: their jobs down to the leaves ── compare ──> Plan: items, exports, importers
//!              └─ second walk with substituted secrets: values that differ are hidden
//! ```
//!
//! The crate does no I/O: callers read the cluster before the call. The relevant Secrets and
//! ConfigMaps are known only after a plan has searched for them ([`Reads`]). Results that depend on
//! deployers are reported as unknown. The jobs follow the chapter `installations.md`.

mod applied;
mod blueprints;
mod change;
mod compare;
mod component_changes;
mod environment;
mod landscape;
mod repositories;
mod secrecy;
#[cfg(test)]
mod tests;
mod text;
mod triggers;
mod walk;
mod world;

pub use change::{
    Change, ObjectChange, Plan, PlannedExport, PlannedInstallation, PlannedItem, Reason, Redirection, Start,
};
pub use component_changes::redirections;
pub use environment::{Environment, Reads, Sources, Unread};
pub use groundwork_fleet::Field;
pub use landscape::{Key, Landscape};
pub use secrecy::HIDDEN;

use blueprints::Blueprints;
use compare::{Comparison, Proofs};
use landscape::Below;
use repositories::ReadOnce;
use triggers::Causes;
use walk::{Node, Walk, Walks};

/// Returns the effects of applying `applied` to a cluster with the objects `present`. Both must
/// contain all objects of the namespaces of the applied objects.
pub fn plan(present: &Landscape, applied: &Landscape, environment: &Environment<'_>) -> Plan {
    let repositories = ReadOnce::new(environment.repositories);
    let environment = &Environment { repositories: &repositories, ..*environment };
    let mut present = present.clone();
    present.fill_in();
    note_applied(&present, applied, environment.reads);
    let after = present.after(applied);
    let below = Below::of(&present);
    let published = compare::published(&present);
    let mut causes = Causes::new(&present, &after, applied, environment);
    let blueprints = Blueprints::default();
    let walks = Walks { present: &present, below: &below, environment, blueprints: &blueprints };
    let mut walk = walks.on(&after);
    let (mut nodes, mut planned) = (Vec::new(), Vec::new());
    for root in causes.roots() {
        let Some(cause) = causes.of(&root) else { continue };
        let node = walk.root(&after.installations[&root]);
        let comparison =
            Comparison { present: &present, below: &below, proofs: Proofs::shown(), published: &published };
        let known = comparison.installation(&node, causes.importers(&root.0));
        causes.ran(&root, &known, cause.start);
        nodes.push(node);
        planned.push((root, cause));
    }
    let roots: Vec<&Key> = planned.iter().map(|(root, _)| root).collect();
    let others = Others::of(&nodes, &roots, &after, &walks);
    let mut installations = Vec::with_capacity(nodes.len());
    for (at, (node, (root, cause))) in nodes.iter().zip(&planned).enumerate() {
        let proofs = others.proofs(at, environment.show_values);
        let comparison = Comparison { present: &present, below: &below, proofs, published: &published };
        let mut installation = comparison.installation(node, causes.importers(&root.0));
        installation.start = Some(cause.start);
        installation.reasons.clone_from(&cause.reasons);
        installation.redirected.clone_from(&cause.redirected);
        installations.push(installation);
    }
    let applied = applied::changes(&present, &after, applied, environment.show_values);
    Plan { applied, installations, problems: causes.problems }
}

/// Records the applied Secrets and ConfigMaps that the landscape lacks, because the comparison
/// needs the present objects of the same names.
fn note_applied(present: &Landscape, applied: &Landscape, reads: Option<&Reads>) {
    let Some(reads) = reads else { return };
    let secrets = applied.secrets.keys().filter(|key| !present.secrets.contains_key(key));
    secrets.for_each(|key| reads.secret(key.clone()));
    let maps = applied.config_maps.keys().filter(|key| !present.config_maps.contains_key(key));
    maps.for_each(|key| reads.config_map(key.clone()));
}

impl Proofs<'_> {
    fn shown() -> Self {
        Self { show_values: true, ..Self::default() }
    }
}

/// Planned roots in the walks with other objects (see [`compare::Proofs`]), in the same order;
/// empty if values are shown.
#[derive(Debug, Default)]
struct Others {
    before: Vec<Option<Node>>,
    before_disguised: Vec<Option<Node>>,
    disguised: Vec<Option<Node>>,
}

impl Others {
    fn of(nodes: &[Node], roots: &[&Key], after: &Landscape, walks: &Walks<'_>) -> Self {
        if walks.environment.show_values {
            return Self::default();
        }
        let through = |mut walk: Walk<'_>, landscape: &Landscape| -> Vec<Option<Node>> {
            let root = |root: &&Key| landscape.installations.get(*root).map(|found| walk.root(found));
            roots.iter().map(root).collect()
        };
        let before = through(walks.on(walks.present), walks.present);
        let may_be_secret = |node: &Node| node.all().iter().any(|node| node.may_be_secret);
        if !nodes.iter().chain(before.iter().flatten()).any(may_be_secret) {
            return Self { before, ..Self::default() };
        }
        let other = after.disguised();
        let disguised = through(walks.on(&other).disguised(), &other);
        let other = walks.present.disguised();
        let before_disguised = through(walks.on(&other).disguised(), &other);
        Self { before, before_disguised, disguised }
    }

    fn proofs(&self, at: usize, show_values: bool) -> Proofs<'_> {
        Proofs {
            show_values,
            disguised: self.disguised.get(at).and_then(Option::as_ref),
            before: self.before.get(at).and_then(Option::as_ref),
            before_disguised: self.before_disguised.get(at).and_then(Option::as_ref),
        }
    }
}
