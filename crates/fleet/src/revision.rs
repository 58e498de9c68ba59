//! Interpretation of `upstream.revision` (`packagevariants.md` 1.2.1).

use groundwork_api::{IntOrString, Upstream};

/// Meaning of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    /// Published revision with this number.
    Number(i64),
    /// Moving head of the branch.
    Head,
    /// Highest published revision.
    Latest,
    /// Tag with this name.
    Tag(String),
}

/// Limit for the name of a tag, in bytes.
const LONGEST_TAG: usize = 63;

/// Returns the meaning of a written revision; `None` if it is invalid.
pub(crate) fn revision(written: &IntOrString) -> Option<Revision> {
    match written {
        IntOrString::Int(-1) => Some(Revision::Head),
        IntOrString::Int(number) => (*number >= 1).then_some(Revision::Number(*number)),
        IntOrString::Other(_) => None,
        IntOrString::String(text) => {
            let digits = text.strip_prefix('v').unwrap_or(text);
            let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            match text.as_str() {
                // Impossible numbers (`v0`, `007`) are not tags either: their names are reserved
                // (`packagevariants.md` 5.1).
                _ if is_digits => {
                    digits.parse().ok().filter(|_| !digits.starts_with('0')).map(Revision::Number)
                }
                "main" => Some(Revision::Head),
                "latest" => Some(Revision::Latest),
                tag => is_tag(tag).then(|| Revision::Tag(tag.to_owned())),
            }
        }
    }
}

fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.len() <= LONGEST_TAG
        && text.bytes().all(inner)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Returns the number of the only published revision that an upstream can mean. Returns `None` for
/// a tag, a branch or `latest`, which may move, and for a workspace.
pub fn fixed_revision(revision: Option<&IntOrString>, workspace: &str) -> Option<i64> {
    match revision.filter(|_| workspace.is_empty()).and_then(self::revision)? {
        Revision::Number(number) => Some(number),
        Revision::Head | Revision::Latest | Revision::Tag(_) => None,
    }
}

/// Returns the error in the revision of the upstream at a path.
pub(crate) fn revision_error(upstream: &Upstream, path: &str) -> Option<String> {
    let missing = || Some(format!("either {path}.revision or {path}.workspaceName must be specified"));
    if upstream.workspace_name.as_deref().is_some_and(|name| !name.is_empty()) {
        return None;
    }
    match &upstream.revision {
        None => missing(),
        Some(IntOrString::String(text)) if text.is_empty() => missing(),
        Some(written) if revision(written).is_some() => None,
        Some(written) => Some(format!(
            "{path}.revision: Invalid value: {:?}: must be a revision number (v1, v2, ...) or a tag name",
            written.to_string()
        )),
    }
}

/// Returns the short ref of an upstream's revision, for use without a repository: the tag of a
/// published revision, or the branch of a draft (`packagevariants.md` 6.3). `path` is the path of
/// the package in its repository.
pub fn reference(upstream: &Upstream, path: &str) -> String {
    if let Some(workspace) = upstream.workspace_name.as_deref().filter(|name| !name.is_empty()) {
        return format!("drafts/{path}/{workspace}");
    }
    match upstream.revision.as_ref().and_then(revision) {
        Some(Revision::Number(number)) => format!("{path}/v{number}"),
        Some(Revision::Head) => "main".to_owned(),
        Some(Revision::Latest | Revision::Tag(_)) | None => format!("{path}/{}", written(upstream)),
    }
}

/// Returns the revision or workspace in the form of messages.
pub(crate) fn written(upstream: &Upstream) -> String {
    let workspace = upstream.workspace_name.clone().filter(|name| !name.is_empty());
    workspace.or_else(|| upstream.revision.as_ref().map(ToString::to_string)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table() {
        let text = |text: &str| revision(&IntOrString::from(text));
        for (written, number) in [("1", 1), ("v3", 3), ("v12", 12)] {
            assert_eq!(text(written), Some(Revision::Number(number)));
        }
        assert_eq!(revision(&IntOrString::Int(7)), Some(Revision::Number(7)));
        assert_eq!(
            (revision(&IntOrString::Int(-1)), text("main")),
            (Some(Revision::Head), Some(Revision::Head))
        );
        assert_eq!(text("latest"), Some(Revision::Latest));
        for tag in ["v4.0.0", "r2", "stable", "v", "v1.0", "0x"] {
            assert_eq!(text(tag), Some(Revision::Tag(tag.to_owned())));
        }
        for wrong in
            ["", "-x", "a/b", "v99999999999999999999", "a b", "v0", "0", "007", "v01", &"x".repeat(64)]
        {
            assert_eq!(text(wrong), None, "{wrong}");
        }
        assert_eq!((revision(&IntOrString::Int(0)), revision(&IntOrString::Int(-2))), (None, None));
    }

    #[test]
    fn references_of_upstreams() {
        let of = |revision: Option<IntOrString>, workspace: Option<&str>| {
            let workspace_name = workspace.map(str::to_owned);
            reference(&Upstream { revision, workspace_name, ..Upstream::default() }, "net/dns")
        };
        assert_eq!(of(Some(IntOrString::Int(3)), None), "net/dns/v3");
        assert_eq!(of(Some(IntOrString::from("v3")), Some("")), "net/dns/v3");
        assert_eq!(of(Some(IntOrString::from("stable")), None), "net/dns/stable");
        assert_eq!(of(Some(IntOrString::from("main")), None), "main");
        assert_eq!(of(Some(IntOrString::Int(3)), Some("ws")), "drafts/net/dns/ws");
    }

    #[test]
    fn a_workspace_counts_more() {
        let upstream = Upstream {
            revision: Some(IntOrString::Int(0)),
            workspace_name: Some("w".to_owned()),
            ..Upstream::default()
        };
        assert_eq!((revision_error(&upstream, "spec.upstream"), written(&upstream).as_str()), (None, "w"));
        let without = Upstream { workspace_name: None, ..upstream };
        assert_eq!(
            revision_error(&without, "spec.upstream").unwrap(),
            "spec.upstream.revision: Invalid value: \"0\": must be a revision number (v1, v2, ...) or a tag name"
        );
        assert!(
            revision_error(&Upstream::default(), "spec.upstream")
                .unwrap()
                .starts_with("either spec.upstream.revision")
        );
    }
}
