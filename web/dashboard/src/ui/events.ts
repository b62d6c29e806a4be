// The latest events of all nodes, redrawn with every overview.

import type { EventInfo } from "../api";
import { h, part } from "./dom";
import { clock, span, words } from "./format";
import { badge, nothing, playerLink, roomLink, sessionLink } from "./parts";

const SHOWN_MAX = 40;

/** Draws the newest of these events into an element. */
export function eventList(element: HTMLElement, empty: string): (events: EventInfo[]) => void {
  const draw = part(element, (events: EventInfo[]) =>
    events.length === 0
      ? nothing("No events yet.", empty)
      : h("ol", { class: "events", tabindex: 0, "aria-label": "Latest events" }, ...events.map(drawEvent)),
  );
  return (events) => draw(events.slice(-SHOWN_MAX).reverse());
}

function drawEvent(event: EventInfo): HTMLElement {
  const { player, player_name, session, room, reason, kind, away_s, limit, action, address, node, why } =
    event.body as Record<string, string>;
  const who = player
    ? playerLink(player, player_name)
    : session
      ? sessionLink(session)
      : room
        ? roomLink(room)
        : address || node;
  return h(
    "li",
    { class: event.node !== "" && "of-node" },
    h("time", null, clock(event.at)),
    h("span", { class: "event-type" }, limit ? h("code", null, limit) : words(event.type)),
    h(
      "span",
      { class: "event-who" },
      action && [badge(action), " "],
      who,
      kind && ` ${kind}`,
      reason && reason !== "dropped" && ` ${words(reason)}`,
      away_s !== undefined && ` after ${span(Number(away_s))}`,
      // A node that is missing, or whose events are lost.
      why && !who && ` ${why}`,
    ),
    event.node !== "" && h("small", { class: "event-node", title: "The node that tells of it" }, event.node),
  );
}
