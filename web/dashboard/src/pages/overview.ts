// The node, or all nodes of its cluster together, at a glance: live numbers, and the latest events.

import { askToBroadcast } from "../actions";
import type { NodeNumbers, Overview } from "../api";
import type { History, Sample } from "../numbers";
import type { Page } from "../page";
import { Chart } from "../ui/chart";
import { fill, h, part } from "../ui/dom";
import { eventList } from "../ui/events";
import { compact, count, counted, took, words } from "../ui/format";
import { badge, card, heading, link, loading, missingNodes, nothing, table } from "../ui/parts";

export const overview: Page = (root, _, shared) => {
  const numbers = h("div", { class: "numbers" }, loading());
  const health = h("div");
  const charts = [
    chart(
      "Players online",
      [
        ["players", "good", "players"],
        ["disconnected", "warn", "disconnected"],
      ],
      count,
    ),
    chart(
      "Traffic per second",
      [
        ["messages", "good", "applied"],
        ["in", "info", "received"],
        ["out", "violet", "sent"],
      ],
      compact,
    ),
    chart(
      "Round trip",
      [
        ["median", "info", "roundTrip"],
        ["95 %", "warn", "roundTrip95"],
      ],
      took,
    ),
    chart(
      "Drops and resumes per second",
      [
        ["drops", "bad", "drops"],
        ["resumes", "good", "resumes"],
      ],
      compact,
    ),
    chart(
      "Commit latency",
      [
        ["median", "violet", "commit"],
        ["99 %", "warn", "commit99"],
      ],
      took,
    ),
    chart("Event loop lag, 99 %", [["lag", "bad", "lag99"]], took),
  ];
  const kinds = (): string[] => Object.keys(shared.history.last?.rooms ?? {}).sort();
  const outcomes = h("div");
  const events = h("div");
  const nodes = h("section", { class: "card", hidden: !shared.isCluster });
  const scope = h("span", { class: "total" });
  root.append(
    heading(["Overview ", scope], h("button", { onclick: () => askToBroadcast(kinds()) }, "Message everybody")),
    health,
    numbers,
    nodes,
    h("div", { class: "charts" }, ...charts.map((each) => each.chart.element)),
    h("div", { class: "columns" }, card("Resumes by outcome", outcomes), card("Events", events)),
  );
  const showOutcomes = part(outcomes, drawOutcomes);
  const showEvents = eventList(events, "Joins, drops, resumes and more appear here as they happen.");
  const showHealth = part(health, drawHealth);
  const showNodes = part(nodes, drawNodes);
  const show = (look: Overview): void => {
    const { samples } = shared.history;
    const now = samples.at(-1);
    if (now === undefined) {
      return;
    }
    drawNumbers(numbers, look, now);
    showEvents(shared.events);
    showHealth([look.nodes.length > 0 ? look.nodes : [look.node], look.missing]);
    if (shared.isCluster) {
      const known = look.nodes.length;
      scope.textContent = `of ${counted(known, "node")}`;
      showNodes([look.nodes.map((each) => row(each, shared.history)), look.missing]);
    }
    showOutcomes([look.totals.resumed ?? 0, look.totals.resynced ?? 0, look.totals.reset ?? 0, look.drops]);
    const at = samples.map((each) => each.at);
    for (const each of charts) {
      each.chart.show(at, ...each.fields.map((name) => samples.map((sample) => sample[name])));
    }
  };
  const last = shared.history.last;
  if (last !== undefined) {
    show(last);
  }
  const stops = [shared.onOverview(show), ...charts.map((each) => () => each.chart.close())];
  return () => {
    for (const stop of stops) {
      stop();
    }
  };
};

type Field = Exclude<keyof Sample, "at">;

function chart(title: string, lines: [string, string, Field][], format: (value: number) => string) {
  return {
    chart: new Chart(
      title,
      lines.map(([name, colour]) => ({ name, colour })),
      format,
    ),
    fields: lines.map(([, , field]) => field),
  };
}

function drawNumbers(root: HTMLElement, look: Overview, now: Sample): void {
  const totals = (name: string): number => look.totals[name] ?? 0;
  const perSecond = (value: number | null): string => (value === null ? "–" : `${compact(value)}/s`);
  const kinds = Object.entries(look.rooms).filter(([, each]) => each > 0);
  const shown: [string, string, string][] = [
    ["Players online", count(look.players), `${count(now.disconnected)} disconnected`],
    ["Rooms", count(now.rooms), kinds.map(([kind, each]) => `${count(each)} ${kind}`).join(" · ") || "none yet"],
    ["Messages", perSecond(now.applied), `${compact(totals("messages_applied"))} applied in total`],
    ["Frames out", perSecond(now.sent), `${perSecond(now.received)} in`],
    ["Round trip", took(now.roundTrip), `95 %: ${took(now.roundTrip95)}`],
    ["Drops", count(totals("drops")), `${perSecond(now.drops)} now`],
    [
      "Resumes",
      count(totals("resumed") + totals("resynced") + totals("reset")),
      `${counted(totals("messages_replayed"), "message")} sent again`,
    ],
    ["Commit, 99 %", took(now.commit99), now.commit === null ? "no recent commits" : `median ${took(now.commit)}`],
  ];
  if (root.childElementCount !== shown.length) {
    const card = ([name]: [string, string, string]) =>
      h("div", { class: "card number" }, h("h2", null, name), h("strong", null, ""), h("small", null, ""));
    fill(root, ...shown.map(card));
  }
  for (const [index, [, value, about]] of shown.entries()) {
    const [, strong, small] = root.children[index]?.children ?? [];
    if (strong !== undefined && small !== undefined) {
      strong.textContent = value;
      small.textContent = about;
    }
  }
}

interface Health {
  name: string;
  is_ready: boolean;
  is_healthy: boolean;
  reasons: string[];
}

function drawHealth([nodes, missing]: [Health[], string[]]) {
  const unwell = nodes.filter((each) => !(each.is_ready && each.is_healthy));
  return [
    missingNodes(missing),
    ...unwell.map(({ name, is_healthy, reasons }) => {
      const which = nodes.length > 1 ? `The node ${name}` : "This node";
      const what = is_healthy ? "accepts no new rooms" : "is unhealthy";
      return h(
        "p",
        { class: "warning", role: "alert" },
        `${which} ${what}: ${reasons.join("; ") || "no reason given"}.`,
      );
    }),
  ];
}

type Row = [string, string, number, number, number, string, string];

function row(node: NodeNumbers, history: History): Row {
  const rate = (...names: string[]): string => {
    const value = history.rateOf(node, ...names);
    return value === null ? "–" : `${compact(value)}/s`;
  };
  const state = !node.is_healthy ? "unhealthy" : node.is_ready ? "ready" : "not ready";
  const { connected = 0, disconnected = 0 } = node.sessions;
  return [node.name, state, node.rooms, connected, disconnected, rate("messages_applied"), rate("drops")];
}

function drawNodes([rows, missing]: [Row[], string[]]) {
  return [
    h("h2", null, link("#/nodes", "Nodes")),
    table(
      "Nodes",
      ["Node", "State", "Rooms", "Connected", "Disconnected", "Messages", "Drops"],
      [
        ...rows.map(([name, state, rooms, connected, disconnected, messages, drops]) => [
          h("b", null, name),
          badge(state),
          count(rooms),
          count(connected),
          count(disconnected),
          messages,
          drops,
        ]),
        ...missing.map((name) => [h("b", null, name), badge("no answer"), "–", "–", "–", "–", "–"]),
      ],
    ),
  ];
}

function drawOutcomes([resumed, resynced, reset, drops]: [number, number, number, Record<string, number>]) {
  const all = resumed + resynced + reset;
  if (all === 0 && Object.keys(drops).length === 0) {
    return nothing("No drops yet.", "When a connection breaks, the outcome of its resume appears here.");
  }
  const row = (name: string, value: number, about: string) => {
    const meter = h("meter", { min: 0, max: Math.max(1, all), value, class: name, "aria-label": name });
    return h("div", { class: "outcome" }, badge(name), meter, h("b", null, count(value)), h("small", null, about));
  };
  return [
    row("resumed", resumed, "with all missed messages"),
    row("resynced", resynced, "with the current state: too many messages were missed"),
    row("reset", reset, "to a new session"),
    h("h3", null, "Why connections dropped"),
    ...Object.entries(drops)
      .sort(([, one], [, other]) => other - one)
      .map(([reason, times]) =>
        h("div", { class: "pair" }, h("span", null, words(reason)), h("b", null, count(times))),
      ),
  ];
}
