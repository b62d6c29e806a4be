/** The client's session: one object that stays while connections come and go underneath it. */

import { NORMAL } from "./connection.js";
import type { DialOptions } from "./connector.js";
import { Emitter, type Off } from "./emitter.js";
import { type HoldfastError, Refused, Reset, SessionEnded } from "./errors.js";
import type { Noticed, SeatEvent, Welcomed } from "./events.js";
import { Exchange } from "./exchange.js";
import { SessionInbox } from "./inbox.js";
import type { ClientProtocol } from "./protocol.js";
import type { Reason } from "./reasons.js";
import { type ClientRoom, Seats } from "./room.js";
import { write } from "./saved.js";
import { argumentsOf, placementInfo, reservationInfo, roomInfo, roomInfos, roomPage } from "./schemas.js";
import type { SessionSaver } from "./storage.js";
import { Placement, RoomWatch, Subscriptions, WaitlistPlace } from "./subscriptions.js";
import type {
  AnyMessages,
  Auth,
  Changes,
  CreateOptions,
  Described,
  Drop,
  JoinOptions,
  JoinOrCreateOptions,
  Outcome,
  Patience,
  PlaceOptions,
  ReservationInfo,
  ReserveOptions,
  RoomInfo,
  RoomPage,
  SearchOptions,
  SessionMessage,
  WaitOptions,
  WatchOptions,
} from "./types.js";

/** A room by its id, or by its code as typed. */
export type RoomRef = string | { code: string };

const refOf = (ref: RoomRef) => (typeof ref === "string" ? { room: ref } : { code: ref.code });
const several = (names: string | string[] | undefined) => (typeof names === "string" ? [names] : names);

/** Listeners by the name of their event. */
export type SessionListeners = { [T in keyof SessionEvents]?: (told: SessionEvents[T]) => void };

/** What a session tells. */
export interface SessionEvents {
  /** The connection is lost; the session goes on and tries to come back. */
  drop: Drop;
  /** Another attempt to connect follows: the first one after a drop, and every one after that. */
  reconnecting: Drop;
  /** The session is back; this is what became of it. */
  resume: Outcome;
  /** A message to the session itself, as opposed to its seat; it is acknowledged when the listeners have returned. */
  message: SessionMessage;
  /** The server stops within `deadlineS` seconds; the session may come back after that. */
  stopping: { deadlineS: number };
  /** The session is over, and will not come back by itself. */
  close: HoldfastError;
}

// Of the codes that are left to applications: we go, and the session does not end.
const SUSPENDED = 3001;
// The session may live on without us, and what is kept of it is still good.
const KEPT_AFTER: Reason[] = ["unreachable", "suspended", "internal"];

/**
 * A player's presence on a server. Reconnects and resumes by itself; made by `connect`.
 *
 * What the server does not do is thrown as `Refused`, with a `code`.
 */
export class ClientSession {
  readonly #protocol: ClientProtocol;
  readonly #saver: SessionSaver;
  /** What became of the session at the last welcome. After a refresh: whether it was found again. */
  outcome: Outcome | null = null;
  /** How often a connection was lost. */
  drops = 0;
  readonly #exchange: Exchange;
  readonly #seats: Seats;
  readonly #inbox: SessionInbox;
  readonly #subscriptions: Subscriptions;
  #watches = 0;
  readonly #emitter = new Emitter();
  #unlisten: Off = () => {};

  constructor(protocol: ClientProtocol, options: DialOptions, saver: SessionSaver, immutable = false) {
    this.#protocol = protocol;
    this.#saver = saver;
    this.#exchange = new Exchange(protocol, options, {
      happened: (event) => this.#happened(event),
      deliver: () => {
        this.#seats.deliver();
        this.#inbox.deliver();
      },
      keep: () => this.#keep(),
      dropped: (drop) => this.#dropped(drop),
      waiting: (drop) => this.#emitter.emit("reconnecting", drop),
      ended: (error) => this.#ended(error),
    });
    this.#seats = new Seats(this.#exchange, immutable);
    this.#inbox = new SessionInbox(this.#exchange, this.#emitter);
    this.#subscriptions = new Subscriptions(this.#exchange);
  }

  // State

  /** The session's public id. */
  get id(): string {
    return this.#protocol.sessionId;
  }

  /** The player's id. */
  get playerId(): string {
    return this.#protocol.playerId;
  }

  /** The player's display name, as the server has accepted it; empty if they have none. */
  get name(): string {
    return this.#protocol.name;
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
    return this.#seats.room();
  }

  /** The same, with its messages described. */
  roomAs<M extends Described = AnyMessages>(): ClientRoom<M> | null {
    return this.#seats.room() as unknown as ClientRoom<M> | null;
  }

  /** The room that we watch without a seat; after a refresh or a restart this is how to get it back. */
  get spectating(): ClientRoom | null {
    return this.#seats.room(true);
  }

  /** The same, with its messages described. */
  spectatingAs<M extends Described = AnyMessages>(): ClientRoom<M> | null {
    return this.#seats.room(true) as unknown as ClientRoom<M> | null;
  }

  /** Listen for what becomes of the session; the result stops it. */
  on<T extends keyof SessionEvents>(event: T, listener: (told: SessionEvents[T]) => void): Off {
    // What is here already, at the end of this turn.
    if (event === "message") queueMicrotask(() => this.#inbox.deliver());
    return this.#emitter.on(event, listener);
  }

  /** Change the display name; the one that the server has accepted. Refused with `name_not_allowed`: choose another. */
  rename(name: string): Promise<string> {
    return this.#ask("rename", { name }, (answer) => {
      this.#protocol.name = String((Object(answer) as { name?: unknown }).name ?? "");
      return this.#protocol.name;
    });
  }

  /**
   * The next message to the session itself, with or without a seat, or the next of one type; without a listener for
   * "message", all wait here. It is acknowledged when the next one is asked for.
   */
  receive(type?: string, patience: Patience = {}): Promise<SessionMessage> {
    return this.#inbox.receive(type, patience);
  }

  /** Give this guest an account, and stay the same player: id, data and seat. Sign in with `auth` from now on. */
  async link(auth: Auth): Promise<void> {
    const args = { scheme: auth.scheme ?? "guest", credential: auth.credential ?? "" };
    await this.#exchange.request({ operation: "link", args }, (answer) => {
      this.#protocol.linked(args, String((Object(answer) as { token?: unknown }).token ?? ""));
    });
    // A saved session is stored with its new token before this is written, which makes the old one worthless.
    await this.#exchange.request({ operation: "confirm", args: {} }, () => {});
  }

  // Open and close

  /** @internal Connect for the first time; `connect` does this. */
  async open(): Promise<this> {
    this.#unlisten = listenToPage({
      back: () => this.#exchange.connector.hurry(),
      gone: () => this.#exchange.connector.cut(),
      frozen: () => this.#leaveWith("suspended", "the page was left; connect again to go on"),
    });
    await this.#exchange.connector.open();
    return this;
  }

  /**
   * End the session on purpose: the seat is given back now, or when its grace ends if there is no connection. What was
   * sent goes out first. Closing what is closed does nothing.
   */
  close(): void {
    if (this.#exchange.isOver) return;
    this.#exchange.sayBye();
    this.#exchange.close(NORMAL, "bye", "closed by this client");
  }

  /**
   * Go away without ending the session: the next `connect` with the same `saved` goes on with it. Messages that were
   * read count as processed; those that were not will be sent again.
   */
  suspend(): void {
    this.#leaveWith("suspended", "suspended by this client");
  }

  /** @internal Another tab goes on with it. */
  handOver(): string {
    return this.#leaveWith("superseded", "the session goes on in another tab");
  }

  #leaveWith(reason: Reason, message: string): string {
    this.#exchange.check();
    this.#seats.acknowledge();
    this.#inbox.acknowledge();
    this.#exchange.flush(true);
    const state = write(this.#protocol.save());
    this.#exchange.close(SUSPENDED, reason, message);
    return state;
  }

  /** Break the connection, as a bad network would; the session resumes by itself. For tests and demos. */
  cut(): void {
    this.#exchange.connector.cut();
  }

  #ask<T>(operation: string, args: object, taken: (result: unknown) => T): Promise<T> {
    return this.#exchange.request({ operation, args: argumentsOf(args) }, taken);
  }

  // Find and create rooms

  /** Make a room. Joining it is another call. */
  create(kind: string, options: CreateOptions = {}): Promise<RoomInfo> {
    return this.#ask("create", { kind, ...options }, roomInfo);
  }

  /** One page of the rooms for which `where` holds, oldest first unless `orderBy` says otherwise. */
  async search(kind?: string, options: SearchOptions = {}): Promise<RoomPage> {
    const page = await this.#ask("search", { kind, ...options, orderBy: several(options.orderBy) }, roomPage);
    if (page.hint) console.warn(`holdfast: a search found nothing: ${page.hint}`);
    return page;
  }

  /** All of them, page after page as they are asked for. */
  async *searchAll(kind?: string, options: Omit<SearchOptions, "limit" | "cursor"> = {}): AsyncGenerator<RoomInfo> {
    let cursor = "";
    do {
      const page = await this.search(kind, { ...options, limit: 100, cursor });
      yield* page.rooms;
      cursor = page.cursor;
    } while (cursor);
  }

  /** A search that goes on. */
  watch(kind?: string, options: WatchOptions = {}): Promise<RoomWatch> {
    this.#watches += 1;
    return new RoomWatch(this.#exchange, this.#subscriptions, `w${this.#watches}`, kind, options).open();
  }

  /** Change a room's entry in the directory, as `room.update` does from within. */
  updateRoom(room: string, changes: Changes): Promise<RoomInfo> {
    return this.#ask("update", { room, ...changes }, roomInfo);
  }

  // Join

  /** Take a seat: by the room's id, or by its code. */
  join<M extends Described = AnyMessages>(ref: RoomRef, options: JoinOptions<M> = {}): Promise<ClientRoom<M>> {
    return this.#seat("join", { ...refOf(ref), ...options });
  }

  /** Take a seat in the oldest open room of a kind for which `where` holds, or in a new room. */
  joinOrCreate<M extends Described = AnyMessages>(
    kind: string,
    options: JoinOrCreateOptions<M> = {},
  ): Promise<ClientRoom<M>> {
    return this.#seat("join_or_create", { kind, ...options });
  }

  #seat<M extends Described>(
    operation: string,
    { immutable, ...args }: { immutable?: boolean; [name: string]: unknown },
  ) {
    const isSpectator = operation === "spectate";
    return this.#ask(operation, args, (answer) => this.#seats.roomOf<M>(roomInfo(answer), isSpectator, immutable));
  }

  /** The rooms in which this player has a seat or a reserved one, from whichever device. */
  myRooms(): Promise<RoomInfo[]> {
    return this.#ask("mine", {}, roomInfos);
  }

  /** Take the seat that this player has, in the newest room if there are several; `not_found` if there is none. */
  async rejoin<M extends Described = AnyMessages>(): Promise<ClientRoom<M>> {
    if (this.room) return this.room as unknown as ClientRoom<M>;
    // Not where one is only reserved: anybody in that room may have done that.
    const rooms = await this.#ask("mine", { seated: true }, roomInfos);
    const newest = rooms.sort((one, other) => other.createdAt - one.createdAt)[0];
    if (!newest) throw new Refused("not_found", "you have no seat in any room");
    return this.join<M>(newest.id);
  }

  // Spectate

  /** Watch a room without a seat: by its id, or by its code. One room at a time; `leave` it, or `join` it. */
  spectate<M extends Described = AnyMessages>(
    ref: RoomRef,
    options: Omit<JoinOptions, "options"> = {},
  ): Promise<ClientRoom<M>> {
    return this.#seat("spectate", { ...refOf(ref), ...options });
  }

  // Reserve seats, and wait for one

  /**
   * Keep seats for a party, all or none, in a room that you made or have a seat in. Asking again extends. They end with
   * your session.
   */
  reserve(ref: RoomRef, options: ReserveOptions = {}): Promise<ReservationInfo> {
    return this.#ask("reserve", { ...refOf(ref), ...options }, reservationInfo);
  }

  /** Give reserved seats back; without `players` your own. Those of others, if you made the room or are its host. */
  release(room: string, players?: string[]): Promise<void> {
    return this.#ask("release", { room, players }, () => {});
  }

  /** Wait for a seat in a full room, and take it. Aborting, or a timeout, leaves the waitlist. */
  async waitForSeat<M extends Described = AnyMessages>(
    room: string,
    { password, options, immutable, onPosition, ...patience }: WaitOptions<M> = {},
  ): Promise<ClientRoom<M>> {
    const [check, end] = this.#exchange.limited(patience, `no seat in room ${room}`);
    const place = new WaitlistPlace(this.#exchange, this.#subscriptions, room, password);
    let isSeated = false;
    try {
      await this.#subscriptions.begin(place, check);
      while (true) {
        await place.offered(onPosition, check);
        try {
          // Arguments that are undefined are not said.
          const joined = await this.join<M>(room, { password, options, immutable } as JoinOptions<M>);
          isSeated = true;
          return joined;
        } catch (error) {
          const isFull = error instanceof Refused && ["room_full", "expired"].includes(error.code);
          if (!isFull && !(error instanceof Reset)) throw error;
          // It was kept for so long only, and we were away.
          place.waitAgain();
        }
      }
    } finally {
      end();
      place.end(isSeated);
    }
  }

  // Placements

  /** Place a room on the best node of a queue, with seats for these players. */
  place(queue: string, kind: string, options: PlaceOptions = {}): Promise<Placement> {
    const players = options.players?.map((player) => argumentsOf(typeof player === "string" ? { id: player } : player));
    return this.#ask(
      "start_placement",
      { queue, kind, ...options, players },
      (answer) => new Placement(this.#exchange, this.#subscriptions, placementInfo(answer)),
    );
  }

  // From the exchange

  #keep(): boolean {
    return !this.#protocol.sessionId || this.#saver.keep(() => write(this.#protocol.save()));
  }

  #happened(event: Welcomed | Noticed | SeatEvent): void {
    if (event.is === "welcomed") this.#welcomed(event.outcome, event.isMoved ?? false);
    else if (event.is !== "noticed") {
      if (!this.#inbox.happened(event)) this.#seats.happened(event);
    } else if (event.topic !== "stopping") this.#subscriptions.noticed(event);
    else
      this.#emitter.emit("stopping", { deadlineS: Number((Object(event.body) as { deadline_s?: number }).deadline_s) });
  }

  #welcomed(outcome: Outcome, isMoved: boolean): void {
    this.outcome = outcome;
    this.#seats.welcomed();
    if (outcome.kind === "new") return;
    this.#subscriptions.welcomed();
    if (!isMoved || outcome.kind !== "resumed") this.#emitter.emit("resume", outcome);
  }

  #dropped(drop: Drop): void {
    this.drops += 1;
    this.#emitter.emit("drop", drop);
  }

  #ended(error: HoldfastError): void {
    this.#unlisten();
    // A session that never was has nothing of its own to forget.
    const reason = error instanceof SessionEnded ? error.reason : "unreachable";
    // A player whose new name is refused chooses another one, and is still the same guest.
    const isKept = error instanceof SessionEnded && error.problem === "name_not_allowed";
    if (!isKept && !KEPT_AFTER.includes(reason)) this.#saver.forget();
    this.#saver.close();
    this.#emitter.emit("close", error);
  }
}

/**
 * Listens for the network coming or going, and for the page being shown again, where that is supported.
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
