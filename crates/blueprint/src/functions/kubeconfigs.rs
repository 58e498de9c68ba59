//! Kubeconfigs of one rendering (`blueprints.md` 5.5). They are kept as a state of the
//! Installation, so that a rendering with the same imports can be repeated.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::Answer;
use super::clusters::placeholder_for;
use crate::capabilities::{
    Capabilities, Clock, ClusterAccess, IssuedKubeconfig, KubeconfigIssuer, KubeconfigRequest,
};

/// Key of the state. The keys of executions begin with the names of their lists, so none of them
/// equals this one.
pub(crate) const STATE_KEY: &str = "kubeconfigs";

/// Kubeconfig in a state.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Text of the kubeconfig as base64.
    pub(super) kubeconfig: String,
    /// Time at which the rendering got it, in seconds since 1970.
    issued: i64,
    /// Time at which its credentials expire, in seconds since 1970.
    pub(super) expiration: i64,
    /// Hash of the imports with which it was issued.
    imports: String,
}

/// Source of the kubeconfigs of one rendering. Clones share their kubeconfigs.
#[derive(Clone, Default)]
pub(crate) struct Kubeconfigs {
    access: Access,
    clock: Option<Clock>,
    imports_hash: String,
    store: Arc<Mutex<Store>>,
}

#[derive(Clone, Default)]
enum Access {
    #[default]
    Off,
    Placeholders,
    /// The execution runs again with other values, to get an error message without secrets.
    Repeated(Former),
    On(Arc<dyn KubeconfigIssuer>),
}

/// Calls of one execution.
#[derive(Clone, Default)]
struct Former {
    /// Number of calls that got a kubeconfig.
    succeeded: usize,
    /// Call that failed, with its message.
    failed: Option<(KubeconfigRequest, String)>,
}

#[derive(Default)]
struct Store {
    /// Kubeconfigs by a digest of their request.
    kept: BTreeMap<String, Kept>,
    is_changed: bool,
    calls: Former,
}

/// Omits the kubeconfigs, which contain credentials.
impl fmt::Debug for Kubeconfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfigs").field("kept", &self.store().kept.len()).finish_non_exhaustive()
    }
}

impl Kubeconfigs {
    /// Creates the source of a rendering from its state, if it has one. An unreadable state counts
    /// as none: then all kubeconfigs are issued anew.
    pub(crate) fn new(capabilities: &Capabilities, state: Option<&str>) -> Self {
        let access = match &capabilities.clusters {
            ClusterAccess::None => Access::Off,
            ClusterAccess::Placeholders => Access::Placeholders,
            ClusterAccess::Issuer(issuer) => Access::On(Arc::clone(issuer)),
        };
        let kept = state.and_then(|state| serde_json::from_str(state).ok()).unwrap_or_default();
        Self {
            access,
            clock: capabilities.clock.clone(),
            imports_hash: capabilities.imports_hash.clone(),
            store: Arc::new(Mutex::new(Store { kept, ..Store::default() })),
        }
    }

    /// Begins another execution.
    pub(crate) fn begin(&self) {
        self.store().calls = Former::default();
    }

    /// Returns the source for a repetition of the execution with other values. A placeholder in it
    /// differs from each kubeconfig, so no message shows a part of one. The call that failed fails
    /// again.
    pub(super) fn repeated(&self) -> Self {
        let access = match &self.access {
            Access::On(_) => Access::Repeated(self.store().calls.clone()),
            Access::Repeated(former) => Access::Repeated(former.clone()),
            Access::Placeholders => Access::Placeholders,
            Access::Off => Access::Off,
        };
        Self { access, ..Self::default() }
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self.access, Access::Off)
    }

    pub(super) fn is_repeated(&self) -> bool {
        matches!(self.access, Access::Repeated(_))
    }

    pub(super) fn are_placeholders(&self) -> bool {
        matches!(self.access, Access::Placeholders)
    }

    /// Returns a kept kubeconfig that is fresh, or else a new one or a placeholder.
    pub(super) fn of(&self, request: &KubeconfigRequest, target: &Map<String, Value>) -> Answer<Kept> {
        let placeholder = || Kept {
            kubeconfig: placeholder_for(request),
            issued: 0,
            expiration: 0,
            imports: String::new(),
        };
        let now = self.clock.as_ref().map(|clock| {
            clock().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs().cast_signed())
        });
        let key = key(request, target);
        let kept = || self.store().kept.get(&key).filter(|kept| self.is_fresh(kept, now)).cloned();
        let issuer = match &self.access {
            Access::Off => return Ok(placeholder()),
            Access::Repeated(former) => {
                let mut store = self.store();
                if store.calls.succeeded < former.succeeded {
                    store.calls.succeeded += 1;
                    return Ok(placeholder());
                }
                return former.failed.as_ref().map_or_else(
                    || Ok(placeholder()),
                    |(other, message)| Err(reworded(message, other, request)),
                );
            }
            Access::Placeholders => return Ok(kept().unwrap_or_else(placeholder)),
            Access::On(issuer) => issuer,
        };
        if let Some(kept) = kept() {
            self.store().calls.succeeded += 1;
            return Ok(kept);
        }
        let issued = issuer.issue(request);
        let IssuedKubeconfig { kubeconfig, expiration } = issued.inspect_err(|message| {
            self.store().calls.failed = Some((request.clone(), message.clone()));
        })?;
        let kept = Kept {
            kubeconfig: BASE64.encode(&kubeconfig),
            issued: now.unwrap_or_default(),
            expiration,
            imports: self.imports_hash.clone(),
        };
        let mut store = self.store();
        store.kept.insert(key, kept.clone());
        store.is_changed = true;
        store.calls.succeeded += 1;
        Ok(kept)
    }

    /// Returns the state to store, if a kubeconfig was issued. Entries that no later rendering
    /// could use are left out.
    pub(crate) fn changed_state(&self) -> Option<String> {
        let mut store = self.store();
        if !std::mem::take(&mut store.is_changed) {
            return None;
        }
        store.kept.retain(|_, kept| kept.imports == self.imports_hash);
        serde_json::to_string(&store.kept).ok()
    }

    /// Reports whether the imports are the same, and at least half of the life is left.
    fn is_fresh(&self, kept: &Kept, now: Option<i64>) -> bool {
        let Some(now) = now else { return false };
        let (life, left) = (kept.expiration - kept.issued, kept.expiration - now);
        kept.imports == self.imports_hash && left > 0 && left >= life / 2
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the message about one request in the form that it would have for another request. The
/// parts that differ may be values of imports, and are then withheld. Messages name objects as
/// `namespace/name`.
fn reworded(message: &str, request: &KubeconfigRequest, other: &KubeconfigRequest) -> String {
    let place = |request: &KubeconfigRequest| format!("{}/{}", request.namespace, request.name);
    let target = |request: &KubeconfigRequest| format!("/{}", request.target);
    let message = message.replace(&place(request), &place(other)).replace(&target(request), &target(other));
    // A message in another form may contain only a part of the name.
    let parts = [(&request.namespace, &other.namespace), (&request.name, &other.name)];
    let left = parts.into_iter().filter(|(before, after)| before != after && !before.is_empty());
    left.fold(message, |message, (before, after)| message.replace(before.as_str(), after))
}

/// Returns the digest of a request and of the spec of its Target, which may lead to another cluster
/// under the same name.
fn key(request: &KubeconfigRequest, target: &Map<String, Value>) -> String {
    let spec = target.get("spec").cloned().unwrap_or_default();
    let request = serde_json::to_string(request).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(format!("{request}\n{spec}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::capabilities::ClusterUser;

    /// Issuer whose kubeconfigs have the number of the call, and live for 1,000 seconds.
    #[derive(Default)]
    struct Counter(Mutex<u32>);

    impl KubeconfigIssuer for Counter {
        fn issue(&self, request: &KubeconfigRequest) -> Result<IssuedKubeconfig, String> {
            let mut count = self.0.lock().unwrap();
            *count += 1;
            let expiration = request.expiration_seconds;
            Ok(IssuedKubeconfig { kubeconfig: count.to_string().into_bytes(), expiration })
        }
    }

    fn kubeconfigs(issuer: &Arc<Counter>, second: u64, imports: &str, state: Option<&str>) -> Kubeconfigs {
        let clock: Clock = Arc::new(move || UNIX_EPOCH + Duration::from_secs(second));
        let issuer = Arc::clone(issuer) as Arc<dyn KubeconfigIssuer>;
        let capabilities = Capabilities { clock: Some(clock), ..Capabilities::default() };
        Kubeconfigs::new(&capabilities.with_imports(imports).with_issuer(issuer), state)
    }

    fn request(name: &str) -> KubeconfigRequest {
        KubeconfigRequest {
            target: "cluster".to_owned(),
            user: ClusterUser::ServiceAccount,
            namespace: "default".to_owned(),
            name: name.to_owned(),
            expiration_seconds: 1000,
        }
    }

    fn asked(kubeconfigs: &Kubeconfigs, name: &str, spec: &Value) -> String {
        let Value::Object(target) = json!({"spec": spec}) else { unreachable!() };
        let kept = kubeconfigs.of(&request(name), &target).unwrap();
        String::from_utf8(BASE64.decode(kept.kubeconfig.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn kubeconfigs_serve_until_half_of_their_life() {
        let issuer = Arc::default();
        let first = kubeconfigs(&issuer, 0, "a", None);
        assert_eq!(asked(&first, "robot", &json!({})), "1");
        assert_eq!(asked(&first, "robot", &json!({})), "1", "one rendering gets one");
        let state = first.changed_state().unwrap();
        assert_eq!(first.changed_state(), None);
        let at = |second, imports| kubeconfigs(&issuer, second, imports, Some(&state));
        assert_eq!(asked(&at(500, "a"), "robot", &json!({})), "1");
        assert_eq!(at(500, "a").changed_state(), None);
        assert_eq!(asked(&at(501, "a"), "robot", &json!({})), "2");
        assert_eq!(asked(&at(1, "b"), "robot", &json!({})), "3", "other imports");
        assert_eq!(asked(&at(1, "a"), "other", &json!({})), "4", "another account");
        assert_eq!(asked(&at(1, "a"), "robot", &json!({"config": 1})), "5", "another cluster");
        let broken = kubeconfigs(&issuer, 1, "a", Some("a: ["));
        assert_eq!(asked(&broken, "robot", &json!({})), "6");
    }

    #[test]
    fn states_lose_what_no_rendering_can_use() {
        let issuer = Arc::default();
        let first = kubeconfigs(&issuer, 0, "a", None);
        asked(&first, "robot", &json!({}));
        let second = kubeconfigs(&issuer, 1, "b", first.changed_state().as_deref());
        asked(&second, "other", &json!({}));
        let state: Value = serde_json::from_str(&second.changed_state().unwrap()).unwrap();
        assert_eq!(state.as_object().unwrap().len(), 1);
        assert!(!format!("{second:?}").contains("Mg=="));
    }

    /// Calls that only show a job get what the job would get, without a new token.
    #[test]
    fn placeholders_stand_for_what_is_not_kept() {
        let issuer = Arc::default();
        let first = kubeconfigs(&issuer, 0, "a", None);
        asked(&first, "robot", &json!({}));
        let state = first.changed_state();
        let shown =
            Kubeconfigs { access: Access::Placeholders, ..kubeconfigs(&issuer, 1, "a", state.as_deref()) };
        assert_eq!(asked(&shown, "robot", &json!({})), "1");
        assert!(asked(&shown, "other", &json!({})).contains("service account default/other"));
        assert!(asked(&shown.repeated(), "robot", &json!({})).contains("placeholder"));
        assert!(asked(&first.repeated(), "robot", &json!({})).contains("placeholder"));
    }
}
