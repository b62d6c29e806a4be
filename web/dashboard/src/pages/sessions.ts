// All sessions: thousands of them, with a filter.

import { get, type SessionInfo } from "../api";
import type { Page } from "../page";
import { h } from "../ui/dom";
import { count, milliseconds, span } from "../ui/format";
import { List, PAGE } from "../ui/list";
import { badge, cell, heading, nothing, playerName, whenTyped, wide } from "../ui/parts";

const STATES = ["", "connected", "disconnected", "preconnect"];
const STATE_NAMES: Record<string, string> = { "": "Any status", disconnected: "Disconnected" };

export const sessions: Page = (root, _, shared) => {
  const search = h("input", {
    type: "search",
    placeholder: "Session, player, name or room",
    "aria-label": "Search sessions",
  });
  const status = h(
    "select",
    { "aria-label": "Status", onchange: () => list.reset() },
    ...STATES.map((each) => h("option", { value: each }, STATE_NAMES[each] ?? each)),
  );
  const total = h("span", { class: "total" });
  const list = new List<SessionInfo>({
    label: "Sessions",
    columns: [
      "Player",
      "Status",
      "Session",
      "Room",
      "Round trip",
      "Drops",
      "Transport",
      "Age",
      ...(shared.isCluster ? ["Node"] : []),
    ],
    ...(shared.isCluster ? { layout: "sessions-of-nodes" } : {}),
    load: async (cursor) => {
      const query = { search: search.value.trim(), status: status.value, limit: PAGE, cursor };
      const page = await get<{ sessions: SessionInfo[]; cursor: string }>("/v1/sessions", query);
      return { items: page.sessions, cursor: page.cursor };
    },
    id: (each) => each.id,
    link: (each) => `#/sessions/${encodeURIComponent(each.id)}`,
    cells: (each) => [
      cell(h("b", null, playerName(each.player, each.name)), each.is_agent && [" ", badge("agent")]),
      cell(badge(each.status)),
      wide(h("code", null, each.id)),
      wide(h("code", null, each.room || "–")),
      cell(milliseconds(each.latency_ms)),
      wide(each.drops === 0 ? "–" : `${each.drops}`),
      wide(each.transport || "–"),
      wide(span(each.age_s)),
      ...(shared.isCluster ? [wide(each.node)] : []),
    ],
    empty: () =>
      search.value !== "" || status.value !== ""
        ? nothing("No matching sessions.", "Search for part of a session's, a player's or a room's id, or of a name.")
        : nothing(
            "There are no sessions.",
            "A session begins when a client connects. Try it in the ",
            h("a", { href: "#/playground" }, "playground"),
            ".",
          ),
  });
  whenTyped(search, () => list.reset());
  const showTotal = (): void => {
    total.textContent = `${count(shared.history.last?.node.sessions ?? 0)} ${shared.isCluster ? "on this node" : "in total"}`;
  };
  showTotal();
  root.append(heading(["Sessions ", total]), h("div", { class: "filters" }, search, status), list.element);
  const stop = shared.onOverview(showTotal);
  return () => {
    stop();
    list.close();
  };
};
