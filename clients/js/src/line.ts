/** A place in the line for a seat of a room that is full. */

import type { Refused } from "./errors.js";
import type { Exchange } from "./exchange.js";
import { waitInfo } from "./infos.js";
import { Follower, type News } from "./news.js";
import type { WaitInfo } from "./types.js";

// How often to ask how far the line has moved, and whether the room is still there: only an offer is told unasked.
const QUESTION_S = 5;

export class Line extends Follower {
  readonly #exchange: Exchange;
  readonly #news: News;
  #info: WaitInfo | null = null;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(exchange: Exchange, news: News, room: string, password: string | undefined) {
    super(
      "offer",
      room,
      { operation: "wait", args: { room, password } },
      { operation: "stop_waiting", args: { room } },
    );
    this.#exchange = exchange;
    this.#news = news;
    this.#timer = setInterval(() => {
      if (this.isTold && !this.isAsked && this.#info?.position) news.ask(this);
    }, QUESTION_S * 1000);
  }

  /** Wait until a seat is kept for us; tell the position whenever it is another. */
  async offered(onPosition: ((position: number) => void) | undefined, isOff: () => boolean): Promise<void> {
    let position: number | null = null;
    await this.#exchange.until(() => {
      if (this.refusal) throw this.refusal;
      const now = this.#info?.position ?? null;
      const isNews = now && now !== position;
      position = now;
      if (isNews) onPosition?.(now);
      return isOff() || now === 0;
    });
  }

  /** The seat that was kept for us is not any more: back to the line. */
  standAgain(): void {
    this.#info = null;
    this.#news.ask(this);
  }

  /** Out of the line; who has the seat gives nothing up. */
  end(isSeated: boolean): void {
    clearInterval(this.#timer);
    if (isSeated) this.farewell = null;
    this.#news.end(this);
  }

  told(content: unknown): void {
    this.#info = waitInfo(content);
  }

  /** Who has a seat in the room already needs no other. */
  override refused(refusal: Refused): void {
    if (refusal.code === "already_seated") {
      this.#info = { room: this.key, position: 0, expiresInS: 0 };
      this.isTold = true;
    } else super.refused(refusal);
  }
}
