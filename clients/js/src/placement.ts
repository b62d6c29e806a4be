/** A placement: a room that is being made on the best node of a queue. */

import type { Exchange } from "./exchange.js";
import { placementInfo } from "./infos.js";
import { Follower, type News } from "./news.js";
import type { PlacementInfo } from "./types.js";

class Progress extends Follower {
  constructor(public info: PlacementInfo) {
    super("placement", info.id, { operation: "get_placement", args: { placement: info.id } });
  }

  override get isOver(): boolean {
    return this.info.status !== "pending";
  }

  told(content: unknown): void {
    const info = placementInfo(content);
    if (!this.isOver) this.info = info;
  }
}

/** One placement; made by `session.place`. */
export class Placement {
  readonly #exchange: Exchange;
  readonly id: string;
  readonly #progress: Progress;

  constructor(exchange: Exchange, news: News, info: PlacementInfo) {
    this.#exchange = exchange;
    this.id = info.id;
    this.#progress = new Progress(info);
    news.add(this.#progress);
  }

  /** How far it is, as far as we have heard. */
  get info(): PlacementInfo {
    return this.#progress.info;
  }

  /** Wait until it is fulfilled, cancelled, timed out or failed: `status` says which, and `reason` why. */
  async done(): Promise<PlacementInfo> {
    await this.#exchange.until(() => {
      if (this.#progress.refusal) throw this.#progress.refusal;
      return this.#progress.isOver;
    });
    return this.info;
  }

  /** Give it up, if it is still pending. */
  async stop(): Promise<PlacementInfo> {
    const request = { operation: "stop_placement", args: { placement: this.id } };
    await this.#exchange.request(request, (answer) => this.#progress.told(answer));
    return this.info;
  }
}
