"use strict";
// Keeps an open page as the server has it now. Without this script, the page is loaded by hand.
(() => {
  const content = document.getElementById("content");
  const state = document.getElementById("live");
  const events = content && content.dataset.events;
  if (!events || !state) return;
  const away = "Not live: kubectl kausality ui does not answer, or too many of its pages are open";

  // The element that has the focus, by what is the same on the next page.
  const focused = () => {
    const at = document.activeElement;
    if (!at || !content.contains(at)) return null;
    if (at.id) return "#" + CSS.escape(at.id);
    const href = at.getAttribute("href");
    return href ? 'a[href="' + CSS.escape(href) + '"]' : null;
  };

  // Makes a node what another one is. What is the same is kept as it is; a link that leads elsewhere is another link.
  const become = (node, next) => {
    if (node.isEqualNode(next)) return;
    const same = node.nodeType === next.nodeType && node.nodeName === next.nodeName;
    if (!same || (node.getAttribute && ["href", "action", "id"].some((a) => node.getAttribute(a) !== next.getAttribute(a)))) {
      node.replaceWith(next);
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE) {
      node.data = next.data;
      return;
    }
    for (const a of [...node.attributes]) if (!next.hasAttribute(a.name)) node.removeAttribute(a.name);
    for (const a of next.attributes) node.setAttribute(a.name, a.value);
    const have = [...node.childNodes], want = [...next.childNodes];
    want.forEach((w, n) => (n < have.length ? become(have[n], w) : node.append(w)));
    have.slice(want.length).forEach((old) => old.remove());
  };

  // Nothing moves while the user is about to click, or selects text.
  let pressed = false, moved = 0;
  addEventListener("pointerdown", () => { pressed = true; });
  for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => { pressed = false; });
  for (const use of ["pointermove", "keydown"]) addEventListener(use, () => { moved = Date.now(); });
  const inUse = () => {
    const selected = getSelection();
    return pressed || Date.now() - moved < 500 || (selected && !selected.isCollapsed && content.contains(selected.anchorNode));
  };

  let loading = false, again = false, later = null, last = content.innerHTML;
  const load = async (why) => {
    if (document.hidden) return; // it is loaded once it is visible
    if (loading) { again = why; return; }
    if (inUse()) {
      later ??= setTimeout(() => { later = null; load(why); }, 250);
      return;
    }
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
        become(content, body);
        document.title = next.title;
        if (focus && !focused()) content.querySelector(focus)?.focus({ preventScroll: true });
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
    source = new EventSource(events);
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
