//! Events: the first message, past events, and a whole reboot followed by its actor.

use std::time::Duration;

use talos_client::Error;
use talos_client::events::{Event, EventPayload, Events, Past};
use talos_client::machine::{ActorId, RebootMode};
use talos_proto::event::Payload;
use talos_proto::machine::machine_status_event::MachineStage;
use talos_proto::machine::sequence_event::Action;
use tokio::time::{Instant, timeout};

use crate::{SLOW, SOON, SPEED, TALOS_1_13, World, each_version};

each_version!(a_reboot, the_past);

/// Reads events up to and including the first that matches, or to the end.
async fn until(
    events: &mut Events,
    wanted: impl Fn(&Event) -> bool,
) -> (Vec<Event>, Option<Error>) {
    let mut seen = Vec::new();
    loop {
        match timeout(SOON, events.next()).await.expect("an event in time") {
            Ok(Some(event)) => {
                let done = wanted(&event);
                seen.push(event);
                if done {
                    return (seen, None);
                }
            }
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

fn known(event: &Event) -> &Payload {
    match &event.payload {
        EventPayload::Known(payload) => payload,
        EventPayload::Unknown { type_url } => panic!("{type_url}"),
    }
}

/// The start events of sequences, phases and tasks, in order.
fn beginnings(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| match known(event) {
        Payload::Sequence(it) if it.action() == Action::Start => {
            Some(format!("sequence {}", it.sequence))
        }
        Payload::Phase(it) if it.action == 0 => Some(format!("phase {}", it.phase)),
        Payload::Task(it) if it.action == 0 => Some(format!("task {}", it.task)),
        _ => None,
    };
    events.iter().filter_map(name).collect()
}

fn is_up(event: &Event) -> bool {
    matches!(
        known(event),
        Payload::MachineStatus(it) if it.stage() == MachineStage::Running
            && it.status.as_ref().is_some_and(|status| status.ready)
    )
}

async fn a_reboot(talos: &'static str) {
    let world = World::start("events", talos, 1, 1).await;
    // A worker, so that the endpoint stays up.
    let node = world.node("worker-1");
    let boot_id = node.boot_id().await.unwrap();
    let mut live = node.events(Past::None, None).await.unwrap();
    let actor = node.reboot(RebootMode::Default).await.unwrap();
    let (seen, broke) = until(&mut live, |_| false).await;
    assert!(broke.is_some(), "a node that shuts down ends its streams");
    let ours: Vec<Event> =
        seen.iter().filter(|event| event.actor.as_ref() == Some(&actor)).cloned().collect();
    let names = beginnings(&ours);
    assert_eq!(names[0], "sequence reboot");
    assert!(names.contains(&"phase stopServices".to_owned()), "{names:?}");
    assert!(names.contains(&"task stopAllServices".to_owned()), "{names:?}");
    assert!(
        seen.iter().any(|event| matches!(
            known(event),
            Payload::MachineStatus(it) if it.stage() == MachineStage::Rebooting
        )),
        "a change of the machine's stage is an event"
    );
    let mut ids: Vec<_> = seen.iter().map(|event| event.id.clone()).collect();
    assert!(ids.is_sorted() && !ids[0].is_empty());
    ids.dedup();
    assert_eq!(ids.len(), seen.len());

    // After the reboot only newer events are left.
    let give_up = Instant::now() + SOON;
    let mut again = loop {
        match node.events(Past::All, None).await {
            Ok(events) => break events,
            Err(error) => assert!(Instant::now() < give_up, "{error:?}"),
        }
    };
    let (seen, broke) = until(&mut again, is_up).await;
    assert_eq!(broke, None);
    let names = beginnings(&seen);
    assert!(names.contains(&"sequence boot".to_owned()), "{names:?}");
    assert!(!names.contains(&"sequence reboot".to_owned()), "{names:?}");
    assert!(seen.iter().all(|event| event.actor.is_none()));
    assert_ne!(node.boot_id().await.unwrap(), boot_id);
}

async fn the_past(talos: &'static str) {
    let world = World::start("past", talos, 1, 1).await;
    // Past events.
    for _ in 0..3 {
        world.inject("worker-1", "not-ready").await;
        world.clear("worker-1", "not-ready").await;
    }
    let node = world.node("worker-1");
    // The events up to `last`, or until no more arrive.
    let past = async |past: Past, last: Option<&String>| -> Vec<String> {
        let mut events = node.events(past, None).await.unwrap();
        let mut ids: Vec<String> = Vec::new();
        while ids.last() != last || last.is_none() {
            let wait = if last.is_some() { SOON } else { Duration::from_secs(3) };
            match timeout(wait, events.next()).await {
                Ok(event) => ids.push(event.unwrap().unwrap().id),
                Err(_) => break,
            }
        }
        ids
    };
    let all = past(Past::All, None).await;
    let last = all.last();
    assert!(all.len() >= 6, "{}", all.len());
    assert_eq!(past(Past::Last(2), last).await, all[all.len() - 2..]);
    let third = all.len() - 3;
    assert_eq!(past(Past::After(all[third].clone()), last).await, all[third + 1..]);
    assert_eq!(past(Past::Seconds(1_000_000), last).await, all);

    // Only the first message.
    let unknown = ActorId("00000000-0000-0000-0000-000000000000".to_owned());
    let mut silent = node.events(Past::None, None).await.unwrap();
    let mut of_unknown = node.events(Past::All, Some(&unknown)).await.unwrap();
    let silence = Duration::from_millis(200);
    assert!(timeout(silence, silent.next()).await.is_err());
    assert!(timeout(silence, of_unknown.next()).await.is_err());
}

#[tokio::test]
async fn one_actor_of_several() {
    let world = World::start("actors", TALOS_1_13, 1, 1).await;
    let node = world.node("worker-1");
    let mut live = node.events(Past::None, None).await.unwrap();
    world.speed(SLOW).await;
    let first = node.reboot(RebootMode::Default).await.unwrap();
    // Accepted without effect: another reboot is in progress.
    let second = node.reboot(RebootMode::Default).await.unwrap();
    assert_ne!(first, second);
    let mut filtered = node.events(Past::All, Some(&first)).await.unwrap();
    world.speed(SPEED).await;
    let (seen, _) = until(&mut filtered, |_| false).await;
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|event| event.actor.as_ref() == Some(&first)));
    let (all, _) = until(&mut live, |_| false).await;
    assert!(all.len() > seen.len());
    let locked = |event: &Event| match known(event) {
        Payload::Sequence(it) => it.error.as_ref().is_some_and(|error| error.code == 1),
        _ => false,
    };
    assert!(all.iter().any(locked), "{all:?}");
}
