use std::collections::BTreeSet;

use groundwork_api::{ByteString, ResourceExt, Target};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

fn sync(spec: &Value) -> TargetSync {
    let mut object = json!({
        "metadata": {"name": "sync", "namespace": "team", "generation": 2},
        "spec": {"sourceNamespace": "garden-x", "secretRef": {"name": "access"}},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn now() -> Time {
    Time("2026-01-10T00:00:00Z".parse::<Timestamp>().unwrap())
}

fn ago(hours: i64) -> Time {
    Time(now().0 - SignedDuration::from_hours(hours))
}

fn mirror(name: &str, content: &str) -> Mirror {
    let data = [("kubeconfig".to_owned(), ByteString(content.as_bytes().to_vec()))].into();
    Mirror { name: name.to_owned(), data }
}

/// Returns the objects as the API server stores them after these writes.
fn stored(writes: &[Write]) -> (Vec<Target>, Vec<Secret>) {
    let (mut targets, mut secrets) = (Vec::new(), Vec::new());
    for write in writes {
        match write {
            Write::Target(target) => targets.push((**target).clone()),
            Write::Secret(secret) => secrets.push((**secret).clone()),
        }
    }
    (targets, secrets)
}

fn home_of(writes: &[Write]) -> Home {
    let (targets, secrets) = stored(writes);
    Home::new(targets, secrets)
}

fn kinds(writes: &[Write]) -> Vec<&'static str> {
    writes.iter().map(|write| if matches!(write, Write::Secret(_)) { "secret" } else { "target" }).collect()
}

/// Expressions are RE2. `*` selects all names, an empty text none, and both together are an error.
#[test]
fn expressions() {
    for (secrets, shoots, name, expected) in [
        (json!("*"), json!(null), "a", Some(("secrets", true))),
        (json!(r"\.kubeconfig$"), json!(null), "a.kubeconfig", Some(("secrets", true))),
        (json!(r"\.kubeconfig$"), json!(null), "kubeconfig", Some(("secrets", false))),
        (json!("b"), json!(""), "abc", Some(("secrets", true))),
        (json!(""), json!("*"), "a", Some(("shoots", true))),
        (json!(null), json!("^dev-"), "prod", Some(("shoots", false))),
        (json!(""), json!(""), "a", Some(("nothing", false))),
        (json!(null), json!(null), "a", Some(("nothing", false))),
        (json!("a"), json!("b"), "a", None),
        (json!("("), json!(null), "a", None),
        (json!(null), json!("**"), "a", None),
        // RE2, as in Go, has no look-ahead.
        (json!("(?=a)"), json!(null), "a", None),
    ] {
        let spec = json!({"secretNameExpression": secrets, "shootNameExpression": shoots});
        let found = match selection(&sync(&spec).spec) {
            Ok(Selection::Nothing) => Some(("nothing", false)),
            Ok(Selection::Secrets(names)) => Some(("secrets", names.has(name))),
            Ok(Selection::Shoots(names)) => Some(("shoots", names.has(name))),
            Err(_) => None,
        };
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn what_cannot_be_meant() {
    for (spec, expected) in [
        (json!({"sourceNamespace": "../kube-system"}), "spec.sourceNamespace"),
        (json!({"sourceNamespace": ""}), "spec.sourceNamespace"),
        (json!({"createTargetToSource": true, "targetToSourceName": "A_b"}), "spec.targetToSourceName"),
        (json!({"secretNameExpression": "(", "shootNameExpression": ""}), "spec.secretNameExpression is no"),
        (json!({"secretNameExpression": "*", "shootNameExpression": "*"}), "both set"),
        (json!({"secretNameExpression": r"(\pL{90}|x)*y"}), "it is too large"),
        (json!({"shootNameExpression": "a".repeat(2_000)}), "it is too large"),
    ] {
        let error = selection(&sync(&spec).spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A name without effect is not validated.
    assert!(selection(&sync(&json!({"targetToSourceName": "A_b"})).spec).is_ok());
}

/// A Secret gets its Target with label, time and a reference. A second round writes no object. A
/// changed Secret is replaced in the version that was read, and its Target records the time.
#[test]
fn a_secret_and_its_target() {
    let sync = sync(&json!({"secretNameExpression": "*"}));
    let writes = write(&sync, &Home::default(), mirror("a", "1"), &ago(1)).unwrap();
    assert_eq!(kinds(&writes), ["secret", "target"], "the Target refers to what is there");
    let (mut targets, mut secrets) = stored(&writes);
    assert_eq!(secrets[0].type_.as_deref(), Some("Opaque"));
    assert_eq!(targets[0].labels()["landscaper.gardener.cloud/targetsync"], "ok");
    assert_eq!(secrets[0].labels()["landscaper.gardener.cloud/targetsync"], "ok");
    assert_eq!(
        json!(targets[0].spec),
        json!({"type": "landscaper.gardener.cloud/kubernetes-cluster", "secretRef": {"name": "a", "key": "kubeconfig"}})
    );
    let time = "landscaper.gardener.cloud/lasttargetsync";
    assert_eq!(targets[0].annotations()[time], "2026-01-09T23:00:00Z");

    secrets[0].metadata.resource_version = Some("7".to_owned());
    secrets[0].type_ = Some("example.org/own".to_owned());
    targets[0].metadata.annotations.as_mut().unwrap().insert("mine".to_owned(), "stays".to_owned());
    let home = Home::new(targets, secrets);
    assert_eq!(write(&sync, &home, mirror("a", "1"), &now()), Ok(Vec::new()));

    let writes = write(&sync, &home, mirror("a", "2"), &now()).unwrap();
    assert_eq!(kinds(&writes), ["secret", "target"]);
    let (targets, secrets) = stored(&writes);
    assert_eq!(secrets[0].resource_version().as_deref(), Some("7"));
    assert_eq!(
        secrets[0].type_.as_deref(),
        Some("example.org/own"),
        "the type of a Secret cannot be changed"
    );
    assert_eq!(secrets[0].data.as_ref().unwrap()["kubeconfig"].0, b"2");
    assert_eq!(targets[0].annotations()[time], "2026-01-10T00:00:00Z");
    assert_eq!(targets[0].annotations()["mine"], "stays");
}

/// A Target that a user has changed is restored, and the Secret stays as it is.
#[test]
fn a_target_that_differs() {
    let sync = sync(&json!({"secretNameExpression": "*"}));
    let (mut targets, secrets) = stored(&write(&sync, &Home::default(), mirror("a", "1"), &now()).unwrap());
    targets[0].spec.type_ = "other".to_owned();
    let writes = write(&sync, &Home::new(targets, secrets), mirror("a", "1"), &now()).unwrap();
    assert_eq!(kinds(&writes), ["target"]);
}

/// The Secret with the credentials of the source is neither overwritten nor deleted, even with the
/// label.
#[test]
fn the_credentials_of_the_source_are_left_alone() {
    let sync = sync(&json!({"secretNameExpression": "*"}));
    let problem = write(&sync, &Home::default(), mirror("access", "1"), &now()).unwrap_err();
    assert!(problem.contains("access of the source is not mirrored"), "{problem}");
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "access"}})).unwrap();
    assert_eq!(obsolete(&sync, Home::new(Vec::new(), vec![secret]), &BTreeSet::new()), Obsolete::default());
}

#[test]
fn the_target_of_the_source() {
    let plain = sync(&json!({}));
    assert_eq!(plain.spec.target_to_source(), None);
    for (spec, name, key) in [
        (json!({"createTargetToSource": true}), "garden-x", "kubeconfig"),
        (json!({"createTargetToSource": true, "targetToSourceName": ""}), "garden-x", "kubeconfig"),
        (
            json!({"createTargetToSource": true, "targetToSourceName": "garden", "secretRef": {"name": "access", "key": "k"}}),
            "garden",
            "k",
        ),
    ] {
        let sync = sync(&spec);
        assert_eq!(sync.spec.target_to_source(), Some(name));
        let written = target_to_source(&sync, &Home::default(), name, &now()).unwrap();
        let (targets, _) = stored(std::slice::from_ref(&written));
        assert_eq!(json!(targets[0].spec.secret_ref), json!({"name": "access", "key": key}));
        let home = home_of(&[written]);
        assert_eq!(target_to_source(&sync, &home, name, &now()), None, "it is there");
        assert_eq!(obsolete(&sync, home.clone(), &BTreeSet::new()), Obsolete::default());
        assert_eq!(obsolete(&plain, home, &BTreeSet::new()).targets.len(), 1, "it is not wanted any more");
    }
}

/// Mirrored objects stay, all others go, including a Secret whose Target is gone already.
#[test]
fn what_is_left_over() {
    let sync = sync(&json!({"secretNameExpression": "*"}));
    let all: Vec<Write> = ["a", "b", "c"]
        .iter()
        .flat_map(|name| write(&sync, &Home::default(), mirror(name, "1"), &now()).unwrap())
        .collect();
    let (targets, secrets) = stored(&all);
    let targets = targets.into_iter().filter(|target| target.name_any() != "c").collect();
    let left = obsolete(&sync, Home::new(targets, secrets), &["a".to_owned()].into());
    assert_eq!(left.targets.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b"]);
    assert_eq!(left.secrets.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b", "c"]);
}

/// With the TargetSync, all its objects go. Copies of its Targets in Installations stay, although
/// they have its label.
#[test]
fn what_goes_with_it() {
    let sync = sync(&json!({"secretNameExpression": "*", "createTargetToSource": true}));
    let mut all = write(&sync, &Home::default(), mirror("a", "1"), &now()).unwrap();
    all.extend(target_to_source(&sync, &Home::default(), "garden-x", &now()));
    let (mut targets, mut secrets) = stored(&all);
    let mut copy = targets[0].clone();
    copy.metadata.name = Some("copy".to_owned());
    copy.labels_mut().insert("data.landscaper.gardener.cloud/sourceType".to_owned(), "import".to_owned());
    targets.push(copy);
    secrets.push(serde_json::from_value(json!({"metadata": {"name": "access"}})).unwrap());
    let home = Home::new(targets, secrets);
    let names = |left: &Obsolete| {
        let targets = left.targets.iter().map(ResourceExt::name_any);
        targets.chain(left.secrets.iter().map(ResourceExt::name_any)).collect::<Vec<_>>()
    };
    assert_eq!(names(&everything(&sync, home.clone())), ["a", "garden-x", "a"]);
    assert_eq!(names(&obsolete(&sync, home, &BTreeSet::new())), ["a", "a"]);
}

/// A kubeconfig of a Shoot is renewed after twelve hours, or if part of it is missing.
#[test]
fn when_the_kubeconfig_of_a_shoot_is_due() {
    let sync = sync(&json!({"shootNameExpression": "*"}));
    for (hours, expected) in [(1, false), (12, false), (13, true)] {
        let home = home_of(&write(&sync, &Home::default(), mirror("a", "1"), &ago(hours)).unwrap());
        assert_eq!(is_due(&home, "a", &now()), expected, "{hours}");
    }
    assert!(is_due(&Home::default(), "a", &now()));
    let (targets, secrets) = stored(&write(&sync, &Home::default(), mirror("a", "1"), &now()).unwrap());
    assert!(is_due(&Home::new(targets.clone(), Vec::new()), "a", &now()), "without its Secret");
    assert!(is_due(&Home::new(Vec::new(), secrets.clone()), "a", &now()), "without its Target");
    let mut odd = targets;
    odd[0].annotations_mut().insert("landscaper.gardener.cloud/lasttargetsync".to_owned(), "soon".to_owned());
    assert!(is_due(&Home::new(odd, secrets), "a", &now()), "nobody knows when");
}

#[test]
fn when_a_token_is_due() {
    let due = |spec: &Value, status: &Value, annotation: bool| {
        let mut sync = sync(spec);
        sync.status = Some(serde_json::from_value(status.clone()).unwrap());
        if annotation {
            sync.annotations_mut().insert("landscaper.gardener.cloud/rotate-token".to_owned(), String::new());
        }
        token_is_due(&sync, &now())
    };
    let on = json!({"tokenRotation": {"enabled": true}});
    let renewed = |hours: i64| json!({"lastTokenRotationTime": ago(hours)});
    assert!(due(&on, &json!({}), false));
    assert!(!due(&on, &renewed(59 * 24), false));
    assert!(due(&on, &renewed(61 * 24), false));
    assert!(due(&on, &renewed(1), true));
    for off in [json!({}), json!({"tokenRotation": {}}), json!({"tokenRotation": {"enabled": false}})] {
        assert!(!due(&off, &json!({}), true), "{off}");
    }
}

#[test]
fn what_has_no_effect() {
    for (spec, annotation, expected) in [
        (json!({}), false, vec![]),
        (json!({"targetToSourceName": "a"}), false, vec!["spec.targetToSourceName"]),
        (json!({"targetToSourceName": ""}), true, vec!["the annotation rotate-token"]),
        (
            json!({"targetToSourceName": "a", "createTargetToSource": true, "tokenRotation": {"enabled": true}}),
            true,
            vec![],
        ),
    ] {
        let mut sync = sync(&spec);
        if annotation {
            sync.annotations_mut()
                .insert("landscaper.gardener.cloud/rotate-token".to_owned(), "yes".to_owned());
        }
        let found = without_effect(&sync);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(
            found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected)),
            "{found:?}"
        );
    }
}

/// A successful round is always recorded. A failure that equals the previous one is recorded once
/// per interval.
#[test]
fn what_the_status_says() {
    let first = sync(&json!({}));
    let told = concluded(&first, &["a".to_owned()], None, &ago(1)).unwrap();
    let status = told.status.clone().unwrap();
    assert_eq!((status.observed_generation, &status.last_errors[..]), (2, &["a".to_owned()][..]));
    let soon = Time(ago(1).0 + SignedDuration::from_secs(10));
    assert_eq!(concluded(&told, &["a".to_owned()], None, &soon), None);
    assert!(concluded(&told, &["b".to_owned()], None, &soon).is_some());
    assert!(concluded(&told, &["a".to_owned()], None, &now()).is_some());
    assert!(concluded(&told, &["a".to_owned()], Some(&soon), &soon).is_some(), "a token was renewed");
    let well = concluded(&told, &[], Some(&soon), &soon).unwrap();
    let status = serde_json::to_value(well.status.as_ref().unwrap()).unwrap();
    assert_eq!(
        status,
        json!({"observedGeneration": 2, "lastUpdateTime": "2026-01-09T23:00:10Z", "lastTokenRotationTime": "2026-01-09T23:00:10Z"})
    );
    assert!(concluded(&well, &[], None, &soon).is_some());
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let errors = concluded(&first, &many, None, &soon).unwrap().status.unwrap().last_errors;
    assert_eq!(
        (errors.len(), errors.last().map(String::as_str)),
        (21, Some("and 80 more errors, which are in the log"))
    );
}

/// Returns a token with this payload. The code under test does not check its signature.
fn token(payload: &Value) -> String {
    format!("e30.{}.c2ln", data_encoding::BASE64URL_NOPAD.encode(payload.to_string().as_bytes()))
}

fn kubeconfig(user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "s", "cluster": {"server": "https://canary.example.org"}}],
        "users": [{"name": "other", "user": {"token": "other"}}, {"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
    })
    .to_string()
}

#[test]
fn whose_token_it_is() {
    let of = |payload: Value| account(&kubeconfig(&json!({"token": token(&payload)})));
    let expected = Account { namespace: "garden-x".to_owned(), name: "landscaper".to_owned() };
    assert_eq!(of(json!({"sub": "system:serviceaccount:garden-x:landscaper"})), Ok(expected));
    for payload in [
        json!({}),
        json!({"sub": "canary"}),
        json!({"sub": "system:serviceaccount:garden-x"}),
        json!({"sub": "system:serviceaccount:../x:canary"}),
        json!({"sub": "system:serviceaccount:garden-x:a/b?canary"}),
    ] {
        assert_eq!(of(payload.clone()), Err(TokenError::NoAccount), "{payload}");
    }
    assert_eq!(account(&kubeconfig(&json!({"token": "canary"}))), Err(TokenError::NoAccount));
    assert_eq!(account(&kubeconfig(&json!({"client-key-data": "canary"}))), Err(TokenError::NoToken));
    assert_eq!(account("canary: ["), Err(TokenError::Yaml));
    assert_eq!(account("{}"), Err(TokenError::NoUser));
    assert_eq!(account("[canary]"), Err(TokenError::NoUser));
}

/// Only the token of the one user changes.
#[test]
fn another_token() {
    let before = kubeconfig(&json!({"token": "old", "as": "x"}));
    let mut expected: Value = serde_json::from_str(&before).unwrap();
    expected["users"][1]["user"]["token"] = json!("new");
    let after = with_token(&before, "new").unwrap();
    assert_eq!(groundwork_yaml::from_str(&after), Ok(expected));
    assert_eq!(with_token("{}", "new"), Err(TokenError::NoUser));
}

#[test]
fn which_shoot_a_server_belongs_to() {
    for (server, expected) in [
        ("https://api.dev-1.project.example.org", Some("dev-1")),
        ("https://api.dev-1.project.example.org:443/", Some("dev-1")),
        ("https://api.dev", None),
        ("https://api.dev.", None),
        ("https://api..example.org", None),
        ("https://api.D_v.example.org", None),
        ("https://10.0.0.1:6443", None),
        ("http://api.dev.example.org", None),
        ("", None),
    ] {
        assert_eq!(shoot_of_server(server), expected, "{server}");
    }
}
