//! The output of `helm template` for a rendered chart (`helm.md` 17).

use groundwork_go::path_match;
use groundwork_go::text::is_space;

use crate::manifest::{Hook, documents};
use crate::render::Rendered;

/// The choice of documents to print.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printing {
    /// Patterns of files to print, in the order of the patterns; all documents if there are none. A
    /// pattern is Go's `path.Match`, against the path behind the name of the chart.
    pub show_only: Vec<String>,
    pub no_hooks: bool,
    pub skip_tests: bool,
}

/// No document comes from a requested file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not find template {0} in chart")]
pub struct NoSuchTemplateError(String);

impl Printing {
    fn takes(&self, hook: &Hook) -> bool {
        let is_test = || hook.events.iter().any(|event| event == "test");
        !(self.no_hooks || self.skip_tests && is_test())
    }

    /// Returns the requested documents of this text.
    ///
    /// # Errors
    ///
    /// A pattern matches no document.
    pub fn of_text(&self, text: String) -> Result<String, NoSuchTemplateError> {
        if self.show_only.is_empty() {
            return Ok(text);
        }
        let with_source = |document| Some((source(document)?, document));
        let documents: Vec<(&str, &str)> = documents(&text).into_iter().filter_map(with_source).collect();
        let mut shown = String::new();
        for pattern in &self.show_only {
            // A malformed pattern matches no document.
            let fits = |path: &str| path_match::matches(pattern, path).unwrap_or(false);
            let mut found = documents.iter().filter(|(source, _)| fits(source)).peekable();
            if found.peek().is_none() {
                return Err(NoSuchTemplateError(pattern.clone()));
            }
            for (_, document) in found {
                shown.push_str(&format!("---\n{document}\n"));
            }
        }
        Ok(shown)
    }
}

/// Returns the file of a document, behind the name of the chart. It is found by the first text that
/// looks like the source line above a document, as Helm finds it with `# Source: [^/]+/(.+)`.
fn source(document: &str) -> Option<&str> {
    const MARK: &str = "# Source: ";
    document.match_indices(MARK).find_map(|(at, _)| {
        let (chart, rest) = document[at + MARK.len()..].split_once('/')?;
        let path = rest.split('\n').next().unwrap_or_default();
        (!chart.is_empty() && !path.is_empty()).then_some(path)
    })
}

impl Rendered {
    /// Returns the output of `helm template`: the manifest, trimmed, then the hooks.
    ///
    /// # Errors
    ///
    /// A requested file has no document.
    pub fn printed(&self, printing: &Printing) -> Result<String, NoSuchTemplateError> {
        let mut text = self.manifest().trim_matches(is_space).to_owned();
        text.push('\n');
        for hook in self.hooks.iter().filter(|hook| printing.takes(hook)) {
            for part in ["---\n# Source: ", &hook.file, "\n", &hook.content, "\n"] {
                text.push_str(part);
            }
        }
        printing.of_text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chart, File, Renderer, Request};

    fn rendered() -> Rendered {
        let files = [
            ("Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
            ("templates/a.yaml", "kind: A\n---\nkind: A2\n"),
            ("templates/b.yaml", "kind: B\n"),
            ("templates/deep/c.yaml", "kind: C\n"),
            ("templates/h.yaml", "kind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}"),
            ("templates/t.yaml", "kind: Pod\nmetadata: {annotations: {helm.sh/hook: \"post-install,test\"}}"),
            ("crds/x.yaml", "kind: X\n---\nkind: Y\n"),
            ("charts/s/Chart.yaml", "{apiVersion: v2, name: s, version: 0.1.0}"),
            ("charts/s/templates/s.yaml", "kind: S\n"),
        ];
        let files = files.map(|(path, text)| File::new(path, text.as_bytes()));
        let renderer = Renderer::new(Chart::from_files(files.to_vec()).unwrap());
        renderer.render(&Request { include_crds: true, ..Request::default() }).unwrap()
    }

    fn shown(patterns: &[&str]) -> Result<String, String> {
        let show_only = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let printed = rendered().printed(&Printing { show_only, ..Printing::default() });
        printed.map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_shown_by_their_paths() {
        let document = |file: &str, content: &str| format!("---\n# Source: web/{file}\n{content}\n");
        let (a, b) = (document("templates/a.yaml", "kind: A"), document("templates/b.yaml", "kind: B"));
        let second = document("templates/a.yaml", "kind: A2");
        let hook =
            document("templates/h.yaml", "kind: Job\nmetadata: {annotations: {helm.sh/hook: pre-install}}");
        assert_eq!(shown(&["templates/b.yaml"]), Ok(b.clone()));
        assert_eq!(shown(&["templates/h.yaml"]), Ok(hook));
        assert_eq!(shown(&["templates/b.yaml", "templates/[ab].yaml"]), Ok(format!("{b}{a}{second}{b}")));
        let inside = document("charts/s/templates/s.yaml", "kind: S");
        assert_eq!(shown(&["charts/*/templates/*"]), Ok(inside));
        // Only the first document of a file in `crds` has a source line.
        assert_eq!(shown(&["crds/x.yaml"]), Ok(document("crds/x.yaml", "kind: X")));
        for pattern in
            ["templates/none.yaml", "web/templates/a.yaml", "templates/c.yaml", "templates/[", "templates"]
        {
            let expected = Err(format!("could not find template {pattern} in chart"));
            assert_eq!(shown(&["templates/a.yaml", pattern]), expected);
        }
    }

    #[test]
    fn sources_of_documents() {
        for (document, expected) in [
            ("# Source: c/templates/a.yaml\nkind: A", Some("templates/a.yaml")),
            ("kind: A # Source: c/x", Some("x")),
            ("# Source: c\na: b/c", Some("c")),
            ("# Source: c", None),
            ("# Source: /x", None),
            ("# Source: c/\n# Source: d/y", Some("y")),
            ("kind: A", None),
        ] {
            assert_eq!(source(document), expected, "{document}");
        }
    }

    #[test]
    fn hooks_are_left_out() {
        let sources = |printing: Printing| {
            let text = rendered().printed(&printing).unwrap();
            ["templates/h.yaml", "templates/t.yaml"].map(|file| text.contains(file))
        };
        let printing = Printing::default();
        assert_eq!(sources(printing.clone()), [true, true]);
        assert_eq!(sources(Printing { skip_tests: true, ..printing.clone() }), [true, false]);
        assert_eq!(sources(Printing { no_hooks: true, ..printing }), [false, false]);
        let printing =
            Printing { no_hooks: true, show_only: vec!["templates/h.yaml".to_owned()], skip_tests: false };
        assert!(rendered().printed(&printing).is_err());
    }
}
