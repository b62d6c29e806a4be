// All players on the node.

import { get, type PlayerInfo } from "../api";
import type { Page } from "../page";
import { h } from "../ui/dom";
import { count, counted } from "../ui/format";
import { List, PAGE } from "../ui/list";
import { cell, heading, nothing, playerName, whenTyped, wide } from "../ui/parts";

export const players: Page = (root, _, shared) => {
  const search = h("input", {
    type: "search",
    placeholder: "Part of a player's id or name",
    "aria-label": "Search players",
  });
  const total = h("span", { class: "total" });
  const list = new List<PlayerInfo>({
    label: "Players",
    columns: ["Player", "Sessions", "Roles", "Rooms"],
    load: async (cursor) => {
      const query = { search: search.value.trim(), limit: PAGE, cursor };
      const page = await get<{ players: PlayerInfo[]; cursor: string }>("/v1/players", query);
      return { items: page.players, cursor: page.cursor };
    },
    id: (each) => each.id,
    link: (each) => `#/players/${encodeURIComponent(each.id)}`,
    cells: (each) => [
      cell(h("b", null, playerName(each.id, each.name))),
      cell(counted(each.sessions.length, "session")),
      wide(each.roles.join(", ") || "–"),
      wide(h("code", null, each.rooms.join(", ") || "–")),
    ],
    empty: () =>
      search.value === ""
        ? nothing("There are no players.", "Players with a session, a seat or a reserved seat appear here.")
        : nothing("No matching players.", "Search for part of the id, where case matters, or of the name."),
  });
  whenTyped(search, () => list.reset());
  const showTotal = (): void => {
    total.textContent = `${count(shared.history.last?.players ?? 0)} online`;
  };
  showTotal();
  root.append(heading(["Players ", total]), h("div", { class: "filters" }, search), list.element);
  const stop = shared.onOverview(showTotal);
  return () => {
    stop();
    list.close();
  };
};
