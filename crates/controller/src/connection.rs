//! Readiness condition for the connection to the bus.

use std::time::Duration;

use groundwork_bus::{Bus, BusError};
use groundwork_telemetry::{Condition, Telemetry};

/// Pause between two checks. A service that cannot work must report that within ten seconds; this
/// pause plus the five seconds of a request's time limit stay below it.
const PAUSE: Duration = Duration::from_secs(2);
/// Interval at which the connection is checked while it is down, so that the service is ready as
/// soon as it can work.
const LOOK: Duration = Duration::from_millis(100);

/// Adds the condition `bus`, which is true while the bus answers, until the process ends. Call this
/// once for each connection. The index and the queues of a service have conditions of their own,
/// but an idle service would not notice through those that events can no longer arrive.
pub fn spawn_bus_health_check(bus: &Bus, telemetry: &Telemetry) {
    let (bus, condition) = (bus.clone(), telemetry.health.condition("bus"));
    let end = telemetry.shutdown.token();
    telemetry.shutdown.spawn(async move { end.run_until_cancelled(tell(&bus, &condition)).await });
}

async fn tell(bus: &Bus, condition: &Condition) {
    let mut was_connected = false;
    loop {
        let is_connected = bus.is_connected();
        // The server has just accepted the login. Its answer to `check` may queue behind all events
        // that are read at the start.
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
            // Returns when there is a connection, or when the pause is over.
            let _ = tokio::time::timeout(PAUSE, connected(bus)).await;
        }
    }
}

async fn connected(bus: &Bus) {
    while !bus.is_connected() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the same message for every way in which a server can be away, so that details that
/// change with each attempt are not reported as news.
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
        // A free port without a listener.
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
