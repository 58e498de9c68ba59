// Shows the content of a page anew when the server says that it has changed. Pages work without it.
(() => {
  "use strict";
  const live = document.getElementById("live");
  const connection = document.getElementById("connection");
  const topic = live?.dataset.topic;
  if (!topic || !window.EventSource) return;

  let isUpdating = false;
  let isStale = false;

  const say = (isAway) => { connection.hidden = !isAway; };

  // What has the focus, so that whoever works by keyboard stays where they are.
  const focused = () => {
    const element = document.activeElement;
    if (!live.contains(element)) return () => {};
    const links = (of) => Array.from(of.querySelectorAll("a, [tabindex], summary"));
    const href = element.getAttribute("href");
    const index = links(live).indexOf(element);
    return () => {
      const now = links(live);
      const same = now.find((link) => href && link.getAttribute("href") === href) ?? now[index];
      same?.focus({ preventScroll: true });
    };
  };

  const update = async () => {
    if (isUpdating || document.hidden) { isStale = true; return; }
    isUpdating = true;
    isStale = false;
    try {
      const response = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
      // The token has ended: the page that says so takes over.
      if (response.type === "opaqueredirect" || response.status === 401) { location.reload(); return; }
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = page.getElementById("live");
      if (next) {
        const open = Array.from(live.querySelectorAll("details")).map((details) => details.open);
        const restore = focused();
        live.replaceChildren(...next.childNodes);
        live.querySelectorAll("details").forEach((details, index) => { details.open = open[index] ?? false; });
        restore();
        const made = page.querySelector("footer");
        if (made) document.querySelector("footer")?.replaceWith(made);
      }
      say(false);
    } catch {
      say(true);
    } finally {
      isUpdating = false;
      if (isStale && !document.hidden) update();
    }
  };

  // The server tells at once what has changed since the page was made.
  const since = live.dataset.since ?? "";
  const source = new EventSource("/live?topic=" + encodeURIComponent(topic) + "&since=" + encodeURIComponent(since));
  let wasAway = false;
  source.addEventListener("changed", update);
  source.addEventListener("signed-out", () => location.reload());
  source.addEventListener("open", () => {
    if (wasAway) update();
    wasAway = false;
    say(false);
  });
  source.addEventListener("error", () => { wasAway = true; say(true); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && isStale) update(); });
})();
