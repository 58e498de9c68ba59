//! Kinds that a server serves.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::log::{Log, Served};
use crate::refusal::Refusal;
use crate::request::{Request, Verb};
use crate::selector::Selector;

/// Group and version of the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub name: &'static str,
    pub version: &'static str,
}

/// A namespaced kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    /// Groups of kinds that `kubectl get` knows.
    pub categories: &'static [&'static str],
    pub verbs: &'static [Verb],
    /// Parts of an object with requests of their own, and the verbs for them.
    pub subresources: &'static [(&'static str, &'static [Verb])],
    /// Fields by which objects can be selected, beside name and namespace. One that ends in `[`
    /// stands for all members of a map.
    pub fields: &'static [&'static str],
    pub columns: &'static [Column],
}

/// Column of `kubectl get`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub type_: &'static str,
    /// Value of a cell.
    pub cell: fn(&Value) -> Value,
}

impl Kind {
    /// Reports whether objects can be selected by a field.
    pub(crate) fn has_field(&self, path: &str) -> bool {
        matches!(path, "metadata.name" | "metadata.namespace")
            || self.fields.iter().any(|field| match field.strip_suffix('[') {
                Some(map) => path.strip_prefix(map).is_some_and(|rest| rest.len() > 2 && rest.ends_with(']')),
                None => *field == path,
            })
    }

    /// Returns the condition in a request.
    ///
    /// # Errors
    ///
    /// A selector is malformed.
    pub fn selector(&self, request: &Request) -> Result<Selector, Refusal> {
        let options = &request.options;
        Selector::parse(&options.label_selector, &options.field_selector, |path| self.has_field(path))
    }
}

/// Answer to a request.
#[derive(Debug)]
pub enum Answer {
    Object(Value),
    /// Object that was created.
    Created(Value),
    /// Objects with the version of the list.
    List {
        items: Vec<Arc<Served>>,
        version: u64,
    },
    Watch(Watch),
    /// Success without an object, about the object with this UID.
    Done {
        uid: String,
    },
}

/// Changes that a client wants to follow.
#[derive(Debug)]
pub struct Watch {
    pub log: Arc<Log>,
    pub selector: Selector,
}

/// Server of kinds, behind the rules that all kinds share.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    fn group(&self) -> Group;

    fn kinds(&self) -> &'static [Kind];

    /// Returns the OpenAPI schema of a kind.
    fn schema(&self, kind: &Kind) -> Value;

    /// Answers a request whose user is authorized. `warnings` reach the client beside the answer.
    async fn answer(
        &self,
        kind: &'static Kind,
        request: Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal>;
}
