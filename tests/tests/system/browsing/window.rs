//! Window of a real browser, driven through WebDriver and ChromeDriver's extensions.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use groundwork_testkit::{BrowserFiles, Chromium, find_browser, skipped};
use groundwork_tests::wait_for;
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::support::PATIENCE;

/// Script that runs axe-core and returns its serious and critical violations: element, rule and
/// message.
const AXE: &str = "const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
  (result) => done(result.violations
    .filter((found) => found.impact === 'serious' || found.impact === 'critical')
    .flatMap((found) => found.nodes.map((node) => `${node.target}: ${found.id}: ${node.failureSummary}`))),
  (error) => done([String(error)]));";

/// Browser that can open windows.
pub(super) struct Browser {
    chromium: Chromium,
    axe: String,
}

/// Window with cookies of its own. The caller must close it.
pub(super) struct Window {
    client: Client,
    origin: String,
    axe: String,
}

/// Command of ChromeDriver beyond the WebDriver standard.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts a browser. `None` if none is installed: then a note is printed.
    pub(super) async fn start() -> Result<Option<Self>> {
        let files: BrowserFiles = match find_browser() {
            Ok(files) => files,
            Err(error) => {
                skipped(&error.to_string());
                return Ok(None);
            }
        };
        let axe = std::fs::read_to_string(&files.axe)?;
        Ok(Some(Self { chromium: Chromium::start(files).await?, axe }))
    }

    /// Opens a window on the console at a port.
    pub(super) async fn open(&self, name: &str, port: u16) -> Result<Window> {
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(self.chromium.capabilities(name))
            .connect(&self.chromium.url())
            .await?;
        Ok(Window { client, origin: format!("http://127.0.0.1:{port}"), axe: self.axe.clone() })
    }

    /// Opens a window and signs in through the form.
    pub(super) async fn signed_in(&self, name: &str, port: u16, token: &str) -> Result<Window> {
        let window = self.open(name, port).await?;
        window.go("/").await?;
        window.write("#token", token).await?;
        window.press("\u{E007}").await?;
        window.until_shows("h1", "overview").await.context("signing in")?;
        Ok(window)
    }
}

impl Window {
    /// Closes the browser of this window.
    pub(super) async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }

    /// Opens a path of the console.
    pub(super) async fn go(&self, path: &str) -> Result<()> {
        Ok(self.client.goto(&format!("{}{path}", self.origin)).await?)
    }

    pub(super) async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Clicks the first element that matches a CSS selector.
    pub(super) async fn click(&self, selector: &str) -> Result<()> {
        let found = self.client.find(Locator::Css(selector)).await;
        Ok(found.with_context(|| selector.to_owned())?.click().await?)
    }

    pub(super) async fn write(&self, selector: &str, text: &str) -> Result<()> {
        Ok(self.client.find(Locator::Css(selector)).await?.send_keys(text).await?)
    }

    /// Presses a key on the focused element.
    pub(super) async fn press(&self, key: &str) -> Result<()> {
        Ok(self.client.active_element().await?.send_keys(key).await?)
    }

    /// Returns the number of elements that match a selector.
    pub(super) async fn count(&self, selector: &str) -> Result<usize> {
        Ok(self.client.find_all(Locator::Css(selector)).await?.len())
    }

    /// Returns the visible text of an element.
    pub(super) async fn text(&self, selector: &str) -> Result<String> {
        Ok(self.client.find(Locator::Css(selector)).await?.text().await?)
    }

    /// Waits until an element shows a text, in any case, without reloading the page.
    pub(super) async fn until_shows(&self, selector: &str, text: &str) -> Result<()> {
        let wanted = text.to_lowercase();
        wait_for(&format!("{selector} shows {text:?}"), PATIENCE, async || {
            let shown = self.text(selector).await.map_err(|error| error.to_string())?;
            if shown.to_lowercase().contains(&wanted) { Ok(()) } else { Err(shown) }
        })
        .await
    }

    /// Waits until a page shows a text. The page is reloaded each time, since the console may not
    /// have received the change yet.
    pub(super) async fn until_page_shows(&self, path: &str, text: &str) -> Result<()> {
        wait_for(&format!("{path} shows {text:?}"), PATIENCE, async || {
            self.go(path).await.map_err(|error| error.to_string())?;
            let shown = self.text("body").await.map_err(|error| error.to_string())?;
            if shown.contains(text) { Ok(()) } else { Err(shown) }
        })
        .await
    }

    /// Waits until the event stream of the current page is open.
    pub(super) async fn until_live(&self) -> Result<()> {
        wait_for("the page listens", PATIENCE, async || {
            let events = self.network().await.map_err(|error| error.to_string())?;
            let answered = events.iter().filter(|event| event["method"] == "Network.responseReceived");
            let mut urls = answered.filter_map(|event| event["params"]["response"]["url"].as_str());
            if urls.any(|url| url.contains("/live?")) {
                Ok(())
            } else {
                Err(format!("{} events of the network", events.len()))
            }
        })
        .await
    }

    /// Sets the display: width in pixels, and dark or light scheme.
    pub(super) async fn shown_as(&self, width: u32, is_dark: bool) -> Result<()> {
        let scheme = if is_dark { "dark" } else { "light" };
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await?;
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media).await
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Result<()> {
        self.extension("goog/cdp/execute", json!({"cmd": command, "params": parameters})).await?;
        Ok(())
    }

    async fn extension(&self, path: &'static str, body: Value) -> Result<Value> {
        Ok(self.client.issue_cmd(Extension { path, body }).await?)
    }

    /// Returns the problems of the current page: violations of accessibility rules, and content
    /// wider than the window.
    pub(super) async fn faults(&self) -> Result<Vec<String>> {
        self.run(&self.axe).await?;
        let found = self.client.execute_async(AXE, Vec::new()).await?;
        let mut faults: Vec<String> = serde_json::from_value(found)?;
        let wider = "const page = document.scrollingElement; return page.scrollWidth - document.documentElement.clientWidth;";
        let wider = self.run(wider).await?;
        if wider != 0 {
            faults.push(format!("the page is {wider} pixels wider than the window"));
        }
        Ok(faults)
    }

    /// Returns the browser's log messages since the last call, such as scripts, styles and requests
    /// that were blocked or failed.
    pub(super) async fn complaints(&self) -> Result<Vec<String>> {
        let log = self.extension("se/log", json!({"type": "browser"})).await?;
        let entries = log.as_array().cloned().unwrap_or_default();
        Ok(entries.iter().map(|entry| entry["message"].to_string()).collect())
    }

    /// Returns the addresses that the browser requested since the last call. There must be at least
    /// one.
    pub(super) async fn requests(&self) -> Result<Vec<String>> {
        let mut requests = Vec::new();
        for event in self.network().await? {
            if event["method"] == "Network.requestWillBeSent" {
                let url = event["params"]["request"]["url"].as_str().context("a URL")?;
                // Skip the browser's own start page, and the images that axe-core generates.
                if !url.starts_with("chrome:") && !url.starts_with("data:") {
                    requests.push(url.trim_start_matches(&self.origin).to_owned());
                }
            }
        }
        ensure!(!requests.is_empty(), "the browser has logged no request");
        Ok(requests)
    }

    /// Returns the network events of the browser since the last call.
    async fn network(&self) -> Result<Vec<Value>> {
        let log = self.extension("se/log", json!({"type": "performance"})).await?;
        let mut events = Vec::new();
        for entry in log.as_array().into_iter().flatten() {
            let mut told: Value = serde_json::from_str(entry["message"].as_str().unwrap_or_default())?;
            events.push(told["message"].take());
        }
        Ok(events)
    }

    /// Saves a picture of the window.
    pub(super) async fn picture(&self, file: &Path) -> Result<()> {
        let image = self.client.screenshot().await?;
        std::fs::write(file, image).with_context(|| file.display().to_string())
    }
}
