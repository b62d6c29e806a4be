/** Keeps a client connected: dial, say hello, listen, and after a loss wait with jitter and dial again. */

import { type Backoff, backoffS } from "./backoff.js";
import { ClientConnection, NORMAL, type SocketClass, VANISHED } from "./connection.js";
import { type HoldfastError, ProtocolError, SessionEnded, Unreachable } from "./errors.js";
import { type Closed, closed, type Event } from "./events.js";
import { Nearer } from "./nearer.js";
import type { ClientProtocol } from "./protocol.js";
import { advice } from "./reasons.js";
import type { Drop } from "./types.js";

// A connection that lasted this long was a good one: the next loss starts with a short wait again. One that
// was lost sooner is a flaky connection, or a server that fails after each welcome: wait a little longer.
const SETTLED_S = 2;
// A server may allow any silence, but a timer of more than 24 days ends at once.
const LOOK_S_MAX = 3600;
const UNSETTLED_ATTEMPT_MAX = 3;

/** Where the server is, how to get there, how often and for how long to try. */
export interface DialOptions {
  url: string;
  WebSocket: SocketClass;
  backoff: Backoff;
  giveUpS: number;
  random: () => number;
}

/** What the connector calls. */
export interface Owner {
  /** A hello is about to be written; false if what it tells could not be stored: it is not written. */
  keep(): boolean;
  /** The server said something. */
  happened(event: Event): void;
  /** A payload has been dealt with. */
  heard(): void;
  /** A connection that was welcomed is gone; another will follow. */
  dropped(drop: Drop): void;
  /** Another attempt to connect follows. */
  waiting(drop: Drop): void;
  /** There will be no other connection. */
  ended(error: HoldfastError): void;
}

/** Seconds on a clock that only goes forward. */
export const now = () => performance.now() / 1000;

/** When to try again, and when to stop trying. */
class RetrySchedule {
  readonly #options: DialOptions;
  attempt = 0;
  #lostAt = now();
  #reachedAt = now();

  constructor(options: DialOptions) {
    this.#options = options;
  }

  /** The server answered without a welcome: the network works, so keep trying. */
  wasAnswered(): void {
    this.#reachedAt = now();
  }

  wasWelcome(lastedS: number): void {
    this.#lostAt = this.#reachedAt = now();
    this.attempt = lastedS >= SETTLED_S ? 0 : Math.min(this.attempt, UNSETTLED_ATTEMPT_MAX);
  }

  /** The network is back, or the page is looked at again: earlier failures do not count. */
  beginAnew(): void {
    this.#lostAt = this.#reachedAt = now();
    this.attempt = 0;
  }

  /** How long to wait before the next attempt; null if that would be too late. */
  waitS(retryAfterS: number): number | null {
    const { backoff, random, giveUpS } = this.#options;
    const lostS = now() - this.#lostAt;
    const waitS = backoffS(backoff, this.attempt, random(), lostS, retryAfterS);
    this.attempt += 1;
    return now() - this.#reachedAt + waitS < giveUpS ? waitS : null;
  }
}

export class Connector {
  readonly #owner: Owner;
  readonly #protocol: ClientProtocol;
  readonly #options: DialOptions;
  #connection: ClientConnection | null = null;
  readonly #schedule: RetrySchedule;
  readonly #nearer: Nearer;
  #isOver = false;
  #hurryUp: (() => void) | null = null;
  #opened!: () => void;
  #failed!: (error: HoldfastError) => void;

  constructor(owner: Owner, protocol: ClientProtocol, options: DialOptions) {
    this.#owner = owner;
    this.#protocol = protocol;
    this.#options = options;
    this.#schedule = new RetrySchedule(options);
    this.#nearer = new Nearer((url, opened) => this.#connect(url, opened));
  }

  // What the session asks for

  /** Connect for the first time. A new session is not retried if there is no answer; a saved one is. */
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
    this.#nearer.stop();
    this.#connection?.close(code, reason);
    this.#hurryUp?.();
  }

  /** Break the connection, as a bad network would. */
  cut(): void {
    this.#connection?.abort();
  }

  /** Try again now, unless the server has named a time; look whether the connection is still alive. */
  hurry(): void {
    this.#schedule.beginAnew();
    const connection = this.#connection;
    // A dial that began while there was no network may hang for long.
    if (connection && (this.#isSilent(connection) || (!connection.wasOpen && this.#protocol.sessionId)))
      connection.abort();
    this.#hurryUp?.();
  }

  /** Write to the connection, if there is one. */
  send(payload: Uint8Array): void {
    this.#connection?.send(payload);
  }

  /** Whether what may be left out should wait. */
  get isCongested(): boolean {
    return this.#connection?.isCongested ?? false;
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
    let next: ClientConnection | null = null;
    while (!this.#isOver) {
      let connection: ClientConnection;
      try {
        connection = next ? this.#goOnWith(next) : this.#dial();
      } catch (error) {
        return new Unreachable(`${this.#options.url} cannot be dialled: ${error}`);
      }
      const end = await this.#listen(connection);
      next = connection.successor;
      if (next) continue;
      if (isFirst && !connection.wasOpen)
        return new Unreachable(`no answer from ${this.#options.url}, or none that this page may read`);
      isFirst = false;
      const what = advice(connection.wasOpen ? end.code : VANISHED);
      if (what === "stop" || (what === "sign_in" && !this.#protocol.signInAgain(end.reason)))
        return new SessionEnded(end.reason, end.message, end.problem);
      if (this.#isOver) break;
      if (connection.welcomeAt !== null) {
        this.#schedule.wasWelcome(now() - connection.welcomeAt);
      } else if (connection.wasOpen && this.#protocol.sessionId && end.reason !== "moved") {
        // A server that no longer has the session is not worth waiting for.
        this.#schedule.wasAnswered();
      }
      const waitS = this.#schedule.waitS(end.retryAfterS);
      if (waitS === null) {
        const gaveUp = `no session at ${this.#options.url} within ${this.#options.giveUpS} s`;
        return new SessionEnded("unreachable", `${gaveUp}: ${end.message || end.reason}`);
      }
      const drop = { reason: end.reason, message: end.message, attempt: this.#schedule.attempt, waitS };
      if (connection.welcomeAt !== null) this.#owner.dropped(drop);
      this.#owner.waiting(drop);
      await this.#wait(waitS, end.retryAfterS > 0);
    }
    next?.abort();
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

  #dial(): ClientConnection {
    const connection = this.#connect(this.#options.url, () => this.#greet(connection));
    this.#hurryUp = null;
    this.#connection = connection;
    return connection;
  }

  #connect(url: string, opened: () => void): ClientConnection {
    const connection = new ClientConnection(url, this.#options.WebSocket, this.#protocol.codec, {
      now,
      opened,
      received: (payload) => this.#received(connection, payload),
    });
    return connection;
  }

  /** A connection to the session's own node is open: go on there, without a drop. */
  #cameNearer(nearer: ClientConnection): void {
    const current = this.#connection;
    // One that was lost meanwhile is replaced as always.
    if (current?.isUp && this.#protocol.isWelcome && !this.#isOver) current.leaveFor(nearer);
    else nearer.abort();
  }

  #goOnWith(nearer: ClientConnection): ClientConnection {
    this.#connection = nearer;
    this.#greet(nearer);
    return nearer;
  }

  #greet(connection: ClientConnection): void {
    if (this.#owner.keep()) {
      connection.send(this.#protocol.hello());
      return;
    }
    // Nothing was said, so this counts as a dial that failed: in time it is given up.
    connection.wasOpen = false;
    connection.said = closed(VANISHED, "dropped", "the session cannot be saved");
    connection.abort();
  }

  /** Until the end; a server that says nothing for too long is gone, whatever the socket says. */
  async #listen(connection: ClientConnection): Promise<Closed> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      if (this.#isSilent(connection)) connection.abort();
      else timer = setTimeout(look, Math.min(connection.heardAt + this.#silenceS - now(), LOOK_S_MAX) * 1000);
    };
    look();
    const end = await connection.ended;
    clearTimeout(timer);
    connection.leavePredecessor();
    this.#connection = null;
    this.#protocol.lost();
    return end;
  }

  #isSilent(connection: ClientConnection): boolean {
    return now() - connection.heardAt >= this.#silenceS;
  }

  get #silenceS(): number {
    return this.#protocol.limits.silenceS + this.#protocol.quietS;
  }

  #received(connection: ClientConnection, payload: Uint8Array): void {
    // One that was left for another, which gets this again.
    if (connection !== this.#connection) return;
    try {
      for (const event of this.#protocol.receive(payload)) {
        if (event.is === "closed") {
          connection.said = event;
          connection.close(NORMAL, "");
          break;
        }
        if (event.is === "noticed" && event.topic === "address") {
          this.#nearer.told(event.body, connection.url, (nearer) => this.#cameNearer(nearer));
          continue;
        }
        this.#owner.happened(event.is === "welcomed" ? { ...event, isMoved: connection.predecessor !== null } : event);
      }
    } catch (error) {
      console.warn("holdfast: the server sent something invalid:", error);
      // Anything else is a fault of ours; the session may live on, but not with half of a payload.
      connection.broken(error instanceof ProtocolError ? error : new ProtocolError(String(error), "internal"));
    }
    if (this.#protocol.isWelcome && connection.welcomeAt === null) {
      connection.welcomeAt = connection.heardAt;
      connection.leavePredecessor();
      this.#opened();
    }
    this.#owner.heard();
  }
}
