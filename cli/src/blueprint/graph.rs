//! `groundwork blueprint graph`: draws the data flow of a blueprint.

use groundwork_blueprint::GraphTree;

use super::{GraphArguments, load};
use crate::ending::Ending;
use crate::stdout;

pub(super) fn run(arguments: &GraphArguments) -> Ending {
    let (blueprint, templates) = match load(&arguments.path) {
        Ok(loaded) => loaded,
        Err(ending) => return ending,
    };
    let tree = GraphTree::new(&blueprint, &templates);
    let text = if arguments.dot { tree.to_dot() } else { tree.to_text() };
    stdout::write(&text)
}
