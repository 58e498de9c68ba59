//! Where the blueprint says what a job makes, in sentences for people: the renderer writes them to its journal, and what shows the objects of
//! an Installation finds them there.

use groundwork_blueprint::Origin;

use crate::job::Outcome;

/// Whoever has more items than this looks into the blueprint.
const MOST: usize = 50;
/// Between what is made and the place where it is written.
const VERB: &str = " is written in ";

/// What a blueprint makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    NestedInstallation,
    DeployItem,
}

impl Made {
    /// The beginning of the sentence about it, which names it as its template does.
    pub fn subject(self, template: &str) -> String {
        let kind = match self {
            Self::NestedInstallation => "nested installation",
            Self::DeployItem => "deploy item",
        };
        format!("the {kind} {template:?}")
    }
}

/// The subject of a sentence (see [`Made::subject`]) and the place in the blueprint; `None` if it tells of no place.
pub fn parts(sentence: &str) -> Option<(&str, &str)> {
    // A name may hold anything, a place no name of what is made.
    sentence.rsplit_once(VERB)
}

/// One sentence for each nested installation and deploy item, in this order, [`MOST`] at most; a last one counts the rest.
pub(crate) fn sentences(outcome: &Outcome) -> Vec<String> {
    let children =
        outcome.children.iter().map(|child| (Made::NestedInstallation, &*child.template, &child.origin));
    let templates = outcome.execution.as_ref().and_then(|execution| execution.spec.templates().ok());
    let templates =
        templates.iter().flat_map(|templates| templates.iter()).zip(&outcome.origins.deploy_items);
    let items = templates.map(|(template, origin)| (Made::DeployItem, &*template.name, origin));
    let mut all = children.chain(items);
    let sentence =
        |(made, template, origin): (Made, &str, &Origin)| format!("{}{VERB}{origin}", made.subject(template));
    let mut sentences: Vec<String> = all.by_ref().take(MOST).map(sentence).collect();
    match all.count() {
        0 => {}
        more => sentences.push(format!("{more} more deploy items or nested installations follow")),
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_taken_apart_again() {
        for template in ["server", "a \"b\"\n", "x is written in y"] {
            for made in [Made::NestedInstallation, Made::DeployItem] {
                let subject = made.subject(template);
                let sentence = format!("{subject}{VERB}deployExecutions[default] (deploy.yaml, line 2)");
                assert_eq!(
                    parts(&sentence),
                    Some((&*subject, "deployExecutions[default] (deploy.yaml, line 2)"))
                );
            }
        }
        assert_eq!(parts("10 more deploy items or nested installations follow"), None);
    }
}
