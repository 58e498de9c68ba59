//! Rights of visitors: answers of the API server about `get`, cached briefly.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use groundwork_bus::ObjectId;
use groundwork_grpc::{Access, ResourceAttributes, User};
use moka::future::Cache;
use tonic::Status;

/// Time for which the visible namespaces of a user are cached.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Number of cached answers.
const MOST: u64 = 5_000;
/// Questions about one user that are sent at the same time.
const SIDE_BY_SIDE: usize = 32;

/// Namespaces in which a user may see the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Visible {
    Everywhere,
    In(BTreeSet<Arc<str>>),
}

impl Visible {
    pub(crate) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// Purpose of an answer. Each purpose asks about other namespaces, so its answers are cached
/// separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Lists,
    Events,
}

/// Group and plural of a kind, as access reviews name it.
pub(crate) type KindOfRight = (&'static str, &'static str);

/// Returns the group and plural of a kind.
pub(crate) const fn of_kind<K: groundwork_api::Kind>() -> KindOfRight {
    (K::GROUP, K::PLURAL)
}

/// Client for access reviews. Clones share one cache.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    access: Access,
    visible: Cache<(Purpose, [u8; 32], KindOfRight), Arc<Visible>>,
}

impl Rights {
    pub(crate) fn new(access: Access) -> Self {
        let visible = Cache::builder().max_capacity(MOST).time_to_live(REMEMBERED).build();
        Self { access, visible }
    }

    /// Returns the namespaces in which a user may `get` objects of a kind. Asks only about
    /// `namespaces`, which contain such objects.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` when the API server does not answer.
    pub(crate) async fn visible(
        &self,
        user: &User,
        kind: KindOfRight,
        purpose: Purpose,
        namespaces: impl FnOnce() -> BTreeSet<Arc<str>>,
    ) -> Result<Arc<Visible>, Status> {
        let ask = async {
            // One question about the whole cluster may save one for each namespace.
            if self.may(user, "get", kind, None, None).await? {
                return Ok(Arc::new(Visible::Everywhere));
            }
            let answers = stream::iter(namespaces()).map(|namespace| async move {
                let allowed = self.may(user, "get", kind, Some(&namespace), None).await?;
                Ok::<_, Status>(allowed.then_some(namespace))
            });
            let found: Vec<_> = answers.buffer_unordered(SIDE_BY_SIDE).try_collect().await?;
            Ok(Arc::new(Visible::In(found.into_iter().flatten().collect())))
        };
        let answer = self.visible.try_get_with((purpose, user.digest(), kind), ask).await;
        answer.map_err(|status: Arc<Status>| (*status).clone())
    }

    /// Reports whether a user may do something with one object, with all objects of a namespace, or
    /// in the whole cluster.
    pub(crate) async fn may(
        &self,
        user: &User,
        verb: &'static str,
        (group, resource): KindOfRight,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<bool, Status> {
        self.access.may(user, verb, &ResourceAttributes { group, resource, namespace, name }).await
    }

    /// Reports whether a user may `get` all objects of the same kind and namespace as `object`.
    pub(crate) async fn may_see(&self, user: &User, object: &ObjectId) -> Result<bool, Status> {
        let attributes = ResourceAttributes {
            group: object.kind.group(),
            resource: object.kind.plural(),
            namespace: object.namespace.as_deref(),
            name: None,
        };
        self.access.may(user, "get", &attributes).await
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::Installation;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that allows everything inside a namespace, and nothing for the whole cluster.
    #[expect(clippy::disallowed_methods, reason = "the request is one of the test")]
    fn access() -> Access {
        let server = tower::service_fn(|request: http::Request<Body>| async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let is_in_namespace = review["spec"]["resourceAttributes"]["namespace"].is_string();
            review["status"] = json!({"allowed": is_in_namespace});
            Ok::<_, std::io::Error>(http::Response::new(Body::from(review.to_string().into_bytes())))
        });
        Access::new(Client::new(server, "default"), "console")
    }

    /// Lists and events ask about other namespaces, so a cached answer for one must not serve the
    /// other.
    #[tokio::test]
    async fn what_is_remembered_is_for_one_purpose() {
        let rights = Rights::new(access());
        let user = User::named("ann".to_owned(), Vec::new());
        let namespaces =
            |names: &[&str]| -> BTreeSet<Arc<str>> { names.iter().map(|name| Arc::from(*name)).collect() };
        let kind = of_kind::<Installation>();
        let visible = rights.visible(&user, kind, Purpose::Events, || namespaces(&["a"])).await.unwrap();
        assert_eq!(*visible, Visible::In(namespaces(&["a"])));
        let visible = rights.visible(&user, kind, Purpose::Lists, || namespaces(&["a", "b"])).await.unwrap();
        assert_eq!(*visible, Visible::In(namespaces(&["a", "b"])));
        let again = rights.visible(&user, kind, Purpose::Lists, || namespaces(&["c"])).await.unwrap();
        assert_eq!(again, visible, "nobody is asked again for a while");
    }
}
