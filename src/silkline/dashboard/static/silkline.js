// Live refresh, local times, keyboard shortcuts, theme and chart tooltips. The pages also work without it.
"use strict";
(() => {
  const EVERY = 3000, PATIENCE = 30000, SHARE = 20;  // slow pages refresh less often: at most a twentieth of the time
  const SOON = 400;  // delay for content that is marked as not ready yet
  const root = document.documentElement, body = document.body, base = body.dataset.base || "";
  body.classList.add("scripted");

  // ── times: the server writes UTC; here they are shown in the time zone of the browser, with UTC in the title ──
  const two = (number) => String(number).padStart(2, "0");
  const clock = (seconds) => { const at = new Date(seconds * 1000); return `${two(at.getHours())}:${two(at.getMinutes())}`; };

  function showLocalTimes(part) {
    for (const time of part.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      time.textContent = `${day} ${clock(at / 1000)}:${two(at.getSeconds())}`;
    }
    for (const label of part.querySelectorAll("[data-clock]")) label.textContent = clock(label.dataset.clock);
  }
  showLocalTimes(document);

  // ── the live view ──
  const button = document.querySelector("[data-do=live]");
  const label = button.querySelector("span");
  let live = sessionStorage.getItem("silkline_live") !== "off", failures = 0, took = 0, timer = 0, asking = null;

  function inUse(old) {
    const active = document.activeElement;
    if (active && old.contains(active) && active.matches("input, select, textarea")) return true;
    if (old.querySelector("input:checked")) return true;  // rows are selected
    const chosen = getSelection();
    return !!chosen && !chosen.isCollapsed && old.contains(chosen.anchorNode);
  }

  function take(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      if (!next || next.innerHTML === old.dataset.was || inUse(old)) continue;
      old.dataset.was = next.innerHTML;
      for (const open of old.querySelectorAll("details[open][id]")) {
        const same = next.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      const at = here() && old.contains(here()) ? rows().indexOf(here()) : -1;
      old.replaceChildren(...next.childNodes);
      showLocalTimes(old);
      if (!("live" in next.dataset)) delete old.dataset.live;  // the content is complete
      if (at >= 0 && rows()[at]) rows()[at].classList.add("here");
    }
  }

  async function refresh() {
    asking = new AbortController();
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { "Silkline-Live": "1" }, signal: asking.signal, redirect: "error" });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (document.querySelector(".trouble-page")) { location.reload(); return; }
      take(text);
      failures = 0;
      took = performance.now() - began;
    } catch (error) {
      if (error.name === "AbortError") return;
      failures += 1;
    }
    tell();
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (live && !document.hidden && document.querySelector("[data-live], .trouble-page")) {
      const pause = document.querySelector("[data-soon]") ? SOON : Math.max(EVERY, took * SHARE);
      timer = setTimeout(refresh, Math.min(PATIENCE, pause * 2 ** Math.min(failures, 5)));
    }
  }

  function tell() {
    button.setAttribute("aria-pressed", String(live));
    button.classList.toggle("trouble-now", live && failures > 0);
    label.textContent = !live ? "Paused" : failures ? "Offline" : "Live";
  }

  function toggleLive() {
    live = !live;
    sessionStorage.setItem("silkline_live", live ? "on" : "off");
    if (!live && asking) asking.abort();
    tell();
    if (live) refresh(); else plan();
  }

  document.addEventListener("visibilitychange", () => { if (document.hidden) plan(); else if (live) refresh(); });
  tell();
  plan();

  // ── theme: system, light, dark ──
  function toggleTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const order = dark ? ["", "light", "dark"] : ["", "dark", "light"];
    const next = order[(order.indexOf(root.dataset.theme || "") + 1) % order.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    document.cookie = `silkline_theme=${next}; path=${base || "/"}; max-age=${next ? 31536000 : 0}; samesite=lax`;
  }

  const help = document.getElementById("help");
  const toggleHelp = () => (help.open ? help.close() : help.showModal());
  const does = { live: toggleLive, theme: toggleTheme, help: toggleHelp };
  document.addEventListener("click", (event) => {
    const what = event.target.closest("[data-do]");
    if (what) does[what.dataset.do]();
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of event.target.closest("table").querySelectorAll("td.pick input")) box.checked = event.target.checked;
  });
  for (const field of document.querySelectorAll("[data-submit]")) {
    field.addEventListener("change", () => field.form.requestSubmit());
  }

  // ── keys ──
  const rows = () => [...document.querySelectorAll(".rows tbody tr")];
  const here = () => document.querySelector("tr.here");
  let afterG = 0;

  function step(by) {
    const all = rows(), at = all.indexOf(here());
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    if (!next) return;
    here()?.classList.remove("here");
    next.classList.add("here");
    next.scrollIntoView({ block: "nearest" });
  }

  const keys = {
    "/": () => { const field = document.getElementById("search"); field.focus(); field.select(); },
    "?": toggleHelp,
    "p": toggleLive,
    "t": toggleTheme,
    "j": () => step(1),
    "k": () => step(-1),
    "g": () => { afterG = Date.now(); },
    "Enter": () => here()?.querySelector("a")?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const active = document.activeElement;
    if (active.matches("input:not([type=checkbox]), select, textarea")) {
      if (event.key === "Escape") active.blur();
      return;
    }
    if (event.key === "Enter" && active.matches("a, button, summary, label")) return;
    if (Date.now() - afterG < 1500) {
      afterG = 0;
      const goal = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (goal) { event.preventDefault(); goal.click(); return; }
    }
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // ── chart tooltip: the values of the time step under the pointer ──
  const tip = document.getElementById("tip"), mark = document.createElement("i");
  mark.className = "at";
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("[data-tips]");
    tip.hidden = !plot;
    if (!plot) { mark.remove(); return; }
    const steps = plot.dataset.tips.split("\n"), box = plot.getBoundingClientRect();
    const at = Math.round(((event.clientX - box.left) / box.width) * (steps.length - 1));
    const place = Math.max(0, Math.min(steps.length - 1, at));
    tip.textContent = steps[place].replace(/^\d\d:\d\d/, clock(+plot.dataset.start + place * plot.dataset.step));
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY - 34}px`;
    plot.parentElement.append(mark);
    mark.style.left = `${event.clientX - plot.parentElement.getBoundingClientRect().left}px`;
  });
})();
