// One test player: a session of the JavaScript client behind a simulated network.

import { type ClientRoom, type ClientSession, connect } from "holdfast";
import type { KindInfo } from "../api";
import { Network, socketsOf } from "../network";
import { attempt, reasonOf, say } from "../ui/dialog";
import { type Child, fill, h } from "../ui/dom";
import { MessageForm } from "../ui/form";
import { milliseconds, words } from "../ui/format";
import { badge, playerName, roomLink, sessionLink } from "../ui/parts";
import { Lines } from "../ui/traffic";
import { Tree } from "../ui/tree";

const OFFLINE_S = 5;
const CODE_CHARS_MAX = 8;

export interface TestPlayerOptions {
  url: string;
  auth: { scheme: string; credential: string };
  /** kind: any seat of it; new: a new room of it; room, id: this room. */
  how: string;
  target: string;
  /** The display name; empty: none. */
  name: string;
  /** What to join with, if the room asks for something. */
  options: Record<string, unknown> | undefined;
  kinds: KindInfo[];
  gone: () => void;
}

export class TestPlayer {
  readonly element: HTMLElement;
  private readonly status = h("span", null, badge("connected"));
  private readonly latency = h("span", { class: "faint" });
  private readonly happened = h("p", { class: "happened", role: "status" });
  private readonly lines = new Lines();
  private readonly tree = new Tree();
  private readonly mirror = h("div", { hidden: true }, h("h3", null, "What this client sees, live"), this.tree.element);
  private readonly only = h("input", {
    type: "search",
    placeholder: "Filter by type",
    "aria-label": "Filter by type",
  });
  private readonly timer: number;
  private isLooking = false;

  static async join(options: TestPlayerOptions): Promise<TestPlayer> {
    const network = new Network();
    const auth = options.auth.credential === "" && options.auth.scheme === "guest" ? {} : { auth: options.auth };
    const session = await connect(options.url, {
      ...auth,
      ...(options.name !== "" && { name: options.name }),
      storage: null,
      WebSocket: socketsOf(network),
    });
    try {
      return new TestPlayer(session, await seat(session, options), network, options);
    } catch (error) {
      session.close();
      throw error;
    }
  }

  private constructor(
    private readonly session: ClientSession,
    private readonly room: ClientRoom,
    private readonly network: Network,
    private readonly options: TestPlayerOptions,
  ) {
    this.element = h(
      "section",
      { class: "card test-player", "aria-label": `Test player ${session.playerId}` },
      h(
        "header",
        { class: "heading" },
        h("h2", null, playerName(session.playerId, session.name), " ", this.status, " ", this.latency),
        h(
          "div",
          { class: "buttons" },
          h("button", { onclick: () => this.drop() }, "Drop"),
          h("button", { onclick: () => this.goOffline() }, `Go offline for ${OFFLINE_S} s`),
          h("button", { class: "danger", onclick: () => this.leave() }, "Leave"),
        ),
      ),
      h("p", { class: "faint" }, "Room ", roomLink(room.id), " · session ", sessionLink(session.id)),
      this.happened,
      h("div", { class: "columns" }, this.sendForm(), this.networkForm()),
      this.mirror,
      h("div", { class: "filters" }, h("h3", null, "Traffic"), this.only),
      this.lines.element,
    );
    this.note("Joined.");
    this.listen();
    this.timer = window.setInterval(() => {
      this.latency.textContent = session.connected ? milliseconds(session.latencyMs) : "";
    }, 1000);
  }

  private listen(): void {
    const { session, room } = this;
    room.onChange(() => this.look());
    this.look();
    room.on("*", (body, type) => this.show("out", type, body));
    room.on("holdfast.left", ({ reason, message }) => this.over(`The seat was freed: ${words(reason)}. ${message}`));
    session.on("message", ({ type, body }) => this.show("out", type, body));
    session.on("drop", ({ reason }) => {
      fill(this.status, badge("disconnected"));
      this.note(`Connection lost (${words(reason)}).`);
    });
    session.on("reconnecting", ({ attempt: number, waitS }) =>
      this.note(`Reconnect attempt ${number} in ${waitS.toFixed(1)} s.`),
    );
    session.on("resume", ({ kind, replayed, reason }) => {
      fill(this.status, badge("connected"));
      this.note(
        `Back: ${kind}${kind === "resumed" ? `, ${replayed} messages were sent again` : ""}${reason ? ` (${words(reason)})` : ""}.`,
      );
    });
    session.on("close", (error) => this.over(`The session has ended: ${reasonOf(error)}`));
  }

  /** What the room shares, as the client has it; once a frame. */
  private look(): void {
    if (this.isLooking) return;
    this.isLooking = true;
    requestAnimationFrame(() => {
      this.isLooking = false;
      const { state, players, mine } = this.room;
      const hasPlayers = Object.keys(players).length > 0;
      const isShared = state !== undefined || hasPlayers;
      this.mirror.hidden = !isShared;
      if (isShared) {
        this.tree.show({
          ...(state !== undefined && { state }),
          ...(hasPlayers && { players }),
          ...(mine && { mine }),
        });
      }
    });
  }

  private note(text: string): void {
    this.happened.textContent = text;
    this.lines.note(text);
  }

  private show(direction: string, type: string, body: unknown): void {
    if (type.includes(this.only.value.trim())) {
      this.lines.add({ at: Date.now() / 1000, direction, type, body });
    }
  }

  private sendForm(): HTMLElement {
    const messages = this.options.kinds.find((each) => each.kind === this.room.kind)?.messages ?? [];
    if (messages.length === 0) {
      return h(
        "div",
        null,
        h("h3", null, "Send"),
        h("p", { class: "faint" }, "This kind of room accepts no messages."),
      );
    }
    const body = h("div");
    let form = new MessageForm(messages[0]?.schema ?? {});
    const type = h(
      "select",
      { "aria-label": "Message type", onchange: () => choose() },
      ...messages.map((each) =>
        h("option", { value: each.type }, each.role === "" ? each.type : `${each.type} (${each.role} only)`),
      ),
    );
    const choose = (): void => {
      form = new MessageForm(messages[type.selectedIndex]?.schema ?? {});
      fill(body, form.element);
    };
    choose();
    const send = async (event: Event): Promise<void> => {
      event.preventDefault();
      try {
        const content = form.value();
        this.show("in", type.value, content);
        await this.room.send(type.value, content);
      } catch (error) {
        say(reasonOf(error), true);
      }
    };
    return h(
      "form",
      { class: "form", onsubmit: send },
      h("h3", null, "Send"),
      type,
      body,
      h("button", { type: "submit", class: "primary" }, "Send"),
    );
  }

  private networkForm(): HTMLElement {
    return h(
      "div",
      { class: "form" },
      h("h3", null, "Network"),
      slider("Latency, each way", 1000, " ms", (value) => {
        this.network.latencyMs = value;
      }),
      slider("Jitter", 500, " ms", (value) => {
        this.network.jitterMs = value;
      }),
      slider("Loss, simulated as delay", 30, " %", (value) => {
        this.network.lossPercent = value;
      }),
      h(
        "small",
        null,
        "WebSocket runs over TCP, which retransmits lost packets while everything behind them waits. So loss is simulated as that delay.",
      ),
    );
  }

  private drop(): void {
    this.session.cut();
  }

  private goOffline(): void {
    this.network.isDown = true;
    this.note(`Offline for ${OFFLINE_S} s.`);
    this.session.cut();
    setTimeout(() => {
      this.network.isDown = false;
    }, OFFLINE_S * 1000);
  }

  private async leave(): Promise<void> {
    await attempt(async () => this.session.close(), `${this.session.playerId} has left.`);
    this.element.remove();
    this.options.gone();
  }

  private over(text: string): void {
    window.clearInterval(this.timer);
    fill(this.status, badge("ended"));
    this.note(text);
  }
}

async function seat(session: ClientSession, { how, target, options }: TestPlayerOptions): Promise<ClientRoom> {
  const given = options === undefined ? {} : { options };
  switch (how) {
    case "kind":
      return session.joinOrCreate(target, given);
    case "new":
      return session.join((await session.create(target)).id, given);
    default:
      // Codes are shorter than any id.
      return session.join(target.length <= CODE_CHARS_MAX ? { code: target } : target, given);
  }
}

function slider(label: string, max: number, unit: string, set: (value: number) => void): Child {
  // Not an <output>: a label would be associated with it.
  const shown = h("b", null, `0${unit}`);
  const input = h("input", {
    type: "range",
    min: 0,
    max,
    value: 0,
    oninput: () => {
      set(Number(input.value));
      shown.textContent = `${input.value}${unit}`;
    },
  });
  return h("label", { class: "slider" }, h("span", null, label), shown, input);
}
