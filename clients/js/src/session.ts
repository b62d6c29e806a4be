/** The client's session: one object that stays while connections come and go underneath it. */

import type { Reach } from "./connector.js";
import { Directory } from "./directory.js";
import { Emitter, type Off } from "./emitter.js";
import { type HoldfastError, SessionEnded } from "./errors.js";
import type { Closed, Noticed, SeatEvent, Welcomed } from "./events.js";
import { Exchange } from "./exchange.js";
import { NORMAL } from "./link.js";
import { News } from "./news.js";
import type { ClientProtocol } from "./protocol.js";
import type { Reason } from "./reasons.js";
import type { ClientRoom } from "./room.js";
import { write } from "./saved.js";
import { Seats } from "./seats.js";
import type { Keeper } from "./storage.js";
import type { AnyMessages, Auth, Described, Outcome } from "./types.js";

/** What a session tells. */
export interface SessionEvents {
  /** The connection is lost; the session goes on and tries to come back. */
  drop: { reason: Reason; message: string };
  /** Attempt number `attempt` to come back begins in `waitS` seconds, or as soon as the network is back. */
  reconnecting: { attempt: number; waitS: number; reason: Reason };
  /** The session is back; this is what became of it. */
  resume: Outcome;
  /** The server stops within `deadlineS` seconds; the session may come back after that. */
  stopping: { deadlineS: number };
  /** The session is over, and will not come back by itself. */
  close: HoldfastError;
}

// Of the codes that are left to applications: we go, and the session does not end.
const SUSPENDED = 3001;
// The session may live on without us, and what is kept of it is still good.
const KEPT_AFTER: Reason[] = ["unreachable", "suspended", "internal"];

/** A player's presence on a server. Reconnects and resumes by itself; made by `connect`. */
export class ClientSession extends Directory {
  readonly #protocol: ClientProtocol;
  readonly #keeper: Keeper;
  /** What became of the session at the last welcome. After a refresh: whether it was found again. */
  outcome: Outcome | null = null;
  /** How often a connection was lost. */
  drops = 0;
  protected readonly exchange: Exchange;
  protected readonly seats: Seats;
  protected readonly news: News;
  readonly #emitter = new Emitter();
  #unlisten: Off = () => {};

  constructor(protocol: ClientProtocol, reach: Reach, keeper: Keeper) {
    super();
    this.#protocol = protocol;
    this.#keeper = keeper;
    this.exchange = new Exchange(protocol, reach, {
      happened: (event) => this.#happened(event),
      deliver: () => this.seats.deliver(),
      keep: () => this.#keep(),
      dropped: (closed) => this.#dropped(closed),
      waiting: (attempt, waitS, { reason }) => this.#emitter.emit("reconnecting", { attempt, waitS, reason }),
      ended: (error) => this.#ended(error),
    });
    this.seats = new Seats(this.exchange);
    this.news = new News(this.exchange);
  }

  // Who and where

  /** The session's public id. */
  get id(): string {
    return this.#protocol.sessionId;
  }

  /** Who we are. */
  get playerId(): string {
    return this.#protocol.playerId;
  }

  /** The secret with which this guest can sign in again; keep it like a password. */
  get credential(): string {
    return this.#protocol.credential;
  }

  /** The round-trip time, as the server measures it. */
  get latencyMs(): number {
    return this.#protocol.latencyMs;
  }

  /** Whether there is a connection now. */
  get connected(): boolean {
    return this.#protocol.isWelcome;
  }

  /** The room we have a seat in; after a refresh or a restart this is how to get it back. */
  get room(): ClientRoom | null {
    return this.seats.room;
  }

  /** The same, with its messages described. */
  roomAs<M extends Described = AnyMessages>(): ClientRoom<M> | null {
    return this.seats.room as unknown as ClientRoom<M> | null;
  }

  /** Listen for what becomes of the session; the result stops it. */
  on<T extends keyof SessionEvents>(event: T, listener: (told: SessionEvents[T]) => void): Off {
    return this.#emitter.on(event, listener);
  }

  /** Give this guest an account, and stay the same player: id, data and seat. Sign in with `auth` from now on. */
  async link(auth: Auth): Promise<void> {
    const args = { scheme: auth.scheme ?? "guest", credential: auth.credential ?? "" };
    await this.exchange.request({ operation: "link", args }, (answer) => {
      this.#protocol.linked(args, String((Object(answer) as { token?: unknown }).token ?? ""));
    });
    // A saved session is stored with its new token before this is written, which makes the old one worthless.
    await this.exchange.request({ operation: "confirm", args: {} }, () => {});
  }

  // Life

  /** @internal Connect for the first time; `connect` does this. */
  async open(): Promise<this> {
    this.#unlisten = listenToPage({
      back: () => this.exchange.connector.hurry(),
      gone: () => this.exchange.connector.cut(),
      frozen: () => this.#leaveWith("suspended", "the page was left; connect again to go on"),
    });
    await this.exchange.connector.open();
    return this;
  }

  /**
   * End the session on purpose: the seat is given back now, or when its grace ends if there is no connection. What was
   * sent goes out first. Closing what is closed does nothing.
   */
  close(): void {
    if (this.exchange.isOver) return;
    this.exchange.sayBye();
    this.exchange.close(NORMAL, "bye", "closed by this client");
  }

  /** Go away without ending the session: the next `connect` with the same `saved` goes on with it. */
  suspend(): void {
    this.#leaveWith("suspended", "suspended by this client");
  }

  /** @internal Another tab goes on with it. */
  handOver(): string {
    return this.#leaveWith("superseded", "the session goes on in another tab");
  }

  #leaveWith(reason: Reason, message: string): string {
    this.exchange.check();
    this.exchange.flush(true);
    const state = write(this.#protocol.save());
    this.exchange.close(SUSPENDED, reason, message);
    return state;
  }

  /** Break the connection, as a bad network would; the session resumes by itself. For tests and demos. */
  cut(): void {
    this.exchange.connector.cut();
  }

  // From the exchange

  #keep(): boolean {
    return !this.#protocol.sessionId || this.#keeper.keep(() => write(this.#protocol.save()));
  }

  #happened(event: Welcomed | Noticed | SeatEvent): void {
    if (event.is === "welcomed") this.#welcomed(event.outcome);
    else if (event.is !== "noticed") this.seats.happened(event);
    else if (event.topic !== "stopping") this.news.noticed(event);
    else
      this.#emitter.emit("stopping", { deadlineS: Number((Object(event.body) as { deadline_s?: number }).deadline_s) });
  }

  #welcomed(outcome: Outcome): void {
    this.outcome = outcome;
    if (outcome.kind === "new") return;
    this.news.welcomed();
    this.#emitter.emit("resume", outcome);
  }

  #dropped({ reason, message }: Closed): void {
    this.drops += 1;
    this.#emitter.emit("drop", { reason, message });
  }

  #ended(error: HoldfastError): void {
    this.#unlisten();
    // A session that never was has nothing of its own to forget.
    const reason = error instanceof SessionEnded ? error.reason : "unreachable";
    if (!KEPT_AFTER.includes(reason)) this.#keeper.forget();
    this.#keeper.close();
    this.#emitter.emit("close", error);
  }
}

/**
 * The network came or went, or somebody looks at the page again, as far as this place can tell.
 *
 * A page that is left may be `frozen`, to be shown again later. It must not go on then with a token that the page after
 * it has used.
 */
function listenToPage(does: { back: () => void; gone: () => void; frozen: () => void }): Off {
  const page = typeof document === "undefined" ? undefined : document;
  const listeners: [EventTarget | undefined, string, (event: Event) => void][] = [
    [globalThis, "online", does.back],
    [globalThis, "offline", does.gone],
    [globalThis, "pagehide", (event) => (event as PageTransitionEvent).persisted && does.frozen()],
    [page, "visibilitychange", () => page?.visibilityState === "visible" && does.back()],
  ];
  for (const [target, name, listener] of listeners) target?.addEventListener?.(name, listener);
  return () => {
    for (const [target, name, listener] of listeners) target?.removeEventListener?.(name, listener);
  };
}
