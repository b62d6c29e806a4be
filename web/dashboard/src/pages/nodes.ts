// The nodes of the cluster: how they are, what they have, and draining them.

import { act, get, type MemberInfo, type NodeList, path } from "../api";
import type { Page } from "../page";
import { attempt, confirm, showProblem } from "../ui/dialog";
import { type Child, every, h, part } from "../ui/dom";
import { count, counted, date, span } from "../ui/format";
import { badge, card, heading, id, loading, nothing, table } from "../ui/parts";

const GONE = ["dead", "left"];

export const nodes: Page = (root) => {
  const place = h("span", { class: "total" });
  const shown = h("div", null, loading());
  root.append(heading(["Nodes ", place]), card("", shown));
  const show = part(shown, (list: NodeList) => draw(list, drain));
  const look = async (): Promise<void> => {
    try {
      const list = await get<NodeList>("/v1/nodes");
      place.textContent = list.cluster;
      show({ ...list, nodes: list.nodes.map(rounded) });
    } catch (error) {
      showProblem(shown, error);
    }
  };
  const drain = async (node: MemberInfo, isOn: boolean): Promise<void> => {
    const question = isOn
      ? {
          title: "Drain this node?",
          text: [
            h("b", null, node.name),
            " takes nothing new, and its durable rooms go on on other nodes: nobody drops. It goes on running until you",
            " stop it.",
          ],
          action: "Drain",
        }
      : {
          title: "End the drain?",
          text: [h("b", null, node.name), " takes rooms and players again. What it has handed over stays where it is."],
          action: "End drain",
        };
    if (await confirm(question)) {
      const done = isOn ? `${node.name} hands its rooms over.` : `${node.name} takes rooms again.`;
      await attempt(() => act(isOn ? "POST" : "DELETE", path`/v1/nodes/${node.life}/drain`), done);
      await look();
    }
  };
  return every(1, look);
};

/** Not drawn again for a fraction of a second. */
function rounded(node: MemberInfo): MemberInfo {
  const heard_s = node.heard_s < 1 ? 0 : Math.round(node.heard_s);
  return { ...node, heard_s, load: Math.round(100 * node.load) / 100, loop_age_s: 0 };
}

function draw({ cluster, nodes: all }: NodeList, drain: (node: MemberInfo, isOn: boolean) => void): Child {
  return [
    cluster === "" &&
      nothing(
        "This server is not a node of a cluster.",
        "Start it with --cluster to have its rooms go on on another node when it dies.",
      ),
    table(
      "Nodes",
      ["Node", "State", "Region", "Version", "Load", "Rooms", "Sessions", "Connections", "Started", "Heard", ""],
      all.map((node) => [
        h(
          "div",
          { class: "stack" },
          h("span", null, h("b", null, node.name), node.is_self && " (this one)"),
          id(node.life),
          node.address && h("span", { class: "faint" }, node.address),
        ),
        stateOf(node),
        node.region,
        node.version,
        `${Math.round(100 * node.load)} %`,
        node.rooms === 0
          ? "0"
          : h("a", { href: "#/rooms", "data-key": `rooms ${node.life}` }, counted(node.rooms, "room")),
        count(node.sessions),
        count(node.connections),
        node.started_at > 0 ? date(node.started_at) : "–",
        node.is_self || node.heard_s === 0 ? "now" : `${span(node.heard_s)} ago`,
        cluster !== "" &&
          !GONE.includes(node.state) &&
          h(
            "button",
            { class: "small", "data-key": `drain ${node.life}`, onclick: () => drain(node, !node.is_draining) },
            node.is_draining ? "End drain" : "Drain",
          ),
      ]),
    ),
  ];
}

function stateOf(node: MemberInfo): Child {
  const isUp = node.state === "alive";
  const draining = isUp && node.is_draining && badge(node.is_drained ? "drained" : "draining");
  const reasons = node.reasons.filter((each) => each !== "it is draining");
  return [
    draining || badge(node.state),
    isUp && reasons.length > 0 && h("small", { class: "problem" }, ` ${reasons.join("; ")}`),
  ];
}
