// The settings of a node, and which of them differ from the defaults.

import { get, type KindInfo, type NodeList, type Settings } from "../api";
import type { Page } from "../page";
import { reasonOf } from "../ui/dialog";
import { fill, h } from "../ui/dom";
import { counted, date, span } from "../ui/format";
import { card, facts, heading, loading, table } from "../ui/parts";

export const settings: Page = (root, _, shared) => {
  const which = h("select", { "aria-label": "Node", hidden: true, onchange: () => void look() });
  const node = h("div", null, loading());
  const kinds = h("div");
  const limits = h("div");
  const only = h("input", { type: "checkbox", onchange: () => showLimits() });
  const search = h("input", {
    type: "search",
    placeholder: "Name of a limit",
    "aria-label": "Search limits",
    oninput: () => showLimits(),
  });
  let all: Settings["limits"] = [];
  const showLimits = (): void => {
    const shown = all.filter(
      (each) => each.name.includes(search.value.trim()) && !(only.checked && each.value === each.default),
    );
    fill(
      limits,
      table(
        "Limits",
        ["Limit", "Value", "Default"],
        shown.map((each) => [
          h("code", null, each.name),
          each.value === each.default ? value(each.value) : h("b", { class: "changed" }, value(each.value)),
          h("span", { class: "faint" }, value(each.default)),
        ]),
      ),
      shown.length === 0 && h("p", { class: "faint" }, "No matching limits."),
    );
  };
  root.append(
    heading("Settings", which),
    card("Node", node),
    card("Kinds of rooms", kinds),
    card(
      "Limits",
      h("div", { class: "filters" }, search, h("label", { class: "check" }, only, "Only changed limits")),
      limits,
    ),
  );
  const offer = async (): Promise<void> => {
    const { nodes } = await get<NodeList>("/v1/nodes");
    const alive = nodes.filter((each) => each.state === "alive");
    fill(which, ...alive.map((each) => h("option", { value: each.life, selected: each.is_self }, each.name)));
    which.hidden = false;
  };
  const look = async (): Promise<void> => {
    try {
      const [told, offered] = await Promise.all([
        get<Settings>("/v1/settings", { node: which.value }),
        get<{ kinds: KindInfo[] }>("/v1/kinds"),
      ]);
      all = told.limits;
      fill(node, drawNode(told));
      fill(kinds, ...offered.kinds.map(drawKind));
      showLimits();
    } catch (error) {
      fill(node, h("p", { class: "problem" }, reasonOf(error)));
    }
  };
  void look();
  if (shared.isCluster) {
    // The settings of this node are useful without the list too.
    offer().catch(() => {});
  }
  return () => {};
};

function drawNode(told: Settings) {
  return facts(
    ["Version", told.version],
    ["Started", `${date(told.started_at)} (${span(Date.now() / 1000 - told.started_at)} ago)`],
    [
      "Clients connect to",
      h("div", { class: "stack" }, ...Object.values(told.urls).map((url) => h("code", null, url))),
    ],
    ["Allowed origins", told.origins.join(", ") || "all"],
    ["Authentication", told.auth.join(", ")],
    ["Store", told.store || "none: rooms are lost when the process ends"],
    ["Grace without a seat", span(told.grace_s)],
    [
      "Too many sessions of a player",
      told.too_many_sessions === "replace" ? "the oldest ends" : "the new one is rejected",
    ],
  );
}

function drawKind(kind: KindInfo) {
  const settings = Object.entries(kind.settings).map(([name, each]) => [
    h("code", null, name),
    value(each as number | string),
  ]);
  const messages = kind.messages.map((each) =>
    h("li", null, h("code", null, each.type), each.role !== "" && ` needs the role ${each.role}`),
  );
  return h(
    "details",
    { class: "kind" },
    h(
      "summary",
      null,
      h("b", null, kind.kind),
      h("span", { class: "faint" }, ` ${counted(kind.messages.length, "message")}`),
    ),
    h(
      "div",
      { class: "columns" },
      table(`Settings of ${kind.kind}`, ["Setting", "Value"], settings),
      h("div", null, h("h3", null, "Players may send"), h("ul", null, ...messages)),
    ),
  );
}

function value(of: number | string | boolean): string {
  return typeof of === "number" ? of.toLocaleString("en", { maximumFractionDigits: 6 }) : of === "" ? "–" : String(of);
}
