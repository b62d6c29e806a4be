/** Keeps a client connected: dial, say hello, listen, and after a loss wait with jitter and dial again. */

import { type Backoff, backoffS } from "./backoff.js";
import { type HoldfastError, ProtocolError, SessionEnded, Unreachable } from "./errors.js";
import { type Closed, closed, type Event } from "./events.js";
import { Link, NORMAL, type SocketClass, VANISHED } from "./link.js";
import type { ClientProtocol } from "./protocol.js";
import { advice } from "./reasons.js";

// A connection that lasted this long was a good one: the next loss is a new story, with a short first wait. One that
// was lost sooner is a flaky link, or a server that welcomes everybody and then fails: a little more patience.
const SETTLED_S = 2;
// A server may allow any silence, but a timer of more than 24 days ends at once.
const LOOK_S_MAX = 3600;
const UNSETTLED_ATTEMPT_MAX = 3;

/** Where the server is, how to get there, how often and for how long to try. */
export interface Reach {
  url: string;
  WebSocket: SocketClass;
  backoff: Backoff;
  giveUpS: number;
  random: () => number;
}

/** Who is told what happens. */
export interface Owner {
  /** A hello is about to be written; false if what it tells could not be stored: it is not written. */
  keep(): boolean;
  /** The server said something. */
  happened(event: Event): void;
  /** A payload has been dealt with. */
  heard(): void;
  /** A connection that was welcomed is gone; another will follow. */
  dropped(closed: Closed): void;
  /** The next attempt to connect is so far away. */
  waiting(attempt: number, waitS: number, closed: Closed): void;
  /** There will be no other connection. */
  ended(error: HoldfastError): void;
}

/** Seconds on a clock that only goes forward. */
export const now = () => performance.now() / 1000;

/** When to try again, and when to stop trying. */
class Patience {
  readonly #reach: Reach;
  attempt = 0;
  #lostAt = now();
  #reachedAt = now();

  constructor(reach: Reach) {
    this.#reach = reach;
  }

  /** The server was reached, though nobody was welcomed: the network carries something, so go on. */
  wasAnswered(): void {
    this.#reachedAt = now();
  }

  wasWelcome(lastedS: number): void {
    this.#lostAt = this.#reachedAt = now();
    this.attempt = lastedS >= SETTLED_S ? 0 : Math.min(this.attempt, UNSETTLED_ATTEMPT_MAX);
  }

  /** The network is back, or somebody looks again: what failed before does not count. */
  beginAnew(): void {
    this.#lostAt = this.#reachedAt = now();
    this.attempt = 0;
  }

  /** How long to wait before the next attempt; null if that would be too late. */
  waitS(retryAfterS: number): number | null {
    const { backoff, random, giveUpS } = this.#reach;
    const lostS = now() - this.#lostAt;
    const waitS = backoffS(backoff, this.attempt, random(), lostS, retryAfterS);
    this.attempt += 1;
    return now() - this.#reachedAt + waitS < giveUpS ? waitS : null;
  }
}

export class Connector {
  readonly #owner: Owner;
  readonly #protocol: ClientProtocol;
  readonly #reach: Reach;
  #link: Link | null = null;
  readonly #patience: Patience;
  #isOver = false;
  #hurryUp: (() => void) | null = null;
  #opened!: () => void;
  #failed!: (error: HoldfastError) => void;

  constructor(owner: Owner, protocol: ClientProtocol, reach: Reach) {
    this.#owner = owner;
    this.#protocol = protocol;
    this.#reach = reach;
    this.#patience = new Patience(reach);
  }

  // What the session asks for

  /** Connect for the first time. A new session is not tried again if nobody answers; a saved one is. */
  open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#opened = resolve;
      this.#failed = reject;
      void this.#live();
    });
  }

  /** End the connection in order, if there is one, and make no other. */
  close(code: number, reason: string): void {
    this.#isOver = true;
    this.#link?.close(code, reason);
    this.#hurryUp?.();
  }

  /** Break the connection, as a bad network would. */
  cut(): void {
    this.#link?.abort();
  }

  /** Try again now, unless the server has named a time; look whether the link is still alive. */
  hurry(): void {
    this.#patience.beginAnew();
    const link = this.#link;
    // A dial that began while there was no network may hang for long.
    if (link && (this.#isSilent(link) || (!link.wasOpen && this.#protocol.sessionId))) link.abort();
    this.#hurryUp?.();
  }

  /** Write to the connection, if there is one. */
  send(payload: Uint8Array): void {
    this.#link?.send(payload);
  }

  /** Whether what may be left out should wait. */
  get isCongested(): boolean {
    return this.#link?.isCongested ?? false;
  }

  // The loop

  async #live(): Promise<void> {
    let error: HoldfastError;
    try {
      error = await this.#stayConnected();
    } catch (bug) {
      error = new SessionEnded("internal", `the client failed: ${bug}`);
      console.error("holdfast:", error, bug);
    }
    this.#failed(error);
    this.#owner.ended(error);
  }

  /** Connect again and again; the result is why there will be no other connection. */
  async #stayConnected(): Promise<HoldfastError> {
    let isFirst = !this.#protocol.sessionId;
    while (!this.#isOver) {
      let link: Link;
      try {
        link = this.#dial();
      } catch (error) {
        return new Unreachable(`${this.#reach.url} cannot be dialled: ${error}`);
      }
      const end = await this.#listen(link);
      if (isFirst && !link.wasOpen) return new Unreachable(`nobody answers at ${this.#reach.url}, or not to this page`);
      isFirst = false;
      const what = advice(link.wasOpen ? end.code : VANISHED);
      if (what === "stop" || (what === "sign_in" && !this.#protocol.signInAgain(end.reason)))
        return new SessionEnded(end.reason, end.message, end.problem);
      if (this.#isOver) break;
      if (link.welcomeAt !== null) {
        this.#patience.wasWelcome(now() - link.welcomeAt);
        this.#owner.dropped(end);
      } else if (link.wasOpen && this.#protocol.sessionId && end.reason !== "moved") {
        // A server that no longer has the session is nobody to wait for.
        this.#patience.wasAnswered();
      }
      const waitS = this.#patience.waitS(end.retryAfterS);
      if (waitS === null) {
        const gaveUp = `no session at ${this.#reach.url} within ${this.#reach.giveUpS} s`;
        return new SessionEnded("unreachable", `${gaveUp}: ${end.message || end.reason}`);
      }
      this.#owner.waiting(this.#patience.attempt, waitS, end);
      await this.#wait(waitS, end.retryAfterS > 0);
    }
    return new SessionEnded("bye", "closed by this client");
  }

  #wait(waitS: number, isOrdered: boolean): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitS * 1000);
      this.#hurryUp = () => {
        if (isOrdered && !this.#isOver) return;
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #dial(): Link {
    const link = new Link(this.#reach.url, this.#reach.WebSocket, this.#protocol.codec, {
      now,
      opened: () => this.#greet(link),
      received: (payload) => this.#received(link, payload),
    });
    this.#hurryUp = null;
    this.#link = link;
    return link;
  }

  #greet(link: Link): void {
    if (this.#owner.keep()) {
      link.send(this.#protocol.hello());
      return;
    }
    // Nothing was said, so this counts as a dial that failed: in time it is given up.
    link.wasOpen = false;
    link.said = closed(VANISHED, "dropped", "the session cannot be saved");
    link.abort();
  }

  /** Until the end; a server that says nothing for too long is gone, whatever the socket says. */
  async #listen(link: Link): Promise<Closed> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      if (this.#isSilent(link)) link.abort();
      else timer = setTimeout(look, Math.min(link.heardAt + this.#silenceS - now(), LOOK_S_MAX) * 1000);
    };
    look();
    const end = await link.ended;
    clearTimeout(timer);
    this.#link = null;
    this.#protocol.lost();
    return end;
  }

  #isSilent(link: Link): boolean {
    return now() - link.heardAt >= this.#silenceS;
  }

  get #silenceS(): number {
    return this.#protocol.limits.silenceS + this.#protocol.quietS;
  }

  #received(link: Link, payload: Uint8Array): void {
    try {
      for (const event of this.#protocol.receive(payload)) {
        if (event.is === "closed") {
          link.said = event;
          link.close(NORMAL, "");
          break;
        }
        this.#owner.happened(event);
      }
    } catch (error) {
      console.warn("holdfast: what the server said makes no sense:", error);
      // Anything else is a fault of ours; the session may live on, but not with half of a payload.
      link.broken(error instanceof ProtocolError ? error : new ProtocolError(String(error), "internal"));
    }
    if (this.#protocol.isWelcome && link.welcomeAt === null) {
      link.welcomeAt = link.heardAt;
      this.#opened();
    }
    this.#owner.heard();
  }
}
