use super::*;

fn time(second: i64) -> Time {
    serde_json::from_value(format!("2026-01-01T00:00:0{second}Z").into()).unwrap()
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Returns each error with reason and message (`packagevariants.md` 2.10), and the delays after
/// one, two and twenty failures in seconds (`packagevariants.md` 2.11).
fn table() -> Vec<(VariantError, &'static str, &'static str, Option<[u64; 3]>)> {
    use VariantError as E;
    let missing = Unresolved::NotFound { repo: text("r"), package: text("p"), revision: text("v4") };
    let tag = Unresolved::Tag { repo: text("r"), package: text("p"), tag: text("stable") };
    let downstream = text("edge.dns.packagevariant-1");
    let exists = E::DownstreamExists { package: text("dns"), repo: text("edge") };
    let proposed = E::DownstreamProposed { downstream: downstream.clone() };
    let contended = E::DownstreamContended { package: text("dns"), repo: text("edge"), other: text("old") };
    let conflict =
        E::AdoptionConflict { downstream: downstream.clone(), kind: text("Robot"), name: text("r2") };
    let base = E::UpgradeBaseMissing { reference: text("p/v3"), downstream: downstream.clone() };
    let upgrade =
        E::UpgradeFailed { downstream: downstream.clone(), upstream: text("r.p.v4"), cause: text("c") };
    let render = E::RenderFailed { downstream: downstream.clone(), cause: text("c") };
    let store = |retry_after| E::StoreUnavailable { cause: text("c"), retry_after };
    let blocked = E::DeletionBlocked(vec![(text("a"), text("x")), (text("b"), text("y"))]);
    let upstream = Some([1, 2, 300]);
    vec![
        (E::Invalid(vec![text("a"), text("b")]), "ValidationError", "a; b", None),
        (
            missing.into(),
            "UpstreamNotFound",
            "could not find upstream package revision 'p/v4' in repo 'r'",
            upstream,
        ),
        (
            tag.into(),
            "FloatingTagUnresolved",
            "floating tag \"stable\" not found for package \"p\" in repo \"r\"",
            upstream,
        ),
        (
            exists,
            "DownstreamExists",
            "`clone` cannot create a new revision for package \"dns\" that already exists in repo \"edge\"; make subsequent \
             revisions using `copy`",
            None,
        ),
        (
            proposed,
            "DownstreamProposed",
            "downstream \"edge.dns.packagevariant-1\" is Proposed; approve or reject it to let changes be applied",
            None,
        ),
        (
            contended,
            "DownstreamContended",
            "package \"dns\" in repo \"edge\" belongs to package variant \"old\"",
            None,
        ),
        (
            conflict,
            "AdoptionConflict",
            "package revision \"edge.dns.packagevariant-1\" is controlled by Robot \"r2\"",
            None,
        ),
        (
            base,
            "UpgradeBaseMissing",
            "cannot find the upstream revision \"p/v3\" that \"edge.dns.packagevariant-1\" was based on",
            None,
        ),
        (upgrade, "UpgradeFailed", "cannot update \"edge.dns.packagevariant-1\" to \"r.p.v4\": c", None),
        (E::PackageContext(text("c")), "PackageContextError", "c", None),
        (E::Pipeline(text("c")), "PipelineError", "c", None),
        (E::Injection(text("c")), "InjectionError", "c", None),
        (render, "RenderFailed", "cannot render \"edge.dns.packagevariant-1\": c", Some([30, 60, 1800])),
        (store(None), "StoreUnavailable", "the package store cannot be used: c", Some([1, 2, 60])),
        (
            store(Some(Duration::from_secs(7))),
            "StoreUnavailable",
            "the package store cannot be used: c",
            Some([7, 7, 7]),
        ),
        (
            E::NoStore,
            "StoreUnavailable",
            "package revisions are not drafted: no package store is configured; start the variant service with \
             --package-store or --porch",
            Some([1, 2, 60]),
        ),
        (blocked, "DeletionBlocked", "cannot delete \"a\": x; cannot delete \"b\": y", Some([1, 2, 300])),
        (E::Conflict(text("c")), "Error", "c", Some([0, 0, 1])),
        (E::Rejected(text("c")), "Error", "c", None),
        (E::Other(text("c")), "Error", "c", Some([1, 2, 300])),
    ]
}

/// V-118: each error has its reason, message and delays.
#[test]
fn every_reason() {
    for (error, reason, message, delays) in table() {
        assert_eq!((error.reason(), error.to_string().as_str()), (reason, message));
        let found = [1, 2, 20].map(|failures| error.retry().delay(failures).map(|delay| delay.as_secs()));
        assert_eq!(found, delays.map_or([None; 3], |delays| delays.map(Some)), "{message}");
        let conditions = variant_conditions(&[], std::slice::from_ref(&error), &[], Some(3), &time(1));
        let shown: Vec<_> = conditions
            .iter()
            .map(|found| {
                (found.type_.as_str(), found.status.as_str(), found.reason.as_str(), found.message.as_str())
            })
            .collect();
        let expected = if error.is_stalled() {
            [
                ("Stalled", "True", reason, message),
                ("Ready", "False", "Error", "invalid packagevariant object"),
            ]
        } else {
            [
                ("Stalled", "False", "Valid", "all validation checks passed"),
                ("Ready", "False", reason, message),
            ]
        };
        assert_eq!(shown, expected);
    }
}

#[test]
fn the_delays_end_somewhere() {
    assert_eq!(VariantError::Other(text("c")).retry().delay(u32::MAX), Some(Duration::from_secs(300)));
    let conflict = VariantError::Conflict(text("c")).retry();
    assert_eq!([0, 5, 6].map(|failures| conflict.delay(failures).unwrap().as_secs()), [0, 0, 1]);
    assert_eq!(VariantError::Invalid(vec![]).retry(), Retry::Never);
}

/// V-119: Ready after an attempt that left no work, and a new time only if the status changes.
#[test]
fn a_life_of_conditions() {
    let proposed = VariantError::DownstreamProposed { downstream: text("d") };
    let context = VariantError::PackageContext(text("broken"));
    let first = variant_conditions(&[], &[proposed.clone(), context.clone()], &[], Some(1), &time(1));
    assert_eq!(first[1].reason, "DownstreamProposed");
    assert_eq!(
        first[1].message,
        "downstream \"d\" is Proposed; approve or reject it to let changes be applied; broken"
    );
    let second = variant_conditions(&first, &[context], &[], Some(2), &time(2));
    assert_eq!(
        (second[1].reason.as_str(), &second[1].last_transition_time, second[1].observed_generation),
        ("PackageContextError", &time(1), Some(2))
    );
    let third = variant_conditions(&second, &[], &[text("no lock")], Some(2), &time(3));
    assert_eq!(
        (third[1].reason.as_str(), third[1].message.as_str(), &third[1].last_transition_time),
        ("NoErrors", "successfully ensured downstream package variant; no lock", &time(3))
    );
    assert_eq!(third[0].last_transition_time, time(1));
    assert_eq!(variant_conditions(&third, &[], &[text("no lock")], Some(2), &time(4)), third);
}

#[test]
fn the_most_impatient_error_decides() {
    let render = VariantError::RenderFailed { downstream: text("d"), cause: text("c") };
    let other = VariantError::Other(text("c"));
    let events = VariantError::Pipeline(text("c"));
    assert_eq!(retry(&[]), None);
    assert_eq!(retry(&[events.clone(), render.clone()]), Some(render.retry()));
    assert_eq!(retry(&[render, other.clone(), events.clone()]), Some(other.retry()));
    assert_eq!(retry(&[VariantError::Invalid(vec![]), events]), Some(Retry::Events));
}
