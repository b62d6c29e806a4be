/** Messages to the session itself, as its client reads them. */

import type { Emitter } from "./emitter.js";
import type { SeatEvent } from "./events.js";
import type { Exchange } from "./exchange.js";
import { RoomInbox } from "./seat.js";
import type { Patience, SessionMessage } from "./types.js";

/** The unread messages of a session, whichever channel they came on: they wait for a reader, or a listener. */
export class SessionInbox {
  readonly #exchange: Exchange;
  readonly #emitter: Emitter;
  readonly #unread: RoomInbox;
  #channel = 0;
  #isDelivering = false;

  constructor(exchange: Exchange, emitter: Emitter) {
    this.#exchange = exchange;
    this.#emitter = emitter;
    // Nothing unreliable is sent to a session.
    this.#unread = new RoomInbox((arrived) => exchange.processed(arrived), 0, 0);
    for (const event of exchange.protocol.channels.seats()) this.happened(event);
  }

  /** Whether an event is of the session's own channel: then it is dealt with. */
  happened(event: SeatEvent): boolean {
    if (event.is === "channel_opened") {
      if (event.purpose === "session") this.#channel = event.channel;
      return event.purpose === "session";
    }
    if (!this.#channel || event.channel !== this.#channel) return false;
    const { protocol } = this.#exchange;
    if (event.is === "arrived") this.#unread.put(event);
    else if (event.is === "restarted") this.#unread.restart(protocol.restartOf(event.channel, event.generation));
    else if (event.is === "channel_gone") {
      // The session is another one, or older than what was read: what came before may not be all.
      this.#unread.restart(protocol.restartOf(event.channel, 0));
      this.#channel = 0;
    }
    return true;
  }

  /** The next message, or the next of one type; fails with `SessionEnded` when there can be none. */
  async receive(type: string | undefined, patience: Patience): Promise<SessionMessage> {
    let next: SessionMessage | undefined;
    await this.#exchange.within(patience, type === undefined ? "no message" : `no "${type}"`, () => {
      next = this.#next(type);
      return next !== undefined;
    });
    return next as SessionMessage;
  }

  /** What was read has been dealt with. */
  acknowledge(): void {
    this.#unread.acknowledge();
  }

  /** Hand out what is here. */
  deliver(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    // Looked at before each: a listener may take itself away, and the rest waits for the next one. What is left when a
    // listener ends the session is for the page that continues it.
    while (this.#emitter.has("message") && !this.#exchange.isClosedHere) {
      const next = this.#next();
      if (!next) break;
      this.#emitter.emit("message", next);
      this.#unread.acknowledge();
    }
    this.#isDelivering = false;
  }

  #next(type?: string): SessionMessage | undefined {
    const entry = this.#unread.next(type);
    return entry && { type: entry.type, body: entry.body };
  }
}
