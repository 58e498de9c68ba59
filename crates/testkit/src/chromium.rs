//! Browser without a window, for tests of pages.

use std::process::Command;

use crate::browser::BrowserFiles;
use crate::process::{StartError, answers_http, unused_port, with_free_ports};
use crate::program::Program;

/// Options that keep the browser from requests other than those of the page: updates, components,
/// services of its vendor.
const QUIET: [&str; 11] = [
    "--headless=new",
    // A browser on a pipe ends with its driver, even if the driver is killed.
    "--remote-debugging-pipe",
    // Tests may run as root, and in containers with little shared memory.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// Running ChromeDriver. Dropping it ends the driver and the browsers that it has started.
#[derive(Debug)]
pub struct Chromium {
    driver: Program,
    port: u16,
    files: BrowserFiles,
}

impl Chromium {
    /// Starts the driver and waits until it answers.
    ///
    /// # Errors
    /// The driver does not start.
    pub async fn start(files: BrowserFiles) -> Result<Self, StartError> {
        with_free_ports(async || {
            let port = unused_port().map_err(|error| StartError::prepare("chromedriver")(error.into()))?;
            let mut command = Command::new(&files.driver);
            command.arg(format!("--port={port}")).arg("--allowed-ips=127.0.0.1");
            let driver = Program::start("chromedriver", &command)?;
            driver.wait_until(async || answers_http(port, "/status")).await?;
            Ok(Self { driver, port, files: files.clone() })
        })
        .await
    }

    /// Returns the address of ChromeDriver's WebDriver interface.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the capabilities for a new session: a browser with this name for its folder, whose
    /// network and console are logged.
    pub fn capabilities(&self, name: &str) -> serde_json::Map<String, serde_json::Value> {
        let folder = self.driver.folder().join(name);
        let mut arguments: Vec<String> = QUIET.iter().map(ToString::to_string).collect();
        arguments.push(format!("--user-data-dir={}", folder.display()));
        let mut capabilities = serde_json::Map::new();
        let options = serde_json::json!({"binary": self.files.browser, "args": arguments});
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        // The time limits allow for loaded machines.
        let limits = serde_json::json!({"script": 60_000, "pageLoad": 60_000});
        capabilities.insert("timeouts".to_owned(), limits);
        let logs = serde_json::json!({"browser": "ALL", "performance": "ALL"});
        capabilities.insert("goog:loggingPrefs".to_owned(), logs);
        capabilities
    }
}
