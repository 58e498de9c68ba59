//! Sentences that name the place in the blueprint for each object of a job. The renderer writes
//! them to its journal, and commands that show the objects of an Installation read them there.

use groundwork_blueprint::Origin;

use crate::job::JobOutcome;

/// Largest number of sentences, to bound the journal. Further items are only counted.
const MOST: usize = 50;
/// Text between the object and the place.
const VERB: &str = " is written in ";

/// Kind of object that a blueprint creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    NestedInstallation,
    DeployItem,
}

impl Made {
    /// Returns the start of the sentence about the object, which names its template.
    pub fn subject(self, template: &str) -> String {
        let kind = match self {
            Self::NestedInstallation => "nested installation",
            Self::DeployItem => "deploy item",
        };
        format!("the {kind} {template:?}")
    }
}

/// Splits a sentence into its subject (see [`Made::subject`]) and the place in the blueprint;
/// `None` if it names no place.
pub fn parts(sentence: &str) -> Option<(&str, &str)> {
    // Splits at the last verb: the name of a template may contain the verb, a place never does.
    sentence.rsplit_once(VERB)
}

/// Returns one sentence for each nested Installation and deploy item, in this order, at most
/// [`MOST`]. A last sentence counts the rest.
pub(crate) fn sentences(outcome: &JobOutcome) -> Vec<String> {
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
