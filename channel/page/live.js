"use strict";
// Keeps an open page as the server has it now. Without this script, the page is loaded by hand.
(() => {
  const content = document.getElementById("content");
  const state = document.getElementById("live");
  if (!content || !state || !content.dataset.events) return;
  const away = "Not live: kubectl kausality ui does not answer, or too many of its pages are open";

  // The element that has the focus, by what is the same on the next page.
  const focused = () => {
    const at = document.activeElement;
    if (!at || !content.contains(at)) return null;
    if (at.id) return "#" + CSS.escape(at.id);
    const href = at.getAttribute("href");
    return href ? 'a[href="' + CSS.escape(href) + '"]' : null;
  };

  let loading = false, again = false, last = content.innerHTML;
  const load = async (why) => {
    if (loading || document.hidden) { again = why; return; }
    loading = true;
    again = false;
    try {
      const answer = await fetch(location.href, { headers: { "Kausality-Live": "1" } });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const body = next.getElementById("content");
      if (!body || answer.status === 401) {
        disconnect();
        location.reload();
        return;
      }
      if (body.innerHTML !== last) {
        last = body.innerHTML;
        const focus = focused();
        content.replaceChildren(...body.childNodes);
        document.title = next.title;
        if (focus) content.querySelector(focus)?.focus({ preventScroll: true });
      }
      state.textContent = why === "change" ? "Live, updated " + new Date().toLocaleTimeString() : state.textContent || "Live";
    } catch {
      state.textContent = away;
    } finally {
      loading = false;
      if (again) setTimeout(load, 300, again);
    }
  };

  // A page that is not visible has no connection: browsers have few of them.
  let source = null;
  const connect = () => {
    source = new EventSource(content.dataset.events);
    source.addEventListener("open", () => { state.textContent = "Live"; });
    source.addEventListener("change", () => load("change"));
    source.addEventListener("beat", () => load("beat"));
    source.addEventListener("error", () => { state.textContent = away; });
  };
  const disconnect = () => {
    if (source) source.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => {
    disconnect();
    if (document.hidden) return;
    connect();
    load("beat");
  });
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", () => { if (!source && !document.hidden) connect(); });
  if (!document.hidden) connect();
})();
