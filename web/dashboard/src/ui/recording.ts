// The recording of a room: a slider over its turns, and for one of them why it was taken, what it changed, what it
// sent, and the whole state at its end.

import { act, ask, get, Problem, path, type RecordingInfo, type RoomInfo, type TurnInfo, type TurnState } from "../api";
import { attempt, confirm, reasonOf } from "./dialog";
import { fill, h } from "./dom";
import { bytes, clock, counted } from "./format";
import { badge, card, playerLink } from "./parts";
import { Tree } from "./tree";

/** Of what changed and was sent, as much as fits beside the state. */
const LINES_MAX = 20;

export class RecordingCard {
  /** Empty while there is no recording. */
  readonly element = h("div");
  private readonly slider = h("input", { type: "range", min: 1, max: 1, step: 1, "aria-label": "Turn" });
  private readonly number = h("output", { class: "faint" });
  private readonly about = h("div", { class: "recorded" });
  private readonly problem = h("p", { class: "problem" });
  private readonly note = h("p", { class: "faint" });
  private readonly tree = new Tree();
  private readonly inside: HTMLElement;
  private info: RecordingInfo | null = null;
  private wanted = 0;
  private shown = 0;
  private isAsking = false;
  private isMissing = false;

  constructor(private readonly room: string) {
    const step = (by: number) => this.go(Number(this.slider.value) + by);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.inside = h(
      "div",
      null,
      h(
        "div",
        { class: "scrubber" },
        h("button", { "aria-label": "Previous turn", onclick: () => step(-1) }, "‹"),
        this.slider,
        h("button", { "aria-label": "Next turn", onclick: () => step(1) }, "›"),
      ),
      h(
        "div",
        { class: "buttons scrubber" },
        this.number,
        h("button", { onclick: () => this.fork() }, "Fork from here"),
        h("button", { onclick: () => this.download() }, "Download"),
      ),
      this.problem,
      this.about,
      this.tree.element,
      this.note,
    );
  }

  /** Ask what there is; a room without a recording has no card. */
  async look(): Promise<void> {
    if (this.isMissing) {
      return;
    }
    try {
      const former = this.info;
      this.info = await get<RecordingInfo>(path`/v1/rooms/${this.room}/recording`);
      const { first, last } = this.info;
      const wasNewest = former === null || this.wanted === former.last;
      this.slider.min = String(first);
      this.slider.max = String(last);
      if (last > 0 && this.element.firstChild === null) {
        fill(this.element, card("Recording", this.inside));
      }
      this.note.textContent = describe(this.info);
      // It follows the room until somebody goes back.
      if (last > 0 && (this.shown === 0 || (wasNewest && document.activeElement !== this.slider))) {
        this.go(last);
      } else {
        this.say();
      }
    } catch (error) {
      // Without a recording, or for a key that may not read it.
      this.isMissing = error instanceof Problem && (error.status === 404 || error.status === 403);
    }
  }

  private go(turn: number): void {
    const { first, last } = this.info ?? { first: 1, last: 1 };
    this.wanted = Math.min(Math.max(turn, first), last);
    this.slider.value = String(this.wanted);
    this.say();
    void this.load();
  }

  private say(): void {
    this.number.textContent = `turn ${this.wanted} of ${this.info?.last ?? 0}`;
  }

  /** One question at a time: a slider passes many turns on its way. */
  private async load(): Promise<void> {
    if (this.isAsking) {
      return;
    }
    this.isAsking = true;
    try {
      while (this.shown !== this.wanted) {
        const turn = this.wanted;
        const { turn: told, state } = await get<TurnState>(path`/v1/rooms/${this.room}/recording/state`, { turn });
        this.shown = turn;
        this.problem.textContent = "";
        fill(this.about, draw(told, state));
        this.tree.show(state);
      }
    } catch (error) {
      this.problem.textContent = reasonOf(error);
    } finally {
      this.isAsking = false;
    }
  }

  private async fork(): Promise<void> {
    const turn = this.wanted;
    const told = await confirm({
      title: `Fork from turn ${turn}?`,
      text: "A new, private room goes on from the end of this turn. Its seats are held for the same players. This room goes on.",
      action: "Fork",
    });
    if (told !== null) {
      let forked = "";
      const text = "The fork was made.";
      await attempt(async () => {
        forked = (await act<RoomInfo>("POST", path`/v1/rooms/${this.room}/forks`, {}, { turn })).id;
      }, text);
      if (forked !== "") {
        location.hash = `#/rooms/${encodeURIComponent(forked)}`;
      }
    }
  }

  private download(): Promise<boolean> {
    return attempt(async () => {
      const file = await (await ask("GET", path`/v1/rooms/${this.room}/recording/file`)).blob();
      const link = h("a", { href: URL.createObjectURL(file), download: `${this.room}.recording` });
      link.click();
      URL.revokeObjectURL(link.href);
    }, "The recording was downloaded. It holds the secrets of all players.");
  }
}

function describe(info: RecordingInfo): string {
  const kept = info.first > 1 ? `Turns before ${info.first} were discarded. ` : "";
  const ended = info.is_live ? "" : "The room has ended. ";
  const stopped = info.stopped === "" ? "" : `It stopped: ${info.stopped}. `;
  return `${kept}${ended}${stopped}${bytes(info.bytes)} in the node's memory. It holds everything, all secrets too.`;
}

function draw(turn: TurnInfo, state: Record<string, unknown>) {
  const changed = turn.changed.slice(0, LINES_MAX);
  const sent = turn.sent.slice(0, LINES_MAX);
  const more = (all: number, some: number) => all > some && h("li", { class: "faint" }, `and ${all - some} more`);
  return [
    h(
      "p",
      { class: "cause" },
      badge(turn.kind),
      " ",
      turn.player !== "" && [playerLink(turn.player), " "],
      h("code", null, turn.name),
      " ",
      turn.body !== null && h("code", { class: "faint" }, JSON.stringify(turn.body)),
      h("small", { class: "faint" }, ` ${clock(turn.at)}, ${turn.took_ms.toFixed(2)} ms`),
    ),
    turn.error_code !== "" && h("p", { class: "problem" }, `${turn.error_code}: ${turn.error}`),
    h("h3", { class: "recorded-title" }, "Changed"),
    changed.length === 0
      ? h("p", { class: "faint" }, "Nothing.")
      : h(
          "ul",
          { class: "recorded-list changed" },
          ...changed.map((each) =>
            h("li", null, h("mark", null, each), " ", h("code", { class: "faint" }, value(state, each))),
          ),
          more(turn.changed.length, changed.length),
        ),
    h("h3", { class: "recorded-title" }, "Sent"),
    sent.length === 0
      ? h("p", { class: "faint" }, "Nothing.")
      : h(
          "ul",
          { class: "recorded-list sent" },
          ...sent.map((each) =>
            h(
              "li",
              null,
              h("code", null, each.name),
              " ",
              h("code", { class: "faint" }, each.body === null ? bytes(each.bytes) : short(each.body)),
              " to ",
              each.players.length > 4 ? counted(each.players.length, "player") : each.players.join(", "),
            ),
          ),
          more(turn.sent.length, sent.length),
        ),
    h("h3", { class: "recorded-title" }, "State at its end"),
  ];
}

/** What is at a path now; players' ids may contain dots, so the longest key that fits is taken. */
function value(state: unknown, dotted: string): string {
  let at = state;
  let rest = dotted;
  while (rest !== "" && typeof at === "object" && at !== null) {
    const inside = at as Record<string, unknown>;
    const key = Object.keys(inside)
      .filter((each) => rest === each || rest.startsWith(`${each}.`))
      .sort((one, other) => other.length - one.length)[0];
    if (key === undefined) {
      return "is gone";
    }
    at = inside[key];
    rest = rest.slice(key.length + 1);
  }
  return short(at);
}

function short(body: unknown): string {
  const text = JSON.stringify(body) ?? "";
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
