// Live messages, newest first; streamed only while somebody watches.

import type { EventInfo } from "../api";
import { live } from "../live";
import { reasonOf } from "./dialog";
import { fill, h } from "./dom";
import { bytes, clock } from "./format";

const SHOWN_MAX = 200;

export interface Line {
  at: number;
  /** "in" goes to the server, "out" comes from it. */
  direction: string;
  type: string;
  body: unknown;
  who?: string;
  bytes?: number;
}

/** A bounded list of messages. */
export class Lines {
  readonly element = h("ol", { class: "lines", tabindex: 0, "aria-label": "Messages" });

  add(line: Line): void {
    const text = JSON.stringify(line.body) ?? "";
    this.element.prepend(
      h(
        "li",
        { class: line.direction },
        h("time", null, clock(line.at)),
        h(
          "span",
          { class: "arrow", title: line.direction === "in" ? "to the server" : "to the player" },
          line.direction === "in" ? "→" : "←",
        ),
        line.who !== undefined && h("span", { class: "who" }, line.who),
        h("b", null, line.type || `(${bytes(line.bytes ?? 0)}, too long to show)`),
        h("code", { title: text }, text),
      ),
    );
    while (this.element.childElementCount > SHOWN_MAX) {
      this.element.lastElementChild?.remove();
    }
  }

  note(text: string): void {
    this.element.prepend(h("li", { class: "note" }, text));
  }
}

/** A stream of messages from the server, with a switch. */
export class Traffic {
  readonly element: HTMLElement;
  private readonly lines = new Lines();
  private readonly status = h("span", { class: "faint" }, "Not watching.");
  private readonly button = h("button", { "aria-pressed": "false", onclick: () => this.toggle() }, "Watch messages");
  private stop: (() => void) | null = null;
  private waiting: Line[] = [];
  private frame = 0;

  constructor(private readonly path: string) {
    this.element = h(
      "div",
      { class: "traffic" },
      h("div", { class: "buttons" }, this.button, this.status),
      this.lines.element,
    );
  }

  close(): void {
    this.stop?.();
    this.stop = null;
    cancelAnimationFrame(this.frame);
  }

  private toggle(): void {
    if (this.stop !== null) {
      this.close();
      this.status.textContent = "Stopped.";
    } else {
      this.status.textContent = "Watching: new messages appear here.";
      this.stop = live(this.path, {
        event: (event) => this.heard(event),
        over: (problem) => {
          this.close();
          this.button.setAttribute("aria-pressed", "false");
          fill(this.button, "Watch messages");
          this.status.textContent = reasonOf(problem);
        },
      });
    }
    this.button.setAttribute("aria-pressed", String(this.stop !== null));
    fill(this.button, this.stop !== null ? "Stop watching" : "Watch messages");
  }

  private heard(event: EventInfo): void {
    if (event.type === "gap") {
      this.lines.note(`${event.body.left_out} messages were left out.`);
      return;
    }
    const body = event.body as { direction: string; type: string; body: unknown; player: string; bytes: number };
    this.waiting.push({
      at: event.at,
      direction: body.direction,
      type: body.type,
      body: body.body,
      who: body.player,
      bytes: body.bytes,
    });
    this.waiting.splice(0, this.waiting.length - SHOWN_MAX);
    // Thousands may arrive in a second; the screen shows sixty frames.
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      for (const line of this.waiting.splice(0)) {
        this.lines.add(line);
      }
    });
  }
}
