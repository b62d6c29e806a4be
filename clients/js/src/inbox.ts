/** Messages to the session itself, as its client reads them. */

import type { SeatEvent } from "./events.js";
import type { Exchange } from "./exchange.js";
import { RoomInbox } from "./seat.js";
import type { SessionMessage } from "./types.js";

/** The unread messages of a session, whichever channel they came on: they wait for a reader, or a listener. */
export class SessionInbox {
  readonly #exchange: Exchange;
  readonly #listener: (message: SessionMessage) => void;
  readonly #unread: RoomInbox;
  #channel = 0;
  #isListening = false;
  #isDelivering = false;

  constructor(exchange: Exchange, listener: (message: SessionMessage) => void) {
    this.#exchange = exchange;
    this.#listener = listener;
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

  /** The next message; fails with `SessionEnded` when there can be none. */
  async receive(): Promise<SessionMessage> {
    let next: SessionMessage | undefined;
    await this.#exchange.until(() => {
      next = this.#next();
      return next !== undefined;
    });
    return next as SessionMessage;
  }

  /** Hand messages to the listeners from now on, at the end of this turn at the earliest. */
  listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    queueMicrotask(() => this.deliver());
  }

  /** Hand out what is here. */
  deliver(): void {
    if (!this.#isListening || this.#isDelivering) return;
    this.#isDelivering = true;
    // What is left when a listener ends the session is for the page that continues it.
    while (!this.#exchange.isClosedHere) {
      const next = this.#next();
      if (!next) break;
      this.#listener(next);
    }
    this.#isDelivering = false;
  }

  #next(): SessionMessage | undefined {
    const entry = this.#unread.next();
    return entry && { type: entry.type, body: entry.body };
  }
}
