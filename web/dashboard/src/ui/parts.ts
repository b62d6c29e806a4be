// The components that all pages use.

import { type Child, h } from "./dom";

// One colour for each meaning, for all kinds of states.
const TONES: Record<string, string> = {
  connected: "good",
  alive: "good",
  suspect: "warn",
  draining: "warn",
  drained: "info",
  dead: "bad",
  left: "quiet",
  taken: "good",
  active: "good",
  fulfilled: "good",
  resumed: "good",
  playing: "info",
  preconnect: "info",
  pending: "info",
  creating: "info",
  reserved: "info",
  lobby: "quiet",
  disconnected: "warn",
  held: "warn",
  ending: "warn",
  released: "warn",
  resynced: "warn",
  locked: "warn",
  warned: "warn",
  dropped: "warn",
  refused: "warn",
  closed: "bad",
  cancelled: "quiet",
  ready: "good",
  "not ready": "warn",
  unhealthy: "bad",
  "no answer": "bad",
  ended: "bad",
  failed: "bad",
  timed_out: "bad",
  reset: "bad",
};
const WORDS: Record<string, string> = { timed_out: "timed out" };

/** A state, in its colour. */
export function badge(state: string): HTMLElement {
  return h("span", { class: `badge ${TONES[state] ?? "quiet"}` }, WORDS[state] ?? state);
}

export function heading(title: Child, ...actions: Child[]): HTMLElement {
  return h("header", { class: "heading" }, h("h1", null, title), h("div", { class: "buttons" }, ...actions));
}

export function card(title: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "card" }, title !== "" && h("h2", null, title), ...children);
}

/** Names and values. */
export function facts(...pairs: [string, Child][]): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    ...pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/** An empty state: what is missing, and what to do. */
export function nothing(title: string, ...hint: Child[]): HTMLElement {
  return h("div", { class: "nothing" }, h("strong", null, title), h("p", null, ...hint));
}

/** Which nodes of the cluster did not answer, if any. */
export function missingNodes(names: string[]): HTMLElement | false {
  const what =
    names.length > 1 ? "do not answer: their numbers are missing." : "does not answer: its numbers are missing.";
  return names.length > 0 && h("p", { class: "warning", role: "alert" }, `${names.join(", ")} ${what}`);
}

export function loading(): HTMLElement {
  return h("p", { class: "loading", role: "status" }, "Loading …");
}

export function id(text: string): HTMLElement {
  return h("code", { class: "id", title: text }, text);
}

export function link(to: string, text: Child): HTMLAnchorElement {
  return h("a", { href: to, "data-key": to }, text);
}

export function roomLink(room: string): Child {
  return room === "" ? "–" : link(`#/rooms/${encodeURIComponent(room)}`, id(room));
}

export function sessionLink(session: string): Child {
  return session === "" ? "–" : link(`#/sessions/${encodeURIComponent(session)}`, id(session));
}

export function playerLink(player: string, name = ""): Child {
  if (player.startsWith("agent:")) {
    // Every room may have a "bot": they are found by room and by session.
    return h("b", null, playerName(player, name));
  }
  return player === "" ? "–" : link(`#/players/${encodeURIComponent(player)}`, playerName(player, name));
}

/** What a player is called, with the id beside it: names prove nothing. Isolated: they may run from right to left. */
export function playerName(player: string, name: string): Child {
  return name === "" ? player : [h("bdi", null, name), " ", h("small", null, player)];
}

/** A column that narrow screens hide. */
export function wide(...children: Child[]): HTMLElement {
  return h("span", { class: "wide" }, ...children);
}

export function cell(...children: Child[]): HTMLElement {
  return h("span", null, ...children);
}

/** Labelled, because it can be scrolled with the keyboard, and screen readers announce the label. */
export function table(name: string, columns: string[], rows: Child[][]): HTMLElement {
  return h(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": name },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, ...columns.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", null, ...rows.map((cells) => h("tr", null, ...cells.map((each) => h("td", null, each))))),
    ),
  );
}

/** Debounce: call only after a pause in typing. */
export function whenTyped(input: HTMLInputElement, then: () => void): void {
  let timer = 0;
  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(then, 250);
  });
}
