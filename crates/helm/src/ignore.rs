//! The rules of `.helmignore` (`helm.md` 2.2): they are tried in order, and the first that decides
//! wins.

use groundwork_go::path_match;

/// Name of the file with the rules, at the top of a chart.
pub const IGNORE_FILE: &str = ".helmignore";
/// Rule of every chart: hidden files of templates are left out.
const BUILT_IN: &str = "templates/.?*";

/// A line is not a valid rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    #[error("syntax error in pattern")]
    Syntax,
}

/// The rules about files of a directory that do not belong to its chart.
#[derive(Debug, Clone)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    pattern: String,
    negated: bool,
    only_directories: bool,
    /// True if the whole path is compared, not only the last component.
    whole_path: bool,
}

impl Ignore {
    /// Parses the rules of a text, and adds the built-in one.
    ///
    /// # Errors
    ///
    /// A line is not a valid rule.
    pub fn parse(text: &[u8]) -> Result<Ignore, PatternError> {
        let text = String::from_utf8_lossy(text);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let rules = text.lines().chain([BUILT_IN]).map(Rule::parse);
        Ok(Ignore { rules: rules.filter_map(Result::transpose).collect::<Result<_, _>>()? })
    }

    /// Reports whether a file, or a directory with its content, is left out. The path is relative
    /// to the chart.
    pub fn leaves_out(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.rules {
            let applies = is_directory || !rule.only_directories;
            if rule.negated {
                // As in Helm, a negated rule leaves out every path that it does not match. For a
                // path that it matches, the rules after it decide.
                if !applies || !rule.matches(path) {
                    return true;
                }
            } else if applies && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Option<Rule>, PatternError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err(PatternError::DoubleStar);
        }
        path_match::matches(line, "abc").map_err(|_| PatternError::Syntax)?;
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (only_directories, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let whole_path = line.contains('/');
        let pattern = line.trim_start_matches('/').to_owned();
        Ok(Some(Rule { pattern, negated, only_directories, whole_path }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = if self.whole_path { path } else { path.rsplit('/').next().unwrap_or(path) };
        path_match::matches(&self.pattern, name).unwrap_or(false)
    }
}
