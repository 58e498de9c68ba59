//! Tests that evaluating only nodes which may have changed gives the same result as evaluating all
//! nodes in each pass.

mod documents;
mod plain;

use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::{Document, Engine, Features};

/// Returns the document, or the report as an error.
fn outcome(engine: &Engine, case: &documents::Case) -> Result<String, String> {
    let read = |text: &String| Document::read(text, "test", engine.limits());
    let template = read(&case.template).expect("generated documents are YAML");
    let stubs: Result<Vec<_>, _> = case.stubs.iter().map(read).collect();
    match engine.cascade(&template, &stubs.expect("generated stubs are YAML"), None) {
        Ok(output) => Ok(output.to_yaml()),
        Err(error) => Err(error.to_string()),
    }
}

proptest! {
    #![proptest_config(Config { cases: Config::default().cases.max(1_000), ..Config::default() })]

    #[test]
    fn marked_nodes_are_enough(case in documents::case()) {
        let features = Features { control: case.control, interpolation: false };
        let marked = Engine::new().with_features(features);
        let whole = marked.clone().pass_by_pass();
        prop_assert_eq!(outcome(&marked, &case), outcome(&whole, &case));
    }

    /// Case: without stubs the first pass is cached with the document, not computed per run. The
    /// second run uses the cached pass.
    #[test]
    fn kept_passes_give_the_same(case in documents::case()) {
        let case = documents::Case { stubs: Vec::new(), control: false, ..case };
        let engine = Engine::new();
        let template = Document::read(&case.template, "test", engine.limits()).expect("generated documents are YAML");
        let wanted = outcome(&engine.clone().pass_by_pass(), &case);
        for _ in 0..2 {
            let given = engine.cascade(&template, &[], None);
            let given = given.map(|output| output.to_yaml()).map_err(|error| error.to_string());
            prop_assert_eq!(&given, &wanted);
        }
    }

    #[test]
    fn plain_passes_give_the_same(case in documents::plain_case()) {
        let engine = outcome(&Engine::new(), &case);
        let wanted = plain::cascade(&case.template, &case.stubs);
        match (engine, wanted) {
            // Outputs show lambdas and templates. Their notation may differ, because only the
            // evaluation is compared.
            (Ok(given), Ok(wanted)) if given.contains("&template") => prop_assert!(wanted.contains("template")),
            (Ok(given), Ok(wanted)) => prop_assert_eq!(given, wanted),
            (Err(_), Err(_)) => {}
            (given, wanted) => prop_assert!(false, "{given:?}, plainly {wanted:?}"),
        }
    }

    #[test]
    fn a_finished_document_stays_as_it_is(case in documents::case()) {
        let engine = Engine::new();
        if let Ok(once) = outcome(&engine, &case)
            && !once.contains("((")
        {
            let again = documents::Case { template: once.clone(), stubs: Vec::new(), control: false };
            prop_assert_eq!(outcome(&engine, &again), Ok(once));
        }
    }
}

/// Cases that generated documents found.
#[test]
fn found_cases_give_the_same() {
    let case =
        |template: &str| documents::Case { template: template.to_owned(), stubs: Vec::new(), control: false };
    let engine = Engine::new();
    // An entry of the list becomes a map with a name in a later pass, and then its neighbour has
    // another path.
    let renamed = case(
        "c:\n- (( ( $a = (|x|->x b)(b) ) a ))\n- name: (( a ))\n  <<: (( merge required ))\n\
         b:\n  a: (( &temporary ))\n  name: x\n",
    );
    assert_eq!(outcome(&engine, &renamed), outcome(&engine.clone().pass_by_pass(), &renamed));
    // The branch of an undefined condition has to wait, but the result is undefined in any case.
    let undefined = case("a: (( ~~ ? a :d ))\nd:\n  a: 0\n  <<: (( merge ))\n");
    assert_eq!(outcome(&engine, &undefined).as_deref(), Ok("d:\n  a: 0\n"));
    assert_eq!(plain::cascade(&undefined.template, &[]).as_deref().ok(), Some("d:\n  a: 0\n"));
    // A marked expression fails where a stub has a value, but is temporary in any case (E77).
    let marked = documents::Case {
        stubs: vec!["d:\n  a: 0\na:\n  a: 0\n".to_owned()],
        ..case("a:\n  a: 0\nd: (( &temporary ( a + a ) ))\n")
    };
    assert_eq!(outcome(&engine, &marked).as_deref(), Ok("a:\n  a: 0\n"));
    assert_eq!(plain::cascade(&marked.template, &marked.stubs).as_deref().ok(), Some("a:\n  a: 0\n"));
}
