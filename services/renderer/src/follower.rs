//! Tree of an Installation and all objects below it, read once and then updated object by object.

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{DeployItem, Execution, Installation, Kind as _, ResourceExt};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::overview::{Members, Node};
use groundwork_lifecycle::parent_name;
use groundwork_lifecycle::waits::{Clock, names_around};
use jiff::SignedDuration;

/// Follower of one Installation. The caller reports which objects have changed.
#[derive(Debug, Clone)]
pub struct Follower {
    objects: Objects,
    namespace: String,
    name: String,
    members: Members,
    /// Installations outside the tree: those that it waits for, and its parent.
    around: BTreeMap<String, Installation>,
    pickup_timeout: Option<SignedDuration>,
}

impl Follower {
    /// Creates a follower that has read no object yet.
    pub fn new(objects: Objects, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let (namespace, name) = (namespace.into(), name.into());
        let (members, around) = (Members::default(), BTreeMap::new());
        Self { objects, namespace, name, members, around, pickup_timeout: None }
    }

    /// Sets the pickup timeout of items, as the renderer has it.
    #[must_use]
    pub fn with_pickup_timeout(self, pickup_timeout: Option<SignedDuration>) -> Self {
        Self { pickup_timeout, ..self }
    }

    /// Returns the tree as last read; `None` if the Installation does not exist.
    pub fn tree(&self) -> Option<Node> {
        let clock = Clock { pickup_timeout: self.pickup_timeout, ..Clock::now() };
        if self.around.is_empty() {
            return self.members.tree(&self.name, &clock);
        }
        let mut members = self.members.clone();
        for installation in self.around.values() {
            members.insert_installation(installation.clone());
        }
        members.tree(&self.name, &clock)
    }

    /// Returns the Installation as last read.
    pub fn installation(&self) -> Option<&Installation> {
        self.members.installation(&self.name)
    }

    /// Reads the whole tree again. This takes two requests for the Installation and for each nested
    /// one, and a list of items for each that has an Execution.
    ///
    /// # Errors
    ///
    /// A read fails; the tree stays as it was.
    pub async fn read(&mut self) -> Result<(), ApiError> {
        let mut members = Members::default();
        if let Some(installation) = self.objects.get(&self.namespace, &self.name).await? {
            self.read_below(installation, &mut members).await?;
        }
        self.members = members;
        self.around.clear();
        self.read_around().await;
        Ok(())
    }

    /// Reads the Installations outside the tree that it waits for. Failures are ignored.
    async fn read_around(&mut self) {
        let names = self.members.installation(&self.name).map(names_around).unwrap_or_default();
        let mut around = BTreeMap::new();
        for name in names {
            let known = self.around.remove(name);
            let found = match known {
                Some(known) => Some(known),
                None => self.objects.get::<Installation>(&self.namespace, name).await.ok().flatten(),
            };
            around.extend(found.map(|found| (name.to_owned(), found)));
        }
        self.around = around;
    }

    /// Reports whether a change of an object can change the tree. `owner` is the parent of a nested
    /// Installation, or the Execution of an item.
    pub fn concerns(&self, plural: &str, name: &str, owner: Option<&str>) -> bool {
        let is_of = |plural: &str| owner.is_some_and(|owner| self.members.contains(plural, owner));
        match plural {
            Installation::PLURAL => {
                name == self.name
                    || self.around.contains_key(name)
                    || self.members.contains(plural, name)
                    || is_of(Installation::PLURAL)
            }
            // An Execution has the name of its Installation.
            Execution::PLURAL => {
                self.members.contains(plural, name) || self.members.contains(Installation::PLURAL, name)
            }
            DeployItem::PLURAL => self.members.contains(plural, name) || is_of(Installation::PLURAL),
            _ => false,
        }
    }

    /// Reads a changed or deleted object again.
    ///
    /// # Errors
    ///
    /// The read fails; the tree stays as it was.
    pub async fn refresh(&mut self, plural: &str, name: &str) -> Result<(), ApiError> {
        match plural {
            Installation::PLURAL if self.around.remove(name).is_some() => {}
            Installation::PLURAL => match self.objects.get::<Installation>(&self.namespace, name).await? {
                Some(installation) if self.members.contains(plural, name) => {
                    self.members.insert_installation(installation);
                }
                // A new Installation may already have objects below it.
                Some(installation) => {
                    let mut members = Members::default();
                    self.read_below(installation, &mut members).await?;
                    self.members.extend(members);
                }
                None => self.members.remove(plural, name),
            },
            Execution::PLURAL => match self.objects.get(&self.namespace, name).await? {
                Some(execution) => self.members.insert_execution(execution),
                None => self.members.remove(plural, name),
            },
            DeployItem::PLURAL => match self.objects.get(&self.namespace, name).await? {
                Some(item) => self.members.insert_item(item),
                None => self.members.remove(plural, name),
            },
            _ => {}
        }
        if plural == Installation::PLURAL {
            self.read_around().await;
        }
        Ok(())
    }

    /// Reads everything below an Installation, at any depth.
    async fn read_below(&self, installation: Installation, members: &mut Members) -> Result<(), ApiError> {
        let mut unread = vec![installation];
        while let Some(installation) = unread.pop() {
            let name = installation.name_any();
            if members.contains(Installation::PLURAL, &name) {
                continue;
            }
            members.insert_installation(installation);
            if let Some(execution) = self.objects.get::<Execution>(&self.namespace, &name).await? {
                members.insert_execution(execution);
                let labels = format!("{}={name}", label::MANAGED_BY);
                for item in self.objects.list::<DeployItem>(&self.namespace, &labels).await? {
                    members.insert_item(item);
                }
            }
            let labels = format!("{}={name}", label::ENCOMPASSED_BY);
            let children = self.objects.list::<Installation>(&self.namespace, &labels).await?;
            // Any user can write labels, so the owner reference decides.
            unread.extend(children.into_iter().filter(|child| parent_name(child) == Some(name.as_str())));
        }
        Ok(())
    }
}
