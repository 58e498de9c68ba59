use groundwork_bus::{JournalPart, Kind};

use super::*;

fn key(name: &str) -> ObjectId {
    ObjectId::new(Kind::new("landscaper.gardener.cloud", "installations"), Some("n"), name)
}

fn say(text: &str) -> Note {
    Note { text: text.to_owned(), ..Note::default() }
}

fn journal(length: usize) -> (Journal, mpsc::Receiver<Message>, Registry) {
    let registry = Registry::default();
    let (journal, receiver) = Journal::with_queue("renderer", Lost::new(&registry, "renderer"), length);
    (journal, receiver, registry)
}

fn sending(journal: &Journal, bus: &Bus) -> Sending {
    let lost = Arc::clone(&journal.0.as_ref().unwrap().lost);
    Sending {
        bus: bus.clone(),
        instance: "i".to_owned(),
        lost,
        problem: None,
        lost_since: Timestamp::UNIX_EPOCH,
    }
}

fn queued(receiver: &mut mpsc::Receiver<Message>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Ok(Message::Entry(entry)) = receiver.try_recv() {
        texts.push(format!("{} {} {}", entry.job, entry.what.as_str(), entry.text));
    }
    texts
}

#[test]
fn events_are_told_when_something_follows_and_with_the_job_that_follows() {
    let (journal, mut receiver, _) = journal(10);
    let key = key("a");
    let mut scribe = journal.scribe(&key);
    scribe.note(What::Event, say("seen"));
    drop(scribe);
    assert_eq!(queued(&mut receiver), [""; 0], "nothing followed");
    let mut scribe = journal.scribe(&key);
    scribe.note(What::Event, say("seen"));
    scribe.note(What::Decision, say("begins"));
    assert_eq!(queued(&mut receiver), [""; 0], "no job is known yet");
    scribe.set_job("j", Some("parent"));
    assert_eq!(queued(&mut receiver), ["j event seen", "j decision begins"]);
    scribe.set_job("k", None);
    scribe.note(What::Write, say("more"));
    assert_eq!(queued(&mut receiver), ["k write more"]);
    let mut scribe = journal.scribe(&key);
    scribe.note(What::Error, say("away"));
    drop(scribe);
    assert_eq!(queued(&mut receiver), [" error away"], "it is told without a job, too");
}

#[test]
fn the_same_wait_is_told_once() {
    let (journal, mut receiver, _) = journal(10);
    let key = key("a");
    for (what, text) in [
        (What::Wait, "b"),
        (What::Event, "seen"),
        (What::Wait, "b"),
        (What::Wait, "c"),
        (What::Write, "d"),
        (What::Wait, "c"),
    ] {
        let mut scribe = journal.scribe(&key);
        scribe.set_job("j", None);
        scribe.note(what, say(text));
    }
    assert_eq!(queued(&mut receiver), ["j wait b", "j wait c", "j write d", "j wait c"]);
}

/// A full queue never blocks the caller. Dropped entries are counted, and the next entries report
/// their number.
#[tokio::test]
async fn a_full_queue_drops_and_says_so() {
    let (journal, mut receiver, registry) = journal(2);
    let (key, bus) = (key("a"), Bus::in_process());
    for text in ["1", "2", "3", "4"] {
        let mut scribe = journal.scribe(&key);
        scribe.set_job("j", None);
        scribe.note(What::Write, say(text));
    }
    let mut messages = Vec::new();
    while let Ok(message) = receiver.try_recv() {
        messages.push(message);
    }
    let mut sending = sending(&journal, &bus);
    sending.send(messages.into_iter()).await;
    sending.send(std::iter::empty()).await;
    let part = JournalPart::Jobs { key, jobs: vec!["j".to_owned()] };
    let texts: Vec<_> =
        bus.read_journal(&part, 10).await.unwrap().into_iter().map(|entry| entry.text).collect();
    let loss = "2 entries of the renderer were lost since 1970-01-01T00:00:00Z, and some of them may belong to this \
                job";
    assert_eq!(texts, ["1", "2", loss], "a loss is told of once");
    let metrics = registry.encode().unwrap();
    for (outcome, count) in [("written", 2), ("dropped", 2), ("lost", 0)] {
        let line =
            format!("groundwork_journal_entries_total{{service=\"renderer\",outcome=\"{outcome}\"}} {count}");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}
