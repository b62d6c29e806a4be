/** The nodes of a cluster: which has the room, on which you are, and buttons to kill, drain and move. */

import { changeNode, type NodeChange, type NodeStatus, type NodesStatus, nodes } from "./harbor";
import { byId, tell } from "./panel";

const ASK_MS = 500;
const DRAINING = ["draining", "drained"];

/** The buttons of a row stay the same elements: one that is pressed must not be replaced meanwhile. */
interface Row {
  line: HTMLElement;
  state: HTMLElement;
  badges: HTMLElement;
  move: HTMLButtonElement;
  drain: HTMLButtonElement;
  kill: HTMLButtonElement;
  status: NodeStatus;
}

const rows = new Map<string, Row>();
let roomOn = "";

/** Show the nodes from now on; `session` is this page's, once it has one. */
export function watchNodes(link: string, session: () => string): void {
  byId("crash").hidden = true;
  byId("nodes-panel").hidden = false;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    if (isAsking) return;
    isAsking = true;
    try {
      show(await nodes(link, session()));
    } catch {
      // The notice over the sea says that the demo has ended.
      rows.clear();
      byId("nodes").replaceChildren();
    } finally {
      isAsking = false;
    }
  };
  void ask();
  setInterval(ask, ASK_MS);
}

function show(now: NodesStatus): void {
  for (const status of now.nodes) {
    const row = rows.get(status.name) ?? added(status);
    announce(row.status, status);
    row.status = status;
    const isUp = status.pid !== null;
    const isDraining = DRAINING.includes(status.state);
    row.line.dataset.state = status.state;
    text(row.state, status.state);
    text(row.drain, isDraining ? "End drain" : "Drain");
    row.drain.disabled = row.kill.disabled = !isUp;
    row.move.disabled = !isUp || isDraining || status.has_room;
    const badges = [
      status.has_room ? "room" : "",
      now.session_on === status.name ? "your session" : "",
      now.connected_to === status.name ? "your connection" : "",
    ].filter(Boolean);
    if (row.badges.dataset.of !== badges.join()) {
      row.badges.dataset.of = badges.join();
      row.badges.replaceChildren(...badges.map((badge) => element("span", badge)));
    }
  }
  const room = now.nodes.find((node) => node.has_room)?.name ?? "";
  if (roomOn && room && room !== roomOn) tell(`The room goes on on ${room}.`, "good");
  roomOn = room || roomOn;
}

function announce(before: NodeStatus, now: NodeStatus): void {
  if (before.state === now.state) return;
  if (now.state === "drained") tell(`${now.name} is drained: it has handed everything over.`);
  else if (before.pid === null && now.pid !== null) tell(`${now.name} is started again, as process ${now.pid}.`);
}

function added(status: NodeStatus): Row {
  const { name } = status;
  const row: Row = {
    line: document.createElement("li"),
    state: element("span", status.state),
    badges: document.createElement("span"),
    move: button("Move room here", () => act("move", { node: name }, `You moved the room to ${name}.`)),
    drain: button("Drain", () => {
      const isDraining = !DRAINING.includes(row.status.state);
      const text = isDraining ? `You drain ${name}: it hands its room over.` : `${name} takes rooms again.`;
      return act("drain", { node: name, is_draining: isDraining }, text);
    }),
    kill: button("Kill", () => act("kill", { node: name }, `kill -9 ${row.status.pid}: ${name} was killed.`)),
    status,
  };
  row.kill.className = "danger";
  row.state.className = "state";
  row.badges.className = "badges";
  const actions = document.createElement("span");
  actions.className = "actions";
  actions.append(row.move, row.drain, row.kill);
  row.line.dataset.node = name;
  row.line.append(element("b", name), row.state, row.badges, actions);
  byId("nodes").append(row.line);
  rows.set(name, row);
  return row;
}

async function act(what: NodeChange, request: { node: string; is_draining?: boolean }, done: string): Promise<void> {
  try {
    await changeNode(what, request);
    tell(done, what === "kill" ? "bad" : "");
  } catch (error) {
    tell(error instanceof Error ? error.message : `${error}`, "bad");
  }
}

function button(label: string, pressed: () => Promise<void>): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", () => void pressed());
  return made;
}

function element(tag: "b" | "span", content: string): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = content;
  return made;
}

function text(where: HTMLElement, content: string): void {
  if (where.textContent !== content) where.textContent = content;
}
