use groundwork_bus::Kind;
use proptest::prelude::*;

use super::*;

fn object(name: &str) -> ObjectId {
    ObjectId::new(Kind::new("example.org", "things"), Some("ns"), name)
}

fn known(versions: &[(&str, &str)]) -> KnownVersions {
    let mut known = KnownVersions::default();
    for (name, version) in versions {
        known.add(object(name), version);
    }
    known
}

/// Answer for the first event of an idle key.
const FIRST: Offered<u32> = Offered::Queued { superseded: None };

struct Bench {
    queue: Queue<u32>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::of_share(10_000)
    }

    fn of_share(share: usize) -> Self {
        Self { queue: Queue::new(Backoff::OBJECT, share, []), now: Instant::now() }
    }

    fn offer_elsewhere(&mut self, index: usize) -> Offered<u32> {
        let key = ObjectId { namespace: Some("other".to_owned()), ..object(&format!("key-{index}")) };
        let seen = (key.clone(), Sight::Alive("1".to_owned()));
        self.queue.offer(&key, Concerns::OneKey, seen, 7, self.now)
    }

    /// Creates the keys `bad-0` and following, each with one failed attempt about version 1.
    fn failing(count: u32) -> Self {
        let mut bench = Self::new();
        for index in 0..count {
            bench.offer(&format!("bad-{index}"), "1", index);
            let name = bench.start().unwrap();
            bench.fail(&name, &[]);
        }
        bench
    }

    fn offer(&mut self, name: &str, version: &str, delivery: u32) -> Offered<u32> {
        let seen = (object(name), Sight::Alive(version.to_owned()));
        self.queue.offer(&object(name), Concerns::OneKey, seen, delivery, self.now)
    }

    /// Offers the deletion of the object with this name, with its last version.
    fn offer_end(&mut self, name: &str, version: &str, delivery: u32) -> Offered<u32> {
        let seen = (object(name), Sight::Gone(version.to_owned()));
        self.queue.offer(&object("a"), Concerns::OneKey, seen, delivery, self.now)
    }

    fn start(&mut self) -> Option<String> {
        self.queue.start(self.now).map(|started| started.key.name)
    }

    fn settle(&mut self, name: &str, versions: &[(&str, &str)]) -> Vec<u32> {
        let ended = AttemptEnd::Reconciled { requeue_after: None };
        self.queue.finish(&object(name), &ended, known(versions), self.now).acknowledge
    }

    fn fail(&mut self, name: &str, versions: &[(&str, &str)]) -> Vec<u32> {
        let ended = AttemptEnd::Failed { is_conflict: false, made_progress: false };
        let answers = self.queue.finish(&object(name), &ended, known(versions), self.now);
        answers.redeliver.into_iter().map(|(delivery, _)| delivery).collect()
    }

    fn go_on(&mut self, name: &str, versions: &[(&str, &str)]) -> Vec<u32> {
        self.queue.finish(&object(name), &AttemptEnd::Requeued, known(versions), self.now).acknowledge
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }
}

#[test]
fn one_key_is_handled_once_at_a_time_and_once_for_many_events() {
    let mut bench = Bench::new();
    assert_eq!(bench.offer("a", "2", 2), FIRST);
    let older = Offered::Queued { superseded: Some(1) };
    assert_eq!(bench.offer("a", "1", 1), older, "one that comes late is answered by the newer");
    bench.offer("b", "1", 3);
    assert_eq!(bench.start().as_deref(), Some("a"));
    assert_eq!(bench.start().as_deref(), Some("b"));
    assert_eq!(bench.start(), None);
    bench.offer("a", "5", 4);
    assert_eq!(bench.start(), None);
    assert_eq!(bench.settle("a", &[("a", "2")]), [2]);
    assert_eq!(bench.start().as_deref(), Some("a"), "version 5 came meanwhile");
    assert_eq!(bench.settle("a", &[("a", "5")]), [4]);
    assert_eq!(bench.start(), None);
}

/// Keys that wait for a time are not counted as work, in any number.
#[test]
fn keys_at_rest_are_not_counted() {
    let mut bench = Bench::new();
    let later = bench.now + Duration::from_secs(60);
    bench.queue.schedule(&object("a"), later);
    assert_eq!(bench.queue.len(), 0);
    bench.offer("b", "1", 1);
    assert_eq!(bench.queue.len(), 1);
    bench.start();
    bench.fail("b", &[]);
    assert_eq!(bench.queue.len(), 1, "it pauses");
    bench.pass(60_000);
    assert_eq!((bench.start().as_deref(), bench.start().as_deref()), (Some("a"), Some("b")));
    assert_eq!(bench.queue.len(), 2);
    bench.settle("a", &[]);
    bench.settle("b", &[]);
    assert_eq!(bench.queue.len(), 0);
}

/// The event that a key waits for may arrive while the key is being handled. The key is then
/// handled once more, regardless of the pause that the attempt asked for. Two wake-ups cause only
/// one more attempt.
#[test]
fn a_key_that_is_woken_while_it_is_handled_is_handled_again() {
    let mut bench = Bench::new();
    bench.queue.wake(&object("a"));
    bench.queue.wake(&object("a"));
    assert_eq!(bench.start().as_deref(), Some("a"));
    bench.queue.wake(&object("a"));
    assert_eq!(bench.start(), None);
    let pause = AttemptEnd::Reconciled { requeue_after: Some(Duration::from_secs(60)) };
    bench.queue.finish(&object("a"), &pause, known(&[]), bench.now);
    assert_eq!(bench.start().as_deref(), Some("a"));
    bench.queue.finish(&object("a"), &pause, known(&[]), bench.now);
    assert_eq!(bench.start(), None);
    bench.queue.wake(&object("a"));
    assert_eq!(bench.start().as_deref(), Some("a"), "not after the pause");
    bench.settle("a", &[]);
    assert_eq!((bench.start(), bench.queue.next_time()), (None, None));
}

/// A failing key keeps its back-off even when it is woken.
#[test]
fn a_key_that_has_failed_is_not_woken_before_its_time() {
    let mut bench = Bench::failing(1);
    bench.queue.wake(&object("bad-0"));
    assert_eq!(bench.start(), None);
}

/// Memory is bounded: events beyond the limit go back to the bus and return soon, one after the
/// other.
#[test]
fn events_beyond_what_may_wait_go_back() {
    let mut bench = Bench::of_share(2);
    for index in 0..MOST_WAITING {
        assert_eq!(bench.offer(&format!("key-{index}"), "1", 0), FIRST);
    }
    assert_eq!(bench.offer("late-0", "1", 1), Offered::Redeliver(1, FIRST_RETURN));
    assert_eq!(bench.offer("late-1", "1", 2), Offered::Redeliver(2, FIRST_RETURN + RETURN_INTERVAL));
    assert_eq!(bench.offer("key-0", "2", 3), Offered::Queued { superseded: Some(0) }, "it waits already");
    let several = (object("common"), Sight::Alive("1".to_owned()));
    let offered = bench.queue.offer(&object("late-2"), Concerns::Several, several, 5, bench.now);
    assert_eq!(offered, FIRST, "others would see it again");
    // An event that concerns other keys is accepted over the limit, because a redelivery would
    // reach those keys again. As other namespaces fill the queue, less is left for each.
    for index in 0..MOST_WAITING / 2 {
        assert_eq!(bench.offer_elsewhere(index), FIRST);
    }
    assert_eq!(bench.offer_elsewhere(MOST_WAITING), Offered::Redeliver(7, FIRST_RETURN));
}

/// Failing keys of a namespace get attempts even when its share is full of ready keys, and each
/// place is freed for every outcome of an attempt.
#[test]
fn failing_keys_of_a_full_share_get_their_turns() {
    let mut bench = Bench::of_share(1);
    bench.offer("bad", "1", 0);
    assert_eq!(bench.start().as_deref(), Some("bad"));
    bench.fail("bad", &[]);
    for index in 0..40 {
        bench.offer(&format!("good-{index}"), "1", 1);
    }
    bench.pass(60_000);
    let mut bad = 0;
    for _ in 0..16 {
        let name = bench.start().unwrap();
        assert_eq!(bench.start(), None, "its share is one place");
        if name == "bad" {
            bad += 1;
            bench.fail("bad", &[]);
            bench.pass(60_000);
        } else {
            bench.settle(&name, &[]);
        }
    }
    assert_eq!(bad, 4);
}

/// A long attempt runs in parts. Other keys run between the parts, and events are answered only at
/// the end.
#[test]
fn a_long_attempt_lets_others_go_between_its_parts() {
    let mut bench = Bench::new();
    bench.offer("big", "1", 1);
    assert_eq!(bench.start().as_deref(), Some("big"));
    bench.offer("small", "1", 2);
    let offer = |bench: &mut Bench, about: &str, version: &str, delivery| {
        let seen = (object(about), Sight::Alive(version.to_owned()));
        bench.queue.offer(&object("big"), Concerns::OneKey, seen, delivery, bench.now)
    };
    offer(&mut bench, "own", "7", 3);
    offer(&mut bench, "other", "8", 4);
    assert_eq!(bench.go_on("big", &[("own", "7")]), [3], "what it has caused itself is no news");
    assert_eq!(offer(&mut bench, "own", "7", 5), Offered::Known(5), "nor when it comes later");
    assert_eq!(bench.start().as_deref(), Some("small"));
    assert_eq!(bench.start().as_deref(), Some("big"));
    assert_eq!(bench.go_on("big", &[]), Vec::<u32>::new());
    assert_eq!(bench.start().as_deref(), Some("big"));
    let mut answered = bench.settle("big", &[("big", "9")]);
    answered.sort_unstable();
    assert_eq!(answered, [1, 4]);
    assert_eq!(offer(&mut bench, "own", "7", 6), Offered::Known(6), "read in an earlier part");
}

#[test]
fn what_was_read_or_written_is_not_handled_again() {
    let mut bench = Bench::new();
    bench.offer("a", "1", 1);
    bench.start();
    bench.offer("a", "3", 2);
    assert_eq!(bench.settle("a", &[("a", "4")]), [1, 2], "the event during the attempt is about what it saw");
    assert_eq!(bench.offer("a", "4", 3), Offered::Known(3));
    assert_eq!(bench.offer("a", "5", 4), FIRST);
}

/// A watcher that was down during a deletion knows only the object's last living version, which the
/// key may have written itself.
#[test]
fn a_deletion_reaches_the_key_that_wrote_its_version() {
    let mut bench = Bench::new();
    bench.offer("a", "1", 1);
    bench.start();
    assert_eq!(bench.settle("a", &[("a", "1"), ("item", "9")]), [1]);
    assert_eq!(bench.offer_end("item", "9", 2), FIRST, "after the attempt");
    assert_eq!(bench.start().as_deref(), Some("a"));
    bench.offer_end("other", "7", 3);
    assert_eq!(bench.settle("a", &[("other", "7")]), [2], "during it");
    assert_eq!(bench.start().as_deref(), Some("a"));
    bench.offer_end("third", "8", 4);
    assert_eq!(bench.go_on("a", &[("third", "8")]), Vec::<u32>::new(), "and between its parts");
    assert_eq!(bench.offer_end("fourth", "8", 5), Offered::Queued { superseded: None });
    bench.start();
    let mut answered = bench.settle("a", &[]);
    answered.sort_unstable();
    assert_eq!(answered, [3, 4, 5]);
    assert_eq!(bench.start(), None);
}

/// Redeliveries of the same deletion must not cut short the back-off of a failing key.
#[test]
fn a_deletion_that_was_tried_is_no_news() {
    let mut bench = Bench::new();
    bench.offer_end("item", "9", 1);
    bench.start();
    bench.fail("a", &[]);
    assert!(matches!(bench.offer_end("item", "9", 2), Offered::Redeliver(2, _)));
    let alive = Sight::Alive("9".to_owned());
    let late = bench.queue.offer(&object("a"), Concerns::OneKey, (object("item"), alive), 3, bench.now);
    assert!(matches!(late, Offered::Redeliver(3, _)), "the living came before");
}

#[test]
fn a_failing_key_pauses_longer_each_time_and_only_news_cut_that_short() {
    let mut bench = Bench::new();
    bench.offer("a", "1", 1);
    let mut pauses = Vec::new();
    for _ in 0..5 {
        assert_eq!(bench.start().as_deref(), Some("a"));
        bench.fail("a", &[]);
        let next = bench.queue.next_time().unwrap();
        pauses.push((next - bench.now).as_millis());
        // A redelivery of the same event and our own writes do not cut the pause short.
        assert!(matches!(bench.offer("a", "1", 2), Offered::Redeliver(2, _)));
        assert_eq!(bench.start(), None);
        bench.now = next;
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600]);
    bench.start();
    bench.fail("a", &[("a", "7")]);
    assert!(matches!(bench.offer("a", "7", 3), Offered::Redeliver(3, _)), "our own write");
    assert_eq!(bench.offer("a", "8", 4), FIRST);
    assert_eq!(bench.start().as_deref(), Some("a"));
    bench.fail("a", &[("a", "8")]);
    assert_eq!((bench.queue.next_time().unwrap() - bench.now).as_millis(), 100, "news begin anew");
}

#[test]
fn a_failing_key_delays_no_other() {
    let mut bench = Bench::failing(2000);
    bench.offer("good", "1", 9999);
    assert_eq!(bench.start().as_deref(), Some("good"));
}

/// Events of failing keys are delayed only while they are already known. A new event waits neither
/// for other failing keys nor keeps its place at the bus meanwhile.
#[test]
fn news_that_come_during_a_failing_attempt_wait_for_no_other_failing_key() {
    let mut bench = Bench::failing(100);
    bench.pass(60_000);
    assert_eq!(bench.start().as_deref(), Some("bad-0"));
    bench.offer("bad-0", "2", 200);
    bench.fail("bad-0", &[("bad-0", "1")]);
    assert_eq!(bench.start().as_deref(), Some("bad-0"), "the 99 others are due as well");
}

/// Events of failing keys must return slowly, or the bus would deliver nothing else.
#[test]
fn events_of_many_failing_keys_come_back_one_after_the_other() {
    let mut bench = Bench::failing(2000);
    let name = |index: u32| format!("bad-{index}");
    let mut delay = |index: u32| match bench.offer(&name(index), "1", index) {
        Offered::Redeliver(_, delay) => delay,
        other => panic!("{other:?}"),
    };
    let mut delays: Vec<Duration> = (0..2000).map(&mut delay).collect();
    delays.sort();
    let most = delays.partition_point(|delay| *delay <= delays[0] + Duration::from_secs(1));
    assert!(most <= 42, "{most} come back in one second: more than two rounds");
    assert!(
        delays[1999] <= REDELIVERY_MARGIN + 2001 * REDELIVERY_INTERVAL,
        "and all of them do: {:?}",
        delays[1999]
    );
    for index in 1..2000 {
        bench.offer(&name(index), "2", index);
        bench.start();
        bench.settle(&name(index), &[(&name(index), "2")]);
    }
    let Offered::Redeliver(_, one) = bench.offer("bad-0", "1", 0) else { panic!("it pauses") };
    assert!(
        one <= REDELIVERY_MARGIN + Duration::from_secs(1),
        "few do not wait for those of before: {one:?}"
    );
}

/// Failing keys must not delay others even when all of them are due and there is no time for all.
/// They still get some attempts.
#[test]
fn failing_keys_that_are_due_delay_no_other() {
    let mut bench = Bench::failing(2000);
    bench.pass(60_000);
    assert_eq!(bench.start().as_deref(), Some("bad-0"));
    assert!(
        matches!(bench.offer("bad-1", "1", 7000), Offered::Redeliver(7000, _)),
        "it would wait here with its event"
    );
    for delivery in 0..9 {
        bench.offer(&format!("good-{delivery}"), "1", 5000 + delivery);
    }
    // A new event moves a failed key to the normal lane, once.
    bench.offer("bad-1999", "2", 6000);
    let started: Vec<String> = std::iter::from_fn(|| bench.start()).take(14).collect();
    let good = started.iter().filter(|name| name.starts_with("good")).count();
    assert_eq!((good, started.iter().filter(|name| *name == "bad-1999").count()), (9, 1), "{started:?}");
    assert_eq!(std::iter::from_fn(|| bench.start()).count(), 2000 - 6);
}

#[test]
fn a_time_wakes_an_idle_key_once_and_takes_the_place_of_the_former() {
    let mut bench = Bench::new();
    bench.queue.schedule(&object("a"), bench.now + Duration::from_millis(50));
    bench.queue.schedule(&object("a"), bench.now + Duration::from_millis(500));
    bench.pass(100);
    assert_eq!(bench.start(), None);
    bench.pass(400);
    assert_eq!(bench.start().as_deref(), Some("a"));
    assert_eq!(bench.settle("a", &[]), Vec::<u32>::new());
    bench.pass(1000);
    assert_eq!(bench.start(), None);
}

#[test]
fn a_time_that_comes_while_the_key_is_handled_is_not_lost() {
    let mut bench = Bench::new();
    bench.offer("a", "1", 1);
    bench.start();
    bench.queue.schedule(&object("a"), bench.now);
    assert_eq!(bench.start(), None);
    bench.settle("a", &[("a", "1")]);
    bench.pass(200);
    assert_eq!(bench.start().as_deref(), Some("a"));
}

/// Returns the next attempt, whether it ignores cached state, and whether it is unrequested.
fn recheck(bench: &mut Bench) -> Option<(String, bool, bool)> {
    let attempt = bench.queue.start(bench.now)?;
    Some((attempt.key.name, attempt.reads_anew, attempt.is_unasked))
}

#[test]
fn a_recheck_is_unasked_unless_something_else_asks_for_it() {
    let mut bench = Bench::new();
    let of_a = |reads_anew, is_unasked| Some(("a".to_owned(), reads_anew, is_unasked));
    bench.queue.recheck(&object("a"), bench.now);
    bench.queue.recheck(&object("a"), bench.now);
    assert_eq!((recheck(&mut bench), recheck(&mut bench)), (of_a(true, true), None), "twice is once");
    bench.settle("a", &[]);

    bench.queue.recheck(&object("a"), bench.now);
    bench.offer("a", "1", 1);
    assert_eq!(recheck(&mut bench), of_a(true, false), "an event came");
    bench.queue.recheck(&object("a"), bench.now);
    assert_eq!(recheck(&mut bench), None);
    bench.settle("a", &[("a", "1")]);
    assert_eq!(recheck(&mut bench), of_a(true, true), "due while it was handled");
    bench.settle("a", &[]);

    bench.queue.recheck(&object("a"), bench.now);
    bench.queue.wake(&object("a"));
    assert_eq!(recheck(&mut bench), of_a(true, false), "it was woken");
    bench.fail("a", &[]);
    bench.queue.recheck(&object("a"), bench.now);
    assert_eq!(recheck(&mut bench), None, "a failure is waited out");
    bench.pass(60_000);
    assert_eq!(recheck(&mut bench), of_a(true, false));
    bench.settle("a", &[]);
    assert_eq!(bench.queue.next_time(), None);
}

/// A recheck uses an attempt that is due soon anyway, and keeps a later timer of the key.
#[test]
fn a_recheck_leaves_the_time_of_a_key_alone() {
    let mut bench = Bench::new();
    let (soon, late) = (Duration::from_secs(5), Duration::from_secs(600));
    bench.queue.schedule(&object("a"), bench.now + soon);
    bench.queue.recheck(&object("a"), bench.now);
    assert_eq!(recheck(&mut bench), None);
    bench.now += soon;
    assert_eq!(recheck(&mut bench), Some(("a".to_owned(), true, false)));
    bench.settle("a", &[]);
    let at = bench.now + late;
    bench.queue.schedule(&object("a"), at);
    bench.queue.recheck(&object("a"), bench.now);
    assert_eq!(recheck(&mut bench), Some(("a".to_owned(), true, true)));
    bench.settle("a", &[]);
    assert_eq!(bench.queue.next_time(), Some(at));
    bench.now = at;
    assert_eq!(recheck(&mut bench), Some(("a".to_owned(), false, false)));
}

#[derive(Debug, Clone)]
enum Step {
    Offer(u8, u64),
    Start,
    Settle,
    Yield,
    Fail,
    Pass(u64),
    Schedule(u8, u64),
    Recheck(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..3, 1u64..20).prop_map(|(key, version)| Step::Offer(key, version)),
        Just(Step::Start),
        Just(Step::Settle),
        Just(Step::Yield),
        Just(Step::Fail),
        (0u64..5000).prop_map(Step::Pass),
        (0u8..3, 0u64..5000).prop_map(|(key, after)| Step::Schedule(key, after)),
        (0u8..3).prop_map(Step::Recheck),
    ]
}

proptest! {
    /// For any steps in any order: every event is answered exactly once, a key never runs twice at
    /// a time, and the queue comes to rest.
    #[test]
    fn every_event_is_answered_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut bench = Bench::new();
        let mut running: Vec<String> = Vec::new();
        let mut answered: Vec<u32> = Vec::new();
        let mut deliveries = 0;
        for step in steps {
            match step {
                Step::Offer(key, version) => {
                    match bench.offer(&key.to_string(), &version.to_string(), deliveries) {
                        Offered::Queued { superseded, .. } => answered.extend(superseded),
                        Offered::Known(delivery) | Offered::Redeliver(delivery, _) => answered.push(delivery),
                    }
                    deliveries += 1;
                }
                Step::Start => {
                    if let Some(name) = bench.start() {
                        prop_assert!(!running.contains(&name));
                        running.push(name);
                    }
                }
                Step::Settle => if let Some(name) = running.pop() {
                    answered.extend(bench.settle(&name, &[(&name, "9")]));
                },
                Step::Yield => if let Some(name) = running.pop() {
                    answered.extend(bench.go_on(&name, &[(&name, "5")]));
                },
                Step::Fail => if let Some(name) = running.pop() {
                    let ended = AttemptEnd::Failed { is_conflict: false, made_progress: false };
                    let answers = bench.queue.finish(&object(&name), &ended, known(&[(&name, "9")]), bench.now);
                    answered.extend(answers.acknowledge);
                    answered.extend(answers.redeliver.into_iter().map(|(delivery, _)| delivery));
                },
                Step::Pass(millis) => bench.pass(millis),
                Step::Recheck(key) => bench.queue.recheck(&object(&key.to_string()), bench.now),
                Step::Schedule(key, after) => {
                    let at = bench.now + Duration::from_millis(after);
                    bench.queue.schedule(&object(&key.to_string()), at);
                }
            }
        }
        for _ in 0..100 {
            for name in std::mem::take(&mut running) {
                answered.extend(bench.settle(&name, &[(&name, "99")]));
            }
            bench.pass(40_000);
            while let Some(name) = bench.start() {
                prop_assert!(!running.contains(&name));
                running.push(name);
            }
        }
        prop_assert!(running.is_empty());
        answered.sort_unstable();
        prop_assert_eq!(answered, (0..deliveries).collect::<Vec<_>>());
        prop_assert_eq!(bench.queue.next_time(), None);
    }
}

/// Suspects run when no other key waits, one at a time, and once in a while although others wait.
#[test]
fn suspects_come_last_and_alone() {
    let suspects = ["bad", "worse"].map(object);
    let mut bench = Bench { queue: Queue::new(Backoff::OBJECT, 10_000, suspects), now: Instant::now() };
    for name in ["bad", "worse", "a", "b"] {
        assert_eq!(bench.offer(name, "1", 1), FIRST);
    }
    assert_eq!(bench.start().as_deref(), Some("a"));
    assert_eq!(bench.start().as_deref(), Some("b"));
    assert_eq!(bench.start().as_deref(), Some("bad"));
    assert_eq!(bench.start(), None, "of two in hand nobody could tell which it was");
    bench.settle("bad", &[]);
    assert_eq!(bench.start().as_deref(), Some("worse"));
    bench.fail("worse", &[]);
    // After its success the key is a normal one again.
    assert_eq!(bench.offer("bad", "2", 2), FIRST);
    assert_eq!(bench.offer("worse", "2", 2), FIRST);
    assert_eq!(bench.start().as_deref(), Some("bad"));
    assert_eq!(bench.start().as_deref(), Some("worse"));
    bench.fail("worse", &[]);
    bench.offer("worse", "3", 3);
    let before = (0..2 * SUSPECT_TURN).position(|number| {
        bench.offer(&format!("key-{number}"), "1", number);
        bench.start().as_deref() == Some("worse")
    });
    assert!(before.is_some(), "it starves");
}
