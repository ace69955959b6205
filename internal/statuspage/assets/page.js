// Keeps the page as things are. Without it the page is complete, and loads itself anew every half minute.
"use strict";
(() => {
  const silence = 40000; // the server says something every 15 seconds
  const again = 5000;
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  let source, lastWord = Date.now(), cut = false;

  // fromNow says how far away an instant is, in the unit in which that is at least one.
  function fromNow(at) {
    const seconds = Math.round((at - Date.now()) / 1000);
    for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
      if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
    }
    return seconds > 0 ? "in less than a minute" : "less than a minute ago";
  }

  // readTimes puts times into the zone and the words of who looks at them.
  function readTimes(root) {
    for (const element of root.querySelectorAll("time[data-as]")) {
      if (!element.dateTime) continue;
      const at = new Date(element.dateTime);
      const near = element.dataset.as !== "moment";
      const { coming = "", past = "" } = element.dataset; // what it does then, and what it should have done
      const text = near ? `${at > Date.now() ? coming : past} ${fromNow(at)}`.trim() : moments.format(at);
      if (element.textContent !== text) element.textContent = text;
      if (near) element.title = moments.format(at);
    }
  }

  // morph makes one element like another and leaves alone what is so already: what has the focus keeps it.
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

  // morphChildren takes what has a key for what had it, wherever that stood, and the rest for what stands there. What has the focus is not moved, since
  // it would lose it: the others are moved past it.
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
        while (at !== old) at = pass(at, old);
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

  // pass moves an element past another and returns the one that comes then.
  function pass(element, other) {
    const following = element.nextSibling;
    other.after(element);
    return following;
  }

  const announce = (text) => (document.getElementById("announcer").textContent = text);
  const said = () => [...document.querySelectorAll("[data-announce]")].map((e) => e.textContent).join(" ");

  function show({ id, html, hash }) {
    const section = document.getElementById("s-" + id);
    if (!section) return;
    const before = said();
    const next = new DOMParser().parseFromString("<div>" + html + "</div>", "text/html").body.firstElementChild;
    readTimes(next);
    morphChildren(section, next);
    section.dataset.hash = hash;
    const now = said();
    if (now !== before) announce(now);
  }

  // unheard says that nothing comes from the server any more: what is shown must not pass for how things are.
  function unheard(is) {
    if (cut === is) return;
    cut = is;
    document.documentElement.toggleAttribute("data-cut", is);
    const note = document.getElementById("cut");
    note.hidden = !is;
    if (is) {
      const time = note.querySelector("time");
      time.dateTime = new Date(lastWord).toISOString();
      readTimes(note);
    }
    announce(is ? note.textContent.trim() : "This page is kept up to date again.");
  }

  // connect keeps the page up to date while somebody can see it: a browser has only few connections for all pages of a server.
  function connect() {
    if (source) source.close();
    if (document.visibilityState === "hidden") return;
    const have = [...document.querySelectorAll("[data-hash]")].map((e) => e.id.slice(2) + ":" + e.dataset.hash).join(",");
    source = new EventSource("/events?page=" + encodeURIComponent(document.body.dataset.page) + "&have=" + encodeURIComponent(have));
    const heard = () => { lastWord = Date.now(); unheard(false); };
    source.addEventListener("open", heard);
    source.addEventListener("beat", heard);
    source.addEventListener("section", (event) => { heard(); show(JSON.parse(event.data)); });
    source.addEventListener("reload", () => { source.close(); location.reload(); });
    source.addEventListener("title", (event) => { heard(); document.title = JSON.parse(event.data); });
  }

  readTimes(document);
  connect();
  setInterval(() => readTimes(document), 10000);
  document.addEventListener("visibilitychange", connect);
  setInterval(() => {
    if (document.visibilityState === "hidden") return;
    if (source?.readyState === EventSource.OPEN && Date.now() - lastWord < silence) return;
    unheard(Date.now() - lastWord > again);
    connect();
  }, again);
})();
