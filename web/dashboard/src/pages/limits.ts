// Limits that were reached, the action taken, and the value of each.

import { get, type LimitHit, type Overview, type Settings } from "../api";
import type { Page } from "../page";
import { h, part } from "../ui/dom";
import { eventList } from "../ui/events";
import { count } from "../ui/format";
import { badge, card, heading, missingNodes, nothing, table } from "../ui/parts";

export const limits: Page = (root, _, shared) => {
  const hits = h("div");
  const missing = h("div");
  const events = h("div");
  root.append(
    heading("Limits hit", h("a", { href: "#/settings", class: "button" }, "All limits")),
    missing,
    h(
      "div",
      { class: "columns" },
      card(shared.isCluster ? "On all nodes, since their start" : "Since the start", hits),
      card("Live", events),
    ),
  );
  const values = new Map<string, number | string>();
  const show = part(hits, (all: (LimitHit & { value: string })[]) =>
    all.length === 0
      ? nothing(
          "No limit has been reached.",
          "When a client exceeds a limit, the limit and the action taken appear here.",
        )
      : table(
          "Limits reached",
          ["Limit", "Value", "Action", "Times"],
          [...all]
            .sort((one, other) => other.times - one.times)
            .map((each) => [
              h("code", null, each.limit),
              each.value,
              badge(each.action),
              h("b", null, count(each.times)),
            ]),
        ),
  );
  const showEvents = eventList(
    events,
    "Each time a limit is reached, it appears here, with the client that reached it.",
  );
  const showMissing = part(missing, missingNodes);
  const look = (overview: Overview): void => {
    showMissing(overview.missing);
    show(overview.limits.map((each) => ({ ...each, value: String(values.get(each.limit) ?? "–") })));
    showEvents(shared.events.filter((event) => event.type === "limit.exceeded"));
  };
  const know = (settings: Settings): void => {
    for (const each of settings.limits) {
      values.set(each.name, each.value);
    }
    if (shared.history.last !== undefined) {
      look(shared.history.last);
    }
  };
  // The table is useful without the values too.
  get<Settings>("/v1/settings").then(know, () => {});
  return shared.onOverview(look);
};
