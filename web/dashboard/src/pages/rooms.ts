// All rooms, searched with the query language of games and backends.

import { get, type KindInfo, type RoomInfo } from "../api";
import type { Page } from "../page";
import { h } from "../ui/dom";
import { count, span } from "../ui/format";
import { List, PAGE } from "../ui/list";
import { badge, cell, heading, nothing, whenTyped, wide } from "../ui/parts";

const EXAMPLES = ["open_seats > 0", "players = 0", "phase = 'playing'", "is_locked = true"];

export const rooms: Page = (root, _, shared) => {
  const where = h("input", {
    type: "search",
    class: "code",
    placeholder: "players > 0 AND properties.map = 'dust'",
    "aria-label": "Where",
    spellcheck: "false",
    autocomplete: "off",
  });
  const kind = h(
    "select",
    { "aria-label": "Kind", onchange: () => list.reset() },
    h("option", { value: "" }, "Any kind"),
  );
  const examples = EXAMPLES.map((text) => h("button", { class: "chip", onclick: () => search(text) }, text));
  const total = h("span", { class: "total" });
  let hint = "";
  const list = new List<RoomInfo>({
    label: "Rooms",
    columns: ["Room", "Players", "Phase", "Kind", "Status", "Code", "Age", ...(shared.isCluster ? ["Node"] : [])],
    ...(shared.isCluster ? { layout: "rooms-of-nodes" } : {}),
    load: async (cursor) => {
      const query = { where: where.value.trim(), kind: kind.value, limit: PAGE, cursor };
      const page = await get<{ rooms: RoomInfo[]; cursor: string; hint?: string }>("/v1/rooms", query);
      hint = page.hint ?? "";
      return { items: page.rooms, cursor: page.cursor };
    },
    id: (each) => each.id,
    link: (each) => `#/rooms/${encodeURIComponent(each.id)}`,
    cells: (each) => [
      cell(h("b", null, each.name || each.id)),
      cell(`${each.players} / ${each.max_players}`),
      cell(badge(each.is_locked ? "locked" : each.phase)),
      wide(each.kind),
      wide(badge(each.status)),
      wide(h("code", null, each.code || "–")),
      wide(span(Date.now() / 1000 - each.created_at)),
      ...(shared.isCluster ? [wide(each.node)] : []),
    ],
    empty: () =>
      where.value !== "" || kind.value !== ""
        ? nothing(
            "No matching rooms.",
            hint || "Fields are players, open_seats, kind, phase, name, is_locked and properties.…",
          )
        : nothing(
            "There are no rooms.",
            "Create one in the ",
            h("a", { href: "#/playground" }, "playground"),
            ", or let a client join.",
          ),
  });
  const search = (text: string): void => {
    where.value = text;
    list.reset();
  };
  whenTyped(where, () => list.reset());
  const showTotal = (): void => {
    total.textContent = `${count(shared.history.last?.node.rooms ?? 0)} ${shared.isCluster ? "on this node" : "in total"}`;
  };
  showTotal();
  const know = (told: { kinds: KindInfo[] }): void =>
    kind.append(...told.kinds.map((each) => h("option", { value: each.kind }, each.kind)));
  // The page works without the kinds too.
  get<{ kinds: KindInfo[] }>("/v1/kinds").then(know, () => {});
  root.append(
    heading(["Rooms ", total]),
    h("div", { class: "filters" }, where, kind),
    h("div", { class: "chips" }, ...examples),
    list.element,
  );
  const stop = shared.onOverview(showTotal);
  return () => {
    stop();
    list.close();
  };
};
