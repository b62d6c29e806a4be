// Limits that were reached, what was done about it, and where each is set.

import { get, type LimitHit, type Overview, type Settings } from "../api";
import type { Page } from "../page";
import { h, part } from "../ui/dom";
import { eventList } from "../ui/events";
import { count } from "../ui/format";
import { badge, card, heading, nothing, table } from "../ui/parts";

export const limits: Page = (root, _, shared) => {
  const hits = h("div");
  const events = h("div");
  root.append(
    heading("Limits hit", h("a", { href: "#/settings", class: "button" }, "All limits")),
    h("div", { class: "columns" }, card("Since the start", hits), card("As they happen", events)),
  );
  const values = new Map<string, number | string>();
  const show = part(hits, (all: (LimitHit & { value: string })[]) =>
    all.length === 0
      ? nothing(
          "No limit was reached.",
          "When a client does too much of something, it shows here what, and what was done.",
        )
      : table(
          "Limits that were reached",
          ["Limit", "Set to", "What was done", "Times"],
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
  const showEvents = eventList(events, "Each time a limit is reached, it is told here, and who reached it.");
  const look = (overview: Overview): void => {
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
  // Without them the table is good enough.
  get<Settings>("/v1/settings").then(know, () => {});
  return shared.onOverview(look);
};
