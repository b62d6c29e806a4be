// The frame around all pages: navigation, sign-in, the stream of overviews, and the notice when the server is gone.

import "./style/base.css";
import "./style/frame.css";
import "./style/pieces.css";
import "./style/list.css";
import "./style/pages.css";
import "./style/small.css";
import {
  type EventInfo,
  get,
  hasKey,
  type NodeInfo,
  type NodeList,
  type Overview,
  onMissing,
  onRefused,
  Problem,
  setKey,
} from "./api";
import { live } from "./live";
import { History } from "./numbers";
import type { Page, Shared } from "./page";
import { bans } from "./pages/bans";
import { limits } from "./pages/limits";
import { nodes } from "./pages/nodes";
import { overview } from "./pages/overview";
import { placements } from "./pages/placements";
import { player } from "./pages/player";
import { players } from "./pages/players";
import { playground } from "./pages/playground";
import { room } from "./pages/room";
import { rooms } from "./pages/rooms";
import { session } from "./pages/session";
import { sessions } from "./pages/sessions";
import { settings } from "./pages/settings";
import { signIn } from "./pages/sign_in";
import { placeOf } from "./place";
import { reasonOf } from "./ui/dialog";
import { fill, h } from "./ui/dom";
import { nothing } from "./ui/parts";
import { themeButton } from "./ui/theme";

// By path: the list page, and the page of one entry.
const PAGES: Record<string, [string, Page, Page?]> = {
  "": ["Overview", overview],
  nodes: ["Nodes", nodes],
  sessions: ["Sessions", sessions, session],
  rooms: ["Rooms", rooms, room],
  players: ["Players", players, player],
  placements: ["Placements", placements],
  limits: ["Limits hit", limits],
  bans: ["Bans", bans],
  settings: ["Settings", settings],
  playground: ["Playground", playground],
};

/** Enough for what pages show, even during a storm. */
const EVENTS_MAX = 500;

const view = h("main", { id: "view", tabindex: -1 });
const LOST = "Connection to the server lost, retrying …";
const lost = h("div", { class: "lost", role: "alert", hidden: true }, LOST);
const silent = h("div", { class: "lost", role: "alert", hidden: true });
const where = h("span", { class: "where" });
const account = h("div", { class: "account" });
const nav = h("nav", { id: "nav", "aria-label": "Pages" });
const menu = h(
  "button",
  { class: "menu", "aria-controls": "nav", "aria-expanded": "false", onclick: () => toggleMenu() },
  "Menu",
);

let close: () => void = () => {};
let stopLive: () => void = () => {};
let history = new History();
let events: EventInfo[] = [];
const listeners = new Set<(overview: Overview) => void>();
const shared: Shared = {
  isCluster: false,
  get history() {
    return history;
  },
  get events() {
    return events;
  },
  onOverview(then) {
    listeners.add(then);
    return () => listeners.delete(then);
  },
};

function skip(event: Event): void {
  event.preventDefault();
  view.focus();
}

function toggleMenu(isOpen = menu.getAttribute("aria-expanded") === "false"): void {
  menu.setAttribute("aria-expanded", String(isOpen));
  nav.classList.toggle("open", isOpen);
}

function show(): void {
  const { name, parameter, page } = placeOf(location.hash, PAGES);
  const [title, list, one] = page ?? ["Page not found", missing];
  close();
  close = () => {};
  silent.hidden = true;
  fill(view);
  toggleMenu(false);
  document.title = `${parameter || title} · Holdfast`;
  for (const each of nav.querySelectorAll("a")) {
    const isHere = each.getAttribute("href") === `#/${name}`;
    isHere ? each.setAttribute("aria-current", "page") : each.removeAttribute("aria-current");
  }
  try {
    close = (parameter !== "" && one !== undefined ? one : list)(view, parameter, shared);
  } catch (error) {
    // An id that cannot be requested.
    fill(view, nothing(reasonOf(error), h("a", { href: "#/" }, "Back to the overview")));
  }
  window.scrollTo(0, 0);
}

const missing: Page = (root) => {
  root.append(nothing("Page not found.", h("a", { href: "#/" }, "Back to the overview")));
  return () => {};
};

function frame(): void {
  const links = Object.entries(PAGES).map(([name, [title]]) =>
    h("a", { href: `#/${name}`, class: `nav-${name}` }, title),
  );
  fill(
    nav,
    ...links,
    h("div", { class: "nav-foot" }, h("a", { href: "/docs" }, "API documentation"), themeButton(), account),
  );
  const brand = h("a", { href: "#/", class: "brand" }, h("span", { class: "mark", "aria-hidden": "true" }), "Holdfast");
  fill(
    document.body,
    h("a", { class: "skip", href: "#view", onclick: skip }, "Skip to content"),
    h(
      "div",
      { class: "frame" },
      h("header", { class: "top" }, brand, where, menu),
      nav,
      h("div", { class: "body" }, lost, silent, view),
    ),
  );
  fill(
    account,
    hasKey()
      ? h("button", { onclick: () => signOut() }, "Sign out")
      : h("small", null, "No API key is set: only this machine has access."),
  );
}

function signOut(): void {
  setKey("");
  void start();
}

function showSignIn(problem = ""): void {
  stop();
  document.title = "Sign in · Holdfast";
  fill(
    document.body,
    signIn(problem, () => void start()),
  );
  document.body.querySelector("input")?.focus();
}

function stop(): void {
  close();
  close = () => {};
  stopLive();
  stopLive = () => {};
  removeEventListener("hashchange", show);
}

async function start(): Promise<void> {
  stop();
  let node: NodeInfo;
  try {
    node = await get<NodeInfo>("/v1/node");
    shared.isCluster = (await get<NodeList>("/v1/nodes")).cluster !== "";
  } catch (error) {
    if (error instanceof Problem && error.status === 401) {
      // The sign-in page is shown already.
      return;
    }
    fill(document.body, h("div", { class: "lost" }, `${error instanceof Problem ? error.message : error} Retrying …`));
    setTimeout(() => void start(), 2000);
    return;
  }
  frame();
  where.textContent = `${node.name} · ${node.region}`;
  history = new History();
  events = [];
  stopLive = live("/v1/overview/live", {
    event: (event) => {
      if (event.type !== "overview") {
        events.push(event);
        events.splice(0, events.length - EVENTS_MAX);
        return;
      }
      const look = event.body as unknown as Overview;
      history.add(look);
      for (const each of listeners) {
        each(look);
      }
    },
    state: (isUp, why) => {
      lost.hidden = isUp;
      lost.textContent = why === undefined ? LOST : `${reasonOf(why)}: retrying …`;
    },
    over: (problem) => {
      lost.hidden = false;
      lost.textContent = reasonOf(problem);
    },
  });
  addEventListener("hashchange", show);
  show();
}

onMissing((names) => {
  silent.hidden = names.length === 0;
  silent.textContent = `${names.join(", ")} did not answer: what is there is missing, or may have changed.`;
});
onRefused(() => {
  const had = hasKey();
  setKey("");
  showSignIn(had ? "This API key is not valid." : "");
});
void start();
