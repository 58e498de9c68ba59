//! Whether the bus answers, as readiness tells it.

use std::time::Duration;

use groundwork_bus::{Bus, BusError};
use groundwork_telemetry::{Condition, Telemetry};

/// Pause between two questions. With the five seconds that an answer may take, a server that is gone is noticed in time: a
/// service that cannot do its work is to say so within ten seconds.
const PAUSE: Duration = Duration::from_secs(2);
/// How often it is looked whether there is a connection again: a service is ready no later than it can work.
const LOOK: Duration = Duration::from_millis(100);

/// Adds the condition `bus`, which holds while the bus answers, until the end of the process. To be called once for a connection:
/// the index and the queues of a service have conditions of their own, but one that has nothing to do would not notice that
/// nothing can come.
pub fn spawn_bus_health_check(bus: &Bus, telemetry: &Telemetry) {
    let (bus, condition) = (bus.clone(), telemetry.health.condition("bus"));
    let end = telemetry.shutdown.token();
    telemetry.shutdown.spawn(async move { end.run_until_cancelled(tell(&bus, &condition)).await });
}

async fn tell(bus: &Bus, condition: &Condition) {
    let mut was_connected = false;
    loop {
        let is_connected = bus.is_connected();
        // The server has answered the login a moment ago; its next answer may stand behind all events that are read at the start.
        if is_connected && !was_connected {
            condition.ready();
        }
        was_connected = is_connected;
        match bus.check().await {
            Ok(()) => condition.ready(),
            Err(error) => condition.not_ready(problem(&error)),
        }
        if bus.is_connected() {
            tokio::time::sleep(PAUSE).await;
        } else {
            // Over when there is a connection, or the pause.
            let _ = tokio::time::timeout(PAUSE, connected(bus)).await;
        }
    }
}

async fn connected(bus: &Bus) {
    while !bus.is_connected() {
        tokio::time::sleep(LOOK).await;
    }
}

/// The same words for every way in which a server can be away: what changes from one attempt to the next is no news.
fn problem(error: &BusError) -> String {
    match error {
        BusError::Unavailable { server, .. } | BusError::Silent { server, .. } => {
            format!("NATS at {server} does not answer")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::NatsOptions;

    use super::*;

    #[tokio::test]
    async fn a_bus_in_this_process_always_answers() {
        let telemetry = Telemetry::silent("test");
        spawn_bus_health_check(&Bus::in_process(), &telemetry);
        tokio::time::timeout(Duration::from_secs(10), telemetry.health.until_ready()).await.unwrap();
        telemetry.shutdown.drain(Duration::from_secs(10)).await.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_named_without_its_password() {
        let telemetry = Telemetry::silent("test");
        // A port of its own that nobody listens on.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = NatsOptions::new(format!("nats://me:canary@127.0.0.1:{port}"));
        spawn_bus_health_check(&Bus::connect(options).await.unwrap(), &telemetry);
        let wanted = format!("bus: NATS at 127.0.0.1:{port} does not answer");
        tokio::time::timeout(Duration::from_secs(10), async {
            while telemetry.health.problems() != [wanted.as_str()] {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
    }
}
