// Keeps the page up to date. Without this script the page is complete, and reloads every 30 seconds.
"use strict";
(() => {
  const maxSilence = 40000; // the server sends an event every 15 seconds
  const retryInterval = 5000;
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  const moments = new Intl.DateTimeFormat(undefined, {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  });
  let source, lastEvent = Date.now(), disconnected = false;

  // fromNow returns the distance of an instant, in the largest unit in which it is at least one.
  function fromNow(at) {
    const seconds = Math.round((at - Date.now()) / 1000);
    for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
      if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
    }
    return seconds > 0 ? "in less than a minute" : "less than a minute ago";
  }

  // localizeTimes shows times in the time zone and language of the browser.
  function localizeTimes(root) {
    for (const element of root.querySelectorAll("time[data-as]")) {
      if (!element.dateTime) continue;
      const at = new Date(element.dateTime);
      const near = element.dataset.as !== "moment";
      const { coming = "", past = "" } = element.dataset; // the verbs before and after that time
      const text = near ? `${at > Date.now() ? coming : past} ${fromNow(at)}`.trim() : moments.format(at);
      if (element.textContent !== text) element.textContent = text;
      if (near) element.title = moments.format(at);
    }
  }

  // morph makes one element equal to another. It does not touch equal parts, so that the focused element keeps the focus.
  function morph(from, to) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(to);
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    morphChildren(from, to);
  }

  const keyOf = (node) => node.dataset?.key;

  // morphChildren matches children with a key by their key, and the others by position. It does not move the focused child, which would lose the
  // focus: it moves the others past it.
  function morphChildren(from, to) {
    const next = [...to.childNodes], wanted = new Set(next.map(keyOf)), had = new Map();
    for (const child of [...from.children]) {
      const key = keyOf(child);
      if (key && !wanted.has(key)) child.remove();
      else if (key) had.set(key, child);
    }
    let at = from.firstChild;
    for (const node of next) {
      const key = keyOf(node);
      const old = key ? had.get(key) : at && !keyOf(at) ? at : undefined;
      had.delete(key);
      if (!old) {
        from.insertBefore(node, at);
        continue;
      }
      if (old.contains(document.activeElement)) {
        while (at !== old) at = moveAfter(at, old);
      } else if (old !== at) from.insertBefore(old, at);
      at = old.nextSibling;
      morph(old, node);
    }
    while (at) {
      const rest = at;
      at = rest.nextSibling;
      rest.remove();
    }
  }

  // moveAfter moves an element behind another, and returns the element that followed it.
  function moveAfter(element, other) {
    const following = element.nextSibling;
    other.after(element);
    return following;
  }

  const announce = (text) => (document.getElementById("announcer").textContent = text);
  const announced = () => [...document.querySelectorAll("[data-announce]")].map((e) => e.textContent).join(" ");

  function show({ id, html, hash }) {
    const section = document.getElementById("s-" + id);
    if (!section) return;
    const before = announced();
    const next = new DOMParser().parseFromString("<div>" + html + "</div>", "text/html").body.firstElementChild;
    localizeTimes(next);
    morphChildren(section, next);
    section.dataset.hash = hash;
    const now = announced();
    if (now !== before) announce(now);
  }

  // setDisconnected shows or hides the note that the page may be out of date.
  function setDisconnected(is) {
    if (disconnected === is) return;
    disconnected = is;
    document.documentElement.toggleAttribute("data-cut", is);
    const note = document.getElementById("cut");
    note.hidden = !is;
    if (is) {
      const time = note.querySelector("time");
      time.dateTime = new Date(lastEvent).toISOString();
      localizeTimes(note);
    }
    announce(is ? note.textContent.trim() : "This page is up to date again.");
  }

  // connect subscribes to changes while the page is visible: a browser has only a few connections to each server.
  function connect() {
    if (source) source.close();
    if (document.visibilityState === "hidden") return;
    const have = [...document.querySelectorAll("[data-hash]")].map((e) => e.id.slice(2) + ":" + e.dataset.hash).join(",");
    source = new EventSource("/events?page=" + encodeURIComponent(document.body.dataset.page) + "&have=" + encodeURIComponent(have));
    const received = () => { lastEvent = Date.now(); setDisconnected(false); };
    source.addEventListener("open", received);
    source.addEventListener("beat", received);
    source.addEventListener("section", (event) => { received(); show(JSON.parse(event.data)); });
    source.addEventListener("reload", () => { source.close(); location.reload(); });
    source.addEventListener("title", (event) => { received(); document.title = JSON.parse(event.data); });
  }

  localizeTimes(document);
  connect();
  setInterval(() => localizeTimes(document), 10000);
  document.addEventListener("visibilitychange", connect);
  setInterval(() => {
    if (document.visibilityState === "hidden") return;
    if (source?.readyState === EventSource.OPEN && Date.now() - lastEvent < maxSilence) return;
    setDisconnected(Date.now() - lastEvent > retryInterval);
    connect();
  }, retryInterval);
})();
