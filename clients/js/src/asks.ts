/** Messages of one seat whose sender waits for the room's answer. */

import { type HoldfastError, Refused, Reset } from "./errors.js";
import type { Reason } from "./reasons.js";
import type { MessageRefused } from "./types.js";

/** The type of such a message; its body is the message's own type and body. */
export const ASK = "holdfast.ask";

/** What became of one. */
export interface Asked {
  isSettled: boolean;
  body: unknown;
  error: HoldfastError | null;
}

/** The asks that were sent and not answered, by the number of their message. */
export class Asks {
  // Without an ask: nobody waits any more, and the answer will be dropped.
  readonly #unanswered = new Map<number, Asked | null>();

  constructor(readonly unansweredMax: number) {}

  /** Refused as `throttled` if there are too many. */
  check(): void {
    const { size } = this.#unanswered;
    if (size >= this.unansweredMax) throw new Refused("throttled", `${size} asks have no answer yet: wait for some`);
  }

  /** The message that was just sent with this number asks. */
  open(number: number): Asked {
    const asked: Asked = { isSettled: false, body: null, error: null };
    this.#unanswered.set(number, asked);
    return asked;
  }

  /** Its sender does not wait any more. */
  abandon(number: number): void {
    if (this.#unanswered.has(number)) this.#unanswered.set(number, null);
  }

  /** An answer came; false if it is to a message that this page has not asked with. */
  answered(number: number, body: unknown): boolean {
    return this.#settle(number, body, null);
  }

  /** The same for a refusal. */
  refused({ seq, code, message }: MessageRefused): boolean {
    return this.#settle(seq, null, new Refused(code, message));
  }

  /** Answers were lost: of messages that the server had applied, perhaps also of those that it had received. */
  lost(applied: number, accepted: number, reason: Reason): void {
    for (const number of [...this.#unanswered.keys()].filter((each) => each <= accepted)) {
      this.#settle(number, null, new Reset(reason));
      // Its answer may still come.
      if (number > applied) this.#unanswered.set(number, null);
    }
  }

  /** There will be no more answers. */
  end(error: HoldfastError): void {
    for (const number of [...this.#unanswered.keys()]) this.#settle(number, null, error);
  }

  #settle(number: number, body: unknown, error: HoldfastError | null): boolean {
    const asked = this.#unanswered.get(number);
    if (asked) Object.assign(asked, { isSettled: true, body, error });
    return this.#unanswered.delete(number);
  }
}
